// Broadcasting comparisons, logic and Where.
#include <cstring>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/binary_classes.h"
#include "ops/elementwise/equal_texts.h"
#include "ops/elementwise/float_loops.h"
#include "ops/infer_util.h"
#include "ops/table.h"
#include "tensor/text.h"

namespace requant {
namespace {

constexpr Classes<bool> kComparisons[] = {
    {"Equal", [](double a, double b) { return a == b; },
     [](int64_t a, int64_t b) { return a == b; }, [](uint64_t a, uint64_t b) { return a == b; }},
    {"Greater", [](double a, double b) { return a > b; },
     [](int64_t a, int64_t b) { return a > b; }, [](uint64_t a, uint64_t b) { return a > b; }},
    {"GreaterOrEqual", [](double a, double b) { return a >= b; },
     [](int64_t a, int64_t b) { return a >= b; }, [](uint64_t a, uint64_t b) { return a >= b; }},
    {"Less", [](double a, double b) { return a < b; }, [](int64_t a, int64_t b) { return a < b; },
     [](uint64_t a, uint64_t b) { return a < b; }},
    {"LessOrEqual", [](double a, double b) { return a <= b; },
     [](int64_t a, int64_t b) { return a <= b; }, [](uint64_t a, uint64_t b) { return a <= b; }},
};

void InferComparison(InferContext& context) {
  const DType dtype = context.inputs[0].dtype;
  const bool any = context.node.op_type == "Equal" && (dtype == DType::kBool || IsText(dtype));
  if (!any) RequireNumeric(context, 0);
  if (IsText(dtype)) RequireSameDType(context, 0, 1);
  ElementwiseBroadcast(context);
  if (!context.outputs.empty()) context.outputs[0].dtype = DType::kBool;
}

void EvaluateComparison(EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  if (IsText(a.dtype())) return kEqualTexts(context);
  Tensor out(DType::kBool, BroadcastShapes(a.shape(), b.shape()));
  for (const Classes<bool>& row : kComparisons) {
    if (context.node.op_type != row.name) continue;
    const bool visited = VisitDType(a.dtype(), [&](auto tag) {
      using T = decltype(tag);
      Broadcast<T, uint8_t>(a, b, out, row.get<ComputeOf<T>>());
    });
    if (!visited) RequireComputable(a.dtype(), context.node);
  }
  context.outputs[0] = std::move(out);
}

void InferLogic(InferContext& context) {
  RequireDType(context, 0, {DType::kBool});
  RequireDType(context, 1, {DType::kBool});
  ElementwiseBroadcast(context);
}

void EvaluateLogic(EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  Tensor out = context.Output(0, DType::kBool, BroadcastShapes(a.shape(), b.shape()));
  const char kind = context.node.op_type[0];  // And, Or, Xor
  ForEachRow(PlanRows(out.shape(), {&a.shape(), &b.shape()}), [&](const RowStep& row) {
    float_loops::Logic(kind, a.data<uint8_t>() + row.input[0], row.step[0],
                       b.data<uint8_t>() + row.input[1], row.step[1],
                       out.data<uint8_t>() + row.output, row.length);
  });
  context.outputs[0] = std::move(out);
}

// --- Where

void InferWhere(InferContext& context) {
  RequireDType(context, 0, {DType::kBool});
  RequireSameDType(context, 1, 2);
  const DType dtype = context.inputs[1].dtype != DType::kUndefined ? context.inputs[1].dtype
                                                                   : context.inputs[2].dtype;
  if (dtype != DType::kUndefined && DTypeBits(dtype) < 8) {
    Fail(ErrorCode::kUnsupported, StrCat("Where of ", DTypeName(dtype)));
  }
  SetOutput(context, 0, dtype, BroadcastOfInputs(context));
}

/// Selects a row of elements of 4 bytes, as most are.
void WhereWords(const RowStep& row, const uint8_t* choose, const void* yes, const void* no,
                void* out) {
  choose += row.input[0];
  const auto* a = static_cast<const uint32_t*>(yes) + row.input[1];
  const auto* b = static_cast<const uint32_t*>(no) + row.input[2];
  auto* to = static_cast<uint32_t*>(out) + row.output;
  const auto [step, a_step, b_step] = row.step;
  for (int64_t i = 0; i < row.length; ++i) {
    const uint32_t first = *a;
    const uint32_t second = *b;
    to[i] = *choose != 0 ? first : second;
    choose += step;
    a += a_step;
    b += b_step;
  }
}

void EvaluateWhere(EvalContext& context) {
  const Tensor& condition = context.input(0);
  const Tensor& yes = context.input(1);
  const Tensor& no = context.input(2);
  if (yes.dtype() != no.dtype() || DTypeBits(yes.dtype()) < 8) {
    Fail(ErrorCode::kTypeMismatch,
         StrCat("Where of ", DTypeName(yes.dtype()), " and ", DTypeName(no.dtype())));
  }
  Tensor out = context.Output(
      0, yes.dtype(), BroadcastShapes(BroadcastShapes(condition.shape(), yes.shape()), no.shape()));
  const auto width = static_cast<int64_t>(DTypeBits(yes.dtype()) / 8);
  const auto* choose = condition.data<uint8_t>();
  const auto* from_yes = static_cast<const uint8_t*>(yes.raw());
  const auto* from_no = static_cast<const uint8_t*>(no.raw());
  auto* to = static_cast<uint8_t*>(out.raw());
  const RowPlan plan = PlanRows(out.shape(), {&condition.shape(), &yes.shape(), &no.shape()});
  ForEachRow(plan, [&](const RowStep& row) {
    if (width == 4) return WhereWords(row, choose, from_yes, from_no, to);
    for (int64_t i = 0; i < row.length; ++i) {
      const bool first = choose[row.input[0] + i * row.step[0]] != 0;
      const uint8_t* from = first ? from_yes + (row.input[1] + i * row.step[1]) * width
                                  : from_no + (row.input[2] + i * row.step[2]) * width;
      std::memcpy(to + (row.output + i) * width, from, static_cast<size_t>(width));
    }
  });
  context.outputs[0] = std::move(out);
}

constexpr OpDef ComparisonRow(const char* name, int since_version) {
  return {name,
          "",
          since_version,
          2,
          2,
          1,
          InferComparison,
          EvaluateComparison,
          QuantRule::kFloat,
          FusionRule::kBroadcast};
}

constexpr OpDef LogicRow(const char* name) {
  return {
      name, "", 7, 2, 2, 1, InferLogic, EvaluateLogic, QuantRule::kFloat, FusionRule::kBroadcast};
}

constexpr OpDef kOps[] = {
    ComparisonRow("Equal", 7),
    ComparisonRow("Greater", 7),
    ComparisonRow("GreaterOrEqual", 12),
    ComparisonRow("Less", 7),
    ComparisonRow("LessOrEqual", 12),
    LogicRow("And"),
    LogicRow("Or"),
    LogicRow("Xor"),
    {"Where", "", 9, 3, 3, 1, InferWhere, EvaluateWhere, QuantRule::kFloat, FusionRule::kBroadcast},
};

}  // namespace

std::span<const OpDef> ComparisonOps() { return kOps; }

}  // namespace requant
