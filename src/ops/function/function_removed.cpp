// Operators that ONNX had as experimental ones and removed (onnx v1.4.1, docs/Operators.md), which
// models of opsets up to 9 from Core ML and CNTK contain. ONNX Runtime has kept them.
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/function/function_text.h"
#include "ops/table.h"

namespace requant {
namespace {

/// y = alpha * x + beta
void Affine(FunctionText& text) {
  text.Scalar("alpha", text.node().attributes.Float("alpha", 1));
  text.Scalar("beta", text.node().attributes.Float("beta", 0));
  text.Line(
      "%scaled = Mul(%i0, %alpha)\n"
      "%y = Add(%scaled, %beta)\n"
      "output %y");
}

/// y = scale * x
void Scale(FunctionText& text) {
  text.Scalar("scale", text.node().attributes.Float("scale", 1));
  text.Line(
      "%y = Mul(%i0, %scale)\n"
      "output %y");
}

/// y = scale * x + bias, with one bias for each channel.
void ImageScaler(FunctionText& text) {
  const std::vector<float> bias = text.node().attributes.Floats("bias");
  std::string list;
  for (const float number : bias) {
    list += StrCat(list.empty() ? "" : ", ", FunctionText::Real(static_cast<double>(number)));
  }
  text.Scalar("scale", text.node().attributes.Float("scale", 1));
  text.Line("const %bias: float32[$0, 1, 1] = {$1}", bias.size(), list);
  text.Line(
      "%scaled = Mul(%i0, %scale)\n"
      "%y = Add(%scaled, %bias)\n"
      "output %y");
}

/// y = alpha * tanh(beta * x), or alpha * log(exp(beta * x) + 1)
void Scaled(FunctionText& text) {
  text.Scalar("alpha", text.node().attributes.Float("alpha", 1));
  text.Scalar("beta", text.node().attributes.Float("beta", 1));
  text.Line(
      "%inner = Mul(%i0, %beta)\n"
      "%outer = $0(%inner)\n"
      "%y = Mul(%outer, %alpha)\n"
      "output %y",
      text.node().op_type == "ScaledTanh" ? "Tanh" : "Softplus");
}

/// Removes borders of images, or keeps `scale` lines and columns behind the first borders.
void Crop(FunctionText& text) {
  const std::vector<int64_t> border = text.node().attributes.Ints("border");
  const std::vector<int64_t> scale = text.node().attributes.Ints("scale");
  if (border.size() != 4 || (!scale.empty() && scale.size() != 2)) {
    Fail(ErrorCode::kInvalidModel, "Crop needs four borders, and two sizes or none",
         {.node = text.node().name, .hint = "the model is not valid ONNX"});
  }
  constexpr int64_t kLimit = int64_t{1} << 40;
  for (const std::vector<int64_t>& list : {border, scale}) {
    for (const int64_t number : list) {
      if (number >= 0 && number < kLimit) continue;
      Fail(ErrorCode::kInvalidModel, StrCat("Crop by ", number),
           {.node = text.node().name, .hint = "the model is not valid ONNX"});
    }
  }
  const ValueType& type = text.node().inputs[0]->type;
  if (!type.shape) return text.Wait();
  if (type.shape->size() != 4) {
    Fail(ErrorCode::kInvalidModel, "Crop of a tensor without four dimensions",
         {.node = text.node().name, .hint = "the model is not valid ONNX"});
  }
  // Ends that are negative count from the end of a dimension, and 0 does not.
  const auto end = [&](size_t axis, int64_t first, int64_t last) {
    if (!scale.empty()) return first + scale[axis];
    return last == 0 ? kLimit : -last;
  };
  const int64_t bottom = end(0, border[1], border[3]), right = end(1, border[0], border[2]);
  if (text.opset() < 10) {
    text.Line("%y = Slice(%i0) {axes = [2, 3], starts = [$0, $1], ends = [$2, $3]}", border[1],
              border[0], bottom, right);
  } else {
    text.Ints("starts", {border[1], border[0]});
    text.Ints("ends", {bottom, right});
    text.Ints("axes", {2, 3});
    text.Line("%y = Slice(%i0, %starts, %ends, %axes)");
  }
  text.Line("output %y");
}

constexpr OpDef kRows[] = {
    FunctionOp<Affine>("Affine", "", 1, 1, 1),
    FunctionOp<Crop>("Crop", "", 1, 1, 1),
    FunctionOp<ImageScaler>("ImageScaler", "", 1, 1, 1),
    FunctionOp<Scaled>("ParametricSoftplus", "", 1, 1, 1),
    FunctionOp<Scale>("Scale", "", 1, 1, 1),
    FunctionOp<Scaled>("ScaledTanh", "", 1, 1, 1),
};

}  // namespace

std::span<const OpDef> RemovedFunctionOps() { return kRows; }

}  // namespace requant
