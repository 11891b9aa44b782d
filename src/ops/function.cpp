// Operators that are others written shorter: each is a text in the form of ir/text.h, made for one
// node. Inference and reference go through that graph; the pass InlineControlFlow puts it in place
// of the node, so that optimizer, quantizer and kernels only meet the operators inside.
//
// Formulas: com.microsoft: ONNX Runtime docs/ContribOperators.md; ONNX: docs/Operators.md.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/number_text.h"
#include "base/str_cat.h"
#include "ir/text.h"
#include "ops/function_text.h"
#include "ops/infer_util.h"
#include "ops/matmul_nbits.h"
#include "ops/select.h"
#include "ops/subgraph.h"
#include "ops/table.h"

namespace requant {
namespace {

/// `y = <activation>(x)` by the name and parameters that fused operators carry.
void Activate(FunctionText& text, const std::string& x, const std::string& y) {
  const AttributeMap& attributes = text.node().attributes;
  const std::string name = attributes.String("activation", "");
  const std::vector<float> p = attributes.Floats("activation_params");
  const auto parameter = [&p](size_t i, float fallback) {
    return FunctionText::Real(i < p.size() ? p[i] : fallback);
  };
  if (name.empty()) return text.Line(StrCat(y, " = Identity(", x, ")"));
  if (name == "Relu" || name == "Sigmoid" || name == "Tanh") {
    return text.Line(StrCat(y, " = ", name, "(", x, ")"));
  }
  if (name == "LeakyRelu") {
    const float alpha = p.empty() ? attributes.Float("activation_alpha", 0.01F) : p[0];
    return text.Line(StrCat(y, " = LeakyRelu(", x, ") {alpha = ", FunctionText::Real(alpha), "}"));
  }
  if (name == "HardSigmoid") {
    return text.Line(StrCat(y, " = HardSigmoid(", x, ") {alpha = ", parameter(0, 0.2F),
                            ", beta = ", parameter(1, 0.5F), "}"));
  }
  if (name == "Clip") {
    if (text.opset() < 11) {
      return text.Line(StrCat(y, " = Clip(", x, ") {min = ", parameter(0, -3.4e38F),
                              ", max = ", parameter(1, 3.4e38F), "}"));
    }
    text.Scalar("low", p.empty() ? -INFINITY : p[0]);
    text.Scalar("high", p.size() < 2 ? INFINITY : p[1]);
    return text.Line(StrCat(y, " = Clip(", x, ", %low, %high)"));
  }
  Fail(ErrorCode::kUnsupported,
       StrCat("activation ", name, " in ", text.node().domain, "::", text.node().op_type));
}

void BiasGelu(FunctionText& text) {
  text.Line("%sum = Add(%i0, %i1)");
  text.Line("%y = com.microsoft::Gelu(%sum)");
  text.Output("%y");
}

void FusedConv(FunctionText& text) {
  const std::string attributes =
      text.AttributesWithout({"activation", "activation_params", "activation_alpha"});
  text.Line(StrCat("%conv = Conv(%i0, %i1", text.Has(2) ? ", %i2" : "", ") ", attributes));
  Activate(text, text.Plus("%conv", 3), "%y");
  text.Output("%y");
}

void FusedGemm(FunctionText& text) {
  const std::string attributes = text.AttributesWithout(
      {"activation", "activation_alpha", "activation_beta", "activation_gamma"});
  text.Line(StrCat("%gemm = Gemm(%i0, %i1", text.Has(2) ? ", %i2" : "", ") ", attributes));
  Activate(text, "%gemm", "%y");
  text.Output("%y");
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
    // The rows in front of the batches go behind them.
    if (batches) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
    if (swaps) std::swap(order[rank - 2], order[rank - 1]);
    std::string perm;
    for (const int64_t axis : order) perm += StrCat(perm.empty() ? "" : ", ", axis);
    text.Line(StrCat("%t", i, " = Transpose(", operands[i], ") {perm = [", perm, "]}"));
    operands[i] = StrCat("%t", i);
  }
  text.Line(StrCat("%product = MatMul(", operands[0], ", ", operands[1], ")"));
  text.Scalar("alpha", attributes.Float("alpha", 1));
  text.Line("%y = Mul(%product, %alpha)");
  text.Output("%y");
}

/// x, skip, gamma, beta, bias -> y, mean, deviation, sum.
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
    text.Line(StrCat("%y = SimplifiedLayerNormalization(", sum,
                     ", %i2) {axis = -1, epsilon = ", epsilon, "}"));
  } else {
    text.Line(StrCat("%y = LayerNormalization(", sum, ", %i2", text.Has(3) ? ", %i3" : "",
                     ") {axis = -1, epsilon = ", epsilon, "}"));
  }
  text.Output("%y");
  if (text.node().outputs.size() < 2) return;
  // The node's second and third outputs are not there; something has to stand in their place.
  for (const char* name : {"%mean", "%deviation", "%sum"}) {
    text.Line(StrCat(name, " = Identity(", sum, ")"));
    text.Output(name);
  }
}

