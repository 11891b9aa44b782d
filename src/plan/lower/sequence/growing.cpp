// Values that grow from run to run: the past keys and values of a decoder with those of the new
// tokens behind them. As rows of [room] tokens they need no copy:
//
//   dense    k0 k1 | k0 k1             two rows of two tokens
//   growing  k0 k1 .  . | k0 k1 .  .   the same with room for four; a third goes behind each row
//
// The tokens may be codes (kernels/token_codes), a quarter of the floats.
//
// A Concat of the past and new tokens becomes a step that writes the new tokens only. Attention
// reads growing values as they are (attention.cpp); all other operators get a dense copy.
#include "plan/lower/sequence/growing.h"

#include <utility>

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

/// Either of the two where the rows that grow are codes.
class TokenCodesStep : public StepOf<StepKind::kTokenCodes> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(tokens);
    archive.Kernel(TokenCodesKernels(), kernel, run);
  }
  void Run(const RunContext& context) const override {
    CodedTokens call = tokens;
    call.floats = context.Write<float>(tokens.slot == outputs[0] ? inputs[0] : outputs[0]);
    RecodeTokens(context, run, call);
  }
  CodedTokens tokens;
  void (*run)(const TokenCodesParams*) = nullptr;
};

/// Adds the step that writes slot `coded` from slot `floats`, or the reverse. `dense` are the rows
/// of floats, which stand behind `past` tokens of the coded rows.
TokenCodesStep& AddCodes(PlanBuilder& builder, const Node& node, TokenCodesOp op,
                         const TokenRows& dense, size_t past, int coded, int floats) {
  const bool encode = op == TokenCodesOp::kEncode;
  const TokenCodesKernel& kernel =
      builder.Choose("token_codes", TokenCodesKernels(),
                     [op](const TokenCodesKernel& row) { return row.op == op; });
  auto& step = builder.Add<TokenCodesStep>(node, kernel.name, {encode ? floats : coded},
                                           {encode ? coded : floats});
  CodedTokens& tokens = step.tokens;
  tokens.op = op;
  tokens.slot = coded;
  tokens.rows = static_cast<int64_t>(dense.rows);
  tokens.begin = static_cast<int64_t>(past);
  tokens.end = static_cast<int64_t>(past + dense.tokens);
  tokens.width = static_cast<int64_t>(dense.bytes / sizeof(float));
  tokens.stride = static_cast<int64_t>(dense.tokens) * tokens.width;
  step.run = kernel.run;
  return step;
}

}  // namespace

void RecodeTokens(const RunContext& context, void (*run)(const TokenCodesParams*),
                  const CodedTokens& tokens) {
  const auto width = static_cast<size_t>(tokens.width);
  const size_t floats = width * sizeof(float), codes = TokenCodesBytes(width);
  const bool encode = tokens.op == TokenCodesOp::kEncode;
  for (int64_t row = 0; row < tokens.rows; ++row) {
    const int64_t token = (tokens.first + row) * context.Room(tokens.slot) + tokens.begin;
    uint8_t* coded = context.Write<uint8_t>(tokens.slot) + static_cast<size_t>(token) * codes;
    float* dense = tokens.floats + row * tokens.stride;
    TokenCodesParams call{coded, dense, static_cast<size_t>(tokens.end - tokens.begin),
                          width, codes, floats};
    if (encode) {
      std::swap(call.in_row_stride, call.out_row_stride);
      call.in = dense;
      call.out = coded;
    }
    run(&call);
  }
}

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
  const TokenRows fresh =
      RowsAlong(present->type.dtype, added->type.StaticShape(), static_cast<int>(axis));
  const auto before = static_cast<size_t>(past->type.StaticShape()[static_cast<size_t>(axis)]);
  if (builder.slot(output).coded) {
    AddCodes(builder, node, TokenCodesOp::kEncode, fresh, before, output, builder.In(added));
    return true;
  }
  const CopyRowsKernel& copy = builder.Choose("copy_rows", CopyRowsKernels());
  auto& step = builder.Add<AppendStep>(node, copy.name, {builder.In(added)}, {output});
  step.fresh = fresh;
  step.past = before;
  step.copy = copy.run;
  return true;
}

void AddDenseCopy(PlanBuilder& builder, const Node& node, int rows, int dense) {
  const Slot& slot = builder.slot(rows);
  const TokenRows whole = RowsAlong(slot.dtype, slot.shape, slot.grows_along);
  if (slot.coded) {
    AddCodes(builder, node, TokenCodesOp::kDecode, whole, 0, rows, dense).op = "DenseCopy";
    return;
  }
  const CopyRowsKernel& copy = builder.Choose("copy_rows", CopyRowsKernels());
  auto& step = builder.Add<DenseCopyStep>(node, copy.name, {rows}, {dense});
  step.op = "DenseCopy";
  step.whole = whole;
  step.copy = copy.run;
}

RQ_STEP(Append, AppendStep)
RQ_STEP(DenseCopy, DenseCopyStep)
RQ_STEP(TokenCodes, TokenCodesStep)

}  // namespace requant
