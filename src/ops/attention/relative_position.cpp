// com.microsoft::RelativePositionBias: the bias of attention by the distance of key and query, in
// the buckets of T5 (Raffel et al., JMLR 2020; onnxruntime docs/ContribOperators.md).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/convolution/convolve.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

void InferRelativePosition(InferContext& context) {
  RequireFloat(context, 0);
  RequireRank(context, 0, 2);
  SymbolicShape shape = {1, Dim(), Dim(), Dim()};
  if (context.shape(0)) shape[1] = (*context.shape(0))[1];
  for (const size_t slot : {size_t{1}, size_t{2}}) {
    RequireDType(context, slot, {DType::kInt64});
    const ListArgument length = ReadList(context, nullptr, slot);
    if (length.known() && length.values.size() == 1 && length.values[0] >= 0) {
      shape[slot + 1] = length.values[0];
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

/// The bucket of a key `distance` positions behind its query. Half of the buckets are of one
/// distance each, the others grow up to `most`.
int64_t BucketOf(int64_t distance, int64_t buckets, int64_t most, bool both_ways) {
  int64_t first = 0;
  if (both_ways) {
    buckets /= 2;
    if (distance > 0) first = buckets;
    distance = std::abs(distance);
  } else {
    distance = std::max<int64_t>(-distance, 0);
  }
  const int64_t exact = buckets / 2;
  if (distance < exact) return first + distance;
  const auto ratio = [exact](int64_t x) {
    return std::log(static_cast<float>(x) / static_cast<float>(exact));
  };
  const float grown = ratio(distance) / ratio(most) * static_cast<float>(buckets - exact);
  return first + std::min(exact + static_cast<int64_t>(grown), buckets - 1);
}

void EvaluateRelativePosition(EvalContext& context) {
  const Tensor& table = context.input(0);
  const Tensor& queries = context.input(1);
  const Tensor& keys = context.input(2);
  const int64_t most = context.attributes().Int("max_distance", 0);
  const bool both_ways = context.attributes().Int("is_bidirectional", 0) != 0;
  if (table.rank() != 2 || queries.count() != 1 || keys.count() != 1) {
    Fail(ErrorCode::kShapeMismatch, StrCat(RQ_LATE_TEXT("RelativePositionBias with a table of "),
                                           ShapeToString(table.shape())));
  }
  const int64_t exact = table.dim(0) / (both_ways ? 4 : 2);
  if (exact < 1 || most <= exact) {
    Fail(ErrorCode::kInvalidModel, StrCat(RQ_LATE_TEXT("RelativePositionBias of "), table.dim(0),
                                          RQ_LATE_TEXT(" buckets up to a distance of "), most));
  }
  Tensor out(table.dtype(), {1, table.dim(1), queries.AsInt64(0), keys.AsInt64(0)});
  int64_t index = 0;
  for (int64_t head = 0; head < table.dim(1); ++head) {
    for (int64_t query = 0; query < out.dim(2); ++query) {
      for (int64_t key = 0; key < out.dim(3); ++key) {
        const int64_t bucket = BucketOf(key - query, table.dim(0), most, both_ways);
        StoreSum(out, index++, table.AsDouble(bucket * table.dim(1) + head));
      }
    }
  }
  context.outputs[0] = out;
}

constexpr OpDef kRows[] = {
    {"RelativePositionBias", kMicrosoftDomain, 1, 3, 3, 1, InferRelativePosition,
     EvaluateRelativePosition, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> RelativePositionOps() { return kRows; }

}  // namespace requant
