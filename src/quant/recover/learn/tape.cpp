#include "quant/recover/learn/tape.h"

#include <algorithm>
#include <cmath>

#include "quant/grid/affine.h"
#include "quant/sim/elements.h"
#include "quant/sim/gradients.h"

namespace requant {
namespace {

/// Both operands of an Add have one gradient, so that a sum is a new tensor.
void AddTo(std::map<const Value*, Tensor>& gradients, const Value* value, Tensor more) {
  const auto [found, added] = gradients.try_emplace(value, more);
  if (added) return;
  Tensor sum = std::move(
      MapElements(nullptr, {gradient::ElementFunction::kAdd}, {{&found->second}, {&more}, {}})[0]);
  found->second = std::move(sum);
}

}  // namespace

uint32_t Tape::Mix(size_t node, size_t slot) const {
  return seed * 747796405u + static_cast<uint32_t>(node) * 2891336453u +
         static_cast<uint32_t>(slot) * 277803737u;
}

Tensor Tape::OnGrid(const Tensor& x, const TensorQuantizationConfig& config, uint32_t mix) const {
  Tensor y = FakeQuantizeTensor(x, config);
  if (drop) KeepDropped(mix, x.data<float>(), y.count(), y.data<float>());
  return y;
}

Tensor Tape::GridBackward(const Tensor& x, const Tensor& dy, const TensorQuantizationConfig& config,
                          uint32_t mix) {
  Tensor dx = Tensor::Unfilled(DType::kFloat32, x.shape());
  const float* gradient = dy.data<float>();
  if (config.scale.size() != 1 || config.exponential()) {  // the gradient passes straight through
    std::copy_n(gradient, dx.count(), dx.data<float>());
    return dx;
  }
  const GridRange grid = ActivationGrid(config);
  const auto learns = steps.find(&config);
  const double step = GridGradient(x.data<float>(), gradient, dx.count(), grid,
                                   drop ? std::optional<uint32_t>(mix) : std::nullopt,
                                   learns != steps.end(), dx.data<float>());
  if (learns != steps.end()) learns->second += step;
  return dx;
}

void Tape::Forward(Values& values, size_t begin, size_t end) {
  entries_.clear();
  for (size_t at = begin; at < end; ++at) {
    const Node& node = *simulator_.nodes()[at];
    Entry entry{at, {}, {}};
    std::vector<const Tensor*> inputs;
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const Value* value = node.inputs[slot];
      if (value == nullptr || value->is_constant()) {
        entry.inputs.push_back(value ? value->constant : Tensor());
        continue;
      }
      const Tensor& tensor = values.at(value);
      const TensorQuantizationConfig* grid = simulator_.ReadGrid(node, slot);
      entry.inputs.push_back(grid && tensor.dtype() == DType::kFloat32
                                 ? OnGrid(tensor, *grid, Mix(at, slot))
                                 : tensor);
    }
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      inputs.push_back(node.inputs[slot] ? &entry.inputs[slot] : nullptr);
    }
    const auto learning = layers.find(&node);
    SimLayer* layer = simulator_.Layer(&node);
    const float* weights = nullptr;
    const std::vector<float>* bias = nullptr;
    if (learning != layers.end()) {
      weights = learning->second.weights.data();
      bias = &learning->second.bias;
    } else if (layer && !layer->weights.empty()) {
      weights = layer->weights.data();
      bias = &layer->bias;
    }
    entry.raw = simulator_.Evaluate(node, inputs, weights, bias);
    for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
      const Value* value = node.outputs[slot];
      if (value == nullptr) continue;
      const TensorQuantizationConfig* config = simulator_.WriteConfig(node, slot);
      values[value] = config && entry.raw[slot].dtype() == DType::kFloat32
                          ? OnGrid(entry.raw[slot], *config, Mix(at, 64 + slot))
                          : entry.raw[slot];
    }
    entries_.push_back(std::move(entry));
  }
}

std::vector<Tensor> Tape::LayerBackward(const Node& node, const Entry& entry, const Tensor& dy,
                                        bool wanted) {
  std::vector<Tensor> out(node.inputs.size());
  const SimLayer* layer = simulator_.Layer(&node);
  const auto learning = layers.find(&node);
  const bool learns = learning != layers.end();
  const float* weights = learns                             ? learning->second.weights.data()
                         : layer && !layer->weights.empty() ? layer->weights.data()
                                                            : node.constant(1)->data<float>();
  simulator_.Math(&node)->Backward(
      entry.inputs[0], weights, dy, learns ? learning->second.weight_gradient.data() : nullptr,
      learns && !learning->second.bias.empty() ? learning->second.bias_gradient.data() : nullptr,
      wanted ? &out[0] : nullptr);
  return out;
}

void Tape::Backward(const Values& values, std::map<const Value*, Tensor> gradients) {
  for (size_t i = entries_.size(); i-- > 0;) {
    const Entry& entry = entries_[i];
    const Node& node = *simulator_.nodes()[entry.node];
    const Value* result = node.output(0);
    const auto found = gradients.find(result);
    if (found == gradients.end()) continue;
    Tensor dy = std::move(found->second);
    gradients.erase(found);
    if (const TensorQuantizationConfig* config = simulator_.WriteConfig(node, 0)) {
      dy = GridBackward(entry.raw[0], dy, *config, Mix(entry.node, 64));
    }
    if (!simulator_.PassesGradients(node)) continue;
    std::vector<bool> wanted;
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const Value* value = node.inputs[slot];
      bool needed = value && !value->is_constant() && value->producer &&
                    entry.inputs[slot].dtype() == DType::kFloat32;
      bool in_block = false;
      for (const Entry& other : entries_) {
        in_block =
            in_block || simulator_.nodes()[other.node] == (value ? value->producer : nullptr);
      }
      wanted.push_back(needed && in_block);
    }
    std::vector<Tensor> made =
        simulator_.Math(&node) ? LayerBackward(node, entry, dy, wanted[0])
                               : gradients_.Backward(node, entry.inputs, entry.raw, 0, dy, wanted);
    for (size_t slot = 0; slot < made.size(); ++slot) {
      if (made[slot].empty() || !wanted[slot]) continue;
      const Value* value = node.inputs[slot];
      if (const TensorQuantizationConfig* grid = simulator_.ReadGrid(node, slot)) {
        made[slot] = GridBackward(values.at(value), made[slot], *grid, Mix(entry.node, slot));
      }
      AddTo(gradients, value, std::move(made[slot]));
    }
  }
}

}  // namespace requant
