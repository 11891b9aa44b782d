#include "quant/recover/learn/soft_rounding.h"

#include <algorithm>
#include <cmath>

namespace requant {
namespace {

constexpr float kStretch = 1.2f, kShift = -0.1f;  // stretch and shift of the rectified sigmoid
constexpr float kRate = 0.02f;

/// The function h of v, given 1 + exp(-v).
float Opened(float denominator) { return std::clamp(kStretch / denominator + kShift, 0.0f, 1.0f); }
float Denominator(float v) { return 1 + std::exp(-v); }

/// x^p for x in [0, 1], by linear interpolation: too large by at most p (p - 1) / 8 / 512^2, which
/// is 2e-4 for p = 20.
class Power {
 public:
  explicit Power(double p) {
    for (size_t i = 0; i <= kParts; ++i) {
      at_[i] = static_cast<float>(std::pow(static_cast<double>(i) / kParts, p));
    }
    at_[kParts + 1] = at_[kParts];
  }
  float operator()(float x) const {
    const float place = x * kParts;
    const auto i = static_cast<int32_t>(place);
    return at_[i] + (place - static_cast<float>(i)) * (at_[i + 1] - at_[i]);
  }

 private:
  static constexpr size_t kParts = 512;
  float at_[kParts + 2];
};

}  // namespace

SoftRounding::SoftRounding(size_t count, const TensorQuantizationConfig& config)
    : base_(count),
      v_(count),
      scale_(count),
      low_(static_cast<float>(config.quant_min)),
      high_(static_cast<float>(config.quant_max)),
      step_(config.bipolar() ? 2.0F : 1.0F) {}

void SoftRounding::Start(size_t i, float wanted, float now, float scale, float offset) {
  if (offset != 0) {
    offset_.resize(base_.size());
    offset_[i] = offset;
    wanted += offset;
  }
  float base = step_ > 1 ? low_ : std::floor(wanted);
  if (now < base || now > base + step_) base = now < base ? now : now - step_;
  const float part = std::clamp((wanted - base) / step_, 0.0f, 1.0f);
  const float open = std::clamp(0.5f * part + 0.5f * (now - base) / step_, 0.02f, 0.98f);
  const float sigmoid = (open - kShift) / kStretch;
  base_[i] = base;
  v_[i] = std::log(sigmoid / (1 - sigmoid));
  scale_[i] = scale;
}

float SoftRounding::Integer(size_t i) const {
  const float up = Opened(Denominator(v_[i])) >= 0.5f ? step_ : 0.0f;
  return std::clamp(base_[i] + up, low_, high_);
}

void SoftRounding::Weights(bool hard, std::vector<float>& weights) const {
  for (size_t i = 0; i < v_.size(); ++i) {
    const float q =
        hard ? Integer(i) : std::clamp(base_[i] + step_ * Opened(Denominator(v_[i])), low_, high_);
    weights[i] = (offset_.empty() ? q : q - offset_[i]) * scale_[i];
  }
}

void SoftRounding::Update(const std::vector<float>& weight_gradient, float push, double beta) {
  gradient_.resize(v_.size());
  const float *v = v_.data(), *scale = scale_.data(), *slopes = weight_gradient.data();
  float* to = gradient_.data();
  const Power power(beta - 1);
  for (size_t i = 0, n = v_.size(); i < n; ++i) {
    const float denominator = Denominator(v[i]);
    const float sigmoid = 1 / denominator;
    const float open = Opened(denominator);
    const float slope = open > 0 && open < 1 ? kStretch * sigmoid * (1 - sigmoid) : 0;
    float wanted = slopes[i] * scale[i] * step_;
    if (push > 0 && slope > 0) {
      // Derivative d/dh of 1 - |2h - 1|^beta.
      const float off = 2 * open - 1;
      wanted -= push * static_cast<float>(2 * beta) * power(std::fabs(off)) * (off < 0 ? -1 : 1);
    }
    to[i] = wanted * slope;
  }
  adam_.Update(v_, gradient_, kRate);
}

}  // namespace requant
