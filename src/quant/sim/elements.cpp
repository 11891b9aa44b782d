#include "quant/sim/elements.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/grid/affine.h"
#include "quant/sim/gradients.h"

namespace requant {

using gradient::ElementFunction;
using gradient::ElementParams;
using gradient::ElementSample;

namespace {

bool AreFloats(const std::vector<const Tensor*>& operands, size_t count) {
  return operands.size() == count &&
         std::all_of(operands.begin(), operands.end(), [](const Tensor* operand) {
           return operand && operand->dtype() == DType::kFloat32;
         });
}

const float* Data(const std::vector<const Tensor*>& operands, size_t sample) {
  return operands.empty() ? nullptr : operands[sample]->data<float>();
}

/// The operands in one slot of all samples.
std::vector<const Tensor*> Slot(std::span<const std::vector<const Tensor*>> inputs, size_t slot) {
  std::vector<const Tensor*> out;
  for (const auto& of_sample : inputs) out.push_back(of_sample[slot]);
  return out;
}
std::vector<const Tensor*> Slot(std::span<const std::vector<Tensor>> inputs, size_t slot) {
  std::vector<const Tensor*> out;
  for (const auto& of_sample : inputs) out.push_back(&of_sample[slot]);
  return out;
}

/// The grid of one element after the other, for grids that the kernel does not round to.
Tensor RoundSingly(const Tensor& x, const TensorQuantizationConfig& config) {
  Tensor out = Tensor::Unfilled(DType::kFloat32, x.shape());
  const float* from = x.data<float>();
  auto* to = out.data<float>();
  const bool spread = config.scale.size() > 1;
  if (config.bipolar() && !spread) {
    const float scale = config.scale[0];
    const float threshold = static_cast<float>(config.threshold) * scale;
    for (int64_t i = 0; i < x.count(); ++i) to[i] = from[i] >= threshold ? scale : -scale;
    return out;
  }
  const ChannelView view = ViewChannels(x.shape(), spread ? config.axis : -1);
  for (int64_t i = 0; i < x.count(); ++i) {
    const size_t channel = spread ? static_cast<size_t>(i / view.inner % view.channels) : size_t{0};
    to[i] = FakeQuantize(from[i], config, channel);
  }
  return out;
}

/// The limits of a Relu or of a Clip with both.
struct Limits {
  float low = 0, high = std::numeric_limits<float>::infinity();
};

std::optional<Limits> LimitsOf(const Node& node, const std::vector<const Tensor*>& inputs) {
  if (node.Is(Op::kRelu) && AreFloats(inputs, 1)) return Limits{};
  if (!node.Is(Op::kClip) || !AreFloats(inputs, 3)) return std::nullopt;
  return Limits{inputs[1]->data<float>()[0], inputs[2]->data<float>()[0]};
}

bool IsPlainAdd(const Node& node, const std::vector<const Tensor*>& inputs) {
  return node.Is(Op::kAdd) && AreFloats(inputs, 2) && inputs[0]->shape() == inputs[1]->shape();
}

}  // namespace

std::vector<const Tensor*> PointersTo(std::span<const Tensor> tensors) {
  std::vector<const Tensor*> out;
  for (const Tensor& tensor : tensors) out.push_back(&tensor);
  return out;
}

std::vector<Tensor> MapElements(BatchRunner* runner, ElementParams params,
                                const ElementOperands& operands, double* sum) {
  std::vector<Tensor> out;
  std::vector<ElementSample> samples;
  double work = 0;
  for (size_t at = 0; at < operands.a.size(); ++at) {
    const Tensor& a = *operands.a[at];
    Tensor& made = out.emplace_back(Tensor::Unfilled(DType::kFloat32, a.shape()));
    samples.push_back({a.data<float>(), Data(operands.b, at), Data(operands.c, at),
                       made.data<float>(), a.count(), 0});
    work += static_cast<double>(a.count());
  }
  params.samples = samples.data();
  params.end = static_cast<int64_t>(samples.size());
  if (runner == nullptr) {
    rq_elements(&params);
  } else {
    runner->Run(gradient::kElements, rq_elements, params,
                {&ElementParams::begin, &ElementParams::end, params.end}, work,
                [](int64_t) { return 0; });
  }
  for (const ElementSample& sample : samples) {
    if (sum) *sum += sample.sum;
  }
  return out;
}

std::vector<Tensor> FakeQuantizeBatch(BatchRunner* runner, std::span<const Tensor> batch,
                                      const TensorQuantizationConfig& config) {
  if (config.scale.size() > 1 || config.bipolar() || config.exponential() ||
      config.rounding != RoundingPolicy::kHalfEven || config.bits > 16) {
    std::vector<Tensor> out;
    for (const Tensor& tensor : batch) out.push_back(RoundSingly(tensor, config));
    return out;
  }
  ElementParams params{ElementFunction::kRoundToGrid};
  params.scale = config.scale[0];
  params.low = static_cast<float>(config.quant_min - config.offset[0]);
  params.high = static_cast<float>(config.quant_max - config.offset[0]);
  return MapElements(runner, params, {PointersTo(batch), {}, {}});
}

Tensor FakeQuantizeTensor(const Tensor& x, const TensorQuantizationConfig& config) {
  return std::move(FakeQuantizeBatch(nullptr, std::span(&x, 1), config)[0]);
}

std::optional<std::vector<Tensor>> EvaluateElements(
    BatchRunner* runner, const Node& node, std::span<const std::vector<const Tensor*>> inputs) {
  if (inputs.empty()) return std::nullopt;
  if (const std::optional<Limits> limits = LimitsOf(node, inputs[0])) {
    ElementParams params{ElementFunction::kClip};
    params.low = limits->low;
    params.high = limits->high;
    return MapElements(runner, params, {Slot(inputs, 0), {}, {}});
  }
  for (const auto& of_sample : inputs) {
    if (!IsPlainAdd(node, of_sample)) return std::nullopt;
  }
  return MapElements(runner, {ElementFunction::kAdd}, {Slot(inputs, 0), Slot(inputs, 1), {}});
}

std::optional<std::vector<std::vector<Tensor>>> ElementGradients(
    BatchRunner* runner, const Node& node, std::span<const std::vector<Tensor>> inputs,
    std::span<const std::vector<Tensor>> outputs, std::span<const std::vector<Tensor>> dy,
    const std::vector<bool>& wanted) {
  const bool limits = node.Is(Op::kRelu) || node.Is(Op::kClip);
  for (size_t at = 0; at < inputs.size(); ++at) {
    if (dy[at].size() != 1 || dy[at][0].empty()) return std::nullopt;
    if (!limits && !IsPlainAdd(node, PointersTo(inputs[at]))) return std::nullopt;
  }
  std::vector<Tensor> made;
  if (node.Is(Op::kAdd)) {
    made = MapElements(runner, {ElementFunction::kFinite}, {Slot(dy, 0), {}, {}});
  } else if (node.Is(Op::kRelu)) {
    made =
        MapElements(runner, {ElementFunction::kReluGradient}, {Slot(inputs, 0), Slot(dy, 0), {}});
  } else {
    made = MapElements(runner, {ElementFunction::kClipGradient},
                       {Slot(inputs, 0), Slot(outputs, 0), Slot(dy, 0)});
  }
  std::vector<std::vector<Tensor>> out(inputs.size());
  for (size_t at = 0; at < out.size(); ++at) {
    out[at].resize(inputs[at].size());
    for (size_t slot = 0; slot < (node.Is(Op::kAdd) ? 2 : 1); ++slot) {
      if (wanted[slot]) out[at][slot] = made[at];
    }
  }
  return out;
}

std::vector<Tensor> GridGradients(BatchRunner* runner, const GridRange& grid,
                                  const std::vector<const Tensor*>& x, std::vector<Tensor> dy,
                                  double* step) {
  if (grid.bipolar) {
    for (size_t i = 0; i < dy.size(); ++i) {
      if (dy[i].empty()) continue;
      Tensor dx = Tensor::Unfilled(DType::kFloat32, x[i]->shape());
      const double own = GridGradient(x[i]->data<float>(), dy[i].data<float>(), dx.count(), grid,
                                      std::nullopt, step != nullptr, dx.data<float>());
      if (step) *step += own;
      dy[i] = std::move(dx);
    }
    return dy;
  }
  ElementOperands operands;
  std::vector<Tensor*> targets;
  for (size_t i = 0; i < dy.size(); ++i) {
    if (dy[i].empty()) continue;
    operands.a.push_back(x[i]);
    operands.b.push_back(&dy[i]);
    targets.push_back(&dy[i]);
  }
  double sum = 0;
  std::vector<Tensor> made = MapElements(runner, ParamsOfGrid(grid), operands, &sum);
  for (size_t i = 0; i < made.size(); ++i) *targets[i] = std::move(made[i]);
  if (step) *step += sum * static_cast<double>(grid.scale);
  return dy;
}

}  // namespace requant
