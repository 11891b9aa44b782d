// Before: QLinearConv16, QLinearMatMul16, QGemm16 and QLinearConcat16
// After:  SplitBytes, ConvInteger or MatMulInteger of both bytes, CombineSums16; Requantize16 of
//   each operand, and Concat
// Conditions: weights, scales and zero points are constant, weights have 8 bits, and sums of bytes
//   fit int32. Depthwise convolutions of 16-bit data stay, which have a step of their own; so do
//   volumes.
// Formula: with x = 256 h + l and z = 256 z_h + z_l,
//   sum (x - z) w = 256 sum (h - z_h) w + sum (l - z_l) w.
// So the kernels of 8 bits compute both sums, and nothing overflows: their bound is proved here.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/quantized/wide.h"

namespace requant {
namespace {

constexpr int64_t kMostInt32 = std::numeric_limits<int32_t>::max();

struct Bytes {
  Value* high;  // nullptr for data of 8 bits
  Value* low;
};

class WideRewriter {
 public:
  explicit WideRewriter(Graph& graph) : graph_(graph) {}

  bool Run() {
    std::vector<Node*> nodes;
    for (const auto& node : graph_.nodes()) {
      if (node->domain == kRequantDomain && node->op_type.ends_with("16")) {
        nodes.push_back(node.get());
      }
    }
    bool changed = false;
    for (Node* node : nodes) {
      const Value* output = node->outputs[0];
      if (output->consumers.empty() && !graph_.IsOutput(output)) continue;
      if (node->op_type == "QLinearConcat16") {
        Concat(*node);
        changed = true;
      } else if (node->op_type == "QLinearConv16" || node->op_type == "QLinearMatMul16" ||
                 node->op_type == "QGemm16") {
        changed = Layer(*node) || changed;
      }
    }
    if (!changed) return false;
    graph_.SortTopologically();
    graph_.RemoveUnusedValues();
    return true;
  }

 private:
  Bytes Split(Value* x) {
    if (!IsWide(x->type.dtype)) return {nullptr, x};
    Bytes& made = split_[x];
    if (made.low == nullptr) {
      const DType high = x->type.dtype == DType::kInt16 ? DType::kInt8 : DType::kUint8;
      made.high = graph_.AddValue(x->name + "_high", {high, x->type.shape});
      made.low = graph_.AddValue(x->name + "_low", {DType::kUint8, x->type.shape});
      graph_.AddNode("SplitBytes", kRequantDomain, {x}, {made.high, made.low}, {},
                     x->name + "_split");
    }
    return made;
  }

  /// One number for each output channel; nullopt for numbers that are not constant.
  static std::optional<std::vector<int64_t>> Zeros(const Node& node, int64_t channels) {
    const Tensor* zeros = node.constant(5);
    if (zeros == nullptr) {
      if (node.input(5)) return std::nullopt;
      return std::vector<int64_t>(static_cast<size_t>(channels), 0);
    }
    std::vector<int64_t> out = zeros->ToInts();
    if (out.size() == 1) out.resize(static_cast<size_t>(channels), out[0]);
    if (static_cast<int64_t>(out.size()) != channels) return std::nullopt;
    return out;
  }

  static Tensor Transposed(const Tensor& bytes) {
    const int64_t rows = bytes.dim(0), columns = bytes.dim(1);
    Tensor out(bytes.dtype(), {columns, rows});
    const auto* from = static_cast<const uint8_t*>(bytes.raw());
    auto* to = static_cast<uint8_t*>(out.raw());
    for (int64_t i = 0; i < rows * columns; ++i) to[i % columns * rows + i / columns] = from[i];
    return out;
  }

