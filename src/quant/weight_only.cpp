#include "quant/weight_only.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/prepare.h"

namespace requant {
namespace {

/// A product with constant weights: column n, row k at n * n_step + k * k_step.
struct Product {
  Node* node = nullptr;
  size_t slot = 1;  // of the weights
  const float* weights = nullptr;
  int64_t k = 0, n = 0, k_step = 0, n_step = 0;
  int64_t axis = 0;        // of k
  bool plain = false;      // A * B (+ C)
  bool recurrent = false;  // of LSTM, GRU or RNN, by the input or by the state: [directions, n, k]
};

bool IsRecurrent(const Node& node) { return node.Is("LSTM") || node.Is("GRU") || node.Is("RNN"); }

/// Both or nothing: a layer has one kind of weights.
void AddRecurrent(Node& node, std::vector<Product>& products) {
  std::vector<Product> made;
  for (const size_t slot : {size_t{1}, size_t{2}}) {
    const Tensor* weights = node.constant(slot);
    if (weights == nullptr || weights->dtype() != DType::kFloat32 || weights->rank() != 3 ||
        weights->count() == 0) {
      return;
    }
    Product product;
    product.node = &node;
    product.slot = slot;
    product.weights = weights->data<float>();
    product.k = product.n_step = weights->dim(2);
    product.n = weights->count() / product.k;
    product.k_step = 1;
    product.axis = 2;
    product.recurrent = true;
    made.push_back(product);
  }
  products.insert(products.end(), made.begin(), made.end());
}

std::vector<Product> FindProducts(const Graph& graph) {
  std::vector<Product> products;
  for (const auto& node : graph.nodes()) {
    if (IsRecurrent(*node)) AddRecurrent(*node, products);
    if (!node->Is("MatMul") && !node->Is("Gemm")) continue;
    const Tensor* weights = node->constant(1);
    if (weights == nullptr || weights->dtype() != DType::kFloat32 || weights->rank() != 2) continue;
    const bool transposed = node->attributes.Int("transB", 0) != 0;
    Product product;
    product.node = node.get();
    product.weights = weights->data<float>();
    product.k = weights->dim(transposed ? 1 : 0);
    product.n = weights->dim(transposed ? 0 : 1);
    product.k_step = transposed ? 1 : product.n;
    product.n_step = transposed ? product.k : 1;
    product.axis = transposed ? 1 : 0;
    product.plain = node->Is("MatMul") || (node->attributes.Int("transA", 0) == 0 &&
                                           node->attributes.Float("alpha", 1) == 1 &&
                                           node->attributes.Float("beta", 1) == 1);
    if (product.k > 0 && product.n > 0) products.push_back(product);
  }
  return products;
}

/// The scale of least squared error for some weights of one column, codes [-2^(b-1), 2^(b-1) - 1].
float BlockScale(const Product& p, int64_t column, int64_t begin, int64_t end, int bits) {
  float extreme = 0;  // the one of the largest magnitude, which takes the lowest code
  for (int64_t k = begin; k < end; ++k) {
    const float w = p.weights[column * p.n_step + k * p.k_step];
    if (std::fabs(w) > std::fabs(extreme)) extreme = w;
  }
  if (extreme == 0 || !std::isfinite(extreme)) return 1;
  const double low = -std::ldexp(1, bits - 1);
  double best = static_cast<double>(std::fabs(extreme)) / -low;
  double least = HUGE_VAL;
  for (int step = 0; step < 24; ++step) {
    const double scale =
        static_cast<double>(std::fabs(extreme)) / (-low - 1) * (1.02 - 0.02 * step);
    double error = 0;
    for (int64_t k = begin; k < end; ++k) {
      const auto w = static_cast<double>(p.weights[column * p.n_step + k * p.k_step]);
      const double d = w - scale * std::clamp(std::nearbyint(w / scale), low, -low - 1);
      error += d * d;
    }
    if (error < least) {
      least = error;
      best = scale;
    }
  }
  return static_cast<float>(best);
}

int Code(const Product& p, int64_t column, int64_t k, float scale, int bits) {
  const float low = -std::ldexp(1.0f, bits - 1);
  const float w = p.weights[column * p.n_step + k * p.k_step];
  return static_cast<int>(std::clamp(std::nearbyint(w / scale), low, -low - 1));
}

/// The node's result is now that of `made`.
void Replace(Graph& graph, Node* node, Value* made) {
  graph.ReplaceAndKeepName(node->outputs[0], made);
  graph.EraseNode(node);
}

Value* AddBias(Graph& graph, const Node& node, Value* product) {
  if (node.input(2) == nullptr) return product;
  return graph.AddOp("Add", "", {product, node.inputs[2]}, node.name + "_biased",
                     node.outputs[0]->type, {}, node.name + "_bias");
}

void Blocked(Graph& graph, const Product& p, const WeightOnlyOptions& options) {
  const int64_t blocks = (p.k + options.block - 1) / options.block;
  const Shape shape = p.node->inputs[p.slot]->constant.shape();
  const bool rows_are_k = p.axis == 0;
  Shape scales = shape;
  scales[static_cast<size_t>(p.axis)] = blocks;
  Tensor scale(DType::kFloat32, scales);
  Tensor codes(options.bits == 4 ? DType::kInt4 : DType::kInt8, shape);
  auto* bytes = static_cast<uint8_t*>(codes.raw());
  for (int64_t column = 0; column < p.n; ++column) {
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = block * options.block;
      const int64_t end = std::min(p.k, begin + options.block);
      const float s = BlockScale(p, column, begin, end, options.bits);
      scale.data<float>()[rows_are_k ? block * p.n + column : column * blocks + block] = s;
      for (int64_t k = begin; k < end; ++k) {
        const int64_t at = column * p.n_step + k * p.k_step;
        const auto code = static_cast<uint8_t>(Code(p, column, k, s, options.bits));
        if (options.bits == 8) {
          bytes[at] = code;
        } else {
          bytes[at / 2] |= static_cast<uint8_t>((code & 15) << (at % 2 * 4));
        }
      }
    }
  }
  const std::string name = p.node->inputs[p.slot]->name;
  AttributeMap attributes;
  attributes.Set("axis", p.axis);
  attributes.Set("block_size", options.block);
  Value* made = graph.AddOp("DequantizeLinear", "",
                            {graph.AddConstant(name + "_q", std::move(codes)),
                             graph.AddConstant(name + "_scale", std::move(scale))},
                            name + "_dequantized", {DType::kFloat32, ToSymbolic(shape)},
                            std::move(attributes), name + "_dequantize");
  graph.SetInput(p.node, p.slot, made);
}

void NBits(Graph& graph, const Product& p, const WeightOnlyOptions& options) {
  if (!p.plain) return;
  const int64_t blocks = (p.k + options.block - 1) / options.block;
  const int64_t blob = options.block * options.bits / 8;
  const int half = 1 << (options.bits - 1);
  Tensor codes(DType::kUint8, {p.n, blocks, blob});
  Tensor scales(DType::kFloat32, {p.n * blocks});
  auto* bytes = codes.data<uint8_t>();
  for (int64_t column = 0; column < p.n; ++column) {
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = block * options.block;
      const int64_t end = std::min(p.k, begin + options.block);
      const float s = BlockScale(p, column, begin, end, options.bits);
      scales.data<float>()[column * blocks + block] = s;
      uint8_t* to = bytes + (column * blocks + block) * blob;
      for (int64_t i = 0; i < options.block; ++i) {
        const int code = (begin + i < end ? Code(p, column, begin + i, s, options.bits) : 0) + half;
        if (options.bits == 8) {
          to[i] = static_cast<uint8_t>(code);
        } else {
          to[i / 2] |= static_cast<uint8_t>(code << (i % 2 * 4));
        }
      }
    }
  }
  const std::string name = p.node->inputs[1]->name;
  AttributeMap attributes;
  attributes.Set("K", p.k);
  attributes.Set("N", p.n);
  attributes.Set("bits", int64_t{options.bits});
  attributes.Set("block_size", options.block);
  if (options.int8_activations) attributes.Set("accuracy_level", int64_t{4});
  Value* product = graph.AddOp("MatMulNBits", kMicrosoftDomain,
                               {p.node->inputs[0], graph.AddConstant(name + "_q", std::move(codes)),
                                graph.AddConstant(name + "_scales", std::move(scales))},
                               p.node->name + "_product", p.node->outputs[0]->type,
                               std::move(attributes), p.node->name + "_nbits");
  Replace(graph, p.node, AddBias(graph, *p.node, product));
}

