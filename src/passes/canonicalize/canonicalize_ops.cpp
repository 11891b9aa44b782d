// CanonicalizeOps: rewrites several spellings of an operation to one. Each function is one rewrite
// and says Before / After / Conditions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/fold/linear_fold.h"
#include "passes/match/clip.h"
#include "passes/match/patterns.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

/// Before: Constant. After: an initializer. Conditions: no graph output.
bool ConstantToInitializer(Graph& graph, Node* node) {
  if (!node->Is(Op::kConstant) || node->outputs.empty() || node->outputs[0] == nullptr)
    return false;
  Value* output = node->outputs[0];
  if (graph.IsOutput(output) || output->consumers.empty()) return false;
  const AttributeMap& attributes = node->attributes;
  Tensor tensor;
  if (const Tensor* value = attributes.TensorValue("value")) {
    tensor = *value;
  } else if (attributes.Has("value_float")) {
    tensor = Tensor::Scalar(attributes.Float("value_float", 0));
  } else if (attributes.Has("value_floats")) {
    tensor = Tensor::Vector(attributes.Floats("value_floats"));
  } else if (attributes.Has("value_int")) {
    tensor = Tensor::Scalar(attributes.Int("value_int", 0));
  } else if (attributes.Has("value_ints")) {
    tensor = Tensor::Vector(attributes.Ints("value_ints"));
  } else {
    return false;
  }
  graph.MakeConstant(output, std::move(tensor));
  return true;
}

/// Before: Sum(a, b, c...)            After: Add(Add(a, b), c)...
/// Before: Mean(a, b, c...)           After: Mul(Add(Add(a, b), c)..., 1 / n)
/// Before: Min, Max of three and more After: the same of two, of two ...
/// Before: Sum, Mean, Min, Max of one After: its input
bool SplitVariadic(Graph& graph, Node* node) {
  const bool sum = node->Is(Op::kSum);
  const bool mean = node->Is(Op::kMean);
  if (!sum && !mean && !node->Is(Op::kMin) && !node->Is(Op::kMax)) return false;
  if (node->inputs.size() == 1) return node->inputs[0] && Bypass(graph, node, node->inputs[0]);
  const bool complete = std::all_of(node->inputs.begin(), node->inputs.end(),
                                    [](const Value* input) { return input != nullptr; });
  const auto count = static_cast<double>(node->inputs.size());
  if (!complete || (!sum && !mean && count == 2)) return false;
  const std::vector<Value*> rest(node->inputs.begin() + 2, node->inputs.end());
  TruncateInputs(graph, node, 2);
  if (sum || mean) node->Retype(Op::kAdd);
  const DType dtype = node->outputs[0]->type.dtype;
  Node* last = node;
  for (Value* input : rest) last = AppendOp(graph, last, node->op_type, {input}, {dtype, {}});
  if (!mean) return true;
  Tensor share = dtype == DType::kFloat64 ? Tensor::Scalar(1 / count)
                                          : Tensor::Scalar(static_cast<float>(1 / count));
  AppendOp(graph, last, "Mul", {graph.AddConstant("share", std::move(share))},
           last->outputs[0]->type);
  return true;
}

/// The axes of a Reduce operator (attribute, or input from opset 18 on), normalized and sorted.
std::optional<std::vector<int64_t>> ReduceAxes(const Node& node, int64_t rank) {
  std::vector<int64_t> axes = node.attributes.Ints("axes");
  if (node.input(1)) {
    if (node.constant(1) == nullptr) return {};
    axes = node.constant(1)->ToInts();
  }
  for (int64_t& axis : axes) axis = axis < 0 ? axis + rank : axis;
  std::sort(axes.begin(), axes.end());
  return axes;
}