  /// Makes the node's products; returns false where it has to stay.
  bool Layer(Node& node) {
    const bool conv = node.op_type == "QLinearConv16";
    const bool gemm = node.op_type == "QGemm16";
    const Tensor* weights = node.constant(3);
    const size_t y_scale = gemm ? 7 : 6, bias_slot = gemm ? 6 : 8;
    const Tensor* bias = conv || gemm ? node.constant(bias_slot) : nullptr;
    if (weights == nullptr || !IsByte(weights->dtype()) || node.inputs[0]->is_constant() ||
        !node.inputs[0]->type.shape || ((conv || gemm) && node.input(bias_slot) && !bias)) {
      return false;
    }
    for (const size_t slot : {size_t{1}, size_t{2}, size_t{4}, y_scale, y_scale + 1}) {
      if (node.input(slot) && node.constant(slot) == nullptr) return false;
    }
    const bool rows = conv || (gemm && node.attributes.Int("transB", 0) != 0);
    const int64_t rank = weights->rank();
    if (conv) {
      const int64_t group = node.attributes.Int("group", 1);
      const bool depthwise = group > 1 && group == weights->dim(0) && weights->dim(1) == 1 &&
                             IsWide(node.inputs[0]->type.dtype);
      if (rank < 3 || rank > 4 || depthwise) return false;
    } else if (rank != 2 || node.attributes.Int("transA", 0) != 0 ||
               node.attributes.Float("alpha", 1) != 1) {
      return false;
    }
    const int64_t channels = weights->dim(rows ? 0 : rank - 1);
    if (channels == 0 || weights->count() == 0) return false;
    if (bias && bias->count() != 1 &&
        (bias->count() != channels || (bias->rank() == 2 && bias->dim(0) != 1))) {
      return false;
    }
    const auto zeros = Zeros(node, channels);
    if (!zeros) return false;
    const int64_t scales = node.constant(4)->count();
    if (scales != 1 && scales != channels) return false;
    const int64_t bound = Bound(node, *weights, *zeros, channels, rows, bias);
    if (bound < 0) return false;
    Emit(node, conv, gemm, y_scale, bias, bound);
    return true;
  }

  /// The largest magnitude of a sum with its bias; -1 where sums of bytes may leave int32.
  static int64_t Bound(const Node& node, const Tensor& weights, const std::vector<int64_t>& zeros,
                       int64_t channels, bool rows, const Tensor* bias) {
    const int64_t depth = weights.count() / channels;
    const Tensor* zero = node.constant(2);
    const int64_t z = zero ? zero->AsInt64(0) : 0;
    const DType dtype = node.inputs[0]->type.dtype;
    const int64_t most = std::max(z - CodeMin(dtype), CodeMax(dtype) - z);
    int64_t largest = 0;
    for (int64_t c = 0; c < channels; ++c) {
      int64_t sum = 0;
      for (int64_t k = 0; k < depth; ++k) {
        const int64_t at = rows ? c * depth + k : k * channels + c;
        sum += std::abs(weights.AsInt64(at) - zeros[static_cast<size_t>(c)]);
      }
      if (sum * 255 > kMostInt32) return -1;
      const int64_t add = bias ? std::abs(bias->AsInt64(bias->count() == 1 ? 0 : c)) : 0;
      largest = std::max(largest, sum * most + add);
    }
    return largest;
  }

  Value* Product(const Node& node, bool conv, Value* data, int64_t zero, Value* weights,
                 const char* which) {
    const Tensor* w_zero = node.constant(5);
    const bool plain = w_zero == nullptr || (w_zero->count() == 1 && w_zero->AsInt64(0) == 0);
    std::vector<Value*> inputs = {data, weights};
    if (zero != 0 || !plain) {
      Tensor scalar(data->type.dtype, {});
      StoreCode(scalar.raw(), data->type.dtype, 0, static_cast<int32_t>(zero));
      inputs.push_back(graph_.AddConstant(node.name + which + "_zero", std::move(scalar)));
    }
    if (!plain) inputs.push_back(node.inputs[5]);
    const std::string name = node.name + which;
    return graph_.AddOp(conv ? "ConvInteger" : "MatMulInteger", "", std::move(inputs), name,
                        {DType::kInt32, node.outputs[0]->type.shape},
                        conv ? node.attributes : AttributeMap(), name);
  }

