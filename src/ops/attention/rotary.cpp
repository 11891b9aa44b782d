// RotaryEmbedding of ONNX (opset 23) and of com.microsoft.
#include "ops/attention/rotary.h"

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

/// ONNX: x, cos, sin, positions; com.microsoft: x, positions, cos, sin.
struct Slots {
  size_t positions, cos, sin;
};
Slots SlotsOf(const Node& node) { return node.domain.empty() ? Slots{3, 1, 2} : Slots{1, 2, 3}; }

void InferRotary(InferContext& context) {
  const Slots slots = SlotsOf(context.node);
  RequireDType(context, 0, {DType::kFloat32});
  RequireDType(context, slots.cos, {DType::kFloat32});
  RequireDType(context, slots.sin, {DType::kFloat32});
  if (context.has(slots.positions)) RequireDType(context, slots.positions, {DType::kInt64});
  if (context.attributes().Int("is_packed_batching", 0) != 0) {
    Fail(ErrorCode::kUnsupported, "RotaryEmbedding with is_packed_batching");
  }
  if (context.attributes().Float("scale", 1) != 1) {
    Fail(ErrorCode::kUnsupported, "RotaryEmbedding with a scale");
  }
  SameAsInput(context);
}

[[noreturn]] void Mismatch(const EvalContext& context) {
  std::string shapes;
  for (const Tensor* input : context.inputs) {
    if (input) shapes += StrCat(shapes.empty() ? "" : ", ", ShapeToString(input->shape()));
  }
  Fail(ErrorCode::kShapeMismatch, StrCat("RotaryEmbedding of ", shapes));
}

void EvaluateRotary(EvalContext& context) {
  const Slots slots = SlotsOf(context.node);
  const Tensor& x = context.input(0);
  const Tensor& cos = context.input(slots.cos);
  const Tensor& sin = context.input(slots.sin);
  const Tensor* positions =
      context.has(slots.positions) ? &context.input(slots.positions) : nullptr;
  const bool by_head = x.rank() == 4;  // [batch, heads, tokens, width]
  if ((!by_head && x.rank() != 3) || cos.rank() < 2 || cos.shape() != sin.shape())
    Mismatch(context);
  const int64_t batch = x.dim(0);
  const int64_t tokens = x.dim(by_head ? 2 : 1);
  const int64_t half = cos.dim(cos.rank() - 1);
  int64_t heads = context.attributes().Int("num_heads", 0);
  if (by_head) {
    heads = x.dim(1);
  } else if (heads <= 0) {
    // Without a number of heads, com.microsoft rotates heads as wide as the caches.
    const int64_t rotated = context.attributes().Int("rotary_embedding_dim", 0);
    if (context.node.domain.empty() || rotated > 0 || half == 0) {
      Fail(ErrorCode::kInvalidModel, "RotaryEmbedding needs the attribute num_heads");
    }
    heads = x.dim(2) / (2 * half);
  }
  if (heads <= 0 || (!by_head && x.dim(2) % heads != 0)) Mismatch(context);
  const int64_t width = by_head ? x.dim(3) : x.dim(2) / heads;
  const bool interleaved = context.attributes().Int("interleaved", 0) != 0;
  const int64_t rows = cos.rank() == 3 ? cos.dim(0) * cos.dim(1) : cos.dim(0);
  const bool listed = positions && positions->count() != 1;
  if (2 * half > width || (listed && positions->count() != batch * tokens) ||
      (positions == nullptr && rows != batch * tokens)) {
    Mismatch(context);
  }
  Tensor out = x.Clone();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < tokens; ++t) {
      // Positions index rows of the caches; a single one is the first token's.
      int64_t row = b * tokens + t;
      if (positions) row = listed ? positions->AsInt64(row) : positions->AsInt64(0) + t;
      if (row < 0 || row >= rows) {
        Fail(ErrorCode::kInvalidArgument,
             StrCat("position ", row, " of ", rows, " in the caches of RotaryEmbedding"));
      }
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t at = by_head ? ((b * heads + h) * tokens + t) * width
                                   : ((b * tokens + t) * heads + h) * width;
        RotateRow(out.data<float>() + at, cos.data<float>() + row * half,
                  sin.data<float>() + row * half, half, interleaved);
      }
    }
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"RotaryEmbedding", "", 23, 3, 4, 1, InferRotary, EvaluateRotary, QuantRule::kFloat},
    {"RotaryEmbedding", kMicrosoftDomain, 1, 4, 4, 1, InferRotary, EvaluateRotary,
     QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> RotaryOps() { return kRows; }

}  // namespace requant