struct ColumnCodes {
  Tensor codes;  // int8 [parts, k, n], or without parts if there is only one
  Tensor scale;  // [parts, n]
};

/// 8 bits with a scale for each column, in ONNX's order of a matrix: [k, n]. `parts`: the columns
/// are those of so many matrices.
ColumnCodes Columns(const Product& p, int64_t parts) {
  const int64_t n = p.n / parts;
  const bool one = !p.recurrent;
  ColumnCodes out{Tensor(DType::kInt8, one ? Shape{p.k, n} : Shape{parts, p.k, n}),
                  Tensor(DType::kFloat32, one ? Shape{n} : Shape{parts, n})};
  for (int64_t column = 0; column < p.n; ++column) {
    float largest = 0;
    for (int64_t k = 0; k < p.k; ++k) {
      largest = std::max(largest, std::fabs(p.weights[column * p.n_step + k * p.k_step]));
    }
    const float s = largest > 0 && std::isfinite(largest) ? largest / 127 : 1;
    out.scale.data<float>()[column] = s;
    for (int64_t k = 0; k < p.k; ++k) {
      out.codes.data<int8_t>()[(column / n * p.k + k) * n + column % n] =
          static_cast<int8_t>(Code(p, column, k, s, 8));
    }
  }
  return out;
}

