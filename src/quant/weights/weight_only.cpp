#include "quant/weights/weight_only.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/graph/body_scope.h"
#include "quant/graph/prepare.h"

namespace requant {
namespace {

/// A product with constant weights: the element of column n and row k lies at n * n_step + k *
/// k_step.
struct Product {
  Node* node = nullptr;
  size_t slot = 1;  // slot of the weights
  const Tensor* tensor = nullptr;
  const float* weights = nullptr;
  int64_t k = 0, n = 0, k_step = 0, n_step = 0;
  int64_t axis = 0;    // axis of k
  bool plain = false;  // A * B (+ C)
  // weights of LSTM, GRU or RNN for the input or the state: [directions, n, k]
  bool recurrent = false;

  Value* value() const { return node->inputs[slot]; }
  /// Suffix in the names of constants derived from the weights: they depend on the order beside the
  /// options.
  const char* order() const { return axis == 1 ? "_t" : ""; }
};

bool IsRecurrent(const Node& node) { return node.Is("LSTM") || node.Is("GRU") || node.Is("RNN"); }

/// Adds both products of a recurrent layer or none: a layer has one kind of weights.
void AddRecurrent(const BodyScope& scope, Node& node, std::vector<Product>& products) {
  std::vector<Product> made;
  for (const size_t slot : {size_t{1}, size_t{2}}) {
    const Tensor* weights = scope.ConstantOf(node.input(slot));
    if (weights == nullptr || weights->dtype() != DType::kFloat32 || weights->rank() != 3 ||
        weights->count() == 0) {
      return;
    }
    Product product;
    product.node = &node;
    product.slot = slot;
    product.tensor = weights;
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

std::vector<Product> FindProducts(const BodyScope& scope) {
  std::vector<Product> products;
  for (const auto& node : scope.graph().nodes()) {
    if (IsRecurrent(*node)) AddRecurrent(scope, *node, products);
    if (!node->Is("MatMul") && !node->Is("Gemm")) continue;
    const Tensor* weights = scope.ConstantOf(node->input(1));
    if (weights == nullptr || weights->dtype() != DType::kFloat32 || weights->rank() != 2) continue;
    const bool transposed = node->attributes.Int("transB", 0) != 0;
    Product product;
    product.node = node.get();
    product.tensor = weights;
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

/// The scale of least squared error for some weights of one column, with codes [-2^(b-1), 2^(b-1) -
/// 1].
float BlockScale(const Product& p, int64_t column, int64_t begin, int64_t end, int bits) {
  float extreme = 0;  // the weight of the largest magnitude, which gets the lowest code
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

/// Replaces the node's result by that of `made`.
void Replace(Graph& graph, Node* node, Value* made) {
  graph.ReplaceAndKeepName(node->outputs[0], made);
  graph.EraseNode(node);
}

Value* AddBias(Graph& graph, const Node& node, Value* product) {
  if (node.input(2) == nullptr) return product;
  return graph.AddOp("Add", "", {product, node.inputs[2]}, node.name + "_biased",
                     node.outputs[0]->type, {}, node.name + "_bias");
}

/// Codes and scales of a product's blocks, in the layout of a blocked DequantizeLinear.
std::pair<Tensor, Tensor> BlockCodes(const Product& p, const WeightOnlyOptions& options) {
  const int64_t blocks = (p.k + options.block - 1) / options.block;
  const Shape shape = p.tensor->shape();
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
  return {std::move(codes), std::move(scale)};
}

/// The two constants that `make` derives from a product's weights, added to the graph that holds
/// the weights.
template <typename Make>
std::pair<Value*, Value*> DerivePair(BodyScope& scope, const Product& p, const char* codes,
                                     const char* scales, const Make& make) {
  std::optional<std::pair<Tensor, Tensor>> made;  // unless another product made them before
  const auto get = [&]() -> std::pair<Tensor, Tensor>& {
    if (!made) made = make();
    return *made;
  };
  Value* first = scope.Derive(p.value(), StrCat(codes, p.order()), [&] { return get().first; });
  Value* second = scope.Derive(p.value(), StrCat(scales, p.order()), [&] { return get().second; });
  return {first, second};
}

void Blocked(BodyScope& scope, const Product& p, const WeightOnlyOptions& options) {
  Graph& graph = scope.graph();
  const std::string name = scope.FreeName(StrCat(p.value()->name, "_dequantized"));
  const SymbolicShape shape = ToSymbolic(p.tensor->shape());
  const auto [codes, scale] =
      DerivePair(scope, p, "_q", "_scale", [&] { return BlockCodes(p, options); });
  AttributeMap attributes;
  attributes.Set("axis", p.axis);
  attributes.Set("block_size", options.block);
  Value* made = graph.AddOp("DequantizeLinear", "", {codes, scale}, name, {DType::kFloat32, shape},
                            std::move(attributes), p.node->name + "_dequantize");
  graph.SetInput(p.node, p.slot, made);
}

/// Codes and scales of a product's blocks, in the layout of MatMulNBits.
std::pair<Tensor, Tensor> NBitsCodes(const Product& p, const WeightOnlyOptions& options) {
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
  return {std::move(codes), std::move(scales)};
}

void NBits(BodyScope& scope, const Product& p, const WeightOnlyOptions& options) {
  if (!p.plain) return;
  Graph& graph = scope.graph();
  const auto [codes, scales] =
      DerivePair(scope, p, "_q", "_scales", [&] { return NBitsCodes(p, options); });
  AttributeMap attributes;
  attributes.Set("K", p.k);
  attributes.Set("N", p.n);
  attributes.Set("bits", int64_t{options.bits});
  attributes.Set("block_size", options.block);
  if (options.int8_activations) attributes.Set("accuracy_level", int64_t{4});
  Value* product = graph.AddOp("MatMulNBits", kMicrosoftDomain, {p.node->inputs[0], codes, scales},
                               scope.FreeName(p.node->name + "_product"), p.node->outputs[0]->type,
                               std::move(attributes), p.node->name + "_nbits");
  Replace(graph, p.node, AddBias(graph, *p.node, product));
}

/// Quantizes to 8 bits with one scale per column, in ONNX's order of a matrix: int8 [parts, k, n]
/// and scales [parts, n]; an ordinary product has no dimension for parts. `parts` is the number of
/// matrices whose columns are side by side.
std::pair<Tensor, Tensor> Columns(const Product& p, int64_t parts) {
  const int64_t n = p.n / parts;
  const bool one = !p.recurrent;
  Tensor codes(DType::kInt8, one ? Shape{p.k, n} : Shape{parts, p.k, n});
  Tensor scales(DType::kFloat32, one ? Shape{n} : Shape{parts, n});
  for (int64_t column = 0; column < p.n; ++column) {
    float largest = 0;
    for (int64_t k = 0; k < p.k; ++k) {
      largest = std::max(largest, std::fabs(p.weights[column * p.n_step + k * p.k_step]));
    }
    const float s = largest > 0 && std::isfinite(largest) ? largest / 127 : 1;
    scales.data<float>()[column] = s;
    for (int64_t k = 0; k < p.k; ++k) {
      codes.data<int8_t>()[(column / n * p.k + k) * n + column % n] =
          static_cast<int8_t>(Code(p, column, k, s, 8));
    }
  }
  return {std::move(codes), std::move(scales)};
}

/// Replaces an LSTM by com.microsoft::DynamicQuantizeLSTM. GRU and RNN have no such operator: their
/// weights become 8-bit integers times their scales, which engines multiply once.
void Recurrent(BodyScope& scope, const Product& w, const Product& r) {
  Graph& graph = scope.graph();
  Node& node = *w.node;
  const int64_t directions = w.tensor->dim(0);
  Value* codes[2];
  Value* scales[2];
  for (const Product* p : {&w, &r}) {
    std::tie(codes[p->slot - 1], scales[p->slot - 1]) =
        DerivePair(scope, *p, "_q", "_scale", [&] { return Columns(*p, directions); });
  }
  if (!node.Is("LSTM") || node.attributes.Int("layout", 0) != 0) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const Product& p = i == 0 ? w : r;
      const Tensor& wanted = *p.tensor;
      const std::string name = scope.FreeName(p.value()->name + "_dequantized");
      const SymbolicShape turned = ToSymbolic({wanted.dim(0), wanted.dim(2), wanted.dim(1)});
      AttributeMap to, perm;
      to.Set("to", int64_t{1});
      perm.Set("perm", std::vector<int64_t>{0, 2, 1});
      Value* real = graph.AddOp("Cast", "", {codes[i]}, name, {DType::kFloat32, turned},
                                std::move(to), name + "_cast");
      Value* scale = scope.Derive(p.value(), "_scale_column", [&] {
        return Columns(p, directions).second.Reshaped({wanted.dim(0), 1, wanted.dim(1)});
      });
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
    const Tensor& tensor = *(i == 0 ? w : r).tensor;
    inputs.push_back(graph.AddConstant(scope.FreeName(scales[i]->name + "_zero"),
                                       Tensor(DType::kInt8, {directions, tensor.dim(1)})));
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

void QuantizeWeightsIn(BodyScope& scope, const WeightOnlyOptions& options) {
  if (options.matmul_nbits) scope.graph().opsets[kMicrosoftDomain] = 1;
  scope.ForEachBody([&](BodyScope& body) { QuantizeWeightsIn(body, options); });
  for (const Product& product : FindProducts(scope)) {
    (options.matmul_nbits && !product.recurrent ? NBits : Blocked)(scope, product, options);
  }
  scope.graph().RemoveUnusedValues();
  scope.graph().SortTopologically();
}

/// Replaces a product by one of integers; `quantized` holds the integers made of the graph's
/// activations so far.
void Dynamic(BodyScope& scope, const Product& p,
             std::map<const Value*, std::vector<Value*>>& quantized) {
  Graph& graph = scope.graph();
  Value* x = p.node->inputs[0];
  std::vector<Value*>& parts = quantized[x];
  if (parts.empty()) {
    const auto add = [&](const char* suffix, ValueType type) {
      return graph.AddValue(scope.FreeName(x->name + suffix), std::move(type));
    };
    parts = {add("_q", {DType::kUint8, x->type.shape}),
             add("_scale", {DType::kFloat32, SymbolicShape{}}),
             add("_zero_point", {DType::kUint8, SymbolicShape{}})};
    graph.AddNode("DynamicQuantizeLinear", "", {x}, parts, {}, x->name + "_quantize");
  }
  const std::string& name = p.node->name;
  const auto& shape = p.node->outputs[0]->type.shape;
  const auto [codes, scale] = DerivePair(scope, p, "_q", "_scale", [&] { return Columns(p, 1); });
  Value* sum =
      graph.AddOp("MatMulInteger", "", {parts[0], codes, parts[2]}, scope.FreeName(name + "_sum"),
                  {DType::kInt32, shape}, {}, name + "_integer");
  AttributeMap to;
  to.Set("to", int64_t{1});
  Value* real = graph.AddOp("Cast", "", {sum}, scope.FreeName(name + "_real"),
                            {DType::kFloat32, shape}, std::move(to), name + "_cast");
  Value* scales = graph.AddOp("Mul", "", {parts[1], scale}, scope.FreeName(name + "_scales"),
                              {DType::kFloat32, ToSymbolic({p.n})}, {}, name + "_scale");
  Value* product = graph.AddOp("Mul", "", {real, scales}, scope.FreeName(name + "_product"),
                               {DType::kFloat32, shape}, {}, name + "_rescale");
  Replace(graph, p.node, AddBias(graph, *p.node, product));
}

/// `done`, if given, collects the paths of the operators that get integers.
void QuantizeDynamicallyIn(BodyScope& scope, const KeepsFloat& keep = nullptr,
                           std::set<std::string>* done = nullptr) {
  scope.ForEachBody([&](BodyScope& body) { QuantizeDynamicallyIn(body, keep, done); });
  std::map<const Value*, std::vector<Value*>> quantized;
  const std::vector<Product> products = FindProducts(scope);
  for (size_t i = 0; i < products.size(); ++i) {
    const Product& p = products[i];
    if (!p.recurrent && !p.plain) continue;
    const std::string path = scope.PathOf(*p.node);
    if (keep && keep(path)) continue;  // both products of a recurrent layer
    if (done) done->insert(path);
    if (p.recurrent) {
      Recurrent(scope, p, products[++i]);
    } else {
      Dynamic(scope, p, quantized);
    }
  }
  scope.graph().RemoveUnusedValues();
  scope.graph().SortTopologically();
}

/// Whether some graph has recurrent layers to quantize.
bool HasRecurrent(BodyScope& scope) {
  const std::vector<Product> products = FindProducts(scope);
  bool found = std::any_of(products.begin(), products.end(),
                           [](const Product& product) { return product.recurrent; });
  scope.ForEachBody([&](BodyScope& body) { found = HasRecurrent(body) || found; });
  return found;
}

/// Why the constant weights in this slot of a node stay float; empty if they do not.
std::string WhyFloat(const BodyScope& scope, const Node& node, size_t slot, const Tensor& weights,
                     bool plain_only) {
  const bool product = node.Is("MatMul") || node.Is("Gemm");
  if (!product && !IsRecurrent(node)) {
    return StrCat(node.op_type, " is no matrix product and no recurrent layer");
  }
  if (weights.dtype() != DType::kFloat32) {
    return StrCat("its weights are ", DTypeName(weights.dtype()));
  }
  if (product && slot != 1) return slot == 0 ? "its first operand is the constant" : "it is a bias";
  if (product && weights.rank() != 2) {
    return StrCat("its weights have ", weights.rank(), " dimensions");
  }
  if (IsRecurrent(node) && (slot == 1 || slot == 2)) {
    const Tensor* other = scope.ConstantOf(node.input(3 - slot));
    if (other && other->dtype() == DType::kFloat32) return "";
    return "only one of its two weights is constant";
  }
  if (!product) return "";
  const bool plain = node.Is("MatMul") || (node.attributes.Int("transA", 0) == 0 &&
                                           node.attributes.Float("alpha", 1) == 1 &&
                                           node.attributes.Float("beta", 1) == 1);
  return plain || !plain_only ? "" : "it has transA, alpha or beta";
}

/// `plain_only`: excludes products with transA, alpha or beta, which have no such form.
void ListFloat(BodyScope& scope, bool plain_only, FloatWeights& out,
               const KeepsFloat& keep = nullptr) {
  for (const auto& node : scope.graph().nodes()) {
    if (node->has_subgraph() || (keep && keep(scope.PathOf(*node)))) continue;
    for (size_t slot = 0; slot < node->inputs.size(); ++slot) {
      const Tensor* weights = scope.ConstantOf(node->inputs[slot]);
      if (weights == nullptr || !AreWeights(*weights)) continue;
      ++out.total;
      std::string reason = WhyFloat(scope, *node, slot, *weights, plain_only);
      if (reason.empty()) continue;
      out.layers.push_back({scope.PathOf(*node), node->op_type, std::move(reason)});
    }
  }
  scope.ForEachBody([&](BodyScope& body) { ListFloat(body, plain_only, out, keep); });
}

}  // namespace

Graph QuantizeWeightsOnly(const Graph& source, const WeightOnlyOptions& options,
                          FloatWeights* left) {
  if (options.bits != 4 && options.bits != 8) {
    Fail(ErrorCode::kInvalidArgument, StrCat("weights alone take 4 or 8 bits, not ", options.bits));
  }
  if (options.block < 16 || !std::has_single_bit(static_cast<uint64_t>(options.block))) {
    Fail(ErrorCode::kInvalidArgument, StrCat("a block of ", options.block, " is not possible"),
         {.hint = "use a power of two from 16 on"});
  }
  Graph graph = source.Clone();
  BodyScope scope(graph);
  if (left) ListFloat(scope, options.matmul_nbits, *left);
  if (!options.matmul_nbits || HasRecurrent(scope)) {
    RefreshTypes(graph);
    RaiseOpset(graph, 21);
  }
  QuantizeWeightsIn(scope, options);
  return graph;
}

Graph QuantizeDynamically(const Graph& source, FloatWeights* left) {
  Graph graph = source.Clone();
  RefreshTypes(graph);
  RaiseOpset(graph);
  BodyScope scope(graph);
  if (left) ListFloat(scope, true, *left);
  QuantizeDynamicallyIn(scope);
  return graph;
}

void QuantizeBodiesDynamically(Graph& graph, const KeepsFloat& keep, FloatWeights& left,
                               std::set<std::string>& quantized) {
  BodyScope scope(graph);
  scope.ForEachBody([&](BodyScope& body) {
    ListFloat(body, true, left, keep);
    QuantizeDynamicallyIn(body, keep, &quantized);
  });
  graph.RemoveUnusedValues();
}

}  // namespace requant
