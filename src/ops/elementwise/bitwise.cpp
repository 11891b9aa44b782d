// BitShift, BitwiseAnd, BitwiseOr, BitwiseXor and BitwiseNot (onnx docs/Operators.md).
#include <cstring>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/elementwise.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

void InferBitwise(InferContext& context) {
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) {
    const DType dtype = context.inputs[slot].dtype;
    if (dtype != DType::kUndefined && (!IsInteger(dtype) || DTypeBits(dtype) < 8)) {
      Fail(ErrorCode::kTypeMismatch, StrCat(context.node.op_type, " of ", DTypeName(dtype)));
    }
  }
  ElementwiseBroadcast(context);
}

uint64_t Combine(char kind, uint64_t a, uint64_t b, unsigned bits) {
  switch (kind) {
    case '&':
      return a & b;
    case '|':
      return a | b;
    case '^':
      return a ^ b;
    case '<':
      return b >= bits ? 0 : a << b;
    default:
      return b >= bits ? 0 : a >> b;
  }
}

void EvaluateBitwise(EvalContext& context) {
  const std::string& op = context.node.op_type;
  char kind = op == "BitwiseAnd" ? '&' : op == "BitwiseOr" ? '|' : '^';
  if (op == "BitShift") {
    const std::string direction = context.attributes().String("direction", "");
    if (direction != "LEFT" && direction != "RIGHT") {
      Fail(ErrorCode::kInvalidModel, StrCat("direction '", direction, "' of BitShift"));
    }
    kind = direction == "LEFT" ? '<' : '>';
  }
  const Tensor& a = context.input(0);
  const Tensor ones = Tensor::Scalar(int64_t{-1});  // BitwiseNot: x ^ ...1
  const bool unary = op == "BitwiseNot";
  const Tensor& b = unary ? ones : context.input(1);
  Tensor out(a.dtype(), BroadcastShapes(a.shape(), b.shape()));
  VisitDType(a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T>) {
      ForEachRow(PlanRows(out.shape(), {&a.shape(), &b.shape()}), [&](const RowStep& row) {
        const auto* left = static_cast<const T*>(a.raw()) + row.input[0];
        const auto* right = static_cast<const T*>(b.raw()) + row.input[1];
        for (int64_t i = 0; i < row.length; ++i) {
          const auto x = static_cast<uint64_t>(left[i * row.step[0]]);
          const uint64_t y = unary ? ~uint64_t{0} : static_cast<uint64_t>(right[i * row.step[1]]);
          static_cast<T*>(out.raw())[row.output + i] =
              static_cast<T>(Combine(kind, x, y, sizeof(T) * 8));
        }
      });
    }
  });
  context.outputs[0] = std::move(out);
}

// --- BitCast

DType BitCastType(const Node& node, DType from) {
  const int64_t number = node.attributes.Int("to", 0);
  const DType to = number > 0 && number < 256 ? static_cast<DType>(number) : DType::kUndefined;
  if (DTypeBits(to) == 0 || (from != DType::kUndefined && DTypeBits(from) != DTypeBits(to))) {
    Fail(ErrorCode::kInvalidModel,
         StrCat("BitCast of ", DTypeName(from), " to type ", number, " of another size"));
  }
  return to;
}

void InferBitCast(InferContext& context) {
  SetOutput(context, 0, BitCastType(context.node, context.inputs[0].dtype),
            context.inputs[0].shape);
}

void EvaluateBitCast(EvalContext& context) {
  const Tensor& x = context.input(0);
  Tensor out(BitCastType(context.node, x.dtype()), x.shape());
  if (out.bytes() > 0) std::memcpy(out.raw(), x.raw(), out.bytes());
  context.outputs[0] = out;
}

constexpr OpDef Bitwise(const char* name, int since, int inputs) {
  return {name,
          "",
          since,
          inputs,
          inputs,
          1,
          InferBitwise,
          EvaluateBitwise,
          QuantRule::kFloat,
          FusionRule::kBroadcast};
}

constexpr OpDef kRows[] = {
    Bitwise("BitShift", 11, 2),
    Bitwise("BitwiseAnd", 18, 2),
    Bitwise("BitwiseNot", 18, 1),
    Bitwise("BitwiseOr", 18, 2),
    Bitwise("BitwiseXor", 18, 2),
    {"BitCast", "", 26, 1, 1, 1, InferBitCast, EvaluateBitCast, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> BitwiseOps() { return kRows; }

}  // namespace requant
