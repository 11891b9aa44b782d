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

#include "kernels/layout/table.h"
#include "kernels/token_codes/table.h"
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
    if (context.slot(outputs[0]).coded) return RunCoded(context);
    const size_t bytes = fresh.tokens * fresh.bytes;
    const size_t row = static_cast<size_t>(context.Room(outputs[0])) * fresh.bytes;
    auto* out = context.Write<uint8_t>(outputs[0]) + past * fresh.bytes;
    const CopyRowsParams call{context.Read(inputs[0]), out, fresh.rows, bytes, bytes, row};
    copy(&call);
  }
  TokenRows fresh;
  size_t past = 0;  // tokens
  void (*copy)(const CopyRowsParams*) = nullptr;

 private:
  void RunCoded(const RunContext& context) const {
    const auto begin = static_cast<int64_t>(past), count = static_cast<int64_t>(fresh.tokens);
    const auto width = static_cast<int64_t>(fresh.bytes / sizeof(float));
    auto* floats = context.Write<float>(inputs[0]);
    for (int64_t row = 0; row < static_cast<int64_t>(fresh.rows); ++row) {
      float* own = floats + row * count * width;
      EncodeTokens(context, {outputs[0], row, 1, begin, begin + count, width, own, 0});
    }
  }
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
    if (context.slot(inputs[0]).coded) {
      const auto rows = static_cast<int64_t>(whole.rows);
      const auto count = static_cast<int64_t>(whole.tokens);
      const auto width = static_cast<int64_t>(whole.bytes / sizeof(float));
      auto* out = context.Write<float>(outputs[0]);
      return DecodeTokens(context, {inputs[0], 0, rows, 0, count, width, out, count * width});
    }
    const size_t row = static_cast<size_t>(context.Room(inputs[0])) * whole.bytes;
    const CopyRowsParams call{
        context.Read(inputs[0]), context.Write(outputs[0]), whole.rows, bytes, row, bytes};
    copy(&call);
  }
  TokenRows whole;
  void (*copy)(const CopyRowsParams*) = nullptr;
};

}  // namespace

namespace {

/// The codes of the first token of a row.
uint8_t* CodesOf(const RunContext& context, const CodedTokens& tokens, int64_t row) {
  const size_t each = TokenCodesBytes(static_cast<size_t>(tokens.width));
  const int64_t token = (tokens.first + row) * context.Room(tokens.slot) + tokens.begin;
  return context.Write<uint8_t>(tokens.slot) + static_cast<size_t>(token) * each;
}

}  // namespace

void DecodeTokens(const RunContext& context, const CodedTokens& tokens) {
  const auto run = TokenCodesRow(TokenCodesOp::kDecode);
  const auto width = static_cast<size_t>(tokens.width);
  for (int64_t row = 0; row < tokens.rows; ++row) {
    const TokenCodesParams call{CodesOf(context, tokens, row),
                                tokens.floats + row * tokens.stride,
                                static_cast<size_t>(tokens.end - tokens.begin),
                                width,
                                TokenCodesBytes(width),
                                width * sizeof(float)};
    run(&call);
  }
}

void EncodeTokens(const RunContext& context, const CodedTokens& tokens) {
  const auto run = TokenCodesRow(TokenCodesOp::kEncode);
  const auto width = static_cast<size_t>(tokens.width);
  for (int64_t row = 0; row < tokens.rows; ++row) {
    const TokenCodesParams call{tokens.floats + row * tokens.stride,
                                CodesOf(context, tokens, row),
                                static_cast<size_t>(tokens.end - tokens.begin),
                                width,
                                width * sizeof(float),
                                TokenCodesBytes(width)};
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
