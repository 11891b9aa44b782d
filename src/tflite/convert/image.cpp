// Operators of images: resizing, and blocks of pixels that become channels or images.
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/convert/window.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

void Resize(Context& context, AttributeMap attributes, bool linear, bool corners, bool centers) {
  ImageShape(context, 0);
  attributes.Set("mode", std::string(linear ? "linear" : "nearest"));
  attributes.Set("coordinate_transformation_mode", std::string(corners   ? "align_corners"
                                                               : centers ? "half_pixel"
                                                                         : "asymmetric"));
  attributes.Set("axes", std::vector<int64_t>{2, 3});
  Value* image = context.Reals(0, Order::kPlanar);
  Value* result =
      context.Add("Resize", {image, nullptr, nullptr, context.Int64(1)}, std::move(attributes));
  context.Define(result, Order::kPlanar);
}

/// The block and the pads or crops, [before, after] for each dimension of a block.
struct Blocks {
  std::vector<int64_t> sizes;
  std::vector<int64_t> margins;
};

Blocks ReadBlocks(const Context& context) {
  Blocks blocks{context.ints(1), context.ints(2)};
  const size_t count = blocks.sizes.size();
  if (context.rank(0) != count + 2 || count < 1 || count > 2 ||
      blocks.margins.size() != 2 * count) {
    context.Invalid(RQ_LATE_TEXT("has blocks of another rank"));
  }
  for (const int64_t size : blocks.sizes) {
    if (size < 1 || size > INT32_MAX)
      context.Invalid(RQ_LATE_TEXT("has blocks that are not positive"));
  }
  for (const int64_t margin : blocks.margins) {
    if (margin < 0 || margin > INT32_MAX) context.Invalid(RQ_LATE_TEXT("has negative margins"));
  }
  return blocks;
}

int64_t Known(const Context& context, size_t axis) {
  const Dim& dim = context.input(0).shape[axis];
  if (!dim.known()) {
    context.Refuse(RQ_LATE_TEXT("has an input of open size"),
                   RQ_LATE_TEXT("convert the model with fixed shapes"));
  }
  return dim.value;
}

}  // namespace

/// Takes the floor of a position, for centers of their rounded one, which is the same pixel
/// (tensorflow/lite/kernels/internal/reference/resize_nearest_neighbor.h).
void ConvertResizeNearest(Context& context, const char*) {
  using Options = field::ResizeNearestNeighborOptions;
  const bool corners = context.options().Flag(Options::kAlignCorners);
  const bool centers = context.options().Flag(Options::kHalfPixelCenters);
  if (corners && centers)
    context.Refuse(RQ_LATE_TEXT("aligns corners and centers"), RQ_LATE_TEXT("choose one of both"));
  AttributeMap attributes =
      With("nearest_mode", std::string(corners || centers ? "round_prefer_ceil" : "floor"));
  Resize(context, std::move(attributes), false, corners, centers);
}

void ConvertResizeBilinear(Context& context, const char*) {
  using Options = field::ResizeBilinearOptions;
  const bool corners = context.options().Flag(Options::kAlignCorners);
  const bool centers = context.options().Flag(Options::kHalfPixelCenters);
  if (corners && centers)
    context.Refuse(RQ_LATE_TEXT("aligns corners and centers"), RQ_LATE_TEXT("choose one of both"));
  Resize(context, {}, true, corners, centers);
}

void ConvertBlocks(Context& context, const char* onnx) {
  ImageShape(context, 0);
  const int64_t block = context.options().Get<int32_t>(field::BlockOptions::kBlockSize, 0);
  if (block < 1) context.Invalid(RQ_LATE_TEXT("has blocks that are not positive"));
  Value* result = context.Add(onnx, {context.Reals(0, Order::kPlanar)}, With("blocksize", block));
  context.Define(result, Order::kPlanar);
}

