#include "quant/grid/affine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/parse_name.h"
#include "base/str_cat.h"
#include "numeric/affine.h"
#include "ops/quantized/wide.h"
#include "quant/grid/codes.h"

namespace requant {
namespace {

/// Rounds the scale to a power of two if the policy asks for it, and keeps it far from the ends of
/// float32's range, because scales are multiplied.
double Finish(double scale, const TensorQuantizationConfig& config) {
  const auto usable = static_cast<float>(std::clamp(scale, 1e-18, 1e18));
  return static_cast<double>(config.policy & kPowerOf2 ? PowerOfTwoScale(usable) : usable);
}

}  // namespace

double SymmetricScale(double magnitude, const TensorQuantizationConfig& config) {
  if (!(magnitude > 0)) return 1;
  if (config.exponential()) return Finish(magnitude / config.small_float.largest(), config);
  if (config.bipolar()) return Finish(magnitude, config);
  switch (config.formula) {
    case ScaleFormula::kPpq:
      return Finish(2 * magnitude / static_cast<double>(config.quant_max - config.quant_min),
                    config);
    case ScaleFormula::kCambricon:
      return Finish(static_cast<double>(CambriconScale(magnitude, config.bits)), config);
    default:
      return Finish(magnitude / static_cast<double>(config.quant_max), config);
  }
}

namespace {

/// The magnitude that the highest code gets. Codes that are not balanced around 0 count each side
/// by itself: the scale is the least one that holds both, and a side without codes is cut off.
double MagnitudeOf(double min, double max, const TensorQuantizationConfig& config) {
  if (IsBalanced(config) || config.exponential()) return std::max(std::fabs(min), std::fabs(max));
  const auto high = static_cast<double>(config.quant_max);
  const double below =
      config.quant_min < 0 ? min * high / static_cast<double>(config.quant_min) : 0;
  return std::max({max, below, 0.0});
}

}  // namespace

void Affine::PutInto(TensorQuantizationConfig& config) const {
  config.scale = {scale};
  config.offset = {offset};
  config.threshold = threshold;
}

Affine AffineFromRange(double min, double max, const TensorQuantizationConfig& config) {
  if (config.bipolar() && min >= 0 && max > 0) {
    return {static_cast<float>(SymmetricScale(max / 2, config)), 0, 1};
  }
  if (config.symmetric()) {
    return {static_cast<float>(SymmetricScale(MagnitudeOf(min, max, config), config)), 0};
  }
  const bool nudge = config.formula != ScaleFormula::kGoogle;
  if (nudge) {
    min = std::min(min, 0.0);
    max = std::max(max, 0.0);
  }
  const auto lowest = static_cast<double>(config.quant_min);
  if (!(max > min)) return {1, static_cast<int32_t>(config.quant_min)};
  Affine affine;
  affine.scale = static_cast<float>(
      Finish((max - min) / static_cast<double>(config.quant_max - config.quant_min), config));
  double offset = lowest - std::nearbyint(min / static_cast<double>(affine.scale));
  const double top = nudge ? static_cast<double>(config.quant_max) : 2147483647.0;
  const double bottom = nudge ? lowest : -2147483648.0;
  affine.offset = static_cast<int32_t>(std::clamp(offset, bottom, top));
  return affine;
}

int32_t OffsetFor(double min, double scale, const TensorQuantizationConfig& config) {
  if (config.symmetric()) return 0;
  const auto lowest = static_cast<double>(config.quant_min);
  return static_cast<int32_t>(std::clamp(lowest - std::nearbyint(std::min(min, 0.0) / scale),
                                         lowest, static_cast<double>(config.quant_max)));
}

Affine AffineOfActivation(double min, double max, const TensorQuantizationConfig& config) {
  const Affine affine = AffineFromRange(min, max, config);
  const bool outside = affine.offset < config.quant_min || affine.offset > config.quant_max;
  if (config.formula != ScaleFormula::kGoogle || config.exotic_activation() || !outside) {
    return affine;
  }
  return AffineFromRange(std::min(min, 0.0), std::max(max, 0.0), config);
}

void ApplySettings(const TensorSettings& settings, bool weights, TensorQuantizationConfig& config) {
  const bool exponential = settings.small_float.exponent_bits > 0;
  config.bits = exponential
                    ? 1 + settings.small_float.exponent_bits + settings.small_float.mantissa_bits
                    : settings.bits;
  const bool symmetric = settings.symmetric || exponential;
  config.policy =
      (exponential ? kExponential : kLinear) | (settings.per_channel ? kPerChannel : kPerTensor) |
      (symmetric ? kSymmetrical : kAsymmetrical) | (settings.power_of_2 ? kPowerOf2 : 0u);
#define REQUANT_OBSERVER_OPTION(type, field, name, standard) config.field = settings.field;
#include "quant/options.inc"
  if (config.bits == 1 && config.observer == "minmax") config.observer = "mse";
  config.rounding = settings.rounding;
  config.formula = settings.formula;
  config.small_float = settings.small_float;
  if (settings.per_channel && !weights) config.axis = settings.axis < 0 ? 1 : settings.axis;
  const int64_t half = int64_t{1} << (config.bits - 1);
  // Zero points are int32, which cannot hold those of unsigned codes of 32 bits.
  if (symmetric || settings.is_signed || config.bits == 32) {
    config.dtype = CodeType(config.bits, true, weights);
    config.quant_max = half - 1;
    const bool whole = !symmetric || settings.full_range ||
                       settings.formula == ScaleFormula::kPpq ||
                       settings.formula == ScaleFormula::kCambricon;
    config.quant_min = whole ? -half : -config.quant_max;
  } else {
    config.dtype = CodeType(config.bits, false, weights);
    config.quant_min = 0;
    config.quant_max = 2 * half - 1;
  }
  if (config.bipolar()) {
    config.quant_min = -1;
    config.quant_max = 1;
  }
  if (settings.quant_min != kCodesOfBits) config.quant_min = settings.quant_min;
  if (settings.quant_max != kCodesOfBits) config.quant_max = settings.quant_max;
}

namespace {

/// Refuses what the signs of symmetric integers of one bit do not have.
template <typename Refuse>
void CheckBipolar(const TensorSettings& settings, bool weights, const Refuse& refuse) {
  if (settings.formula == ScaleFormula::kGoogle || settings.formula == ScaleFormula::kCambricon) {
    refuse("the formula has no symmetric integers of one bit", "formula", "use onnx or ppq");
  }
  if (settings.rounding != RoundingPolicy::kHalfEven) {
    refuse("symmetric integers of one bit are signs, which nothing rounds", "rounding",
           "use HALF_EVEN");
  }
  if (settings.full_range) {
    refuse("symmetric integers of one bit have no lowest code to add", "fullRange",
           "set fullRange: false");
  }
  if (settings.per_channel && !weights) {
    refuse("symmetric integers of one bit have one scale", "perChannel", "set perChannel: false");
  }
}

}  // namespace

void CheckSettings(const TensorSettings& settings, bool weights, std::string_view where,
                   std::string_view slot) {
  const auto refuse = [&](const std::string& what, const char* option, const std::string& hint) {
    const std::string_view kind = weights ? "weights" : "activations";
    Fail(ErrorCode::kInvalidArgument, StrCat(what, " for ", where),
         {.value = StrCat(slot.empty() ? kind : slot, ".", option), .hint = hint});
  };
  if (settings.bits < 1 || settings.bits > 32) {
    refuse(StrCat(settings.bits, " bits are not possible"), "bits", "use 1 to 32 bits");
  }
  if (!(settings.percentile > 0 && settings.percentile <= 100)) {
    refuse("the percentile is out of range", "percentile",
           "use a percentage in (0, 100], such as 99.99");
  }
  if (!(settings.momentum >= 0 && settings.momentum < 1)) {
    refuse("the momentum is out of range", "momentum", "use a number in [0, 1), such as 0.95");
  }
  const SmallFloat& format = settings.small_float;
  if (format.exponent_bits != 0 && (format.exponent_bits < 2 || format.exponent_bits > 8 ||
                                    format.mantissa_bits < 0 || format.mantissa_bits > 10)) {
    refuse("the small float is not possible", "smallFloat", "use e4m3 or e5m2");
  }
  if (settings.formula == ScaleFormula::kCambricon && !settings.symmetric) {
    refuse("the cambricon formula is symmetric", "symmetric", "set symmetric: true");
  }
  TensorQuantizationConfig probe;
  ApplySettings(settings, weights, probe);
  if (probe.bipolar()) CheckBipolar(settings, weights, refuse);
  CheckPolicy(probe.policy, where);
  if (settings.quant_min == kCodesOfBits && settings.quant_max == kCodesOfBits) return;
  if (const std::optional<Refusal> refusal = WhyNoCodes(probe, weights)) {
    refuse(refusal->what, refusal->field, refusal->hint);
  }
}

double RoundToCode(double scaled, const TensorQuantizationConfig& config) {
  if (config.bipolar()) return scaled >= static_cast<double>(config.threshold) ? 1 : -1;
  return RoundTo(scaled, config.rounding);
}

float FakeQuantize(float value, const TensorQuantizationConfig& config, size_t channel) {
  const float scale = config.scale[channel];
  const auto scaled = static_cast<double>(value / scale);
  if (config.exponential()) {
    return static_cast<float>(RoundToSmallFloat(scaled, config.small_float) *
                              static_cast<double>(scale));
  }
  const auto offset = static_cast<double>(config.offset[channel]);
  const double q =
      std::clamp(RoundToCode(scaled, config) + offset, static_cast<double>(config.quant_min),
                 static_cast<double>(config.quant_max));
  return static_cast<float>((q - offset) * static_cast<double>(scale));
}

namespace {

constexpr const char* kFormulas[] = {"onnx", "ppq", "google", "cambricon"};

}  // namespace

bool ParseName(std::string_view name, ScaleFormula* formula) {
  return ParseName(name, kFormulas, formula);
}

int64_t StorageMin(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return -128;
    case DType::kInt16:
      return -32768;
    case DType::kInt32:
      return std::numeric_limits<int32_t>::min();
    default:
      return 0;
  }
}

