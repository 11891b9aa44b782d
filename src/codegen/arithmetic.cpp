// Elementwise operators of two operands, on bytes and on floats.
#include "codegen/emit.h"
#include "numeric/multiplier.h"
#include "numeric/qadd.h"

namespace requant {
namespace {

constexpr size_t kB = 3;

/// The first members of rq_add and rq_mul.
Fields OperandFields(EmitContext& context, const QuantOperand& a, const QuantOperand& b) {
  context.RequireByte(0);
  context.RequireByte(kB);
  const ByteReading left = ReadingOf(context.InputType(0), a.zeros[0]);
  const ByteReading right = ReadingOf(context.InputType(kB), b.zeros[0]);
  return Fields() << PairsFields(context, context.InputShape(0), context.InputShape(kB),
                                 context.OutputShape())
                  << left.zero << right.zero << left.flip << right.flip;
}

void CallPair(EmitContext& context, const char* function, const char* type, const Fields& members) {
  context.file.Call(function, Fields() << context.In(0) << context.In(kB) << context.Out()
                                       << context.file.Struct(type, members));
}

}  // namespace

void EmitQLinearAdd(EmitContext& context) {
  const QuantOperand a = context.Operand(1, 2), b = context.Operand(4, 5);
  const QuantOperand c = context.Operand(6, 7);
  const float scale_a = a.scales[0], scale_b = b.scales[0], scale_c = c.scales[0];
  Fields members = OperandFields(context, a, b);
  if (context.file.requantize() == RequantizeMode::kFloat) {
    context.file.Use("add_float");
    members << CFloat(scale_a) << CFloat(scale_b) << CFloat(scale_c);
  } else {
    context.file.Use("add_fixed");
    const QAddMultipliers by = MakeQAddMultipliers(static_cast<double>(scale_a) / scale_c,
                                                   static_cast<double>(scale_b) / scale_c);
    members << by.a << by.b << by.shift;
  }
  members << c.zeros[0] << ByteMin(context.OutputType()) << ByteMax(context.OutputType());
  CallPair(context, "rq_add_run", "rq_add", members);
}

void EmitQLinearMul(EmitContext& context) {
  const QuantOperand a = context.Operand(1, 2), b = context.Operand(4, 5);
  const QuantOperand c = context.Operand(6, 7);
  const double multiplier =
      ProductMultiplier(context.file.requantize(), a.scales[0], b.scales[0], c.scales[0]);
  context.file.Use("mul");
  CallPair(context, "rq_mul_run", "rq_mul",
           OperandFields(context, a, b)
               << OutputFields(context, {multiplier}, c.zeros[0], context.OutputType()));
}

void EmitFloatArithmetic(EmitContext& context) {
  context.RequireFloat(0);
  context.RequireFloat(1);
  context.file.Use("arithmetic");
  const Node& node = context.node;
  const int kind = node.Is(Op::kAdd) ? 0 : node.Is(Op::kSub) ? 1 : node.Is(Op::kMul) ? 2 : 3;
  const Fields pairs =
      PairsFields(context, context.InputShape(0), context.InputShape(1), context.OutputShape());
  context.file.Call("rq_arithmetic", Fields() << context.In(0) << context.In(1) << context.Out()
                                              << context.file.Struct("rq_pairs", pairs) << kind);
}

}  // namespace requant
