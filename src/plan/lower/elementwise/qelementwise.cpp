// Lowers com.microsoft::QLinearAdd and QLinearMul.
#include "plan/lower/elementwise/qelementwise.h"

#include <type_traits>

#include "kernels/elementwise/table.h"
#include "kernels/variant/missing.h"
#include "numeric/multiplier.h"
#include "numeric/qadd.h"
#include "numeric/requantize_prepare.h"
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/elementwise/broadcast.h"
#include "plan/lower/elementwise/qbinary_step.h"
#include "plan/lower/parts.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

struct Operands {
  QuantConstants a, b, c;
};

std::optional<Operands> OperandsOf(const PlanBuilder& builder, const Node& node) {
  const RequantizeMode mode = builder.options().requantize;
  if (mode != RequantizeMode::kUpward && mode != RequantizeMode::kFloat) return std::nullopt;
  const auto a = ReadQuant(node, 1, 2);
  const auto b = ReadQuant(node, 4, 5);
  const auto c = ReadQuant(node, 6, 7);
  if (!a || !b || !c || a->scales.size() != 1 || b->scales.size() != 1 || c->scales.size() != 1 ||
      !IsByte(node.inputs[0]->type.dtype)) {
    return std::nullopt;
  }
  return Operands{*a, *b, *c};
}

template <typename Params>
void SetTypes(const Node& node, const Operands& operands, Params& params) {
  params.a_signed = node.inputs[0]->type.dtype == DType::kInt8;
  params.b_signed = node.inputs[3]->type.dtype == DType::kInt8;
  params.out_signed = node.outputs[0]->type.dtype == DType::kInt8;
  params.a_zero = operands.a.zero_points[0];
  params.b_zero = operands.b.zero_points[0];
  params.out_zero = operands.c.zero_points[0];
}

QAddParams AdditionOf(const Node& node, const Operands& operands, RequantizeMode mode) {
  QAddParams params = {};
  SetTypes(node, operands, params);
  const float scale_c = operands.c.scales[0];
  params.a_scale = operands.a.scales[0];
  params.b_scale = operands.b.scales[0];
  params.out_scale = scale_c;
  QAddMultipliers multipliers{0, 0, 1};
  if (mode == RequantizeMode::kUpward) {
    multipliers = MakeQAddMultipliers(static_cast<double>(params.a_scale) / scale_c,
                                      static_cast<double>(params.b_scale) / scale_c);
  }
  params.a_multiplier = multipliers.a;
  params.b_multiplier = multipliers.b;
  params.shift = multipliers.shift;
  params.narrow = MakeQAddSimple(multipliers, params.out_zero);
  params.a_step = params.b_step = 1;
  return params;
}

QMulParams ProductOf(const Node& node, const Operands& operands, RequantizeMode mode) {
  QMulParams params = {};
  SetTypes(node, operands, params);
  const double multiplier =
      ProductMultiplier(mode, operands.a.scales[0], operands.b.scales[0], operands.c.scales[0]);
  params.multiplier = MakeFixedMultiplier(multiplier);
  params.scale = static_cast<float>(LimitedMultiplier(multiplier));
  return params;
}

template <typename Kernel, typename Params>
void AddQBinaryStep(PlanBuilder& builder, const Node& node, const Kernel& kernel,
                    const BinaryWalk& walk, std::vector<int64_t>& blocks, const Params& params) {
  const Value* a = node.inputs[0];
  const Value* out = node.outputs[0];
  const int slot_a = WalkedOperand(builder, a, out, walk.layout);
  const int slot_b = WalkedOperand(builder, node.inputs[3], out, walk.layout);
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  const int output = builder.Out(epilogue.output, walk.layout);
  auto& step = builder.Add<QBinaryStep<Params>>(node, kernel.name, {slot_a, slot_b}, {output});
  step.op = epilogue.op;
  step.run = kernel.run;
  step.blocks.swap(blocks);
  step.may_overwrite = a->type.StaticShape() == out->type.StaticShape();
  const CodeRange clamp = ClampOf(out->type.dtype, epilogue.clamp);
  builder.SetRange(epilogue.output, clamp);
  step.params = params;
  step.params.rows = walk.rows;
  step.params.cols = walk.cols;
  step.params.a_row_stride = walk.a_row_stride;
  step.params.b_row_stride = walk.b_row_stride;
  step.params.out_row_stride = walk.cols;
  step.params.a_step = walk.a_step;
  step.params.b_step = walk.b_step;
  step.params.lo = clamp.lo;
  step.params.hi = clamp.hi;
  if constexpr (std::is_same_v<Params, QAddParams>) {
    FindNarrow(builder.options().requantize, builder.RangeOf(a), builder.RangeOf(node.inputs[3]),
               step.params);
  }
  DivideBinary(builder, step, kernel.run, step.params, 1, 1);
}

}  // namespace

std::optional<QAddParams> QAddOf(const PlanBuilder& builder, const Node& node) {
  const auto operands = OperandsOf(builder, node);
  if (!operands || builder.IsForced("qadd")) return std::nullopt;
  return AdditionOf(node, *operands, builder.options().requantize);
}

void FindNarrow(RequantizeMode mode, CodeRange a, CodeRange b, QAddParams& addition) {
  if (mode != RequantizeMode::kUpward || MissingLowBits() != nullptr) return;
  const QAddNarrow found =
      kMakeQAddNarrow({addition.a_multiplier, addition.b_multiplier, addition.shift},
                      {a.lo - addition.a_zero, a.hi - addition.a_zero},
                      {b.lo - addition.b_zero, b.hi - addition.b_zero}, addition.out_zero,
                      addition.lo, addition.hi);
  if (found.shift != 0) addition.narrow = found;
}

bool LowerQLinearBinary(PlanBuilder& builder, const Node& node) {
  const auto operands = OperandsOf(builder, node);
  if (!operands) return false;
  std::vector<int64_t> blocks;
  const auto walk = PlanBroadcast(builder, node.inputs[0], node.inputs[3], node.outputs[0], blocks);
  if (!walk) return false;
  const RequantizeMode mode = builder.options().requantize;
  const QBinaryMode wanted =
      mode == RequantizeMode::kFloat ? QBinaryMode::kFloat : QBinaryMode::kFixed;
  const auto fits = [wanted](const auto& row) { return row.mode == wanted; };
  if (node.op_type == "QLinearAdd") {
    AddQBinaryStep(builder, node, builder.Choose("qadd", QAddKernels(), fits), *walk, blocks,
                   AdditionOf(node, *operands, mode));
  } else {
    AddQBinaryStep(builder, node, builder.Choose("qmul", QMulKernels(), fits), *walk, blocks,
                   ProductOf(node, *operands, mode));
  }
  return true;
}

RQ_STEP(QAdd, QBinaryStep<QAddParams>)
RQ_STEP(QMul, QBinaryStep<QMulParams>)
RQ_STEP(QAddNibbles, QBinaryStep<QAddNibblesParams>)

}  // namespace requant
