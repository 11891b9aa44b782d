// Operators that are defined by other operators. Each has a body, a text in the form of ir/text.h
// made for one node. Inference and reference use that graph; the pass InlineControlFlow replaces
// the node by it, so that optimizer, quantizer and kernels meet only the operators inside.
//
// ONNX Runtime docs/ContribOperators.md has the formulas of com.microsoft, ONNX docs/Operators.md
// those of ONNX.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/text.h"
#include "ops/control/subgraph.h"
#include "ops/function/function_text.h"
#include "ops/infer_util.h"
#include "ops/matrix/matmul_nbits.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

/// Writes `y = <activation>(x)` by the name and parameters that fused operators carry.
void Activate(FunctionText& text, const std::string& x, const std::string& y) {
  const AttributeMap& attributes = text.node().attributes;
  const std::string name = attributes.String("activation", "");
  const std::vector<float> p = attributes.Floats("activation_params");
  const auto parameter = [&p](size_t i, float fallback) {
    return FunctionText::Real(i < p.size() ? p[i] : fallback);
  };
  if (name.empty()) return text.Line("$0 = Identity($1)", y, x);
  if (name == "Relu" || name == "Sigmoid" || name == "Tanh") {
    return text.Line("$0 = $1($2)", y, name, x);
  }
  if (name == "LeakyRelu") {
    const float alpha = p.empty() ? attributes.Float("activation_alpha", 0.01F) : p[0];
    return text.Line("$0 = LeakyRelu($1) {alpha = $2}", y, x, FunctionText::Real(alpha));
  }
  if (name == "HardSigmoid") {
    return text.Line("$0 = HardSigmoid($1) {alpha = $2, beta = $3}", y, x, parameter(0, 0.2F),
                     parameter(1, 0.5F));
  }
  if (name == "Clip") {
    if (text.opset() < 11) {
      return text.Line("$0 = Clip($1) {min = $2, max = $3}", y, x, parameter(0, -3.4e38F),
                       parameter(1, 3.4e38F));
    }
    text.Scalar("low", p.empty() ? -INFINITY : p[0]);
    text.Scalar("high", p.size() < 2 ? INFINITY : p[1]);
    return text.Line("$0 = Clip($1, %low, %high)", y, x);
  }
  Fail(ErrorCode::kUnsupported,
       StrCat("activation ", name, " in ", text.node().domain, "::", text.node().op_type));
}

void BiasGelu(FunctionText& text) {
  text.Line(
      "%sum = Add(%i0, %i1)\n"
      "%y = com.microsoft::Gelu(%sum)");
  text.Line("output %y");
}

void FusedConv(FunctionText& text) {
  const std::string attributes =
      text.AttributesWithout({"activation", "activation_params", "activation_alpha"});
  text.Line("%conv = Conv(%i0, %i1$0) $1", text.Has(2) ? ", %i2" : "", attributes);
  Activate(text, text.Plus("%conv", 3), "%y");
  text.Line("output %y");
}

void FusedGemm(FunctionText& text) {
  const std::string attributes = text.AttributesWithout(
      {"activation", "activation_alpha", "activation_beta", "activation_gamma"});
  text.Line("%gemm = Gemm(%i0, %i1$0) $1", text.Has(2) ? ", %i2" : "", attributes);
  Activate(text, "%gemm", "%y");
  text.Line("output %y");
}

