#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "numeric/rounding.h"
#include "numeric/small_float.h"
#include "quant/config/policy.h"
#include "quant/config/state.h"
#include "tensor/tensor.h"

namespace requant {

/// How a scale follows from a range (quant/grid/affine.h).
enum class ScaleFormula : uint8_t { kOnnx, kPpq, kGoogle, kCambricon };

/// Parses "onnx", "ppq", "google" or "cambricon"; returns false for other names.
bool ParseName(std::string_view name, ScaleFormula* formula);

/// How ONE input or output slot of ONE operator is quantized (PPQ's TensorQuantizationConfig). It
/// never belongs to the value between two operators: producer and consumer may disagree, and then
/// the value is quantized twice.
///
///   q = clamp(round(x / scale) + offset, quant_min, quant_max),  x' = (q - offset) * scale
///
/// Symmetric integers of one bit are bipolar: q = x >= threshold * scale ? 1 : -1.
struct TensorQuantizationConfig {
  // The operator and slot that it belongs to.
  std::string node;
  bool is_output = false;
  int slot = 0;
  std::string value;  // the float value that is (or would be) observed

  QuantizationPolicy policy = kPerTensor | kLinear | kAsymmetrical;
  RoundingPolicy rounding = RoundingPolicy::kHalfEven;
  int bits = 8;  // 1..32
  ScaleFormula formula = ScaleFormula::kOnnx;
  SmallFloat small_float = {0, 0};  // EXPONENTIAL: e4m3, e5m2
  int64_t quant_min = 0;
  int64_t quant_max = 255;
  DType dtype = DType::kUint8;  // type of the stored integers
  int axis = -1;                // channel axis, for PER_CHANNEL
  std::vector<float> scale;     // one, or one per channel; empty before calibration
  std::vector<int32_t> offset;  // of the same length as scale
  int32_t threshold = 0;        // of bipolar codes, in steps; 1 where values are never negative
  /// The calibrated range from which the scale was derived; not set for parameters.
  double range_min = 0, range_max = 0;
  /// For observer "auto": the number of ranges that were tried, if the best is not the first one,
  /// and its error in percent of the first one's.
  int32_t ranges_tried = 0, error_percent = 0;
#define REQUANT_OBSERVER_OPTION(type, field, name, standard) type field = standard;
#include "quant/options.inc"
  QuantizationState state = QuantizationState::kInitial;
  /// Index (in the record) of the config that decides for this one; -1: this one decides.
  int dominator = -1;
  /// kBaked and kPassiveBaked: the parameter's integers, in its shape.
  Tensor baked;

  bool per_channel() const { return (policy & kPerChannel) != 0; }
  bool symmetric() const { return (policy & kSymmetrical) != 0; }
  bool exponential() const { return (policy & kExponential) != 0; }
  /// Whether the codes are -1 and 1, without 0.
  bool bipolar() const { return bits == 1 && symmetric() && !exponential(); }
  /// Whether no integer operator computes with such an activation, which is then simulated in
  /// float.
  bool exotic_activation() const {
    return bits > 16 || exponential() || scale.size() > 1 || per_channel() ||
           rounding != RoundingPolicy::kHalfEven;
  }
  /// Whether activations have 16-bit codes (ops/quantized/wide.h).
  bool wide() const { return dtype == DType::kInt16 || dtype == DType::kUint16; }
  bool exotic_weight() const { return bits > 8 || exponential(); }
  /// For weights: the scale of a row (WeightMatrix).
  double ScaleOfRow(int64_t row) const {
    return static_cast<double>(scale[static_cast<size_t>(row) % scale.size()]);
  }
  int32_t OffsetOfRow(int64_t row) const {
    return offset[static_cast<size_t>(row) % offset.size()];
  }
};

}  // namespace requant
