#include "train/options.h"

#include "base/parse_name.h"

namespace requant {
namespace {

// Names in the order of the enumerators.
constexpr const char* kOptimizers[] = {"adam", "sgd"};
constexpr const char* kScales[] = {"learn", "observe", "keep"};
constexpr const char* kLosses[] = {"scores", "values"};
constexpr const char* kFolds[] = {"running", "batch"};

}  // namespace

bool ParseName(std::string_view name, TrainOptimizer* optimizer) {
  return ParseName(name, kOptimizers, optimizer);
}
bool ParseName(std::string_view name, TrainScales* scales) {
  return ParseName(name, kScales, scales);
}
bool ParseName(std::string_view name, TrainLoss* loss) { return ParseName(name, kLosses, loss); }
bool ParseName(std::string_view name, TrainFold* fold) { return ParseName(name, kFolds, fold); }

}  // namespace requant