void FusedMatMul(FunctionText& text) {
  const AttributeMap& attributes = text.node().attributes;
  std::string operands[2] = {"%i0", "%i1"};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const bool swaps = attributes.Int(i == 0 ? "transA" : "transB", 0) != 0;
    const bool batches = attributes.Int(i == 0 ? "transBatchA" : "transBatchB", 0) != 0;
    if (!swaps && !batches) continue;
    const ValueType& type = text.node().inputs[i]->type;
    if (!type.shape) return text.Wait();
    const size_t rank = type.shape->size();
    if (rank < 2) continue;
    std::vector<int64_t> order = Sequence(static_cast<int64_t>(rank));
    // The rows precede the batches and move behind them.
    if (batches) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
    if (swaps) std::swap(order[rank - 2], order[rank - 1]);
    std::string perm;
    for (const int64_t axis : order) perm += StrCat(perm.empty() ? "" : ", ", axis);
    text.Line("%t$0 = Transpose($1) {perm = [$2]}", i, operands[i], perm);
    operands[i] = StrCat("%t", i);
  }
  text.Line("%product = MatMul($0, $1)", operands[0], operands[1]);
  text.Scalar("alpha", attributes.Float("alpha", 1));
  text.Line("%y = Mul(%product, %alpha)");
  text.Line("output %y");
}

/// Inputs x, skip, gamma, beta, bias; outputs y, mean, deviation, sum.
void SkipLayerNorm(FunctionText& text) {
  const bool simple = text.node().op_type == "SkipSimplifiedLayerNormalization";
  text.Line("%skipped = Add(%i0, %i1)");
  const std::string sum = text.Plus("%skipped", simple ? 3 : 4);
  const std::string epsilon = FunctionText::Real(text.node().attributes.Float("epsilon", 1e-12F));
  for (const size_t slot : {1, 2}) {
    if (text.node().output(slot)) {
      Fail(ErrorCode::kUnsupported, "SkipLayerNormalization with mean and deviation as outputs");
    }
  }
  if (simple) {
    text.Line("%y = SimplifiedLayerNormalization($0, %i2) {axis = -1, epsilon = $1}", sum, epsilon);
  } else {
    text.Line("%y = LayerNormalization($0, %i2$1) {axis = -1, epsilon = $2}", sum,
              text.Has(3) ? ", %i3" : "", epsilon);
  }
  text.Line("output %y");
  if (text.node().outputs.size() < 2) return;
  // The node's second and third outputs are unused, and anything may stand in for them.
  for (const char* name : {"%mean", "%deviation", "%sum"}) {
    text.Line("$0 = Identity($1)\noutput $0", name, sum);
  }
}

/// Before opset 9 an attribute says whether there is one mean for all channels, and another one
/// whether the deviations are normalized at all.
void MeanVariance(FunctionText& text) {
  const AttributeMap& attributes = text.node().attributes;
  const bool old = text.opset() < 9;
  std::vector<int64_t> axes = attributes.Ints("axes", {0, 2, 3});
  if (old && attributes.Int("across_channels", 0) != 0) axes = {0, 1, 2, 3};
  text.Ints("axes", axes);
  text.Scalar("epsilon", 1e-9);
  std::string list;
  for (const int64_t axis : axes) list += StrCat(list.empty() ? "" : ", ", axis);
  const std::string tail =
      text.opset() < 18 ? StrCat(") {axes = [", list, "]}") : std::string(", %axes)");
  text.Line(
      "%mean = ReduceMean(%i0$0\n"
      "%centered = Sub(%i0, %mean)",
      tail);
  if (old && attributes.Int("normalize_variance", 1) == 0) return text.Output("%centered");
  text.Line(
      "%squares = Mul(%centered, %centered)\n"
      "%variance = ReduceMean(%squares$0\n"
      "%root = Sqrt(%variance)\n"
      "%deviation = Add(%root, %epsilon)\n"
      "%y = Div(%centered, %deviation)\n"
      "output %y",
      tail);
}

/// Writes (product of the integers) * (a scale * b scale) + bias.
void ScaleProduct(FunctionText& text, const std::string& a_scale, size_t b_scale, size_t bias) {
  text.Line(
      "%real = Cast(%integers) {to = 1}\n"
      "%scale = Mul($0, %i$1)\n"
      "%scaled = Mul(%real, %scale)",
      a_scale, b_scale);
  text.Output(text.Plus("%scaled", bias));
}

