#include "report/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace requant {

void ErrorMetrics::Add(std::span<const float> reference, std::span<const float> candidate) {
  for (size_t i = 0; i < reference.size(); ++i) {
    const double r = reference[i];
    const double c = candidate[i];
    if (r == c && std::isinf(r)) {  // such as scores that a mask hides
      ++count_;
      continue;
    }
    const double error = std::fabs(r - c);
    signal_ += r * r;
    noise_ += error * error;
    dot_ += r * c;
    candidate_ += c * c;
    sum_abs_ += error;
    max_abs_ = error > max_abs_ || std::isnan(error) ? error : max_abs_;
    smallest_ = std::min(smallest_, r);
    largest_ = std::max(largest_, r);
    ++count_;
  }
}

double ErrorMetrics::Snr() const {
  if (noise_ == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(signal_ / noise_);
}

double ErrorMetrics::Cosine() const {
  if (signal_ == 0 && candidate_ == 0) return 1;
  return dot_ / std::sqrt(signal_ * candidate_);
}

void ErrorMetrics::Write(JsonWriter& json) const {
  json.Key("snr").Number(Snr());
  json.Key("cosine").Number(Cosine());
  json.Key("maxAbs").Number(MaxAbs());
  json.Key("meanAbs").Number(MeanAbs());
  json.Key("range").Number(ReferenceRange());
}

}  // namespace requant
