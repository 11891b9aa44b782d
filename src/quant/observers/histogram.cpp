#include "quant/observers/histogram.h"

#include <algorithm>

#include "base/error.h"
#include "quant/observers/scan.h"

namespace requant {

void HistogramObserver::Observe(int pass, std::span<const float> values, int64_t) {
  if (values.empty()) return;
  if (pass == 0) {
    const Scan scan = ScanValues(values);
    const auto low = static_cast<double>(scan.low);
    const auto high = static_cast<double>(scan.high);
    min_ = seen_ ? std::min(min_, low) : low;
    max_ = seen_ ? std::max(max_, high) : high;
    seen_ = true;
    return;
  }
  if (counts_.empty()) counts_.assign(kBins, 0);
  total_ += values.size();
  if (!(max_ > min_)) {
    counts_[0] += values.size();
    return;
  }
  const double scale = kBins / (max_ - min_);
  for (const float value : values) {
    const double position = (static_cast<double>(value) - min_) * scale;
    ++counts_[static_cast<size_t>(std::clamp(position, 0.0, kBins - 1.0))];
  }
}

void HistogramObserver::CopyCounts(const HistogramObserver& other) {
  seen_ = other.seen_;
  min_ = other.min_;
  max_ = other.max_;
  counts_ = other.counts_;
  total_ = other.total_;
}

void HistogramObserver::Fields(StateBytes& state, int pass) {
  state.Value(seen_);
  state.Value(min_);
  state.Value(max_);
  if (pass == 0) return;
  state.Value(total_);
  state.List(counts_);
  if (counts_.size() != (total_ > 0 ? static_cast<size_t>(kBins) : 0)) {
    Fail(ErrorCode::kInvalidArgument, "a histogram of another number of bins");
  }
}

void HistogramObserver::MergeSame(const Observer& later, int pass) {
  const auto& other = static_cast<const HistogramObserver&>(later);
  if (pass == 0) {
    if (!other.seen_) return;
    min_ = seen_ ? std::min(min_, other.min_) : other.min_;
    max_ = seen_ ? std::max(max_, other.max_) : other.max_;
    seen_ = true;
    return;
  }
  if (other.counts_.empty()) return;
  if (other.min_ != min_ || other.max_ != max_) {
    Fail(ErrorCode::kInvalidArgument, "histograms over different ranges cannot be merged",
         {.hint = "merge the first pass of all observers before the second pass begins"});
  }
  if (counts_.empty()) counts_.assign(kBins, 0);
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  total_ += other.total_;
}

TensorQuantizationConfig ObservedSettings(const TensorQuantizationConfig& config) {
  TensorQuantizationConfig out;
  out.policy = config.policy;
  out.bits = config.bits;
  out.quant_min = config.quant_min;
  out.quant_max = config.quant_max;
  out.dtype = config.dtype;
  out.formula = config.formula;
  out.small_float = config.small_float;
  out.rounding = config.rounding;
#define REQUANT_OBSERVER_OPTION(type, field, name, standard) out.field = config.field;
#include "quant/options.inc"
  return out;
}

}  // namespace requant
