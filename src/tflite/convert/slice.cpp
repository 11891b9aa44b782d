// SLICE, STRIDED_SLICE and padding.
#include <algorithm>

#include "base/checked_math.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

constexpr int64_t kEnd = INT64_MAX;
/// A list of this many indices takes 8 MB.
constexpr int64_t kMostIndices = int64_t{1} << 20;

/// [begin, end) of all axes, in an order of dimensions.
std::vector<int64_t> InOrder(const std::vector<int64_t>& plain, Order order) {
  if (order == Order::kPlain) return plain;
  std::vector<int64_t> out;
  for (const int64_t axis : PlanarOrder(plain.size())) {
    out.push_back(plain[static_cast<size_t>(axis)]);
  }
  return out;
}

Value* Sliced(Context& context, Value* x, const std::vector<int64_t>& begin,
              const std::vector<int64_t>& end, const std::vector<int64_t>& steps, Order order) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < begin.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  return context.Add("Slice",
                     {x, context.Ints(InOrder(begin, order)), context.Ints(InOrder(end, order)),
                      context.Ints(axes), context.Ints(InOrder(steps, order))});
}

}  // namespace

void ConvertSlice(Context& context, const char*) {
  const size_t rank = context.rank(0);
  const Tensor* begin = context.constant(1);
  const Tensor* size = context.constant(2);
  if (begin && size) {
    const std::vector<int64_t> from = context.ints(1);
    std::vector<int64_t> to = context.ints(2);
    if (from.size() != rank || to.size() != rank)
      context.Invalid(RQ_LATE_TEXT("has bounds of another rank"));
    for (size_t i = 0; i < rank; ++i) {
      if (from[i] < 0 || to[i] < -1) context.Invalid(RQ_LATE_TEXT("has bounds that do not fit"));
      to[i] = to[i] == -1 ? kEnd : CheckedAdd64(from[i], to[i]);
    }
    const Order order = context.order(0);
    const std::vector<int64_t> steps(rank, 1);
    context.Define(Sliced(context, context.Reals(0, order), from, to, steps, order), order);
    return;
  }
  // A size of -1 means all that follows.
  Value* from = context.Int64(1);
  Value* length = context.Int64(2);
  Value* open = context.Add("Equal", {length, context.Ints({-1})});
  Value* to =
      context.Add("Where", {open, context.Ints({kEnd}), context.Add("Add", {from, length})});
  context.Define(context.Add("Slice", {context.Reals(0), from, to}));
}

void ConvertStridedSlice(Context& context, const char*) {
  using Options = field::StridedSliceOptions;
  const TableView& options = context.options();
  const auto mask = [&options](Options field) { return options.Get<int32_t>(field, 0); };
  const int32_t begin_mask = mask(Options::kBeginMask);
  const int32_t end_mask = mask(Options::kEndMask);
  const int32_t ellipsis_mask = mask(Options::kEllipsisMask);
  const int32_t new_mask = mask(Options::kNewAxisMask);
  const int32_t shrink_mask = mask(Options::kShrinkAxisMask);
  const bool relative = options.Flag(Options::kOffset);
  const std::vector<int64_t> begins = context.ints(1);
  const std::vector<int64_t> ends = context.ints(2);
  const std::vector<int64_t> strides = context.ints(3);
  const size_t rank = context.rank(0);
  const size_t entries = begins.size();
  if (ends.size() != entries || strides.size() != entries || entries > 32) {
    context.Invalid(RQ_LATE_TEXT("has bounds of several ranks"));
  }
  size_t added = 0;
  size_t ellipses = 0;
  const auto in = [](int32_t bits, size_t i) {
    return (static_cast<uint32_t>(bits) >> i & 1) != 0;
  };
  for (size_t i = 0; i < entries; ++i) {
    if (in(ellipsis_mask, i)) {
      ++ellipses;
    } else if (in(new_mask, i)) {
      ++added;
    }
  }
  const size_t listed = entries - added - ellipses;
  if (ellipses > 1 || listed > rank)
    context.Invalid(RQ_LATE_TEXT("has more bounds than dimensions"));
  std::vector<int64_t> begin(rank, 0);
  std::vector<int64_t> end(rank, kEnd);
  std::vector<int64_t> steps(rank, 1);
  std::vector<int64_t> dropped;   // axes of the input
  std::vector<int64_t> inserted;  // axes of the output
  size_t axis = 0;
  size_t to = 0;
  for (size_t i = 0; i < entries; ++i) {
    if (in(ellipsis_mask, i)) {
      axis += rank - listed;
      to += rank - listed;
      continue;
    }
    if (in(new_mask, i)) {
      inserted.push_back(static_cast<int64_t>(to++));
      continue;
    }
    const int64_t step = strides[i];
    if (step == 0) context.Invalid(RQ_LATE_TEXT("has a stride of 0"));
    steps[axis] = step;
    if (in(shrink_mask, i)) {
      begin[axis] = begins[i];
      end[axis] = begins[i] == -1 ? kEnd : CheckedAdd64(begins[i], 1);
      steps[axis] = 1;
      dropped.push_back(static_cast<int64_t>(axis));
    } else {
      begin[axis] = in(begin_mask, i) ? (step > 0 ? 0 : kEnd) : begins[i];
      end[axis] = in(end_mask, i) ? (step > 0 ? kEnd : INT64_MIN)
                                  : CheckedAdd64(ends[i], relative ? begins[i] : 0);
      ++to;
    }
    ++axis;
  }
  const bool same_rank = dropped.empty() && inserted.empty();
  const Order order = same_rank ? context.order(0) : Order::kPlain;
  Value* result = Sliced(context, context.Reals(0, order), begin, end, steps, order);
  if (!dropped.empty()) result = context.Add("Squeeze", {result, context.Ints(dropped)});
  if (!inserted.empty()) result = context.Add("Unsqueeze", {result, context.Ints(inserted)});
  context.Define(result, order);
}

