// Bodies of com.microsoft::QLinearWhere, QLinearReduceMean and NhwcMaxPool in operators of ONNX on
// the same numbers (onnxruntime docs/ContribOperators.md).
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/function/function_text.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

/// Inputs: condition, X, its scale and zero point, Y, its scale and zero point, scale and zero
/// point of the result.
void WriteQLinearWhere(FunctionText& text) {
  // Where selects floats, since ONNX Runtime has none for int8.
  text.Line(
      "%x = DequantizeLinear(%i1, %i2, %i3)\n"
      "%y = DequantizeLinear(%i4, %i5, %i6)\n"
      "%z = Where(%i0, %x, %y)\n"
      "%q = QuantizeLinear(%z, %i7, %i8)\n"
      "output %q");
}

void InferQLinearWhere(InferContext& context) {
  RequireDType(context, 0, {DType::kBool});
  for (const size_t slot : {1, 3, 4, 6, 8}) {
    RequireDType(context, slot, {DType::kInt8, DType::kUint8});
    RequireSameDType(context, 1, slot);
  }
  InferByBody(context);
}

/// Inputs: data, scale, zero point, scale and zero point of the result; the axes are an attribute.
void WriteQLinearReduceMean(FunctionText& text) {
  const std::vector<int64_t> axes = text.node().attributes.Ints("axes");
  if (axes.empty()) Fail(ErrorCode::kInvalidModel, "QLinearReduceMean without axes");
  text.Line("%x = DequantizeLinear(%i0, %i1, ?2)");
  const bool old = text.opset() < 18;
  if (!old) text.Ints("a", axes);
  text.Line("%m = ReduceMean(%x$0$1", old ? ") " : ", %a) ",
            old ? text.AttributesWithout({}) : text.AttributesWithout({"axes"}));
  text.Line("%y = QuantizeLinear(%m, %i3, ?4)\noutput %y");
}

void InferQLinearReduceMean(InferContext& context) {
  RequireDType(context, 0, {DType::kInt8, DType::kUint8});
  RequireSameDType(context, 0, 4);
  RequireInput(context, 3);
  InferByBody(context);
}

/// X is [N, spatial..., C].
void WriteNhwcMaxPool(FunctionText& text) {
  constexpr const char* kToPlanes[] = {"0, 2, 1", "0, 3, 1, 2", "0, 4, 1, 2, 3"};
  constexpr const char* kToLast[] = {"0, 2, 1", "0, 2, 3, 1", "0, 2, 3, 4, 1"};
  const size_t spatial = text.node().attributes.Ints("kernel_shape").size();
  if (spatial < 1 || spatial > 3) {
    Fail(ErrorCode::kInvalidModel,
         StrCat("kernel_shape of NhwcMaxPool has ", spatial, " sizes, not one to three"));
  }
  // ONNX has MaxPool of bytes from opset 12 on.
  text.Line(
      "%x = Transpose(%i0) {perm = [$0]}\n"
      "%m = MaxPool(%x) $2\n"
      "%y = Transpose(%m) {perm = [$1]}\n"
      "output %y",
      kToPlanes[spatial - 1], kToLast[spatial - 1], text.AttributesWithout({}));
}

void InferNhwcMaxPool(InferContext& context) {
  RequireDType(context, 0, {DType::kInt8, DType::kUint8});
  InferByBody(context);
}

constexpr OpDef kRows[] = {
    FunctionOp<WriteNhwcMaxPool>("NhwcMaxPool", kMicrosoftDomain, 1, 1, 1, 1, InferNhwcMaxPool),
    OnIntegers(FunctionOp<WriteQLinearReduceMean>("QLinearReduceMean", kMicrosoftDomain, 1, 4, 5, 1,
                                                  InferQLinearReduceMean)),
    OnIntegers(FunctionOp<WriteQLinearWhere>("QLinearWhere", kMicrosoftDomain, 1, 9, 9, 1,
                                             InferQLinearWhere)),
};

}  // namespace

std::span<const OpDef> QuantizedFunctionOps() { return kRows; }

}  // namespace requant
