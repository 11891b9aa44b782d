// Operators that pick or place elements by indices.
#include <numeric>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

std::vector<int64_t> Count(int64_t from, int64_t to) {
  std::vector<int64_t> out;
  for (int64_t i = from; i < to; ++i) out.push_back(i);
  return out;
}

}  // namespace

void ConvertGather(Context& context, const char*) {
  using Options = field::GatherOptions;
  const auto rank = static_cast<int64_t>(context.rank(0));
  const auto index_rank = static_cast<int64_t>(context.rank(1));
  const int64_t axis =
      context.Axis(context.options().Get<int32_t>(Options::kAxis, 0), context.rank(0));
  int64_t batches = context.options().Get<int32_t>(Options::kBatchDims, 0);
  if (batches < 0) batches += index_rank;
  if (batches < 0 || batches > axis || batches > index_rank) {
    context.Invalid(StrCat(RQ_LATE_TEXT("has "), batches,
                           RQ_LATE_TEXT(" batch dimensions before axis "), axis));
  }
  Value* data = context.Reals(0);
  if (batches == 0) {
    context.Define(context.Add("Gather", {data, context.Codes(1)}, With("axis", axis)));
    return;
  }
  // GatherND picks from the first dimension behind the batches, so the axis goes there first.
  std::vector<int64_t> to_front = Count(0, batches);
  to_front.push_back(axis);
  for (int64_t i = batches; i < rank; ++i) {
    if (i != axis) to_front.push_back(i);
  }
  if (axis != batches) data = context.graph().Transposed(data, to_front);
  Value* indices = context.Add("Unsqueeze", {context.Int64(1), context.Ints({-1})});
  Value* picked = context.Add("GatherND", {data, indices}, With("batch_dims", batches));
  if (axis != batches) {
    // Of the result, [batches, indices, between, behind], `between` goes before the indices.
    std::vector<int64_t> perm = Count(0, batches);
    const int64_t between = axis - batches;
    for (const int64_t i : Count(index_rank, index_rank + between)) perm.push_back(i);
    for (const int64_t i : Count(batches, index_rank)) perm.push_back(i);
    for (const int64_t i : Count(index_rank + between, rank + index_rank - batches - 1)) {
      perm.push_back(i);
    }
    picked = context.graph().Transposed(picked, perm);
  }
  context.Define(picked);
}

void ConvertGatherNd(Context& context, const char*) {
  context.Define(context.Add("GatherND", {context.Reals(0), context.Int64(1)}));
}

void ConvertEmbeddingLookup(Context& context, const char*) {
  context.Define(context.Add("Gather", {context.Reals(1), context.Codes(0)}));
}

void ConvertOneHot(Context& context, const char*) {
  const auto axis =
      static_cast<int64_t>(context.options().Get<int32_t>(field::OneHotOptions::kAxis, 0));
  const auto one = [&context](Value* value) {
    return context.Add("Reshape", {value, context.Ints({1})});
  };
  Value* values = context.Add("Concat", {one(context.Codes(3)), one(context.Codes(2))},
                              With("axis", int64_t{0}));
  context.graph().DefineCodes(
      context.out(),
      context.Add("OneHot", {context.Int64(0), one(context.Int64(1)), values}, With("axis", axis)),
      Order::kPlain);
}

void ConvertWhere(Context& context, const char*) {
  if (context.rank(0) == 0) context.Invalid(RQ_LATE_TEXT("has an input without dimensions"));
  Value* found = context.Add("NonZero", {context.Codes(0)});
  context.DefineInts(context.graph().Transposed(found, {1, 0}));
}

/// Adds the updates to zeros, so indices may repeat.
void ConvertScatterNd(Context& context, const char*) {
  const DType dtype = context.output().dtype;
  Value* zeros =
      context.Add("ConstantOfShape", {context.Int64(2)}, With("value", Tensor(dtype, {1})));
  context.graph().DefineCodes(context.out(),
                              context.Add("ScatterND", {zeros, context.Int64(0), context.Codes(1)},
                                          With("reduction", std::string("add"))),
                              Order::kPlain);
}

}  // namespace requant::tflite