  void Emit(Node& node, bool conv, bool gemm, size_t y_scale, const Tensor* bias, int64_t bound) {
    Value* x = node.inputs[0];
    const bool wide = IsWide(x->type.dtype);
    const Bytes bytes = Split(x);
    Value* weights = node.inputs[3];
    if (gemm && node.attributes.Int("transB", 0) != 0) {
      weights = graph_.AddConstant(weights->name + "_columns", Transposed(weights->constant));
    }
    const Tensor* zero = node.constant(2);
    const int64_t z = zero ? zero->AsInt64(0) : 0;
    const int64_t z_low = wide ? z & 255 : z;
    Value* high =
        bytes.high ? Product(node, conv, bytes.high, (z - z_low) / 256, weights, "/high") : nullptr;
    Value* low = Product(node, conv, bytes.low, z_low, weights, "/low");
    const std::vector<float> scales = node.constant(4)->ToFloats();
    const float x_scale = node.constant(1)->ToFloats()[0];
    const Tensor* y = node.constant(y_scale);
    std::vector<double> multipliers;
    for (const float scale : scales) {
      multipliers.push_back(WideMultiplier(x_scale, scale, y ? y->ToFloats()[0] : 1));
    }
    const std::string name = node.name;
    std::vector<Value*> inputs = {
        low, graph_.AddConstant(name + "_multiplier", Tensor::Vector(multipliers)), high,
        bias ? graph_.AddConstant(name + "_addend", bias->Reshaped({bias->count()})) : nullptr};
    if (y) {
      Value* zero_point = node.input(y_scale + 1);
      const DType dtype = node.outputs[0]->type.dtype;
      inputs.push_back(zero_point ? zero_point
                                  : graph_.AddConstant(name + "_zero", Tensor(dtype, {})));
    }
    AttributeMap attributes;
    attributes.Set("axis", int64_t{conv ? 1 : -1});
    attributes.Set("bound", bound);
    Value* output = node.outputs[0];
    graph_.EraseNode(&node);
    graph_.AddNode("CombineSums16", kRequantDomain, std::move(inputs), {output},
                   std::move(attributes), name);
  }

  void Concat(Node& node) {
    std::vector<Value*> inputs;
    Value* output = node.outputs[0];
    for (size_t slot = 2; slot + 1 < node.inputs.size(); slot += 3) {
      Value* x = node.inputs[slot];
      Value* zero = node.input(slot + 2);
      const Tensor* own = node.constant(slot + 1);
      const Tensor* scale = node.constant(0);
      const Tensor* own_zero = node.constant(slot + 2);
      const Tensor* y_zero = node.constant(1);
      const auto z = [](const Tensor* tensor) { return tensor ? tensor->AsInt64(0) : 0; };
      const bool same = own && scale && own->AsDouble(0) == scale->AsDouble(0) &&
                        (zero == nullptr || own_zero) && (node.input(1) == nullptr || y_zero) &&
                        z(own_zero) == z(y_zero) && x->type.dtype == output->type.dtype;
      inputs.push_back(
          same ? x
               : graph_.AddOp("Requantize16", kRequantDomain,
                              {x, node.inputs[slot + 1], zero, node.inputs[0], node.input(1)},
                              x->name + "_rescaled", {output->type.dtype, x->type.shape}, {},
                              x->name + "_rescale"));
    }
    AttributeMap attributes;
    attributes.Set("axis", node.attributes.Int("axis", 1));
    const std::string name = node.name;
    graph_.EraseNode(&node);
    graph_.AddNode("Concat", "", std::move(inputs), {output}, std::move(attributes), name);
  }

  Graph& graph_;
  std::map<Value*, Bytes> split_;
};

}  // namespace

bool RewriteWide(Graph& graph) { return WideRewriter(graph).Run(); }

}  // namespace requant
