#include "quant/affine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/str_cat.h"
#include "numeric/affine.h"

namespace requant {
namespace {

/// Powers of two if wanted; kept far from the ends of float32, because scales are multiplied.
double Finish(double scale, const TensorQuantizationConfig& config) {
  const auto usable = static_cast<float>(std::clamp(scale, 1e-18, 1e18));
  return static_cast<double>(config.policy & kPowerOf2 ? PowerOfTwoScale(usable) : usable);
}

}  // namespace

double SymmetricScale(double magnitude, const TensorQuantizationConfig& config) {
  if (!(magnitude > 0)) return 1;
  return Finish(magnitude / static_cast<double>(config.quant_max), config);
}

Affine AffineFromRange(double min, double max, const TensorQuantizationConfig& config) {
  min = std::min(min, 0.0);
  max = std::max(max, 0.0);
  if (config.symmetric()) {
    return {static_cast<float>(SymmetricScale(std::max(-min, max), config)), 0};
  }
  if (!(max > min)) return {1, static_cast<int32_t>(config.quant_min)};
  const double levels = static_cast<double>(config.quant_max - config.quant_min);
  Affine affine;
  affine.scale = static_cast<float>(Finish((max - min) / levels, config));
  const double offset = static_cast<double>(config.quant_min) -
                        std::nearbyint(min / static_cast<double>(affine.scale));
  affine.offset = static_cast<int32_t>(std::clamp(offset, static_cast<double>(config.quant_min),
                                                  static_cast<double>(config.quant_max)));
  return affine;
}

void ApplySettings(const TensorSettings& settings, bool weights, TensorQuantizationConfig& config) {
  config.bits = settings.bits;
  config.policy = kLinear | (settings.per_channel ? kPerChannel : kPerTensor) |
                  (settings.symmetric ? kSymmetrical : kAsymmetrical) |
                  (settings.power_of_2 ? kPowerOf2 : 0u);
  config.observer = settings.observer;
  config.percentile = settings.percentile;
  config.momentum = settings.momentum;
  if (settings.symmetric) {
    config.dtype = DType::kInt8;
    config.quant_max = (int64_t{1} << (settings.bits - 1)) - 1;
    config.quant_min = -config.quant_max;
  } else if (weights) {
    config.dtype = DType::kInt8;
    config.quant_max = (int64_t{1} << (settings.bits - 1)) - 1;
    config.quant_min = -config.quant_max - 1;
  } else {
    config.dtype = DType::kUint8;
    config.quant_min = 0;
    config.quant_max = (int64_t{1} << settings.bits) - 1;
  }
}

void CheckSettings(const TensorSettings& settings, bool weights, std::string_view where) {
  const auto refuse = [&](const std::string& what, const char* hint) {
    Fail(ErrorCode::kInvalidArgument, StrCat(what, " for ", where), {.hint = hint});
  };
  if (settings.bits < 2 || settings.bits > 8) {
    refuse(StrCat(settings.bits, " bits are not possible"), "use 2 to 8 bits");
  }
  if (!(settings.percentile > 0 && settings.percentile <= 100)) {
    refuse("the percentile is out of range", "use a percentage in (0, 100], such as 99.99");
  }
  if (!(settings.momentum >= 0 && settings.momentum < 1)) {
    refuse("the momentum is out of range", "use a number in [0, 1), such as 0.95");
  }
  if (!weights && settings.per_channel) {
    refuse("activations cannot be quantized per channel", "set perChannel for weights only");
  }
  if (weights && !settings.symmetric) {
    refuse("weights must be symmetric", "set symmetric: true for weights");
  }
  TensorQuantizationConfig probe;
  ApplySettings(settings, weights, probe);
  CheckPolicy(probe.policy, where);
}

int64_t StorageMin(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return -128;
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

/// The channel of every element in turn, without divisions.
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
  Tensor out(config.dtype, values.shape());
  void* to = out.raw();
  const float* from = values.data<float>();
  for (int64_t i = 0; i < values.count(); ++i) {
    const size_t channel = channels.Next();
    const double scaled = static_cast<double>(from[i]) / static_cast<double>(config.scale[channel]);
    const double shifted = RoundTo(scaled, config.rounding) + config.offset[channel];
    const auto integer = static_cast<int32_t>(std::clamp(
        shifted, static_cast<double>(config.quant_min), static_cast<double>(config.quant_max)));
    if (config.dtype == DType::kUint8) {
      static_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(integer);
    } else if (config.dtype == DType::kInt8) {
      static_cast<int8_t*>(to)[i] = static_cast<int8_t>(integer);
    } else {
      static_cast<int32_t*>(to)[i] = integer;
    }
  }
  return out;
}

Tensor DequantizeParameter(const Tensor& integers, const TensorQuantizationConfig& config) {
  ChannelWalk channels(integers.shape(), config);
  Tensor out(DType::kFloat32, integers.shape());
  auto* to = out.data<float>();
  const void* from = integers.raw();
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