/// LSTM -> com.microsoft::DynamicQuantizeLSTM. GRU and RNN have no such operator: their weights are
/// 8-bit integers times their scales, which engines compute once.
void Recurrent(Graph& graph, const Product& w, const Product& r) {
  Node& node = *w.node;
  const int64_t directions = node.inputs[1]->constant.dim(0);
  Value* codes[2];
  Value* scales[2];
  for (const Product* p : {&w, &r}) {
    auto [integers, scale] = Columns(*p, directions);
    const std::string& name = node.inputs[p->slot]->name;
    codes[p->slot - 1] = graph.AddConstant(name + "_q", std::move(integers));
    scales[p->slot - 1] = graph.AddConstant(name + "_scale", std::move(scale));
  }
  if (!node.Is("LSTM") || node.attributes.Int("layout", 0) != 0) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const Tensor& wanted = node.inputs[i + 1]->constant;
      const std::string name = node.inputs[i + 1]->name + "_dequantized";
      const SymbolicShape turned = ToSymbolic({wanted.dim(0), wanted.dim(2), wanted.dim(1)});
      AttributeMap to, perm;
      to.Set("to", int64_t{1});
      perm.Set("perm", std::vector<int64_t>{0, 2, 1});
      Value* real = graph.AddOp("Cast", "", {codes[i]}, name, {DType::kFloat32, turned},
                                std::move(to), name + "_cast");
      Value* scale = graph.AddConstant(
          name + "_scale", scales[i]->constant.Reshaped({wanted.dim(0), 1, wanted.dim(1)}));
      Value* scaled = graph.AddOp("Mul", "", {real, scale}, name, {DType::kFloat32, turned}, {},
                                  name + "_rescale");
      graph.SetInput(&node, i + 1,
                     graph.AddOp("Transpose", "", {scaled}, name,
                                 {DType::kFloat32, ToSymbolic(wanted.shape())}, std::move(perm),
                                 name + "_turn"));
    }
    return;
  }
  std::vector<Value*> inputs = node.inputs;
  inputs.resize(8);
  std::vector<Value*> outputs;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    inputs[i + 1] = codes[i];
    inputs.push_back(scales[i]);
    inputs.push_back(graph.AddConstant(scales[i]->name + "_zero",
                                       Tensor(DType::kInt8, scales[i]->constant.shape())));
  }
  for (Value* output : node.outputs) {
    outputs.push_back(output ? graph.AddValue(output->name + "_dynamic", output->type) : nullptr);
  }
  graph.opsets[kMicrosoftDomain] = 1;
  AttributeMap attributes = node.attributes;
  attributes.Remove("layout");
  graph.AddNode("DynamicQuantizeLSTM", kMicrosoftDomain, std::move(inputs), outputs,
                std::move(attributes), node.name + "_dynamic");
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i]) graph.ReplaceAndKeepName(node.outputs[i], outputs[i]);
  }
  graph.EraseNode(&node);
}

}  // namespace

