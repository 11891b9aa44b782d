#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "base/json.h"

namespace requant {

/// The error of a candidate against a reference, accumulated in double over any number of tensors.
class ErrorMetrics {
 public:
  /// Adds two tensors of equal length. NaN anywhere makes the metrics NaN, and so does an infinity
  /// on one side only; equal infinities are no difference.
  void Add(std::span<const float> reference, std::span<const float> candidate);

  bool empty() const { return count_ == 0; }
  /// 10 log10(sum r^2 / sum (r - c)^2) in dB; +infinity when the error is zero.
  double Snr() const;
  /// sum(r c) / sqrt(sum r^2 sum c^2); 1 when both are zero.
  double Cosine() const;
  double MaxAbs() const { return max_abs_; }
  double MeanAbs() const { return count_ ? sum_abs_ / static_cast<double>(count_) : 0; }
  /// Largest minus smallest reference value.
  double ReferenceRange() const { return largest_ < smallest_ ? 0 : largest_ - smallest_; }

  /// Writes "snr", "cosine", "maxAbs", "meanAbs" and "range" as keys of the open object.
  void Write(JsonWriter& json) const;

 private:
  int64_t count_ = 0;
  double signal_ = 0, noise_ = 0, dot_ = 0, candidate_ = 0;
  double max_abs_ = 0, sum_abs_ = 0;
  double smallest_ = std::numeric_limits<double>::infinity();
  double largest_ = -std::numeric_limits<double>::infinity();
};

}  // namespace requant
