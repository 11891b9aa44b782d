// Matrix products whose activations become integers while the network runs.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "quant/graph/prepare.h"
#include "quant/weights/products.h"
#include "quant/weights/table_rows.h"

namespace requant {
namespace {

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
  if (!node.Is(Op::kLSTM) || node.attributes.Int("layout", 0) != 0) {
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
void QuantizeDynamicallyIn(BodyScope& scope, bool embeddings, const KeepsFloat& keep = nullptr,
                           std::set<std::string>* done = nullptr) {
  scope.ForEachBody([&](BodyScope& body) { QuantizeDynamicallyIn(body, embeddings, keep, done); });
  if (embeddings) {
    for (const auto& node : scope.graph().nodes()) {
      if (!done || !IsTable(scope, *node)) continue;
      const std::string path = scope.PathOf(*node);
      if (!keep || !keep(path)) done->insert(path);
    }
    QuantizeTables(scope, {}, [&](const Node& node) { return keep && keep(scope.PathOf(node)); });
  }
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

}  // namespace

Graph QuantizeDynamically(const Graph& source, FloatWeights* left, bool embeddings) {
  Graph graph = source.Clone();
  RefreshTypes(graph);
  RaiseOpset(graph);
  BodyScope scope(graph);
  if (left) ListFloat(scope, true, *left, nullptr, embeddings);
  QuantizeDynamicallyIn(scope, embeddings);
  return graph;
}

void QuantizeBodiesDynamically(Graph& graph, const KeepsFloat& keep, FloatWeights& left,
                               std::set<std::string>& quantized, bool embeddings) {
  BodyScope scope(graph);
  scope.ForEachBody([&](BodyScope& body) {
    ListFloat(body, true, left, keep, embeddings);
    QuantizeDynamicallyIn(body, embeddings, keep, &quantized);
  });
  graph.RemoveUnusedValues();
}

}  // namespace requant
