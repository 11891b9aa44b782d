#include <cstring>
#include <string>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/observers/observer.h"

namespace requant {

// Each in the file of its name.
std::unique_ptr<Observer> MakeMinMax(const TensorQuantizationConfig& config);
std::unique_ptr<Observer> MakeMovingAverage(const TensorQuantizationConfig& config);
std::unique_ptr<Observer> MakePercentile(const TensorQuantizationConfig& config);
std::unique_ptr<Observer> MakeKl(const TensorQuantizationConfig& config);
std::unique_ptr<Observer> MakeMse(const TensorQuantizationConfig& config);
std::unique_ptr<Observer> MakeAciq(const TensorQuantizationConfig& config);
std::unique_ptr<Observer> MakeIsotone(const TensorQuantizationConfig& config);
std::unique_ptr<Observer> MakeAuto(const TensorQuantizationConfig& config);
double LargestMagnitude(const Magnitudes& magnitudes, const TensorQuantizationConfig& config);
double PercentileMagnitude(const Magnitudes& magnitudes, const TensorQuantizationConfig& config);
double KlMagnitude(const Magnitudes& magnitudes, const TensorQuantizationConfig& config);
double LeastSquaresMagnitude(const Magnitudes& magnitudes, const TensorQuantizationConfig& config);
double AciqMagnitude(const Magnitudes& magnitudes, const TensorQuantizationConfig& config);
Range LeastSquaresOfWeights(const ChannelWeights& weights, const TensorQuantizationConfig& config);

namespace {

constexpr ObserverRow kObservers[] = {
    {"minmax", &MakeMinMax, &LargestMagnitude},
    {"moving_average", &MakeMovingAverage, nullptr},
    {"percentile", &MakePercentile, &PercentileMagnitude},
    {"kl", &MakeKl, &KlMagnitude},
    {"mse", &MakeMse, &LeastSquaresMagnitude, false, &LeastSquaresOfWeights},
    {"aciq", &MakeAciq, &AciqMagnitude},
    {"isotone", &MakeIsotone, nullptr},
    {"auto", &MakeAuto, &LeastSquaresMagnitude, true, &LeastSquaresOfWeights},
};

}  // namespace

void Observer::Merge(const Observer& later, int pass) {
  if (std::strcmp(later.kind(), kind()) != 0) {
    Fail(ErrorCode::kInvalidArgument, "only observers of the same kind can be merged");
  }
  MergeSame(later, pass);
}

std::span<const ObserverRow> ObserverTable() { return kObservers; }

const ObserverRow* FindObserver(std::string_view name) {
  for (const ObserverRow& row : kObservers) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

std::unique_ptr<Observer> MakeObserver(const TensorQuantizationConfig& config) {
  const ObserverRow* row = FindObserver(config.observer);
  if (row == nullptr) {
    std::string known;
    for (const ObserverRow& entry : kObservers) {
      known += StrCat(known.empty() ? "" : ", ", entry.name);
    }
    Fail(ErrorCode::kInvalidArgument, StrCat("there is no observer '", config.observer, "'"),
         {.hint = StrCat("use one of ", known)});
  }
  return row->make(config);
}

}  // namespace requant
