// Fake quantization of any width: Quant (IntQuant), BipolarQuant and Trunc of QONNX, as published
// in qonnx (docs/qonnx-custom-ops, custom_op/general/quant.py, bipolar_quant.py, trunc.py), under
// the domains that QONNX, Brevitas and FINN write. All steps are rounded to float32 as numpy does.
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/quantized/qonnx.h"
#include "ops/quantized/qonnx_rules.h"
#include "ops/table.h"

namespace requant {

using qonnx::Along;
using qonnx::Limits;
using qonnx::LimitsOf;
using qonnx::RoundHalfEven;
using qonnx::Rounding;
using qonnx::RoundingOf;

namespace {

/// One element with its own scale, zero point and width.
struct Element {
  const Node& node;
  Rounding round;
  bool is_signed;

  float Quant(float x, float scale, float zero, float bits) const {
    float y = x / scale + zero;
    if (bits == 1 && is_signed) {
      y = y >= 0 ? 1.0F : -1.0F;
    } else {
      const Limits limits = LimitsOf(node, bits);
      y = round(y > limits.high ? limits.high : y < limits.low ? limits.low : y);
    }
    return (y - zero) * scale;
  }
};

void InferQonnx(InferContext& context) {
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) {
    RequireDType(context, slot,
                 {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kInt8,
                  DType::kUint8});
  }
  RequireDType(context, 0, {DType::kFloat32});
  if (context.node.op_type != "BipolarQuant") {
    RoundingOf(context.node, context.node.op_type == "Trunc" ? "FLOOR" : "ROUND");
  }
  if (context.node.op_type == "Trunc" && context.inputs.size() != 5 && context.inputs.size() != 6) {
    Fail(ErrorCode::kUnsupported, StrCat("Trunc of ", context.inputs.size(), " inputs"),
         {.hint = "export it with input and output widths"});
  }
  std::optional<SymbolicShape> shape = context.inputs[0].shape;
  if (shape && context.shape(1)) shape = BroadcastSymbolic(*shape, *context.shape(1));
  SetOutput(context, 0, DType::kFloat32, shape);
}

Shape OutputShape(const EvalContext& context) {
  ValueType type{DType::kFloat32, ToSymbolic(context.input(0).shape())};
  for (size_t slot = 1; slot < context.inputs.size(); ++slot) {
    if (!context.has(slot)) continue;
    type.shape = BroadcastSymbolic(*type.shape, ToSymbolic(context.input(slot).shape()));
  }
  return type.StaticShape();
}

void EvaluateQuant(EvalContext& context) {
  Tensor out(DType::kFloat32, OutputShape(context));
  const Along x(context.input(0), out.shape()), scale(context.input(1), out.shape()),
      zero(context.input(2), out.shape()), bits(context.input(3), out.shape());
  const Element element{context.node, RoundingOf(context.node, "ROUND"),
                        context.attributes().Int("signed", 1) != 0};
  for (size_t i = 0; i < static_cast<size_t>(out.count()); ++i) {
    out.data<float>()[i] = element.Quant(x[i], scale[i], zero[i], bits[i]);
  }
  context.outputs[0] = std::move(out);
}

void EvaluateBipolarQuant(EvalContext& context) {
  Tensor out(DType::kFloat32, OutputShape(context));
  const Along x(context.input(0), out.shape()), scale(context.input(1), out.shape());
  for (size_t i = 0; i < static_cast<size_t>(out.count()); ++i) {
    out.data<float>()[i] = x[i] / scale[i] >= 0 ? scale[i] : -scale[i];
  }
  context.outputs[0] = std::move(out);
}

/// x, scale, zero, input bits, (output scale,) output bits.
void EvaluateTrunc(EvalContext& context) {
  Tensor out(DType::kFloat32, OutputShape(context));
  const bool scaled = context.inputs.size() == 6;
  const Along x(context.input(0), out.shape()), scale(context.input(1), out.shape()),
      zero(context.input(2), out.shape()), in_bits(context.input(3), out.shape()),
      out_scale(context.input(scaled ? 4 : 1), out.shape()),
      out_bits(context.input(scaled ? 5 : 4), out.shape());
  const Rounding round = RoundingOf(context.node, "FLOOR");
  for (size_t i = 0; i < static_cast<size_t>(out.count()); ++i) {
    const float y = RoundHalfEven(x[i] / scale[i] + zero[i]);
    float result;
    if (scaled) {
      const float step = std::exp2(RoundHalfEven(std::log2(out_scale[i] / scale[i])));
      const Limits limits = LimitsOf(context.node, out_bits[i]);
      const float cut = y / step;
      result = round(cut > limits.high ? limits.high : cut < limits.low ? limits.low : cut);
      result = (result - zero[i] / step) * out_scale[i];
    } else {
      result = (round(y / std::exp2(in_bits[i] - out_bits[i])) - zero[i]) * scale[i];
    }
    out.data<float>()[i] = result;
  }
  context.outputs[0] = std::move(out);
}

constexpr const char* kQonnx = "qonnx.custom_op.general";
constexpr const char* kBrevitas = "onnx.brevitas";
constexpr const char* kFinn = "finn.custom_op.general";

constexpr OpDef Row(const char* name, const char* domain, int inputs, int most,
                    void (*evaluate)(EvalContext&)) {
  return {name,
          domain,
          1,
          inputs,
          most,
          1,
          InferQonnx,
          evaluate,
          QuantRule::kFloat,
          FusionRule::kOpaque,
          nullptr,
          RewriteToIntegers};
}

constexpr OpDef kRows[] = {
    Row("Quant", kQonnx, 4, 4, EvaluateQuant),
    Row("Quant", kBrevitas, 4, 4, EvaluateQuant),
    Row("Quant", kFinn, 4, 4, EvaluateQuant),
    Row("IntQuant", kQonnx, 4, 4, EvaluateQuant),
    Row("BipolarQuant", kQonnx, 2, 2, EvaluateBipolarQuant),
    Row("BipolarQuant", kBrevitas, 2, 2, EvaluateBipolarQuant),
    Row("BipolarQuant", kFinn, 2, 2, EvaluateBipolarQuant),
    Row("Trunc", kQonnx, 4, 6, EvaluateTrunc),
    Row("Trunc", kBrevitas, 4, 6, EvaluateTrunc),
    Row("Trunc", kFinn, 4, 6, EvaluateTrunc),
};

}  // namespace

std::span<const OpDef> QonnxOps() { return kRows; }

}  // namespace requant
