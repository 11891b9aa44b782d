// com.microsoft::QLinearAdd and QLinearMul.
#include "kernels/elementwise/table.h"
#include "numeric/multiplier.h"
#include "numeric/qadd.h"
#include "numeric/requantize_prepare.h"
#include "plan/lower/broadcast.h"
#include "plan/lower/parts.h"
#include "plan/lower/qbinary_step.h"
#include "plan/lower/qconv.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

struct Operands {
  QuantConstants a, b, c;
  BinaryWalk walk;
};

template <typename Params>
QBinaryStep<Params>& AddQBinaryStep(PlanBuilder& builder, const Node& node, const char* kernel,
                                    void (*run)(const Params*), const Operands& operands) {
  const Value* a = node.inputs[0];
  const Value* b = node.inputs[3];
  const Value* out = node.outputs[0];
  const BinaryWalk& walk = operands.walk;
  const int slot_a = WalkedOperand(builder, a, out, walk.layout);
  const int slot_b = WalkedOperand(builder, b, out, walk.layout);
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  const int output = builder.Out(epilogue.output, walk.layout);
  auto& step = builder.Add<QBinaryStep<Params>>(node, kernel, {slot_a, slot_b}, {output});
  step.op = epilogue.op;
  step.run = run;
  step.may_overwrite = a->type.StaticShape() == out->type.StaticShape();
  const CodeRange clamp = ClampOf(out->type.dtype, epilogue);
  builder.SetRange(epilogue.output, clamp);
  Params& params = step.params;
  params.rows = walk.rows;
  params.cols = walk.cols;
  params.a_row_stride = walk.a_row_stride;
  params.b_row_stride = walk.b_row_stride;
  params.out_row_stride = walk.cols;
  params.a_step = walk.a_step;
  params.b_step = walk.b_step;
  params.a_signed = a->type.dtype == DType::kInt8;
  params.b_signed = b->type.dtype == DType::kInt8;
  params.out_signed = out->type.dtype == DType::kInt8;
  params.a_zero = operands.a.zero_points[0];
  params.b_zero = operands.b.zero_points[0];
  params.out_zero = operands.c.zero_points[0];
  params.lo = clamp.lo;
  params.hi = clamp.hi;
  DivideBinary(builder, step, run, params, 1);
  return step;
}

}  // namespace

bool LowerQLinearBinary(PlanBuilder& builder, const Node& node) {
  const RequantizeMode mode = builder.options().requantize;
  if (mode != RequantizeMode::kUpward && mode != RequantizeMode::kFloat) return false;
  const auto a = ReadQuant(node, 1, 2);
  const auto b = ReadQuant(node, 4, 5);
  const auto c = ReadQuant(node, 6, 7);
  if (!a || !b || !c || a->scales.size() != 1 || b->scales.size() != 1 || c->scales.size() != 1 ||
      !IsByte(node.inputs[0]->type.dtype)) {
    return false;
  }
  const auto walk = PlanBinary(builder, node.inputs[0], node.inputs[3], node.outputs[0]);
  if (!walk) return false;
  const Operands operands{*a, *b, *c, *walk};
  const QBinaryMode wanted =
      mode == RequantizeMode::kFloat ? QBinaryMode::kFloat : QBinaryMode::kFixed;
  const auto fits = [wanted](const auto& row) { return row.mode == wanted; };
  const float scale_a = a->scales[0];
  const float scale_b = b->scales[0];
  const float scale_c = c->scales[0];
  if (node.op_type == "QLinearAdd") {
    const double ratio_a = static_cast<double>(scale_a) / scale_c;
    const double ratio_b = static_cast<double>(scale_b) / scale_c;
    QAddMultipliers multipliers{0, 0, 1};
    if (mode == RequantizeMode::kUpward) multipliers = MakeQAddMultipliers(ratio_a, ratio_b);
    const QAddKernel& kernel = builder.Choose("qadd", QAddKernels(), fits);
    auto& step = AddQBinaryStep<QAddParams>(builder, node, kernel.name, kernel.run, operands);
    step.params.a_multiplier = multipliers.a;
    step.params.b_multiplier = multipliers.b;
    step.params.shift = multipliers.shift;
    step.params.a_scale = scale_a;
    step.params.b_scale = scale_b;
    step.params.out_scale = scale_c;
  } else {
    const double multiplier = ProductMultiplier(mode, scale_a, scale_b, scale_c);
    const FixedMultiplier fixed = MakeFixedMultiplier(multiplier);
    const QMulKernel& kernel = builder.Choose("qmul", QMulKernels(), fits);
    auto& step = AddQBinaryStep<QMulParams>(builder, node, kernel.name, kernel.run, operands);
    step.params.multiplier = fixed;
    step.params.scale = static_cast<float>(multiplier);
  }
  return true;
}

std::unique_ptr<Step> NewQBinaryStep(StepKind kind) {
  if (kind == StepKind::kQAdd) return std::make_unique<QBinaryStep<QAddParams>>();
  if (kind == StepKind::kQMul) return std::make_unique<QBinaryStep<QMulParams>>();
  if (kind == StepKind::kQAddNibbles) return std::make_unique<QBinaryStep<QAddNibblesParams>>();
  return nullptr;
}

}  // namespace requant