/// Before: ReduceMean(x [N, C, H, W], axes 2 and 3)
/// After:  GlobalAveragePool(x), with Flatten when keepdims is 0
bool MeanToGlobalPool(Graph& graph, Node* node) {
  if (!node->Is(Op::kReduceMean) || RankOf(node->input(0)) != 4 || !IsFloat32(node->input(0))) {
    return false;
  }
  const auto axes = ReduceAxes(*node, 4);
  if (!axes || *axes != std::vector<int64_t>{2, 3}) return false;
  const bool keep = node->attributes.Int("keepdims", 1) != 0;
  const SymbolicShape& x = *node->input(0)->type.shape;
  const ValueType pooled{DType::kFloat32, SymbolicShape{x[0], x[1], 1, 1}};
  node->Retype(Op::kGlobalAveragePool);
  node->attributes = {};
  TruncateInputs(graph, node, 1);
  if (!keep) {
    AttributeMap attributes;
    attributes.Set("axis", int64_t{1});
    AppendOp(graph, node, "Flatten", {}, pooled, std::move(attributes));
  }
  return true;
}

/// Before: AveragePool whose window is the whole image.  After: GlobalAveragePool.
/// Conditions: static spatial size, no padding, no dilation.
bool WholeImagePool(Graph&, Node* node) {
  if (!node->Is(Op::kAveragePool) || RankOf(node->input(0)) < 3) return false;
  const SymbolicShape& x = *node->input(0)->type.shape;
  const std::vector<int64_t> kernel = node->attributes.Ints("kernel_shape");
  if (kernel.size() + 2 != x.size()) return false;
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (!x[i + 2].known() || x[i + 2].value != kernel[i]) return false;
  }
  const auto is = [](int64_t wanted) { return [wanted](int64_t v) { return v == wanted; }; };
  const std::vector<int64_t> pads = node->attributes.Ints("pads");
  const std::vector<int64_t> dilations = node->attributes.Ints("dilations");
  const std::string auto_pad = node->attributes.String("auto_pad", "NOTSET");
  if (!std::all_of(pads.begin(), pads.end(), is(0)) ||
      !std::all_of(dilations.begin(), dilations.end(), is(1)) ||
      (auto_pad != "NOTSET" && auto_pad != "VALID" && !auto_pad.empty())) {
    return false;
  }
  node->Retype(Op::kGlobalAveragePool);
  node->attributes = {};
  return true;
}

Tensor TransposeMatrix(const Tensor& matrix) {
  const int64_t rows = matrix.dim(0);
  const int64_t columns = matrix.dim(1);
  Tensor out(DType::kFloat32, {columns, rows});
  const float* from = matrix.data<float>();
  float* to = out.data<float>();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = *from++;
  }
  return out;
}

Tensor Scaled(const Tensor& tensor, float factor) {
  Tensor out(DType::kFloat32, tensor.shape());
  for (int64_t i = 0; i < tensor.count(); ++i) {
    out.data<float>()[i] = static_cast<float>(tensor.AsDouble(i) * double{factor});
  }
  return out;
}

/// Before: Gemm with transA, or alpha or beta that are not 1.
/// After:  transA = 0 (the constant transposed, or a Transpose in front), alpha and beta multiplied
///   into constant float32 operands.
bool NormalizeGemm(Graph& graph, Node* node) {
  if (!node->Is(Op::kGemm)) return false;
  bool changed = false;
  const auto constant = [node](size_t slot) -> const Tensor* {
    const Tensor* tensor = node->constant(slot);
    return tensor && tensor->dtype() == DType::kFloat32 ? tensor : nullptr;
  };
  if (node->attributes.Int("transA", 0) != 0) {
    if (const Tensor* a = constant(0); a && a->rank() == 2) {
      ReplaceConstant(graph, node, 0, TransposeMatrix(*a), node->input(0)->name + "_transposed");
    } else {
      Value* x = node->input(0);
      ValueType type = x->type;
      if (type.shape && type.shape->size() == 2) std::swap((*type.shape)[0], (*type.shape)[1]);
      AttributeMap attributes;
      attributes.Set("perm", std::vector<int64_t>{1, 0});
      graph.SetInput(node, 0,
                     graph.AddOp("Transpose", "", {x}, x->name + "_transposed", std::move(type),
                                 std::move(attributes)));
    }
    node->attributes.Remove("transA");
    changed = true;
  }
  const float alpha = node->attributes.Float("alpha", 1);
  if (const Tensor* b = constant(1); alpha != 1 && b) {
    ReplaceConstant(graph, node, 1, Scaled(*b, alpha), node->input(1)->name + "_scaled");
    node->attributes.Remove("alpha");
    changed = true;
  }
  const float beta = node->attributes.Float("beta", 1);
  if (const Tensor* c = constant(2); beta != 1 && c) {
    ReplaceConstant(graph, node, 2, Scaled(*c, beta), node->input(2)->name + "_scaled");
    node->attributes.Remove("beta");
    changed = true;
  }
  return changed;
}

