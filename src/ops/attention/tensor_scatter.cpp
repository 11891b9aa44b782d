// TensorScatter (opset 24): writes new tokens into a cache, at a position of its own for every
// image.
#include <cstring>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

void InferTensorScatter(InferContext& context) {
  RequireSameDType(context, 0, 1);
  if (context.has(2)) RequireDType(context, 2, {DType::kInt64});
  const std::string mode = context.attributes().String("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    Fail(ErrorCode::kInvalidModel, StrCat("TensorScatter has no mode '", mode, "'"));
  }
  SameAsInput(context);
}

/// cache [batch, ..., most, ...], update [batch, ..., count, ...], indices [batch] (0 without).
void EvaluateTensorScatter(EvalContext& context) {
  const Tensor& cache = context.input(0);
  const Tensor& update = context.input(1);
  const auto axis =
      static_cast<size_t>(NormalizeAxis(context.attributes().Int("axis", -2), cache.rank()));
  const bool circular = context.attributes().String("mode", "linear") == "circular";
  Shape expected = cache.shape();
  if (axis == 0 || update.rank() != cache.rank()) {
    Fail(ErrorCode::kShapeMismatch, "TensorScatter cannot write along the images");
  }
  expected[axis] = update.shape()[axis];
  if (update.shape() != expected ||
      (context.has(2) && context.input(2).shape() != Shape{cache.dim(0)})) {
    Fail(ErrorCode::kShapeMismatch, StrCat("TensorScatter of ", ShapeToString(update.shape()),
                                           " into ", ShapeToString(cache.shape())));
  }
  const size_t bytes = DTypeBits(cache.dtype()) / 8;
  if (bytes == 0) Fail(ErrorCode::kUnsupported, "TensorScatter of values smaller than a byte");
  Tensor out = cache.Clone();
  if (out.count() == 0 || update.count() == 0) {
    context.outputs[0] = std::move(out);
    return;
  }
  const int64_t most = cache.shape()[axis];
  const int64_t count = update.shape()[axis];
  size_t inner = bytes;
  for (size_t i = axis + 1; i < expected.size(); ++i) inner *= static_cast<size_t>(expected[i]);
  int64_t middle = 1;
  for (size_t i = 1; i < axis; ++i) middle *= expected[i];
  auto* to = static_cast<uint8_t*>(out.raw());
  const auto* from = static_cast<const uint8_t*>(update.raw());
  for (int64_t b = 0; b < cache.dim(0); ++b) {
    int64_t first = context.has(2) ? context.input(2).AsInt64(b) : 0;
    if (first < 0 || count > most || (!circular && first > most - count)) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("TensorScatter writes ", count, " at ", first, " of ", most));
    }
    first %= most;
    for (int64_t m = 0; m < middle; ++m) {
      for (int64_t t = 0; t < count; ++t) {
        const int64_t place = ((b * middle + m) * most) + (first + t) % most;
        std::memcpy(to + static_cast<size_t>(place) * inner, from, inner);
        from += inner;
      }
    }
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"TensorScatter", "", 24, 2, 3, 1, InferTensorScatter, EvaluateTensorScatter,
     QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> TensorScatterOps() { return kRows; }

}  // namespace requant