void MeanVariance(FunctionText& text) {
  const std::vector<int64_t> axes = text.node().attributes.Ints("axes", {0, 2, 3});
  text.Ints("axes", axes);
  text.Scalar("epsilon", 1e-9);
  std::string list;
  for (const int64_t axis : axes) list += StrCat(list.empty() ? "" : ", ", axis);
  const std::string tail =
      text.opset() < 18 ? StrCat(") {axes = [", list, "]}") : std::string(", %axes)");
  text.Line("%mean = ReduceMean(%i0" + tail);
  text.Line("%centered = Sub(%i0, %mean)");
  text.Line("%squares = Mul(%centered, %centered)");
  text.Line("%variance = ReduceMean(%squares" + tail);
  text.Line("%root = Sqrt(%variance)");
  text.Line("%deviation = Add(%root, %epsilon)");
  text.Line("%y = Div(%centered, %deviation)");
  text.Output("%y");
}

/// (product of the integers) * (a scale * b scale) + bias.
void ScaleProduct(FunctionText& text, const std::string& a_scale, size_t b_scale, size_t bias) {
  text.Line("%real = Cast(%integers) {to = 1}");
  text.Line(StrCat("%scale = Mul(", a_scale, ", ", FunctionText::In(b_scale), ")"));
  text.Line("%scaled = Mul(%real, %scale)");
  text.Output(text.Plus("%scaled", bias));
}

/// A, B, a scale, b scale, a zero, b zero, bias.
void MatMulIntegerToFloat(FunctionText& text) {
  const auto slot = [&text](size_t i) {
    return text.Has(i) ? FunctionText::In(i) : std::string("_");
  };
  text.Line(StrCat("%integers = MatMulInteger(%i0, %i1, ", slot(4), ", ", slot(5), ")"));
  ScaleProduct(text, "%i2", 3, 6);
}

/// A, B, b scale, b zero, bias.
void DynamicQuantizeMatMul(FunctionText& text) {
  text.Line("%bytes, %a_scale, %a_zero = DynamicQuantizeLinear(%i0)");
  text.Line(
      StrCat("%integers = MatMulInteger(%bytes, %i1, %a_zero, ", text.Has(3) ? "%i3" : "_", ")"));
  ScaleProduct(text, "%a_scale", 2, 4);
}

/// X, W [directions, input, gates], R, B, lengths, h, c, P, then scale and zero point of W and R,
/// each [directions] or [directions, gates]. The state stays in float between its steps, which ONNX
/// Runtime rounds to 8 bits as well.
void DynamicQuantizeLstm(FunctionText& text) {
  for (size_t slot = 8; slot < 12; ++slot) {
    if (text.Has(slot)) continue;
    Fail(ErrorCode::kInvalidModel, StrCat("input ", slot, " of DynamicQuantizeLSTM is missing"),
         {.hint = "scales and zero points of both weights are needed"});
  }
  text.Line("%bytes, %x_scale, %x_zero = DynamicQuantizeLinear(%i0)");
  text.Line("%x = DequantizeLinear(%bytes, %x_scale, %x_zero)");
  text.Ints("by_gate", {0, 1, -1});
  for (const size_t slot : {1, 2}) {
    const std::string own = StrCat("%w", slot);
    const auto spread = [&](const char* name, size_t from) {
      text.Line(StrCat(own, name, " = Cast(", FunctionText::In(from), ") {to = 1}"));
      text.Line(StrCat(own, name, "s = Reshape(", own, name, ", %by_gate)"));
      return StrCat(own, name, "s");
    };
    text.Line(StrCat(own, "_real = Cast(", FunctionText::In(slot), ") {to = 1}"));
    const std::string zero = spread("_zero", 7 + 2 * slot);
    const std::string scale = spread("_scale", 6 + 2 * slot);
    text.Line(StrCat(own, "_centered = Sub(", own, "_real, ", zero, ")"));
    text.Line(StrCat(own, "_scaled = Mul(", own, "_centered, ", scale, ")"));
    text.Line(StrCat(own, " = Transpose(", own, "_scaled) {perm = [0, 2, 1]}"));
  }
  std::string rest;
  for (size_t slot = 3; slot < 8; ++slot) {
    rest += StrCat(", ", text.Has(slot) ? FunctionText::In(slot) : std::string("_"));
  }
  text.Line(
      StrCat("%y, %last_h, %last_c = LSTM(%x, %w1, %w2", rest, ") ", text.AttributesWithout({})));
  for (const char* name : {"%y", "%last_h", "%last_c"}) text.Output(name);
}