/// Before: MatMul(x, W [1, ..., 1, k, n]).  After: MatMul(x, W [k, n]).
/// Conditions: W constant, x of at least as many dimensions.
bool BatchOfOneToMatrix(Graph& graph, Node* node) {
  const Tensor* weights = node->constant(1);
  if (!node->Is(Op::kMatMul) || weights == nullptr || weights->rank() <= 2 ||
      RankOf(node->input(0)) < weights->rank()) {
    return false;
  }
  const Shape& shape = weights->shape();
  if (std::any_of(shape.begin(), shape.end() - 2, [](int64_t dim) { return dim != 1; })) {
    return false;
  }
  ReplaceConstant(graph, node, 1, weights->Reshaped(Shape(shape.end() - 2, shape.end())),
                  node->input(1)->name + "_matrix");
  return true;
}

/// Before: Add(MatMul(x, W), b).  After: Gemm(x, W, b).
/// Conditions: x 2-D; W and b constant float32, b one number per column or one for all; nobody else
///   reads the product.
bool MatMulAddToGemm(Graph& graph, Node* node) {
  if (!node->Is(Op::kAdd)) return false;
  for (const size_t slot : {size_t{0}, size_t{1}}) {
    Value* product = node->input(slot);
    const Tensor* bias = node->constant(1 - slot);
    if (product == nullptr || product->producer == nullptr || bias == nullptr) continue;
    Node* matmul = product->producer;
    if (!matmul->Is(Op::kMatMul) || graph.SoleConsumer(product) != node) continue;
    if (RankOf(matmul->input(0)) != 2 || bias->dtype() != DType::kFloat32) continue;
    const int64_t channels = FoldableChannels(*matmul);
    if (channels == 0) continue;
    const auto shift = PerChannel(*bias, 2, 1, channels);
    if (!shift) continue;
    const std::vector<double> ones(shift->size(), 1.0);
    if (FoldIntoLinear(graph, matmul, ones, *shift)) return Bypass(graph, node, product);
  }
  return false;
}

/// Before: Clip with attributes from opset 11 on; Clip(0, inf); Max(x, 0); Min(Max(x, 0), 6)
/// After:  Clip with inputs; Relu; Relu; Clip
/// Conditions: float32, scalar constant bounds. Chains are merged by SimplifyExpr.
bool NormalizeClip(Graph& graph, Node* node) {
  if (node->Is(Op::kRelu)) return false;
  const std::optional<ClipRange> range = MatchClip(graph, *node);
  if (!range) return false;
  const bool relu = range->low == 0 && std::isinf(range->high);
  const bool old_form = graph.opset() >= 11 && !node->attributes.entries().empty();
  if (node->Is(Op::kClip) && !relu && !old_form) return false;
  MakeClip(graph, node, *range);
  return true;
}

// --- activations and normalizations written out: Gelu in two forms, QuickGelu, SiLU, HardSwish,
// HardSigmoid, Mish, LayerNormalization, RMSNormalization
//
// Conditions: float32; newer operators only where the model's opset has them. Older opsets get Gelu
//   of com.microsoft. ONNX has LayerNormalization from opset 17 on, but onnxruntime has had it in
//   the same domain since opset 1, and writes it there. Before opset 23 onnxruntime's
//   SimplifiedLayerNormalization, in the same domain, stands for RMSNormalization. Formulas:
//   onnx/docs/Operators.md; Hendrycks & Gimpel, "Gaussian Error Linear Units", 2016.

