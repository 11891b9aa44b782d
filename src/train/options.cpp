#include "train/options.h"

#include <cstddef>

namespace requant {
namespace {

// Names in the order of the enumerators.
constexpr const char* kOptimizers[] = {"adam", "sgd"};
constexpr const char* kScales[] = {"learn", "observe", "keep"};
constexpr const char* kLosses[] = {"scores", "values"};

template <typename T, size_t kCount>
bool Parse(std::string_view name, const char* const (&names)[kCount], T* out) {
  for (size_t i = 0; i < kCount; ++i) {
    if (name != names[i]) continue;
    *out = static_cast<T>(i);
    return true;
  }
  return false;
}

}  // namespace

bool ParseName(std::string_view name, TrainOptimizer* optimizer) {
  return Parse(name, kOptimizers, optimizer);
}
bool ParseName(std::string_view name, TrainScales* scales) { return Parse(name, kScales, scales); }
bool ParseName(std::string_view name, TrainLoss* loss) { return Parse(name, kLosses, loss); }

}  // namespace requant