/// Inputs: A, B, a scale, b scale, a zero point, b zero point, bias.
void MatMulIntegerToFloat(FunctionText& text) {
  text.Line("%integers = MatMulInteger(%i0, %i1, ?4, ?5)");
  ScaleProduct(text, "%i2", 3, 6);
}

/// Inputs: A, B, b scale, b zero point, bias.
void DynamicQuantizeMatMul(FunctionText& text) {
  text.Line("%bytes, %a_scale, %a_zero = DynamicQuantizeLinear(%i0)");
  text.Line("%integers = MatMulInteger(%bytes, %i1, %a_zero, ?3)");
  ScaleProduct(text, "%a_scale", 2, 4);
}

/// Inputs: X, W [directions, input, gates], R, B, lengths, h, c, P, then scale and zero point of W
/// and of R, each [directions] or [directions, gates]. The state stays in float between its steps;
/// ONNX Runtime rounds it to 8 bits as well.
void DynamicQuantizeLstm(FunctionText& text) {
  for (size_t slot = 8; slot < 12; ++slot) {
    if (text.Has(slot)) continue;
    Fail(ErrorCode::kInvalidModel, StrCat("input ", slot, " of DynamicQuantizeLSTM is missing"),
         {.hint = "scales and zero points of both weights are needed"});
  }
  text.Line(
      "%bytes, %x_scale, %x_zero = DynamicQuantizeLinear(%i0)\n"
      "%x = DequantizeLinear(%bytes, %x_scale, %x_zero)");
  text.Ints("by_gate", {0, 1, -1});
  for (const size_t slot : {1, 2}) {
    text.Line(
        "%real$0 = Cast(%i$0) {to = 1}\n"
        "%z$0 = Cast(%i$1) {to = 1}\n"
        "%zero$0 = Reshape(%z$0, %by_gate)\n"
        "%s$0 = Cast(%i$2) {to = 1}\n"
        "%scale$0 = Reshape(%s$0, %by_gate)\n"
        "%centered$0 = Sub(%real$0, %zero$0)\n"
        "%scaled$0 = Mul(%centered$0, %scale$0)\n"
        "%w$0 = Transpose(%scaled$0) {perm = [0, 2, 1]}",
        slot, 7 + 2 * slot, 6 + 2 * slot);
  }
  text.Line("%y, %last_h, %last_c = LSTM(%x, %w1, %w2, ?3, ?4, ?5, ?6, ?7) $0",
            text.AttributesWithout({}));
  text.Line("output %y\noutput %last_h\noutput %last_c");
}

/// Writes ONNX's Pad, whose pads are [2 rank] where this operator's may be [1, 2 rank].
void ContribPad(FunctionText& text) {
  if (text.opset() < 11) {
    Fail(ErrorCode::kUnsupported, "com.microsoft::Pad needs opset 11 of ONNX");
  }
  text.Ints("flat", {-1});
  text.Line(
      "%pads = Reshape(%i1, %flat)\n"
      "%y = Pad(%i0, %pads, ?2) $0\n"
      "output %y",
      text.AttributesWithout({}));
}

/// Inputs: A, B, scales, zero points, group index, bias.
void MatMulNBits(FunctionText& text) {
  text.Line("%w = ai.requant::UnpackBits(%i1, %i2, ?3, ?4) $0",
            text.AttributesWithout({"accuracy_level"}));
  text.Line("%y = MatMul(%i0, %w)");
  text.Output(text.Plus("%y", 5));
}

/// Inputs: A, codes, the largest magnitude of each block.
void MatMulBnb4(FunctionText& text) {
  text.Line(
      "%w = ai.requant::UnpackBnb4(%i1, %i2) $0\n"
      "%y = MatMul(%i0, %w)\n"
      "output %y",
      text.AttributesWithout({"training_mode"}));
}