constexpr char kTanhGelu[] = "Mul(0.5,x,Add(1,Tanh(Mul(0.7978845608,Add(x,Mul(0.044715,x,x,x))))))";
constexpr char kTanhGelu2[] =
    "Mul(0.5,x,Add(1,Tanh(Mul(0.7978845608,x,Add(1,Mul(0.044715,x,x))))))";
constexpr char kErfGelu[] = "Mul(0.5,x,Add(1,Erf(Mul(0.7071067812,x))))";
constexpr char kRms[] = "Mul(g,Div(x,Sqrt(Add(e,Mean(Mul(x,x))))))";
constexpr char kRmsOneOver[] = "Mul(g,x,Div(1,Sqrt(Add(e,Mean(Mul(x,x))))))";
constexpr char kRmsReciprocal[] = "Mul(g,x,Reciprocal(Sqrt(Add(e,Mean(Mul(x,x))))))";
constexpr char kRmsPow[] = "Mul(g,x,Pow(Add(e,Mean(Mul(x,x))),-0.5))";
// The centred value that LayerNormalization divides; its bias is merged later.
constexpr char kCentered[] = "Sub(x,Mean(x))";

constexpr PatternRule kSpellings[] = {
    {"Mul(0.1666666667,x,Clip(Add(3,x),0,6))", "HardSwish(x)", 14},
    {"Mul(x,HardSigmoid(x))", "HardSwish(x)", 14},
    {"Mul(0.1666666667,Clip(Add(3,x),0,6))", "HardSigmoid(x)", 1},
    {kErfGelu, "Gelu(x)", 20},
    {kErfGelu, "@Gelu(x)", 1},
    {kTanhGelu, "Gelu~(x)", 20},
    {kTanhGelu, "@FastGelu(x)", 1},
    {kTanhGelu2, "Gelu~(x)", 20},
    {kTanhGelu2, "@FastGelu(x)", 1},
    {"Mul(x,Tanh(Softplus(x)))", "Mish(x)", 18},
    {"Mul(x,Sigmoid(x))", "@Silu(x)", 1},
    {"Mul(x,Sigmoid(Mul(1.702,x)))", "@QuickGelu(x)", 1},
    {"Add(b,Mul(g,Div(Sub(x,Mean(x)),Sqrt(Add(e,Mean(Mul(Sub(x,Mean(x)),Sub(x,Mean(x)))))))))",
     "LayerNormalization(x,g,b)", 1},
    {kRms, "RMSNormalization(x,g)", 23, kCentered},
    {kRms, "SimplifiedLayerNormalization(x,g)", 1, kCentered},
    {kRmsOneOver, "RMSNormalization(x,g)", 23, kCentered},
    {kRmsOneOver, "SimplifiedLayerNormalization(x,g)", 1, kCentered},
    {kRmsReciprocal, "RMSNormalization(x,g)", 23, kCentered},
    {kRmsReciprocal, "SimplifiedLayerNormalization(x,g)", 1, kCentered},
    {kRmsPow, "RMSNormalization(x,g)", 23, kCentered},
    {kRmsPow, "SimplifiedLayerNormalization(x,g)", 1, kCentered},
};

}  // namespace

bool CanonicalizeOps(Graph& graph, PassContext&) {
  return RewriteNodes(graph, [](Graph& g, Node* node) {
    if (!node->domain.empty() || node->outputs.empty() || !node->outputs[0]) return false;
    return ConstantToInitializer(g, node) || SplitVariadic(g, node) || MeanToGlobalPool(g, node) ||
           WholeImagePool(g, node) || NormalizeGemm(g, node) || BatchOfOneToMatrix(g, node) ||
           MatMulAddToGemm(g, node) || NormalizeClip(g, node) || ApplyPatterns(g, node, kSpellings);
  });
}

}  // namespace requant
