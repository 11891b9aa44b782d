#include "quant/sim/backward.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "interpret/interpreter.h"
#include "ops/infer_util.h"
#include "quant/assign/assign.h"
#include "quant/sim/elements.h"
#include "quant/sim/gradients.h"
#include "quant/sim/product_backward.h"

namespace requant {
namespace {

struct Call {
  const Node& node;
  const std::vector<Tensor>& inputs;
  const std::vector<Tensor>& outputs;
  const Tensor& dy;
  const std::vector<bool>& wanted;
};

/// Gradient of MaxPool and AveragePool: adds that of every output to the inputs it came from.
Tensor PoolBackward(const Node& node, const Tensor& x, const Tensor& dy) {
  Tensor dx(DType::kFloat32, x.shape());
  const bool is_max = node.Is(Op::kMaxPool);
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
      for (int step = is_max ? 1 : 0; step < 2; ++step) {  // averages need the count first
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

/// Gradients of Add, Sub, Mul and Div, with broadcasting.
std::vector<Tensor> BinaryBackward(const Call& call) {
  const auto& [node, inputs, outputs, dy, wanted] = call;
  std::vector<Tensor> out(inputs.size());
  const float* gradient = dy.data<float>();
  const int64_t count = dy.count();
  for (size_t slot = 0; slot < 2; ++slot) {
    if (!wanted[slot]) continue;
    const Tensor& own = inputs[slot];
    const Tensor& other = inputs[1 - slot];
    Tensor made(DType::kFloat32, own.shape());
    auto* to = made.data<float>();
    const std::vector<int64_t> mine = own.shape() == dy.shape()
                                          ? std::vector<int64_t>()
                                          : BroadcastIndex(own.shape(), dy.shape());
    const int64_t* place = mine.empty() ? nullptr : mine.data();
    if (node.Is(Op::kMul) || node.Is(Op::kDiv)) {
      const std::vector<int64_t> theirs = BroadcastIndex(other.shape(), dy.shape());
      const float *factors = other.data<float>(), *values = own.data<float>();
      for (int64_t i = 0; i < count; ++i) {
        const float factor = factors[theirs[static_cast<size_t>(i)]];
        const int64_t at = place ? place[i] : i;
        const float slope = node.Is(Op::kMul) ? factor
                            : slot == 0       ? 1 / factor
                                              : -factor / (values[at] * values[at]);
        to[at] += gradient[i] * slope;
      }
    } else {
      const float sign = node.Is(Op::kSub) && slot == 1 ? -1.0f : 1.0f;
      if (place == nullptr) AddGradient(gradient, sign, count, to);
      for (int64_t i = 0; i < count && place; ++i) to[place[i]] += gradient[i] * sign;
    }
    out[slot] = std::move(made);
  }
  return out;
}

std::vector<Tensor> ConcatBackward(const Call& call) {
  const auto& [node, inputs, outputs, dy, wanted] = call;
  std::vector<Tensor> out(inputs.size());
  const auto axis = static_cast<size_t>(NormalizeAxis(node.attributes.Int("axis", 0), dy.rank()));
  int64_t inner = 1;
  for (size_t i = axis + 1; i < dy.shape().size(); ++i) inner *= dy.shape()[i];
  const int64_t step = dy.shape()[axis] * inner;
  int64_t offset = 0;
  for (size_t slot = 0; slot < inputs.size(); ++slot) {
    const Tensor& own = inputs[slot];
    const int64_t length = own.shape()[axis] * inner;
    if (wanted[slot]) {
      out[slot] = Tensor(DType::kFloat32, own.shape());
      for (int64_t i = 0; i * length < own.count(); ++i) {
        std::copy_n(dy.data<float>() + i * step + offset, length,
                    out[slot].data<float>() + i * length);
      }
    }
    offset += length;
  }
  return out;
}

/// Computes the gradient of an operator with a single differentiable operand, and writes it to
/// `to`, which is filled with 0.
using Single = void (*)(const Call& call, const float* dy, float* to);

void GlobalAverageBackward(const Call& call, const float* dy, float* to) {
  const int64_t count = call.inputs[0].count();
  const int64_t each = call.dy.count() == 0 ? 1 : count / call.dy.count();
  for (int64_t i = 0; i < count; ++i) to[i] = dy[i / each] / static_cast<float>(each);
}

void ReshapeBackward(const Call& call, const float* dy, float* to) {
  std::copy_n(dy, call.dy.count(), to);
}

void PreluBackward(const Call& call, const float* dy, float* to) {
  const Tensor& slopes = call.inputs[1];
  const std::vector<int64_t> place = BroadcastIndex(slopes.shape(), call.dy.shape());
  const float* x = call.inputs[0].data<float>();
  for (int64_t i = 0; i < call.dy.count(); ++i) {
    const float slope = slopes.data<float>()[place[static_cast<size_t>(i)]];
    to[i] = x[i] < 0 ? slope * dy[i] : dy[i];
  }
}

/// dx = y * (dy - sum(y * dy)) along the axis.
void SoftmaxBackward(const Call& call, const float* dy, float* to) {
  const Tensor& y = call.outputs[0];
  const auto axis =
      static_cast<size_t>(NormalizeAxis(call.node.attributes.Int("axis", -1), y.rank()));
  int64_t inner = 1;
  for (size_t i = axis + 1; i < y.shape().size(); ++i) inner *= y.shape()[i];
  const int64_t length = y.shape()[axis];
  const float* p = y.data<float>();
  for (int64_t row = 0; row * length < y.count(); ++row) {
    const int64_t begin = row / inner * inner * length + row % inner;
    float sum = 0;
    for (int64_t i = 0; i < length; ++i) sum += p[begin + i * inner] * dy[begin + i * inner];
    for (int64_t i = 0; i < length; ++i) {
      const int64_t at = begin + i * inner;
      to[at] = p[at] * (dy[at] - sum);
    }
  }
}

struct SingleRow {
  const char* op;
  Single backward;
};

constexpr SingleRow kSingles[] = {
    {"Flatten", &ReshapeBackward},  {"Reshape", &ReshapeBackward},
    {"Squeeze", &ReshapeBackward},  {"Unsqueeze", &ReshapeBackward},
    {"Identity", &ReshapeBackward}, {"PRelu", &PreluBackward},
    {"Softmax", &SoftmaxBackward},  {"GlobalAveragePool", &GlobalAverageBackward},
    {"Cast", &ReshapeBackward},
};

/// Operators each of whose output elements is an element of the first input, or a constant.
constexpr const char* kMoves[] = {"Transpose", "Slice",  "Split",        "Pad",
                                  "Gather",    "Expand", "DepthToSpace", "SpaceToDepth"};

const SingleRow* FindSingle(const Node& node) {
  // The gradient passes straight through what rounds to floats of fewer bits.
  const auto to = static_cast<DType>(node.attributes.Int("to", 0) & 255);
  if (node.Is(Op::kCast) && !IsFloat(to)) return nullptr;
  for (const SingleRow& row : kSingles) {
    if (node.Is(row.op)) return &row;
  }
  return nullptr;
}

bool Moves(const Node& node) {
  return std::any_of(std::begin(kMoves), std::end(kMoves),
                     [&](const char* op) { return node.Is(op); });
}

bool IsBinary(const Node& node) {
  return node.Is(Op::kAdd) || node.Is(Op::kSub) || node.Is(Op::kMul) || node.Is(Op::kDiv);
}

bool IsPool(const Node& node) { return node.Is(Op::kMaxPool) || node.Is(Op::kAveragePool); }

/// The gradient of an elementwise function of its first input: the slope by central differences, or
/// by one-sided ones at the border of its domain.
Tensor SlopeTimes(const Graph& graph, const Call& call) {
  std::vector<const Tensor*> inputs;
  for (size_t slot = 0; slot < call.inputs.size(); ++slot) {
    inputs.push_back(call.node.inputs[slot] ? &call.inputs[slot] : nullptr);
  }
  constexpr float kStep = 1e-3f;
  const Tensor& x = call.inputs[0];
  Tensor moved[2] = {x.Clone(), x.Clone()};
  float *above = moved[0].data<float>(), *below = moved[1].data<float>();
  for (int64_t i = 0; i < x.count(); ++i) {
    above[i] += kStep;
    below[i] -= kStep;
  }
  Tensor results[2];
  for (int side = 0; side < 2; ++side) {
    inputs[0] = &moved[side];
    results[side] = EvaluateNode(graph, call.node, inputs, RequantizeMode::kUpward)[0];
  }
  Tensor out(DType::kFloat32, x.shape());
  auto* to = out.data<float>();
  const float *high = results[0].data<float>(), *low = results[1].data<float>();
  const float *middle = call.outputs[0].data<float>(), *dy = call.dy.data<float>();
  for (int64_t i = 0; i < x.count(); ++i) {
    float slope = (high[i] - low[i]) / (2 * kStep);
    if (!std::isfinite(slope)) {
      slope = std::isfinite(high[i]) ? (high[i] - middle[i]) / kStep : (middle[i] - low[i]) / kStep;
    }
    to[i] = dy[i] * slope;
  }
  return out;
}

/// Replaces gradients that are no number (at a pole) by 0: they would spread to all others.
void DropWhatIsNoNumber(std::vector<Tensor>& gradients) {
  for (Tensor& gradient : gradients) {
    if (gradient.empty()) continue;
    auto* data = gradient.data<float>();
    for (int64_t i = 0; i < gradient.count(); ++i) {
      if (!std::isfinite(data[i])) data[i] = 0;
    }
  }
}

}  // namespace

bool HasGradient(const Node& node) {
  return node.Is(Op::kRelu) || node.Is(Op::kClip) || IsBinary(node) || IsProduct(node) ||
         IsPool(node) || FindSingle(node) || Moves(node) || node.Is(Op::kConcat) ||
         RuleOf(node) == QuantRule::kUnary;
}

/// Finds the source of each output element by running the operator on the numbers of its input's
/// elements.
const std::vector<int32_t>& OperatorGradients::Sources(const Node& node,
                                                       const std::vector<Tensor>& inputs,
                                                       size_t output) {
  Moved& moved = moved_[{&node, output}];
  const std::vector<Tensor> steering(inputs.begin() + 1, inputs.end());
  if (moved.known && moved.shape == inputs[0].shape() &&
      std::equal(steering.begin(), steering.end(), moved.steering.begin(),
                 [](const Tensor& a, const Tensor& b) { return a.SameBits(b); })) {
    return moved.from;
  }
  Tensor numbers(DType::kInt32, inputs[0].shape());
  std::iota(numbers.data<int32_t>(), numbers.data<int32_t>() + numbers.count(), 1);
  std::vector<const Tensor*> read;
  for (size_t slot = 0; slot < inputs.size(); ++slot) {
    // Without the operand, Pad pads with 0.
    const bool constant = node.Is(Op::kPad) && slot == 2;
    read.push_back(node.inputs[slot] && !constant ? &inputs[slot] : nullptr);
  }
  read[0] = &numbers;
  const Tensor made = EvaluateNode(graph_, node, read, RequantizeMode::kUpward)[output];
  moved = {true,
           inputs[0].shape(),
           steering,
           {made.data<int32_t>(), made.data<int32_t>() + made.count()}};
  return moved.from;
}

std::vector<Tensor> OperatorGradients::Backward(const Node& node, const std::vector<Tensor>& inputs,
                                                const std::vector<Tensor>& outputs, size_t output,
                                                const Tensor& dy, const std::vector<bool>& wanted) {
  const std::vector<Tensor> gradient{dy};
  if (auto made = ElementGradients(nullptr, node, std::span(&inputs, 1), std::span(&outputs, 1),
                                   std::span(&gradient, 1), wanted)) {
    return std::move((*made)[0]);
  }
  std::vector<Tensor> out = Compute(node, inputs, outputs, output, dy, wanted);
  DropWhatIsNoNumber(out);
  return out;
}

std::vector<Tensor> OperatorGradients::Compute(const Node& node, const std::vector<Tensor>& inputs,
                                               const std::vector<Tensor>& outputs, size_t output,
                                               const Tensor& dy, const std::vector<bool>& wanted) {
  const Call call{node, inputs, outputs, dy, wanted};
  if (IsBinary(node)) return BinaryBackward(call);
  if (IsProduct(node)) return ProductBackward(node, inputs, dy, wanted);
  if (node.Is(Op::kConcat)) return ConcatBackward(call);
  std::vector<Tensor> out(inputs.size());
  if (!wanted[0]) return out;
  if (IsPool(node)) {
    out[0] = PoolBackward(node, inputs[0], dy);
  } else if (Moves(node)) {
    out[0] = Tensor(DType::kFloat32, inputs[0].shape());
    auto* to = out[0].data<float>();
    const std::vector<int32_t>& from = Sources(node, inputs, output);
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] > 0) to[from[i] - 1] += dy.data<float>()[i];
    }
  } else if (const SingleRow* row = FindSingle(node)) {
    out[0] = Tensor(DType::kFloat32, inputs[0].shape());
    row->backward(call, dy.data<float>(), out[0].data<float>());
  } else {
    out[0] = SlopeTimes(graph_, call);
  }
  return out;
}

}  // namespace requant