void ConvertPad(Context& context, const char*) {
  Value* value = nullptr;
  if (context.has(2)) {
    value = context.Reals(2);
    if (context.rank(2) != 0) value = context.Add("Reshape", {value, context.Ints({})});
  }
  if (context.constant(1) == nullptr) {
    Value* pads = context.graph().Transposed(context.Int64(1), {1, 0});
    pads = context.Add("Reshape", {pads, context.Ints({-1})});
    std::vector<Value*> inputs = {context.Reals(0), pads};
    if (value) inputs.push_back(value);
    return context.Define(context.Add("Pad", std::move(inputs)));
  }
  const std::vector<int64_t> listed = context.ints(1);
  const size_t rank = context.rank(0);
  if (listed.size() != 2 * rank) context.Invalid(RQ_LATE_TEXT("has pads of another rank"));
  const Order order = context.order(0);
  std::vector<int64_t> before;
  std::vector<int64_t> after;
  for (size_t i = 0; i < rank; ++i) {
    before.push_back(listed[2 * i]);
    after.push_back(listed[2 * i + 1]);
    if (listed[2 * i] < 0 || listed[2 * i + 1] < 0)
      context.Invalid(RQ_LATE_TEXT("has negative pads"));
  }
  std::vector<int64_t> pads = InOrder(before, order);
  for (const int64_t pad : InOrder(after, order)) pads.push_back(pad);
  std::vector<Value*> inputs = {context.Reals(0, order), context.Ints(pads)};
  if (value) inputs.push_back(value);
  context.Define(context.Add("Pad", std::move(inputs)), order);
}

/// REFLECT leaves the border out, SYMMETRIC repeats it: elements are gathered along every axis.
void ConvertMirrorPad(Context& context, const char*) {
  const auto mode =
      static_cast<MirrorPadMode>(context.options().Get<int8_t>(field::MirrorPadOptions::kMode, 0));
  const int64_t skipped = mode == MirrorPadMode::kReflect ? 1 : 0;
  const std::vector<int64_t> listed = context.ints(1);
  const size_t rank = context.rank(0);
  if (listed.size() != 2 * rank) context.Invalid(RQ_LATE_TEXT("has pads of another rank"));
  const Order order = context.order(0);
  Value* result = context.Reals(0, order);
  bool changed = false;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t before = listed[2 * axis];
    const int64_t after = listed[2 * axis + 1];
    if (before == 0 && after == 0) continue;
    const Dim& dim = context.input(0).shape[axis];
    if (!dim.known()) {
      context.Refuse(RQ_LATE_TEXT("pads an open dimension"),
                     RQ_LATE_TEXT("convert the model with fixed shapes"));
    }
    if (dim.value > kMostIndices) {
      context.Refuse(RQ_LATE_TEXT("pads a dimension of too many elements"),
                     RQ_LATE_TEXT("pad the input in JavaScript"));
    }
    const int64_t most = dim.value - skipped;
    if (before < 0 || after < 0 || before > most || after > most) {
      context.Invalid(RQ_LATE_TEXT("has pads beyond its input"));
    }
    std::vector<int64_t> indices;
    for (int64_t i = before; i > 0; --i) indices.push_back(i - 1 + skipped);
    for (int64_t i = 0; i < dim.value; ++i) indices.push_back(i);
    for (int64_t i = 0; i < after; ++i) indices.push_back(dim.value - 1 - skipped - i);
    const auto at = static_cast<int64_t>(axis);
    result = context.Add("Gather", {result, context.Ints(indices)},
                         With("axis", order == Order::kPlanar ? PlanarAxis(at, rank) : at));
    changed = true;
  }
  if (!changed) result = context.Add("Identity", {result});
  context.Define(result, order);
}

}  // namespace requant::tflite
