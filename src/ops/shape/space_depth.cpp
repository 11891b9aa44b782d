// DepthToSpace and SpaceToDepth: a permutation of six axes (onnx docs/Operators.md).
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

int64_t BlockSize(const AttributeMap& attributes) {
  const int64_t block = attributes.Int("blocksize", 0);
  if (block < 1 || block > 65536) {
    Fail(ErrorCode::kInvalidModel, StrCat("a blocksize of ", block, " is not possible"));
  }
  return block;
}

Dim DivideDim(const Dim& dim, int64_t divisor) {
  if (!dim.known()) return divisor == 1 ? dim : Dim();
  if (dim.value % divisor != 0) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("a dimension of ", dim.value, " is not divisible by ", divisor));
  }
  return dim.value / divisor;
}

void InferDepthToSpace(InferContext& context) {
  RequireRank(context, 0, 4);
  SymbolicShape shape(4);
  const int64_t block = BlockSize(context.attributes());
  if (const SymbolicShape* input = context.shape(0)) {
    shape = {(*input)[0], DivideDim((*input)[1], block * block), MultiplyDims((*input)[2], block),
             MultiplyDims((*input)[3], block)};
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateDepthToSpace(EvalContext& context) {
  const Tensor& input = context.input(0);
  const int64_t b = BlockSize(context.attributes());
  if (input.rank() != 4) Fail(ErrorCode::kShapeMismatch, "DepthToSpace needs 4 dimensions");
  const int64_t n = input.dim(0), h = input.dim(2), w = input.dim(3);
  const int64_t c = DivideDim(input.dim(1), b * b).value;
  const std::string mode = context.attributes().String("mode", "DCR");
  Tensor moved;
  if (mode == "DCR") {
    moved = Permute(input.Reshaped({n, b, b, c, h, w}), {0, 3, 4, 1, 5, 2});
  } else if (mode == "CRD") {
    moved = Permute(input.Reshaped({n, c, b, b, h, w}), {0, 1, 4, 2, 5, 3});
  } else {
    Fail(ErrorCode::kInvalidModel, StrCat("mode '", mode, "' of DepthToSpace does not exist"),
         {.hint = "use DCR or CRD"});
  }
  context.outputs[0] = moved.Reshaped({n, c, h * b, w * b});
}

void InferSpaceToDepth(InferContext& context) {
  RequireRank(context, 0, 4);
  SymbolicShape shape(4);
  const int64_t block = BlockSize(context.attributes());
  if (const SymbolicShape* input = context.shape(0)) {
    shape = {(*input)[0], MultiplyDims((*input)[1], block * block), DivideDim((*input)[2], block),
             DivideDim((*input)[3], block)};
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateSpaceToDepth(EvalContext& context) {
  const Tensor& input = context.input(0);
  const int64_t b = BlockSize(context.attributes());
  if (input.rank() != 4) Fail(ErrorCode::kShapeMismatch, "SpaceToDepth needs 4 dimensions");
  const int64_t n = input.dim(0), c = input.dim(1);
  const int64_t h = DivideDim(input.dim(2), b).value, w = DivideDim(input.dim(3), b).value;
  context.outputs[0] = Permute(input.Reshaped({n, c, h, b, w, b}), {0, 3, 5, 1, 2, 4})
                           .Reshaped({n, c * b * b, h, w});
}

constexpr OpDef kRows[] = {
    {"DepthToSpace", "", 1, 1, 1, 1, InferDepthToSpace, EvaluateDepthToSpace, QuantRule::kPassive,
     FusionRule::kInjective},
    {"SpaceToDepth", "", 1, 1, 1, 1, InferSpaceToDepth, EvaluateSpaceToDepth, QuantRule::kPassive,
     FusionRule::kInjective},
};

}  // namespace

std::span<const OpDef> SpaceDepthOps() { return kRows; }

}  // namespace requant
