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
std::unique_ptr<Observer> MakeIsotone(const TensorQuantizationConfig& config);
std::unique_ptr<Observer> MakeAuto(const TensorQuantizationConfig& config);

namespace {

constexpr ObserverRow kObservers[] = {
    {"minmax", true, &MakeMinMax},
    {"moving_average", false, &MakeMovingAverage},
    {"percentile", true, &MakePercentile},
    {"kl", true, &MakeKl},
    {"mse", true, &MakeMse},
    {"isotone", false, &MakeIsotone},
    {"auto", true, &MakeAuto},
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
