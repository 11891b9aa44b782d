// Derives scales from ranges, and integers from floats.
#pragma once

#include <cstdint>

#include "quant/config/settings.h"
#include "quant/config/tensor_quantization_config.h"

namespace requant {

struct Affine {
  float scale = 1;
  int32_t offset = 0;
  int32_t threshold = 0;  // of bipolar codes, in steps
  void PutInto(TensorQuantizationConfig& config) const;
};

/// Scale and offset of a range for the config's integers; an empty range gives scale 1. By
/// config.formula:
///   onnx       0 is forced into the range; asymmetric: s = (max - min) / (qmax - qmin),
///              z = qmin - round(min / s); symmetric: s = max|x| / qmax, z = 0
///              (Jacob et al. 2018, arXiv 1712.05877; ONNX DynamicQuantizeLinear)
///   ppq        symmetric: s = 2 * max|x| / (qmax - qmin), else as onnx (ppq observer/range.py;
///              with MegEngine's observers)
///   google     symmetric: s = max|x| / qmax, 2^(b-1) - 1; asymmetric: s = (max - min) / (2^b - 1),
///              z = -round(min / s) for unsigned integers, 0 NOT forced into the range
///              (OneFlow min_max_observer_kernel.cpp)
///   cambricon  symmetric: s = 2^(floor(log2 max|x|) - (b - 2)) (OneFlow quantization_kernel.cpp)
/// Symmetric codes that quantMin and quantMax make unequal around 0: s = max(max / qmax, min /
/// qmin) over the sides that have codes. Symmetric integers of one bit, -1 and 1: s = max|x|, which
/// least squares make the mean magnitude; where values are never negative, s = max / 2, and x >= s
/// is 1. POWER_OF_2: s = 2^ceil(log2 s). EXPONENTIAL: s = max|x| / the format's largest number.
Affine AffineFromRange(double min, double max, const TensorQuantizationConfig& config);

/// Scale and offset of an activation's range, which contains 0 where integer operators need it.
Affine AffineOfActivation(double min, double max, const TensorQuantizationConfig& config);

/// The symmetric scale for a largest magnitude; 1 for 0.
double SymmetricScale(double magnitude, const TensorQuantizationConfig& config);

/// The zero point of a range that begins at `min`, for a scale that need not be the range's own.
int32_t OffsetFor(double min, double scale, const TensorQuantizationConfig& config);

/// Sets bits, quant_min, quant_max, dtype and policy bits of a config from the user's settings.
/// Symmetric integers are signed and leave out the lowest code: [-127, 127]. The observer 'minmax'
/// of one bit becomes 'mse', as two codes cannot hold a range.
void ApplySettings(const TensorSettings& settings, bool weights, TensorQuantizationConfig& config);

/// Throws kInvalidArgument, naming `where`, for settings out of their ranges and for codes that the
/// grid cannot have (WhyNoCodes). `slot` is the option that says it, such as "inputs[0]"; empty:
/// "weights" or "activations".
void CheckSettings(const TensorSettings& settings, bool weights, std::string_view where,
                   std::string_view slot = {});

/// The integer of a number that was divided by the config's scale, before the offset; for bipolar
/// codes the sign.
double RoundToCode(double scaled, const TensorQuantizationConfig& config);

/// Quantizes and dequantizes one number by the config; `channel` is as in config.scale.
float FakeQuantize(float value, const TensorQuantizationConfig& config, size_t channel = 0);

/// The smallest and the largest integer of a storage type (of 8, 16 or 32 bits).
int64_t StorageMin(DType dtype);
int64_t StorageMax(DType dtype);

/// Quantizes a float parameter by its config (per tensor, or per channel along config.axis), with
/// the config's rounding, clamped to [quant_min, quant_max], stored as config.dtype.
Tensor QuantizeParameter(const Tensor& values, const TensorQuantizationConfig& config);
/// Dequantizes a parameter's integers to float32.
Tensor DequantizeParameter(const Tensor& integers, const TensorQuantizationConfig& config);

/// A tensor with a channel axis: element i belongs to channel (i / inner) % channels.
struct ChannelView {
  int64_t channels = 1;
  int64_t inner = 1;
};
ChannelView ViewChannels(const Shape& shape, int axis);

}  // namespace requant
