#include "quant/observers/histogram.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace requant {

void HistogramObserver::Observe(int pass, std::span<const float> values) {
  if (values.empty()) return;
  if (pass == 0) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    min_ = seen_ ? std::min(min_, static_cast<double>(*low)) : static_cast<double>(*low);
    max_ = seen_ ? std::max(max_, static_cast<double>(*high)) : static_cast<double>(*high);
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

void HistogramObserver::Merge(const Observer& later) {
  const auto* other = dynamic_cast<const HistogramObserver*>(&later);
  if (other == nullptr || std::strcmp(other->kind(), kind()) != 0) {
    Fail(ErrorCode::kInvalidArgument, "only observers of the same kind can be merged");
  }
  if (!counts_.empty() || !other->counts_.empty()) {
    // Second pass: both must have counted over the same range.
    if (other->counts_.empty()) return;
    if (counts_.empty()) counts_.assign(kBins, 0);
    if (seen_ && (other->min_ != min_ || other->max_ != max_)) {
      Fail(ErrorCode::kInvalidArgument, "histograms over different ranges cannot be merged",
           {.hint = "merge the first pass of all observers before the second pass begins"});
    }
    for (int i = 0; i < kBins; ++i) {
      counts_[static_cast<size_t>(i)] += other->counts_[static_cast<size_t>(i)];
    }
    total_ += other->total_;
    return;
  }
  if (!other->seen_) return;
  min_ = seen_ ? std::min(min_, other->min_) : other->min_;
  max_ = seen_ ? std::max(max_, other->max_) : other->max_;
  seen_ = true;
}

}  // namespace requant