int64_t StorageMax(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return 127;
    case DType::kInt16:
      return 32767;
    case DType::kUint16:
      return 65535;
    case DType::kInt32:
      return std::numeric_limits<int32_t>::max();
    default:
      return 255;
  }
}

ChannelView ViewChannels(const Shape& shape, int axis) {
  ChannelView view;
  if (axis < 0 || axis >= static_cast<int>(shape.size())) return view;
  view.channels = shape[static_cast<size_t>(axis)];
  for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i) view.inner *= shape[i];
  return view;
}

namespace {

/// Iterates over the elements of a tensor and yields the channel of each, without divisions.
class ChannelWalk {
 public:
  ChannelWalk(const Shape& shape, const TensorQuantizationConfig& config)
      : view_(ViewChannels(shape, config.scale.size() > 1 ? config.axis : -1)),
        spread_(config.scale.size() > 1),
        left_(view_.inner) {}
  size_t Next() {
    const size_t now = channel_;
    if (spread_ && --left_ == 0) {
      left_ = view_.inner;
      if (static_cast<int64_t>(++channel_) == view_.channels) channel_ = 0;
    }
    return now;
  }

 private:
  ChannelView view_;
  bool spread_;
  int64_t left_;
  size_t channel_ = 0;
};

}  // namespace

