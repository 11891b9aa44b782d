#include "quant/recover/tape.h"

#include <algorithm>
#include <cmath>

#include "ops/infer_util.h"
#include "quant/affine.h"
#include "quant/recover/gradients.h"

namespace requant {
namespace {

bool IsReshaping(const Node& node) {
  return node.Is("Flatten") || node.Is("Reshape") || node.Is("Squeeze") || node.Is("Unsqueeze") ||
         node.Is("Identity");
}

bool IsSum(const Node& node) { return node.Is("Add") || node.Is("Sub") || node.Is("Mul"); }

/// The element of a broadcast operand for every element of the result.
std::vector<int64_t> BroadcastIndex(const Shape& from, const Shape& to) {
  std::vector<int64_t> strides(to.size(), 0);
  int64_t stride = 1;
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t at = from.size() - 1 - i;
    if (from[at] != 1) strides[to.size() - 1 - i] = stride;
    stride *= from[at];
  }
  std::vector<int64_t> out(static_cast<size_t>(NumElements(to)));
  std::vector<int64_t> counter(to.size(), 0);
  int64_t offset = 0;
  for (int64_t& index : out) {
    index = offset;
    for (size_t axis = to.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++counter[axis] < to[axis]) break;
      offset -= strides[axis] * to[axis];
      counter[axis] = 0;
    }
  }
  return out;
}

/// MaxPool and AveragePool: every output's gradient to the inputs it came from.
Tensor PoolBackward(const Node& node, const Tensor& x, const Tensor& dy) {
  Tensor dx(DType::kFloat32, x.shape());
  const bool is_max = node.Is("MaxPool");
  const Window window = ReadWindow(node.attributes, node.attributes.Ints("kernel_shape"));
  const size_t spatial = window.rank();
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1};
  int64_t dilation[3] = {1, 1, 1}, begin[3] = {0, 0, 0};
  for (size_t axis = 0; axis < spatial; ++axis) {
    const size_t at = 3 - spatial + axis;
    in[at] = x.dim(static_cast<int64_t>(axis) + 2);
    out[at] = dy.dim(static_cast<int64_t>(axis) + 2);
    begin[at] = PlaceWindow(window, axis, in[at]).pad_begin;
    kernel[at] = window.kernel[axis];
    stride[at] = window.strides[axis];
    dilation[at] = window.dilations[axis];
  }
  const int64_t plane = in[0] * in[1] * in[2];
  const int64_t planes = plane == 0 ? 0 : x.count() / plane;
  const bool with_pads = node.attributes.Int("count_include_pad", 0) != 0;
  const float* gradient = dy.data<float>();
  for (int64_t image = 0; image < planes; ++image) {
    const float* from = x.data<float>() + image * plane;
    float* to = dx.data<float>() + image * plane;
    for (int64_t o = 0; o < out[0] * out[1] * out[2]; ++o, ++gradient) {
      const int64_t at[3] = {o / (out[1] * out[2]), o / out[2] % out[1], o % out[2]};
      int64_t best = -1;
      int64_t count = 0;
      for (int step = is_max ? 1 : 0; step < 2; ++step) {  // averages count first
        for (int64_t k = 0; k < kernel[0] * kernel[1] * kernel[2]; ++k) {
          const int64_t tap[3] = {k / (kernel[1] * kernel[2]), k / kernel[2] % kernel[1],
                                  k % kernel[2]};
          int64_t index = 0;
          bool inside = true;
          for (int axis = 0; axis < 3; ++axis) {
            const int64_t place =
                at[axis] * stride[axis] + tap[axis] * dilation[axis] - begin[axis];
            inside = inside && place >= 0 && place < in[axis];
            index = index * in[axis] + place;
          }
          if (!inside) continue;
          if (is_max) {
            if (best < 0 || from[index] > from[best]) best = index;
          } else if (step == 0) {
            ++count;
          } else {
            const int64_t divisor = with_pads ? kernel[0] * kernel[1] * kernel[2] : count;
            to[index] += *gradient / static_cast<float>(divisor);
          }
        }
      }
      if (best >= 0) to[best] += *gradient;
    }
  }
  return dx;
}

