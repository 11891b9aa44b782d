// Operators that join tensors and take them apart: CONCATENATION, PACK, SPLIT, UNPACK.
#include <algorithm>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

/// Splits along `axis` into parts of these sizes, or into as many equal ones as there are outputs.
void Split(Context& context, size_t slot, int64_t axis, const std::vector<int64_t>& sizes,
           bool squeeze) {
  const auto count = static_cast<int64_t>(context.outputs());
  if (count == 0 || (!sizes.empty() && static_cast<int64_t>(sizes.size()) != count)) {
    context.Invalid(StrCat(RQ_LATE_TEXT("has "), sizes.size(), RQ_LATE_TEXT(" sizes for "), count,
                           RQ_LATE_TEXT(" outputs")));
  }
  const size_t rank = context.rank(slot);
  const Order order = squeeze ? Order::kPlain : context.order(slot);
  std::vector<Value*> inputs = {context.Reals(slot, order)};
  AttributeMap attributes = With("axis", order == Order::kPlanar ? PlanarAxis(axis, rank) : axis);
  if (sizes.empty()) {
    attributes.Set("num_outputs", count);
  } else {
    inputs.push_back(context.Ints(sizes));
  }
  const std::vector<Value*> parts =
      context.graph().AddMany("Split", std::move(inputs), context.outputs(), std::move(attributes));
  for (size_t i = 0; i < parts.size(); ++i) {
    Value* part = squeeze ? context.Add("Squeeze", {parts[i], context.Ints({axis})}) : parts[i];
    context.Define(part, order, i);
  }
}

}  // namespace

void ConvertConcatenation(Context& context, const char*) {
  using Options = field::ConcatenationOptions;
  const size_t count = context.inputs();
  if (count == 0) context.Invalid(RQ_LATE_TEXT("has no input"));
  const size_t rank = context.rank(0);
  const int64_t axis = context.Axis(context.options().Get<int32_t>(Options::kAxis, 0), rank);
  const auto activation = context.options().Get<int8_t>(Options::kActivation, 0);
  Order order = Order::kPlain;
  for (size_t slot = 0; slot < count; ++slot) {
    if (context.rank(slot) != rank) context.Invalid(RQ_LATE_TEXT("has inputs of several ranks"));
    if (context.order(slot) == Order::kPlanar) order = Order::kPlanar;
  }
  std::vector<Value*> inputs;
  for (size_t slot = 0; slot < count; ++slot) {
    inputs.push_back(context.Reals(slot, order));
  }
  Value* result =
      context.Add("Concat", std::move(inputs),
                  With("axis", order == Order::kPlanar ? PlanarAxis(axis, rank) : axis));
  context.DefineActivated(result, activation, order);
}

void ConvertPack(Context& context, const char*) {
  const int64_t axis = context.Axis(context.options().Get<int32_t>(field::PackOptions::kAxis, 0),
                                    context.rank(0) + 1);
  std::vector<Value*> inputs;
  for (size_t slot = 0; slot < context.inputs(); ++slot) {
    inputs.push_back(context.Add("Unsqueeze", {context.Reals(slot), context.Ints({axis})}));
  }
  context.Define(context.Add("Concat", std::move(inputs), With("axis", axis)));
}

void ConvertUnpack(Context& context, const char*) {
  const int64_t axis =
      context.Axis(context.options().Get<int32_t>(field::PackOptions::kAxis, 0), context.rank(0));
  Split(context, 0, axis, {}, true);
}

void ConvertSplit(Context& context, const char*) {
  const std::vector<int64_t> axes = context.ints(0);
  if (axes.size() != 1) context.Invalid(RQ_LATE_TEXT("needs one axis"));
  const int64_t axis = context.Axis(axes[0], context.rank(1));
  const Dim& dim = context.input(1).shape[static_cast<size_t>(axis)];
  const auto count = static_cast<int64_t>(context.outputs());
  if (dim.known() && count > 0 && dim.value % count != 0) {
    context.Invalid(StrCat(RQ_LATE_TEXT("divides "), dim.value, RQ_LATE_TEXT(" by "), count));
  }
  Split(context, 1, axis, {}, false);
}

void ConvertSplitV(Context& context, const char*) {
  std::vector<int64_t> sizes = context.ints(1);
  const std::vector<int64_t> axes = context.ints(2);
  if (axes.size() != 1) context.Invalid(RQ_LATE_TEXT("needs one axis"));
  const int64_t axis = context.Axis(axes[0], context.rank(0));
  // One size may be -1: what the others leave.
  const auto open = std::find(sizes.begin(), sizes.end(), -1);
  if (open != sizes.end()) {
    const Dim& dim = context.input(0).shape[static_cast<size_t>(axis)];
    if (!dim.known()) {
      context.Refuse(RQ_LATE_TEXT("splits an open dimension"),
                     RQ_LATE_TEXT("convert the model with fixed shapes"));
    }
    int64_t rest = dim.value;
    for (const int64_t size : sizes) rest -= size == -1 ? 0 : size;
    *open = rest;
  }
  for (const int64_t size : sizes) {
    if (size < 0) context.Invalid(RQ_LATE_TEXT("has sizes that do not fit"));
  }
  Split(context, 0, axis, sizes, false);
}

}  // namespace requant::tflite