/// The body of nodes that the kernels cannot multiply packed, and of all nodes for type inference.
std::unique_ptr<Graph> UnpackedMatMulNBits(const Graph& graph, const Node& node) {
  return GraphOfText(graph, node, MatMulNBits);
}

void InferMatMulNBits(InferContext& context) {
  // The body of what the kernels multiply packed need not be written for every new shape.
  const SymbolicShape* a = context.shape(0);
  if (a && !a->empty() && context.inputs[0].dtype == DType::kFloat32 && !context.has(5) &&
      IsPackedProduct(context.node)) {
    const PackedForm form = PackedFormOf(context.attributes());
    if (a->back() == Dim(form.k)) {
      SymbolicShape shape = *a;
      shape.back() = Dim(form.n);
      return SetOutput(context, 0, DType::kFloat32, std::move(shape));
    }
  }
  InferFrom(context, UnpackedMatMulNBits(context.graph, context.node));
}

/// Expands a node. One that the kernels multiply packed stays, and its bias becomes an Add behind
/// it. Others become such products where they can.
std::unique_ptr<Graph> ExpandMatMulNBits(const Graph& graph, const Node& node) {
  if (!IsPackedProduct(node)) {
    std::unique_ptr<Graph> repacked = RepackedProduct(node);
    return repacked ? std::move(repacked) : UnpackedMatMulNBits(graph, node);
  }
  if (node.input(5) == nullptr) return nullptr;
  FunctionText text(node, FunctionText::kDefaultOpset);
  text.Line("%y = com.microsoft::MatMulNBits(%i0, %i1, %i2$0$1", text.Has(3) ? ", %i3) " : ") ",
            text.AttributesWithout({}));
  text.Output(text.Plus("%y", 5));
  return std::make_unique<Graph>(ParseGraph(text.text()));
}

constexpr OpDef kRows[] = {
    FunctionOp<WritePackedAttention>("Attention", kMicrosoftDomain, 1, 2, 7, 2),
    FunctionOp<BiasGelu>("BiasGelu", kMicrosoftDomain, 1, 2, 2),
    FunctionOp<DynamicQuantizeMatMul>("DynamicQuantizeMatMul", kMicrosoftDomain, 1, 3, 5),
    FunctionOp<DynamicQuantizeLstm>("DynamicQuantizeLSTM", kMicrosoftDomain, 1, 3, 12, 3),
    FunctionOp<FusedConv>("FusedConv", kMicrosoftDomain, 1, 2, 4),
    FunctionOp<FusedGemm>("FusedGemm", kMicrosoftDomain, 1, 2, 3),
    FunctionOp<FusedMatMul>("FusedMatMul", kMicrosoftDomain, 1, 2, 2),
    FunctionOp<MatMulIntegerToFloat>("MatMulIntegerToFloat", kMicrosoftDomain, 1, 4, 7),
    FunctionOp<MatMulBnb4>("MatMulBnb4", kMicrosoftDomain, 1, 3, 3),
    {"MatMulNBits", kMicrosoftDomain, 1, 3, 6, 1, InferMatMulNBits, EvaluateByBody,
     QuantRule::kFloat, FusionRule::kOpaque, ExpandMatMulNBits},
    FunctionOp<MeanVariance>("MeanVarianceNormalization", "", 1, 1, 1),
    FunctionOp<ContribPad>("Pad", kMicrosoftDomain, 1, 2, 3),
    FunctionOp<WritePackedAttention>("QAttention", kMicrosoftDomain, 1, 5, 9, 2),
    FunctionOp<SkipLayerNorm>("SkipLayerNormalization", kMicrosoftDomain, 1, 3, 5, 4),
    FunctionOp<SkipLayerNorm>("SkipSimplifiedLayerNormalization", kMicrosoftDomain, 1, 3, 4, 4),
    FunctionOp<FusedMatMul>("TransposeMatMul", kMicrosoftDomain, 1, 2, 2),
};

}  // namespace

std::span<const OpDef> FunctionOps() { return kRows; }

}  // namespace requant