void AddTo(std::map<const Value*, Tensor>& gradients, const Value* value, Tensor gradient) {
  const auto found = gradients.find(value);
  if (found == gradients.end()) {
    gradients[value] = std::move(gradient);
    return;
  }
  AddGradient(gradient.data<float>(), 1, gradient.count(), found->second.data<float>());
}

}  // namespace

bool HasGradient(const Node& node, const OperatorQuantization* op) {
  if (IsReshaping(node) || IsSum(node) || node.Is("Relu") || node.Is("Clip") || node.Is("Concat") ||
      node.Is("MaxPool") || node.Is("AveragePool") || node.Is("GlobalAveragePool")) {
    return true;
  }
  if (op == nullptr) return false;
  return op->rule == QuantRule::kConv || op->rule == QuantRule::kUnary ||
         (op->rule == QuantRule::kMatMul && node.constant(1) != nullptr);
}

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
  Tensor dx(DType::kFloat32, x.shape());
  const float* gradient = dy.data<float>();
  if (config.scale.size() != 1 || config.exponential()) {  // straight through
    std::copy_n(gradient, dx.count(), dx.data<float>());
    return dx;
  }
  const GridRange grid = {config.scale[0], static_cast<float>(config.quant_min - config.offset[0]),
                          static_cast<float>(config.quant_max - config.offset[0])};
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
      const TensorQuantizationConfig* config = simulator_.ReadConfig(node, slot);
      bool on_it = config == nullptr || tensor.dtype() != DType::kFloat32;
      if (!on_it && value->producer) {
        for (size_t i = 0; i < value->producer->outputs.size() && !on_it; ++i) {
          on_it = value->producer->outputs[i] == value &&
                  simulator_.WriteConfig(*value->producer, i) == config;
        }
      }
      entry.inputs.push_back(on_it ? tensor : OnGrid(tensor, *config, Mix(at, slot)));
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