/// A, B, scales, zero points, group index, bias.
void MatMulNBits(FunctionText& text) {
  if (text.Has(4)) Fail(ErrorCode::kUnsupported, "MatMulNBits with a group index");
  text.Line(StrCat("%w = ai.requant::UnpackBits(%i1, %i2", text.Has(3) ? ", %i3" : "", ") ",
                   text.AttributesWithout({"accuracy_level"})));
  text.Line("%y = MatMul(%i0, %w)");
  text.Output(text.Plus("%y", 5));
}

struct FunctionRow {
  const char* name;
  const char* domain;
  void (*write)(FunctionText& text);
};

constexpr FunctionRow kFunctions[] = {
    {"Attention", kMicrosoftDomain, WritePackedAttention},
    {"BiasGelu", kMicrosoftDomain, BiasGelu},
    {"DynamicQuantizeMatMul", kMicrosoftDomain, DynamicQuantizeMatMul},
    {"DynamicQuantizeLSTM", kMicrosoftDomain, DynamicQuantizeLstm},
    {"FusedConv", kMicrosoftDomain, FusedConv},
    {"FusedGemm", kMicrosoftDomain, FusedGemm},
    {"FusedMatMul", kMicrosoftDomain, FusedMatMul},
    {"MatMulIntegerToFloat", kMicrosoftDomain, MatMulIntegerToFloat},
    {"MatMulNBits", kMicrosoftDomain, MatMulNBits},
    {"MeanVarianceNormalization", "", MeanVariance},
    {"SkipLayerNormalization", kMicrosoftDomain, SkipLayerNorm},
    {"SkipSimplifiedLayerNormalization", kMicrosoftDomain, SkipLayerNorm},
    {"TransposeMatMul", kMicrosoftDomain, FusedMatMul},
};

const FunctionRow* FindFunction(const Node& node) {
  for (const FunctionRow& row : kFunctions) {
    if (node.Is(row.name, row.domain)) return &row;
  }
  return nullptr;
}

std::unique_ptr<Graph> FunctionBody(const Graph& graph, const Node& node) {
  const FunctionRow* row = FindFunction(node);
  return row ? GraphOfText(graph, node, row->write) : nullptr;
}

void InferSpelledOut(InferContext& context) {
  const std::unique_ptr<Graph> body = FunctionBody(context.graph, context.node);
  if (!body) return SetOutput(context, 0, context.inputs[0].dtype, std::nullopt);
  std::vector<ValueType> types;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    if (context.has(i)) types.push_back(context.inputs[i]);
  }
  const std::vector<ValueType> results = InferGraph(*body, types);
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    if (i < results.size()) context.outputs[i] = results[i];
  }
}

/// What the kernels multiply as it is stays; a bias becomes an Add behind it.
std::unique_ptr<Graph> ExpandMatMulNBits(const Graph& graph, const Node& node) {
  if (!IsPackedProduct(node)) return FunctionBody(graph, node);
  if (node.input(5) == nullptr) return nullptr;
  FunctionText text(node, FunctionText::kDefaultOpset);
  text.Line(StrCat("%y = com.microsoft::MatMulNBits(%i0, %i1, %i2", text.Has(3) ? ", %i3) " : ") ",
                   text.AttributesWithout({})));
  text.Output(text.Plus("%y", 5));
  return std::make_unique<Graph>(ParseGraph(text.text()));
}

constexpr OpDef Row(const char* name, const char* domain, int since, int inputs, int most,
                    int outputs = 1) {
  return {name,
          domain,
          since,
          inputs,
          most,
          outputs,
          InferSpelledOut,
          EvaluateByBody,
          QuantRule::kFloat,
          FusionRule::kOpaque,
          FunctionBody};
}

constexpr OpDef kRows[] = {
    Row("Attention", kMicrosoftDomain, 1, 2, 7, 2),
    Row("BiasGelu", kMicrosoftDomain, 1, 2, 2),
    Row("DynamicQuantizeMatMul", kMicrosoftDomain, 1, 3, 5),
    Row("DynamicQuantizeLSTM", kMicrosoftDomain, 1, 3, 12, 3),
    Row("FusedConv", kMicrosoftDomain, 1, 2, 4),
    Row("FusedGemm", kMicrosoftDomain, 1, 2, 3),
    Row("FusedMatMul", kMicrosoftDomain, 1, 2, 2),
    Row("MatMulIntegerToFloat", kMicrosoftDomain, 1, 4, 7),
    {"MatMulNBits", kMicrosoftDomain, 1, 3, 6, 1, InferSpelledOut, EvaluateByBody,
     QuantRule::kFloat, FusionRule::kOpaque, ExpandMatMulNBits},
    Row("MeanVarianceNormalization", "", 9, 1, 1),
    Row("SkipLayerNormalization", kMicrosoftDomain, 1, 3, 5, 4),
    Row("SkipSimplifiedLayerNormalization", kMicrosoftDomain, 1, 3, 4, 4),
    Row("TransposeMatMul", kMicrosoftDomain, 1, 2, 2),
};

}  // namespace

std::span<const OpDef> FunctionOps() { return kRows; }

}  // namespace requant