/// Every b-th pixel becomes an image of its own: [n, c, h / b, b, w / b, b] becomes
/// [b, b, n, c, h / b, w / b].
void ConvertSpaceToBatch(Context& context, const char*) {
  const Blocks blocks = ReadBlocks(context);
  const auto count = static_cast<int64_t>(blocks.sizes.size());
  Value* image = context.Reals(0, Order::kPlanar);
  std::vector<int64_t> pads(static_cast<size_t>(2 * (count + 2)), 0);
  std::vector<int64_t> inner = {-1, Known(context, context.rank(0) - 1)};
  std::vector<int64_t> merged = {-1, inner[1]};
  std::vector<int64_t> perm;
  bool padded = false;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t before = blocks.margins[2 * at];
    const int64_t after = blocks.margins[2 * at + 1];
    pads[at + 2] = before;
    pads[at + 4 + static_cast<size_t>(count)] = after;
    padded = padded || before != 0 || after != 0;
    const int64_t size = Known(context, at + 1) + before + after;
    if (size % blocks.sizes[at] != 0)
      context.Invalid(RQ_LATE_TEXT("has blocks that do not divide its input"));
    inner.push_back(size / blocks.sizes[at]);
    inner.push_back(blocks.sizes[at]);
    merged.push_back(size / blocks.sizes[at]);
    perm.push_back(2 * i + 3);
  }
  perm.push_back(0);
  perm.push_back(1);
  for (int64_t i = 0; i < count; ++i) perm.push_back(2 * i + 2);
  if (padded) image = context.Add("Pad", {image, context.Ints(pads)});
  image = context.Add("Reshape", {image, context.Ints(inner)});
  image = context.graph().Transposed(image, perm);
  context.Define(context.Add("Reshape", {image, context.Ints(merged)}), Order::kPlanar);
}

/// The inverse, and then a Slice.
void ConvertBatchToSpace(Context& context, const char*) {
  const Blocks blocks = ReadBlocks(context);
  const auto count = static_cast<int64_t>(blocks.sizes.size());
  Value* image = context.Reals(0, Order::kPlanar);
  std::vector<int64_t> inner = blocks.sizes;
  inner.push_back(-1);
  inner.push_back(Known(context, context.rank(0) - 1));
  std::vector<int64_t> merged = {-1, inner.back()};
  std::vector<int64_t> perm = {count, count + 1};
  std::vector<int64_t> begin;
  std::vector<int64_t> end;
  std::vector<int64_t> axes;
  bool cropped = false;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t size = Known(context, at + 1);
    const int64_t before = blocks.margins[2 * at];
    const int64_t after = blocks.margins[2 * at + 1];
    const int64_t whole = size * blocks.sizes[at];
    if (before + after > whole) context.Invalid(RQ_LATE_TEXT("has crops beyond its input"));
    inner.push_back(size);
    merged.push_back(whole);
    perm.push_back(count + 2 + i);
    perm.push_back(i);
    begin.push_back(before);
    end.push_back(whole - after);
    axes.push_back(i + 2);
    cropped = cropped || before != 0 || after != 0;
  }
  image = context.Add("Reshape", {image, context.Ints(inner)});
  image = context.graph().Transposed(image, perm);
  image = context.Add("Reshape", {image, context.Ints(merged)});
  if (cropped) {
    image =
        context.Add("Slice", {image, context.Ints(begin), context.Ints(end), context.Ints(axes)});
  }
  context.Define(image, Order::kPlanar);
}

/// Both versions fill their results up with zeros to the largest number, and tell how many they
/// found. Version 5 gives the scores of what it chose as well.
void ConvertNonMaxSuppression(Context& context, const char*) {
  const bool soft = context.inputs() > 5;
  if (soft) {
    const Tensor* sigma = context.constant(5);
    if (sigma == nullptr || sigma->count() != 1 || sigma->AsDouble(0) != 0) {
      context.Refuse(RQ_LATE_TEXT("lowers the scores of overlapping boxes"),
                     RQ_LATE_TEXT("choose boxes in JavaScript"));
    }
  }
  const auto one = [&context](Value* value) {
    return context.Add("Reshape", {value, context.Ints({1})});
  };
  Value* most = one(context.Int64(2));
  Value* boxes = context.Add("Unsqueeze", {context.Reals(0), context.Ints({0})});
  Value* scores = context.Add("Unsqueeze", {context.Reals(1), context.Ints({0, 1})});
  Value* found = context.Add("NonMaxSuppression",
                             {boxes, scores, most, one(context.Reals(3)), one(context.Reals(4))});
  Value* chosen = context.Add(
      "Reshape",
      {context.Add("Slice", {found, context.Ints({2}), context.Ints({3}), context.Ints({1})}),
       context.Ints({-1})});
  Value* count = context.Add("Shape", {chosen});
  Value* pads = context.Add("Concat", {context.Ints({0}), context.Add("Sub", {most, count})},
                            With("axis", int64_t{0}));
  context.DefineInts(context.Add("Pad", {chosen, pads}));
  if (soft) {
    Value* kept = context.Add("Gather", {context.Reals(1), chosen});
    context.Define(context.Add("Pad", {kept, pads}), Order::kPlain, 1);
  }
  context.DefineInts(context.Add("Reshape", {count, context.Ints({})}), soft ? 2 : 1);
}

}  // namespace requant::tflite
