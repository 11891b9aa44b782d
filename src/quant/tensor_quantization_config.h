#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/policy.h"
#include "quant/state.h"
#include "tensor/tensor.h"

namespace requant {

/// How ONE input or output slot of ONE operator is quantized (PPQ's TensorQuantizationConfig). It
/// never belongs to the value between two operators: producer and consumer may disagree, and then
/// the value is quantized twice.
///
///   q = clamp(round(x / scale) + offset, quant_min, quant_max),  x' = (q - offset) * scale
struct TensorQuantizationConfig {
  // Whose slot this is.
  std::string node;
  bool is_output = false;
  int slot = 0;
  std::string value;  // the float value that is (or would be) observed

  QuantizationPolicy policy = kPerTensor | kLinear | kAsymmetrical;
  RoundingPolicy rounding = RoundingPolicy::kHalfEven;
  int bits = 8;  // 2..8, or 32 for a bias
  int64_t quant_min = 0;
  int64_t quant_max = 255;
  DType dtype = DType::kUint8;  // storage of the integers
  int axis = -1;                // of the channel, for PER_CHANNEL
  std::vector<float> scale;     // one, or one per channel; empty before calibration
  std::vector<int32_t> offset;  // as long as scale
  /// The calibrated range, before the scale was derived. Empty for parameters.
  double range_min = 0, range_max = 0;
  std::string observer = "minmax";
  double percentile = 99.99;
  double momentum = 0.95;
  QuantizationState state = QuantizationState::kInitial;
  /// Index (in the record) of the config that decides for this one; -1 = this one decides.
  int dominator = -1;
  /// kBaked / kPassiveBaked: the parameter's integers, in the parameter's shape.
  Tensor baked;

  bool per_channel() const { return (policy & kPerChannel) != 0; }
  bool symmetric() const { return (policy & kSymmetrical) != 0; }
};

}  // namespace requant
