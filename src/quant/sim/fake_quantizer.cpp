#include "quant/sim/fake_quantizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/grid/affine.h"
#include "quant/grid/codes.h"
#include "quant/sim/elements.h"
#include "quant/sim/gradients.h"

namespace requant {
namespace {

constexpr const char* kUnused = "forward() was not called yet";

}  // namespace

FakeQuantizer::FakeQuantizer(const TensorSettings& settings, const FixedScale& given) {
  TensorObserver observer(settings);
  ApplySettings(settings, false, config_);
  if (given.scale.empty()) {
    if (observer.passes() > 1) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the observer '", config_.observer, "' sees all tensors twice"),
           {.value = "options.observer", .hint = "give a scale"});
    }
    observer_.emplace(std::move(observer));
    return;
  }
  config_.scale = given.scale;
  config_.offset = given.offset;
  config_.offset.resize(std::max(config_.scale.size(), config_.offset.size()));
  config_.observer = kGiven;
  if (const std::optional<Refusal> why = WhyNoScales(config_)) {
    Fail(ErrorCode::kInvalidQuantization, why->what,
         {.value = StrCat("options.", why->field), .hint = why->hint});
  }
  if (config_.bipolar() && config_.offset[0] == 1) {
    config_.threshold = std::exchange(config_.offset[0], 0);
  }
}

const TensorQuantizationConfig& FakeQuantizer::grid() const {
  if (!config_.scale.empty()) return config_;
  Fail(ErrorCode::kInvalidArgument, kUnused, {.hint = "give a scale"});
}

void FakeQuantizer::CheckChannels(const Tensor& x) const {
  if (x.dtype() != DType::kFloat32) {
    Fail(ErrorCode::kTypeMismatch, StrCat("the tensor is ", DTypeName(x.dtype()), ", not float32"),
         {.value = "tensor"});
  }
  if (!config_.per_channel()) return;
  const auto scales = static_cast<int64_t>(config_.scale.size());
  if (config_.axis < x.rank() && (x.dim(config_.axis) == scales || scales == 1)) return;
  Fail(ErrorCode::kShapeMismatch,
       StrCat(scales, " scales do not fit the tensor ", ShapeToString(x.shape())),
       {.value = "tensor", .hint = "choose another axis"});
}

Tensor FakeQuantizer::Forward(const Tensor& x) {
  if (observer_) {
    observer_->Observe(0, x);
    const TensorQuantizationConfig now = observer_->Grid();
    config_.scale = now.scale;
    config_.offset = now.offset;
    config_.threshold = now.threshold;
    config_.range_min = now.range_min;
    config_.range_max = now.range_max;
  }
  grid();
  CheckChannels(x);
  seen_ = x.Clone();
  return FakeQuantizeTensor(x, config_);
}

FakeQuantizer::Gradients FakeQuantizer::Backward(const Tensor& gradient) const {
  if (seen_.empty()) {
    Fail(ErrorCode::kInvalidArgument, kUnused, {.value = "gradient"});
  }
  if (gradient.dtype() != DType::kFloat32 || gradient.shape() != seen_.shape()) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("the gradient is ", DTypeName(gradient.dtype()), ShapeToString(gradient.shape()),
                ", not float32", ShapeToString(seen_.shape())),
         {.value = "gradient"});
  }
  Gradients out{Tensor(DType::kFloat32, seen_.shape()), {}};
  if (config_.exponential()) {
    out.input = gradient.Clone();
    return out;
  }
  const size_t channels = config_.scale.size();
  const ChannelView view = ViewChannels(seen_.shape(), channels > 1 ? config_.axis : -1);
  const int64_t run = channels > 1 ? view.inner : seen_.count();
  std::vector<double> logs(channels);
  const bool learns = config_.rounding == RoundingPolicy::kHalfEven && config_.bits <= 16;
  for (int64_t at = 0; at < seen_.count(); at += run) {
    const auto channel = static_cast<size_t>(at / run) % channels;
    const GridRange grid = channels > 1 ? WeightGrid(config_, channel) : ActivationGrid(config_);
    logs[channel] += GridGradient(seen_.data<float>() + at, gradient.data<float>() + at, run, grid,
                                  std::nullopt, learns, out.input.data<float>() + at);
  }
  if (!learns) return out;
  for (size_t i = 0; i < channels; ++i) {
    out.scale.push_back(logs[i] / static_cast<double>(config_.scale[i]));
  }
  return out;
}

}  // namespace requant
