// ai.requant::FixedPointMultiply: x times the real numbers multiplier * 2^-shift, in integers.
//
// Inputs: x (int32), multiplier (int32, 0 or more) and shift (int32, 1 to 62), which broadcast to
// x. The attribute `rounding` names the arithmetic (numeric/requantize.h), whose result saturates:
//   upward    (x * multiplier + 2^(shift-1)) >> shift: ties go towards +infinity (TVM's UPWARD,
//             TensorFlow Lite's single rounding). The default.
//   nearest   the same with ties away from zero (TVM's TONEAREST)
//   gemmlowp  a rounding doubling high multiply, then a rounding shift (gemmlowp
//             fixedpoint/fixedpoint.h, TensorFlow Lite's double rounding)
#include <string>

#include "base/error.h"
#include "base/str_cat.h"
#include "numeric/requantize.h"
#include "ops/elementwise/elementwise.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

RequantizeMode RoundingOf(const AttributeMap& attributes) {
  const std::string rounding = attributes.String("rounding", "upward");
  if (rounding == "upward") return RequantizeMode::kUpward;
  if (rounding == "nearest") return RequantizeMode::kToNearest;
  if (rounding == "gemmlowp") return RequantizeMode::kGemmlowp;
  Fail(ErrorCode::kInvalidModel, StrCat("FixedPointMultiply has the rounding '", rounding, "'"),
       {.hint = "use 'upward', 'nearest' or 'gemmlowp'"});
}

void InferFixedPointMultiply(InferContext& context) {
  RoundingOf(context.attributes());
  for (const size_t slot : {0, 1, 2}) RequireDType(context, slot, {DType::kInt32});
  const SymbolicShape* x = context.shape(0);
  for (const size_t slot : {size_t{1}, size_t{2}}) {
    const SymbolicShape* shape = context.shape(slot);
    if (x == nullptr || shape == nullptr) continue;
    const SymbolicShape joint = BroadcastSymbolic(*x, *shape);
    bool grows = joint.size() != x->size();
    for (size_t i = 0; !grows && i < joint.size(); ++i) {
      grows = joint[i].known() && (*x)[i].known() && joint[i].value != (*x)[i].value;
    }
    if (!grows) continue;
    Fail(ErrorCode::kShapeMismatch,
         StrCat("input ", slot, " of FixedPointMultiply, ", TypeToString(context.inputs[slot]),
                ", cannot be broadcast to ", TypeToString(context.inputs[0])));
  }
  SameAsInput(context);
}

void CheckNumbers(const EvalContext& context, size_t slot, int32_t least, int32_t most) {
  const Tensor& numbers = context.input(slot);
  for (const int32_t number : numbers.values<int32_t>()) {
    if (number >= least && number <= most) continue;
    Fail(ErrorCode::kInvalidQuantization,
         StrCat(slot == 1 ? "a multiplier" : "a shift", " of FixedPointMultiply is ", number),
         {.hint = StrCat(least, " to ", most, " are possible")});
  }
}

int32_t Multiply(RequantizeMode mode, int32_t x, FixedMultiplier m) {
  if (mode == RequantizeMode::kToNearest) return RequantizeToNearest(x, m);
  return mode == RequantizeMode::kGemmlowp ? RequantizeGemmlowp(x, m) : RequantizeUpward(x, m);
}

void EvaluateFixedPointMultiply(EvalContext& context) {
  const RequantizeMode mode = RoundingOf(context.attributes());
  CheckNumbers(context, 1, 0, INT32_MAX);
  CheckNumbers(context, 2, 1, 62);
  const Tensor &x = context.input(0), &multiplier = context.input(1), &shift = context.input(2);
  Tensor out = context.Output(0, DType::kInt32, x.shape());
  if (BroadcastShapes(BroadcastShapes(x.shape(), multiplier.shape()), shift.shape()) != x.shape()) {
    Fail(ErrorCode::kShapeMismatch, StrCat("the multipliers of FixedPointMultiply cannot be ",
                                           "broadcast to ", ShapeToString(x.shape())));
  }
  const int32_t *from = x.data<int32_t>(), *by = multiplier.data<int32_t>(),
                *right = shift.data<int32_t>();
  ForEachRow(PlanRows(x.shape(), {&x.shape(), &multiplier.shape(), &shift.shape()}),
             [&](const RowStep& row) {
               for (int64_t i = 0; i < row.length; ++i) {
                 const FixedMultiplier m{by[row.input[1] + i * row.step[1]],
                                         right[row.input[2] + i * row.step[2]]};
                 out.data<int32_t>()[row.output + i] =
                     Multiply(mode, from[row.input[0] + i * row.step[0]], m);
               }
             });
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    OnIntegers({"FixedPointMultiply", kRequantDomain, 1, 3, 3, 1, InferFixedPointMultiply,
                EvaluateFixedPointMultiply, QuantRule::kFloat, FusionRule::kBroadcast}),
};

}  // namespace

std::span<const OpDef> FixedPointMultiplyOps() { return kRows; }

}  // namespace requant