std::vector<Tensor> Tape::OperatorBackward(const Node& node, const Entry& entry, const Tensor& dy,
                                           const std::vector<bool>& wanted) {
  std::vector<Tensor> out(node.inputs.size());
  const Tensor& x = entry.inputs[0];
  const float* gradient = dy.data<float>();
  if (SimLayer* layer = simulator_.Layer(&node)) {
    const auto learning = layers.find(&node);
    const bool learns = learning != layers.end();
    const float* weights = learns ? learning->second.weights.data() : layer->weights.data();
    layer->math->Backward(
        x, weights, dy, learns ? learning->second.weight_gradient.data() : nullptr,
        learns && !learning->second.bias.empty() ? learning->second.bias_gradient.data() : nullptr,
        wanted[0] ? &out[0] : nullptr);
    return out;
  }
  if (IsSum(node)) {
    for (size_t slot = 0; slot < 2; ++slot) {
      if (!wanted[slot]) continue;
      const Tensor& own = entry.inputs[slot];
      const Tensor& other = entry.inputs[1 - slot];
      Tensor made(DType::kFloat32, own.shape());
      auto* to = made.data<float>();
      const std::vector<int64_t> mine = own.shape() == dy.shape()
                                            ? std::vector<int64_t>()
                                            : BroadcastIndex(own.shape(), dy.shape());
      const int64_t* place = mine.empty() ? nullptr : mine.data();
      const int64_t count = dy.count();
      if (node.Is("Mul")) {
        const std::vector<int64_t> theirs = BroadcastIndex(other.shape(), dy.shape());
        const int64_t* from = theirs.data();
        const float* factors = other.data<float>();
        for (int64_t i = 0; i < count; ++i) {
          to[place ? place[i] : i] += gradient[i] * factors[from[i]];
        }
      } else {
        const float sign = node.Is("Sub") && slot == 1 ? -1.0f : 1.0f;
        if (place == nullptr) AddGradient(gradient, sign, count, to);
        for (int64_t i = 0; i < count && place; ++i) to[place[i]] += gradient[i] * sign;
      }
      out[slot] = std::move(made);
    }
    return out;
  }
  if (node.Is("Concat")) {
    const auto axis = static_cast<size_t>(NormalizeAxis(node.attributes.Int("axis", 0), dy.rank()));
    int64_t inner = 1;
    for (size_t i = axis + 1; i < dy.shape().size(); ++i) inner *= dy.shape()[i];
    const int64_t step = dy.shape()[axis] * inner;
    int64_t offset = 0;
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const Tensor& own = entry.inputs[slot];
      const int64_t length = own.shape()[axis] * inner;
      if (wanted[slot]) {
        out[slot] = Tensor(DType::kFloat32, own.shape());
        for (int64_t i = 0; i * length < own.count(); ++i) {
          std::copy_n(gradient + i * step + offset, length, out[slot].data<float>() + i * length);
        }
      }
      offset += length;
    }
    return out;
  }
  if (!wanted[0]) return out;
  if (node.Is("MaxPool") || node.Is("AveragePool")) {
    out[0] = PoolBackward(node, x, dy);
    return out;
  }
  Tensor made(DType::kFloat32, x.shape());
  auto* to = made.data<float>();
  const float* from = x.data<float>();
  const int64_t count = x.count();
  if (node.Is("GlobalAveragePool")) {
    const int64_t each = dy.count() == 0 ? 1 : count / dy.count();
    for (int64_t i = 0; i < count; ++i) to[i] = gradient[i / each] / static_cast<float>(each);
  } else if (IsReshaping(node)) {
    std::copy_n(gradient, count, to);
  } else if (node.Is("Relu")) {
    ReluGradient(from, gradient, count, to);
  } else if (node.Is("Clip")) {
    ClipGradient(from, entry.raw[0].data<float>(), gradient, count, to);
  } else {
    // Any elementwise function: its slope by central differences.
    std::vector<const Tensor*> inputs;
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      inputs.push_back(node.inputs[slot] ? &entry.inputs[slot] : nullptr);
    }
    constexpr float kStep = 1e-3f;
    Tensor moved[2] = {x.Clone(), x.Clone()};
    float *above = moved[0].data<float>(), *below = moved[1].data<float>();
    for (int64_t i = 0; i < count; ++i) {
      above[i] += kStep;
      below[i] -= kStep;
    }
    Tensor results[2];
    for (int side = 0; side < 2; ++side) {
      inputs[0] = &moved[side];
      results[side] = EvaluateNode(simulator_.graph(), node, inputs, RequantizeMode::kUpward)[0];
    }
    const float *high = results[0].data<float>(), *low = results[1].data<float>();
    for (int64_t i = 0; i < count; ++i) to[i] = gradient[i] * (high[i] - low[i]) / (2 * kStep);
  }
  out[0] = std::move(made);
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
    const OperatorQuantization* op = simulator_.record().Find(node.name);
    if (!HasGradient(node, op)) continue;
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
    std::vector<Tensor> made = OperatorBackward(node, entry, dy, wanted);
    for (size_t slot = 0; slot < made.size(); ++slot) {
      if (made[slot].empty() || !wanted[slot]) continue;
      const Value* value = node.inputs[slot];
      const TensorQuantizationConfig* config = simulator_.ReadConfig(node, slot);
      bool moved = config != nullptr;
      for (size_t o = 0; o < value->producer->outputs.size() && moved; ++o) {
        moved = value->producer->outputs[o] != value ||
                simulator_.WriteConfig(*value->producer, o) != config;
      }
      if (moved) {
        made[slot] = GridBackward(values.at(value), made[slot], *config, Mix(entry.node, slot));
      }
      AddTo(gradients, value, std::move(made[slot]));
    }
  }
}

}  // namespace requant