Graph QuantizeWeightsOnly(const Graph& source, const WeightOnlyOptions& options) {
  if (options.bits != 4 && options.bits != 8) {
    Fail(ErrorCode::kInvalidArgument, StrCat("weights alone take 4 or 8 bits, not ", options.bits));
  }
  if (options.block < 16 || !std::has_single_bit(static_cast<uint64_t>(options.block))) {
    Fail(ErrorCode::kInvalidArgument, StrCat("a block of ", options.block, " is not possible"),
         {.hint = "use a power of two from 16 on"});
  }
  Graph graph = source.Clone();
  const std::vector<Product> products = FindProducts(graph);
  const bool blocked = !options.matmul_nbits ||
                       std::any_of(products.begin(), products.end(),
                                   [](const Product& product) { return product.recurrent; });
  if (options.matmul_nbits) graph.opsets[kMicrosoftDomain] = 1;
  if (blocked) {
    RefreshTypes(graph);
    RaiseOpset(graph, 21);
  }
  for (const Product& product : products) {
    (options.matmul_nbits && !product.recurrent ? NBits : Blocked)(graph, product, options);
  }
  graph.RemoveUnusedValues();
  graph.SortTopologically();
  return graph;
}

Graph QuantizeDynamically(const Graph& source) {
  Graph graph = source.Clone();
  RefreshTypes(graph);
  RaiseOpset(graph);
  std::map<const Value*, std::vector<Value*>> quantized;
  const std::vector<Product> products = FindProducts(graph);
  for (size_t i = 0; i < products.size(); ++i) {
    const Product& p = products[i];
    if (p.recurrent) {
      Recurrent(graph, p, products[++i]);
      continue;
    }
    if (!p.plain) continue;
    const auto [codes, scale] = Columns(p, 1);
    Value* x = p.node->inputs[0];
    std::vector<Value*>& parts = quantized[x];
    if (parts.empty()) {
      parts = {graph.AddValue(x->name + "_q", {DType::kUint8, x->type.shape}),
               graph.AddValue(x->name + "_scale", {DType::kFloat32, SymbolicShape{}}),
               graph.AddValue(x->name + "_zero_point", {DType::kUint8, SymbolicShape{}})};
      graph.AddNode("DynamicQuantizeLinear", "", {x}, parts, {}, x->name + "_quantize");
    }
    const std::string& name = p.node->name;
    const auto& shape = p.node->outputs[0]->type.shape;
    Value* sum =
        graph.AddOp("MatMulInteger", "",
                    {parts[0], graph.AddConstant(p.node->inputs[1]->name + "_q", codes), parts[2]},
                    name + "_sum", {DType::kInt32, shape}, {}, name + "_integer");
    AttributeMap to;
    to.Set("to", int64_t{1});
    Value* real = graph.AddOp("Cast", "", {sum}, name + "_real", {DType::kFloat32, shape},
                              std::move(to), name + "_cast");
    Value* scales = graph.AddOp(
        "Mul", "", {parts[1], graph.AddConstant(p.node->inputs[1]->name + "_scale", scale)},
        name + "_scales", {DType::kFloat32, ToSymbolic({p.n})}, {}, name + "_scale");
    Value* product = graph.AddOp("Mul", "", {real, scales}, name + "_product",
                                 {DType::kFloat32, shape}, {}, name + "_rescale");
    Replace(graph, p.node, AddBias(graph, *p.node, product));
  }
  graph.RemoveUnusedValues();
  graph.SortTopologically();
  return graph;
}

}  // namespace requant
