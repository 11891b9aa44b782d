// Matrix products whose activations become integers while the network runs.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/str_cat.h"
#include "numeric/row_codes.h"
#include "ops/attention/int8_attention.h"
#include "quant/graph/prepare.h"
#include "quant/weights/products.h"
#include "quant/weights/table_rows.h"

namespace requant {
namespace {

/// Quantizes to `bits` (7 or 8) with one scale per column, in ONNX's order of a matrix: int8
/// [parts, k, n] and scales [parts, n]; an ordinary product has no dimension for parts. `parts` is
/// the number of matrices whose columns are side by side.
std::pair<Tensor, Tensor> Columns(const Product& p, int64_t parts, int bits = 8) {
  const int64_t n = p.n / parts;
  const bool one = !p.recurrent;
  Tensor codes(DType::kInt8, one ? Shape{p.k, n} : Shape{parts, p.k, n});
  Tensor scales(DType::kFloat32, one ? Shape{n} : Shape{parts, n});
  for (int64_t column = 0; column < p.n; ++column) {
    float largest = 0;
    for (int64_t k = 0; k < p.k; ++k) {
      largest = std::max(largest, std::fabs(p.weights[column * p.n_step + k * p.k_step]));
    }
    const float most = bits == 7 ? 63 : 127;
    const float s = largest > 0 && std::isfinite(largest) ? largest / most : 1;
    scales.data<float>()[column] = s;
    for (int64_t k = 0; k < p.k; ++k) {
      codes.data<int8_t>()[(column / n * p.k + k) * n + column % n] =
          static_cast<int8_t>(Code(p, column, k, s, bits));
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

/// Values that the products of a graph share.
struct Shared {
  std::map<const Value*, std::vector<Value*>> codes;  // of activations, with scales and zero points
  std::map<std::string, Value*> constants;
};

/// Replaces a product by one of integers, with one scale for all of its activations.
void Dynamic(BodyScope& scope, const Product& p, int bits, Shared& shared) {
  Graph& graph = scope.graph();
  Value* x = p.node->inputs[0];
  std::vector<Value*>& parts = shared.codes[x];
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
  const auto [codes, scale] =
      DerivePair(scope, p, "_q", "_scale", [&] { return Columns(p, 1, bits); });
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

/// Appends operators with one result to a graph and names them after a node.
class Chain {
 public:
  Chain(BodyScope& scope, Shared& shared, std::string name)
      : scope_(scope), shared_(shared), name_(std::move(name)) {}

  Value* Add(const char* op, std::vector<Value*> inputs, const char* suffix, DType dtype,
             const std::optional<SymbolicShape>& shape, AttributeMap attributes = {}) {
    const std::string name = StrCat(name_, "_", suffix);
    return scope_.graph().AddOp(op, "", std::move(inputs), scope_.FreeName(name), {dtype, shape},
                                std::move(attributes), name);
  }
  Value* Cast(Value* value, DType dtype, const char* suffix) {
    AttributeMap to;
    to.Set("to", static_cast<int64_t>(dtype));
    return Add("Cast", {value}, suffix, dtype, value->type.shape, std::move(to));
  }
  /// The constant of that name, which all products share.
  Value* Constant(const char* name, Tensor tensor) {
    Value*& constant = shared_.constants[name];
    if (constant == nullptr) {
      constant = scope_.graph().AddConstant(scope_.FreeName(name), std::move(tensor));
    }
    return constant;
  }
  /// Rounds floats to bytes.
  Value* Bytes(Value* value, const char* suffix) {
    Value* one = Constant("row_one", Tensor::Scalar(1.0F));
    Value* zero = Constant("row_code_zero", Tensor::Scalar(uint8_t{0}));
    return Add("QuantizeLinear", {value, one, zero}, suffix, DType::kUint8, value->type.shape);
  }

 private:
  BodyScope& scope_;
  Shared& shared_;
  std::string name_;
};

/// The codes, scales and zero points of rows, by the operators that the pass FuseRowCodes knows.
std::vector<Value*> RowCodes(BodyScope& scope, Shared& shared, Value* x) {
  constexpr DType kFloat = DType::kFloat32;
  Chain chain(scope, shared, x->name);
  const std::optional<SymbolicShape>& whole = x->type.shape;
  std::optional<SymbolicShape> rows = whole;
  if (rows && !rows->empty()) rows->back() = Dim(1);
  Value* none = chain.Constant("row_zero", Tensor::Scalar(0.0F));
  // Since opset 18 the axes are an input (onnx docs/Changelog.md).
  const auto reduce = [&](const char* op, const char* suffix) {
    std::vector<Value*> inputs = {x};
    AttributeMap attributes;
    if (scope.graph().opset() >= 18) {
      inputs.push_back(chain.Constant("row_axis", Tensor::Vector<int64_t>({-1})));
    } else {
      attributes.Set("axes", std::vector<int64_t>{-1});
    }
    return chain.Add(op, inputs, suffix, kFloat, rows, std::move(attributes));
  };
  Value* lo = chain.Add("Min", {reduce("ReduceMin", "least"), none}, "lo", kFloat, rows);
  Value* hi = chain.Add("Max", {reduce("ReduceMax", "most"), none}, "hi", kFloat, rows);
  Value* range = chain.Add("Sub", {hi, lo}, "range", kFloat, rows);
  Value* share = chain.Constant("row_share", Tensor::Scalar(kRowShare));
  Value* step = chain.Add("Mul", {range, share}, "step", kFloat, rows);
  Value* smallest = chain.Constant("row_least_scale", Tensor::Scalar(kLeastRowScale));
  Value* scales = chain.Add("Max", {step, smallest}, "scale", kFloat, rows);
  Value* below = chain.Add("Div", {lo, scales}, "below", kFloat, rows);
  Value* above = chain.Add("Neg", {below}, "above", kFloat, rows);
  Value* zeros = chain.Bytes(above, "zero_point");
  Value* steps = chain.Add("Div", {x, scales}, "steps", kFloat, whole);
  Value* whole_steps = chain.Add("Round", {steps}, "rounded", kFloat, whole);
  Value* moved =
      chain.Add("Add", {whole_steps, chain.Cast(zeros, kFloat, "offset")}, "moved", kFloat, whole);
  return {chain.Bytes(moved, "q"), scales, zeros};
}

/// Replaces a product by one of integers, with a scale for every row of its activations.
void DynamicByRow(BodyScope& scope, const Product& p, int bits, Shared& shared) {
  constexpr DType kInteger = DType::kInt32, kFloat = DType::kFloat32;
  Value* x = p.node->inputs[0];
  std::vector<Value*>& parts = shared.codes[x];
  if (parts.empty()) parts = RowCodes(scope, shared, x);
  const auto [codes, scale] =
      DerivePair(scope, p, "_q", "_scale", [&] { return Columns(p, 1, bits); });
  Value* columns = scope.Derive(p.value(), StrCat("_column_sums", p.order()),
                                [&] { return ColumnSums(Columns(p, 1, bits).first); });
  Chain chain(scope, shared, p.node->name);
  const auto& shape = p.node->outputs[0]->type.shape;
  Value* sum = chain.Add("MatMulInteger", {parts[0], codes}, "sum", kInteger, shape);
  Value* zeros = chain.Cast(parts[2], kInteger, "zeros");
  Value* less = chain.Add("Mul", {zeros, columns}, "less", kInteger, shape);
  Value* exact = chain.Add("Sub", {sum, less}, "exact", kInteger, shape);
  Value* real = chain.Cast(exact, kFloat, "real");
  Value* scaled = chain.Add("Mul", {real, scale}, "scaled", kFloat, shape);
  Value* product = chain.Add("Mul", {scaled, parts[1]}, "product", kFloat, shape);
  Replace(scope.graph(), p.node, AddBias(scope.graph(), *p.node, product));
}

/// `done`, if given, collects the paths of the operators that get integers.
void QuantizeDynamicallyIn(BodyScope& scope, const DynamicForm& form,
                           const KeepsFloat& keep = nullptr,
                           std::set<std::string>* done = nullptr) {
  scope.ForEachBody([&](BodyScope& body) { QuantizeDynamicallyIn(body, form, keep, done); });
  if (form.embeddings) {
    for (const auto& node : scope.graph().nodes()) {
      if (!done || !IsTable(scope, *node)) continue;
      const std::string path = scope.PathOf(*node);
      if (!keep || !keep(path)) done->insert(path);
    }
    QuantizeTables(scope, {}, [&](const Node& node) { return keep && keep(scope.PathOf(node)); });
  }
  Shared shared;
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
      (form.by_row ? DynamicByRow : Dynamic)(scope, p, form.weight_bits, shared);
    }
  }
  scope.graph().RemoveUnusedValues();
  scope.graph().SortTopologically();
}

/// Whether the graph or a body in it has attention, as an operator or around a Softmax.
bool HasAttention(const Graph& graph) {
  const auto is_part = [](const Node& node) {
    return node.Is(Op::kSoftmax) || IsAttentionOperator(node);
  };
  bool found = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                           [&](const auto& node) { return is_part(*node); });
  VisitBodies(graph, [&](const std::string&, const Node& node, const Node&) {
    found = found || is_part(node);
  });
  return found;
}

}  // namespace

Graph QuantizeDynamically(const Graph& source, FloatWeights* left, const DynamicForm& form) {
  if (form.weight_bits != 7 && form.weight_bits != 8) {
    Fail(ErrorCode::kInvalidArgument, StrCat("weights of ", form.weight_bits, " bits"),
         {.hint = "products with ranges measured at run time have weights of 7 or 8 bits; "
                  "quantizeWeights() takes fewer"});
  }
  Graph graph = source.Clone();
  RefreshTypes(graph);
  RaiseOpset(graph);
  BodyScope scope(graph);
  if (left) ListFloat(scope, true, *left, nullptr, form.embeddings);
  if (form.int8_attention && HasAttention(graph)) AllowInt8Attention(graph);
  QuantizeDynamicallyIn(scope, form);
  return graph;
}

void QuantizeBodiesDynamically(Graph& graph, const KeepsFloat& keep, FloatWeights& left,
                               std::set<std::string>& quantized, bool embeddings) {
  BodyScope scope(graph);
  scope.ForEachBody([&](BodyScope& body) {
    ListFloat(body, true, left, keep, embeddings);
    QuantizeDynamicallyIn(body, {.embeddings = embeddings, .by_row = true}, keep, &quantized);
  });
  graph.RemoveUnusedValues();
}

}  // namespace requant