Tensor QuantizeParameter(const Tensor& values, const TensorQuantizationConfig& config) {
  ChannelWalk channels(values.shape(), config);
  if (config.exponential()) {  // the codes are numbers of the small float format itself
    Tensor out(DType::kFloat32, values.shape());
    for (int64_t i = 0; i < values.count(); ++i) {
      const auto scale = static_cast<double>(config.scale[channels.Next()]);
      const auto x = static_cast<double>(values.data<float>()[i]);
      out.data<float>()[i] = static_cast<float>(RoundToSmallFloat(x / scale, config.small_float));
    }
    return out;
  }
  Tensor out(config.dtype, values.shape());
  void* to = out.raw();
  const float* from = values.data<float>();
  for (int64_t i = 0; i < values.count(); ++i) {
    const size_t channel = channels.Next();
    const double scaled = static_cast<double>(from[i]) / static_cast<double>(config.scale[channel]);
    const double shifted = RoundToCode(scaled, config) + config.offset[channel];
    const auto integer = static_cast<int32_t>(std::clamp(
        shifted, static_cast<double>(config.quant_min), static_cast<double>(config.quant_max)));
    if (config.dtype == DType::kInt32) {
      static_cast<int32_t*>(to)[i] = integer;
    } else {
      StoreCode(to, config.dtype, i, integer);
    }
  }
  return out;
}

Tensor DequantizeParameter(const Tensor& integers, const TensorQuantizationConfig& config) {
  ChannelWalk channels(integers.shape(), config);
  Tensor out(DType::kFloat32, integers.shape());
  auto* to = out.data<float>();
  const void* from = integers.raw();
  if (integers.dtype() == DType::kFloat32) {
    for (int64_t i = 0; i < integers.count(); ++i) {
      to[i] = static_cast<const float*>(from)[i] * config.scale[channels.Next()];
    }
    return out;
  }
  for (int64_t i = 0; i < integers.count(); ++i) {
    const size_t channel = channels.Next();
    const int64_t value = integers.dtype() == DType::kInt8    ? static_cast<const int8_t*>(from)[i]
                          : integers.dtype() == DType::kUint8 ? static_cast<const uint8_t*>(from)[i]
                                                              : integers.AsInt64(i);
    to[i] = static_cast<float>(value - config.offset[channel]) * config.scale[channel];
  }
  return out;
}

}  // namespace requant
