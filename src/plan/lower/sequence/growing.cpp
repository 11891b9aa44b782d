// Values that grow from run to run: the past keys and values of a decoder with those of the new
// tokens behind them. As rows of [room] tokens they need no copy:
//
//   dense    k0 k1 | k0 k1             two rows of two tokens
//   growing  k0 k1 .  . | k0 k1 .  .   the same with room for four; a third goes behind each row
//
// A Concat of the past and new tokens becomes a step that writes the new tokens only. Attention
// reads growing values as they are (attention.cpp); all other operators get a dense copy.
#include "plan/lower/sequence/growing.h"

#include "kernels/layout/table.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "tensor/token_rows.h"

namespace requant {
namespace {

/// Writes new tokens behind the old ones.
class AppendStep : public StepOf<StepKind::kAppend> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(fresh, past);
    archive.Kernel(CopyRowsKernels(), kernel, copy);
  }
  void Run(const RunContext& context) const override {
    if (fresh.empty()) return;
    const size_t bytes = fresh.tokens * fresh.bytes;
    const size_t row = static_cast<size_t>(context.Room(outputs[0])) * fresh.bytes;
    auto* out = context.Write<uint8_t>(outputs[0]) + past * fresh.bytes;
    const CopyRowsParams call{context.Read(inputs[0]), out, fresh.rows, bytes, bytes, row};
    copy(&call);
  }
  TokenRows fresh;
  size_t past = 0;  // tokens
  void (*copy)(const CopyRowsParams*) = nullptr;
};

class DenseCopyStep : public StepOf<StepKind::kDenseCopy> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(whole);
    archive.Kernel(CopyRowsKernels(), kernel, copy);
  }
  void Run(const RunContext& context) const override {
    if (whole.empty()) return;
    const size_t bytes = whole.tokens * whole.bytes;
    const size_t row = static_cast<size_t>(context.Room(inputs[0])) * whole.bytes;
    const CopyRowsParams call{
        context.Read(inputs[0]), context.Write(outputs[0]), whole.rows, bytes, row, bytes};
    copy(&call);
  }
  TokenRows whole;
  void (*copy)(const CopyRowsParams*) = nullptr;
};

}  // namespace

bool LowerAppend(PlanBuilder& builder, const Node& node) {
  if (builder.options().state.empty() || node.inputs.size() != 2) return false;
  const Value* past = node.inputs[0];
  const Value* added = node.inputs[1];
  const Value* present = node.outputs[0];
  const Shape shape = present->type.StaticShape();
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = node.attributes.Int("axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || DTypeBits(present->type.dtype) < 8) return false;
  const int output = builder.Grow(past, present, static_cast<int>(axis));
  if (output < 0) return false;
  const CopyRowsKernel& copy = builder.Choose("copy_rows", CopyRowsKernels());
  auto& step = builder.Add<AppendStep>(node, copy.name, {builder.In(added)}, {output});
  step.fresh = RowsAlong(present->type.dtype, added->type.StaticShape(), static_cast<int>(axis));
  step.past = static_cast<size_t>(past->type.StaticShape()[static_cast<size_t>(axis)]);
  step.copy = copy.run;
  return true;
}

void AddDenseCopy(PlanBuilder& builder, const Node& node, int rows, int dense) {
  const CopyRowsKernel& copy = builder.Choose("copy_rows", CopyRowsKernels());
  const Slot& slot = builder.slot(rows);
  auto& step = builder.Add<DenseCopyStep>(node, copy.name, {rows}, {dense});
  step.op = "DenseCopy";
  step.whole = RowsAlong(slot.dtype, slot.shape, slot.grows_along);
  step.copy = copy.run;
}

RQ_STEP(Append, AppendStep)
RQ_STEP(DenseCopy, DenseCopyStep)

}  // namespace requant
