// Operators that change shapes, and those that tell them or make tensors of them.
#include <algorithm>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/shape/select.h"
#include "tflite/operators.h"

namespace requant::tflite {

void ConvertReshape(Context& context, const char*) {
  Value* target = nullptr;
  AttributeMap attributes;
  std::vector<int64_t> wanted;
  if (context.has(1) && context.constant(1) == nullptr && context.input(1).shape.size() == 1 &&
      !(context.input(1).shape[0] == Dim(0))) {
    target = context.Int64(1);
  } else {
    if (context.has(1)) {
      wanted = context.ints(1);
    } else {
      const auto listed = context.options().List<int32_t>(field::ReshapeOptions::kNewShape);
      wanted.assign(listed.begin(), listed.end());
      // A lone 0 means a shape without dimensions (tensorflow/lite/kernels/reshape.cc).
      if (wanted.size() == 1 && wanted[0] == 0) wanted.clear();
    }
    target = context.Ints(wanted);
    if (std::find(wanted.begin(), wanted.end(), 0) != wanted.end()) {
      attributes.Set("allowzero", int64_t{1});
    }
  }
  context.Define(context.Add("Reshape", {context.Reals(0), target}, std::move(attributes)));
}

void ConvertSqueeze(Context& context, const char*) {
  const auto listed = context.options().List<int32_t>(field::SqueezeOptions::kSqueezeDims);
  std::vector<Value*> inputs = {context.Reals(0)};
  if (!listed.empty()) {
    std::vector<int64_t> axes;
    for (const int32_t axis : listed) axes.push_back(context.Axis(axis, context.rank(0)));
    inputs.push_back(context.Ints(axes));
  }
  context.Define(context.Add("Squeeze", std::move(inputs)));
}

void ConvertExpandDims(Context& context, const char*) {
  const std::vector<int64_t> axes = context.ints(1);
  if (axes.size() != 1) context.Invalid(RQ_LATE_TEXT("needs one axis"));
  const int64_t axis = context.Axis(axes[0], context.rank(0) + 1);
  context.Define(context.Add("Unsqueeze", {context.Reals(0), context.Ints({axis})}));
}

void ConvertTranspose(Context& context, const char*) {
  std::vector<int64_t> perm = context.ints(1);
  if (perm.size() != context.rank(0))
    context.Invalid(RQ_LATE_TEXT("has a permutation of another rank"));
  for (int64_t& axis : perm) axis = context.Axis(axis, context.rank(0));
  context.Define(context.graph().Transposed(context.Reals(0), perm));
}

void ConvertTile(Context& context, const char*) {
  context.Define(context.Add("Tile", {context.Reals(0), context.Int64(1)}));
}

void ConvertBroadcastTo(Context& context, const char*) {
  context.Define(context.Add("Expand", {context.Reals(0), context.Int64(1)}));
}

/// The shape that two shapes broadcast to.
void ConvertBroadcastArgs(Context& context, const char*) {
  Value* one =
      context.Add("ConstantOfShape", {context.Int64(0)}, With("value", Tensor(DType::kBool, {1})));
  context.DefineInts(context.Add("Shape", {context.Add("Expand", {one, context.Int64(1)})}));
}

void ConvertFill(Context& context, const char*) {
  context.Define(context.Add("Expand", {context.Reals(1), context.Int64(0)}));
}

void ConvertRange(Context& context, const char*) {
  std::vector<Value*> inputs;
  for (size_t slot = 0; slot < 3; ++slot) {
    Value* bound = context.Codes(slot);
    inputs.push_back(context.rank(slot) == 0 ? bound
                                             : context.Add("Reshape", {bound, context.Ints({})}));
  }
  context.Define(context.Add("Range", std::move(inputs)));
}

void ConvertShape(Context& context, const char*) {
  context.DefineInts(context.Add("Shape", {context.Codes(0)}));
}

void ConvertRank(Context& context, const char*) {
  const auto rank = static_cast<int64_t>(context.rank(0));
  context.DefineInts(context.graph().AddConstant(Tensor::Scalar(rank)));
}

/// A Slice backwards from the last element.
void ConvertReverse(Context& context, const char*) {
  std::vector<int64_t> axes = context.ints(1);
  for (int64_t& axis : axes) axis = context.Axis(axis, context.rank(0));
  const auto count = static_cast<int64_t>(axes.size());
  const std::vector<int64_t> last(axes.size(), -1);
  const std::vector<int64_t> before_first(axes.size(), INT64_MIN);
  if (count == 0) return context.Define(context.Add("Identity", {context.Reals(0)}));
  context.Define(
      context.Add("Slice", {context.Reals(0), context.Ints(last), context.Ints(before_first),
                            context.Ints(axes), context.Ints(last)}));
}

void ConvertReverseSequence(Context& context, const char*) {
  using Options = field::ReverseSequenceOptions;
  const size_t rank = context.rank(0);
  const int64_t time = context.Axis(context.options().Get<int32_t>(Options::kSeqDim, 0), rank);
  const int64_t batch = context.Axis(context.options().Get<int32_t>(Options::kBatchDim, 0), rank);
  if (time > 1 || batch > 1 || time == batch) {
    context.Refuse(RQ_LATE_TEXT("reverses along other dimensions than the first two"),
                   RQ_LATE_TEXT("transpose its input before, and its output after it"));
  }
  context.Define(context.Add("ReverseSequence", {context.Reals(0), context.Int64(1)},
                             With("time_axis", time, "batch_axis", batch)));
}

}  // namespace requant::tflite
