// Col2Im: adds columns [N, C * block, L] to the windows of an image [N, C, spatial...] that they
// were taken from (onnx docs/Operators.md, Col2Im-18).
#include <algorithm>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/convolution/convolve.h"
#include "ops/elementwise/elementwise.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

/// The output's shape; -1 stands for unknown sizes of `columns`, [N, C * block, L]. `image` and
/// `block` are the values of inputs 1 and 2. Throws kInvalidModel, kShapeMismatch, kUnsupported.
Shape ImageShape(const AttributeMap& attributes, const Shape& columns, Shape image,
                 const std::vector<int64_t>& block) {
  if (image.size() != block.size() || image.empty() || image.size() > 3 ||
      *std::min_element(image.begin(), image.end()) < 0) {
    Fail(ErrorCode::kUnsupported,
         StrCat("Col2Im to an image of ", ShapeToString(image), " with blocks of ",
                ShapeToString(block)),
         {.hint = "one to three dimensions are supported"});
  }
  const Window window = ReadWindow(attributes, block);
  const int64_t taps = NumElements(block);
  int64_t places = 1;
  for (size_t i = 0; i < image.size(); ++i) {
    places = CheckedMul64(places, PlaceWindow(window, i, image[i]).output);
  }
  if (columns.size() != 3 || (columns[2] >= 0 && columns[2] != places) ||
      (columns[1] >= 0 && columns[1] % taps != 0)) {
    Fail(ErrorCode::kShapeMismatch, StrCat("Col2Im needs a multiple of ", taps, " rows and ",
                                           places, " columns for its blocks"));
  }
  image.insert(image.begin(), {columns[0], columns[1] < 0 ? -1 : columns[1] / taps});
  return image;
}

void InferCol2Im(InferContext& context) {
  RequireFloat(context, 0);
  RequireRank(context, 0, 3);
  RequireRank(context, 1, 1);
  RequireRank(context, 2, 1);
  const ListArgument image = ReadList(context, nullptr, 1);
  const ListArgument block = ReadList(context, nullptr, 2);
  const SymbolicShape* columns = context.shape(0);
  std::optional<SymbolicShape> shape;
  if (columns && image.known() && block.known()) {
    Shape known;
    for (const Dim& dim : *columns) known.push_back(dim.value);
    shape = ToSymbolic(ImageShape(context.attributes(), known, image.values, block.values));
    shape->front() = columns->front();
  }
  SetOutput(context, 0, context.inputs[0].dtype, std::move(shape));
}

void EvaluateCol2Im(EvalContext& context) {
  const Tensor& columns = context.input(0);
  const std::vector<int64_t> block = context.input(2).ToInts();
  Tensor out(columns.dtype(),
             ImageShape(context.attributes(), columns.shape(), context.input(1).ToInts(), block));
  context.outputs[0] = out;
  if (out.count() == 0) return;
  const Geometry g = PlaceGeometry(ReadWindow(context.attributes(), block), out.shape());
  // Tap by tap this is a transposed convolution with a kernel of one element.
  Geometry tap = g;
  tap.input = g.output;
  tap.output = g.input;
  tap.kernel = {1, 1, 1};
  const double one = 1;
  const std::vector<double> values = Doubles(columns);
  const double* from = values.data();
  std::vector<double> image(static_cast<size_t>(g.input_size()));
  for (int64_t i = 0; i < out.count(); i += g.input_size()) {
    std::fill(image.begin(), image.end(), 0.0);
    for (int64_t k = 0; k < g.kernel_size(); ++k, from += g.output_size()) {
      const int64_t at[] = {k / g.kernel[2] / g.kernel[1], k / g.kernel[2] % g.kernel[1],
                            k % g.kernel[2]};
      for (size_t axis = 0; axis < 3; ++axis) {
        tap.pad_begin[axis] = g.pad_begin[axis] - at[axis] * g.dilation[axis];
      }
      AddTransposed(tap, from, &one, image.data());
    }
    int64_t to = i;
    for (const double sum : image) StoreSum(out, to++, sum);
  }
}

constexpr OpDef kRows[] = {
    {"Col2Im", "", 18, 3, 3, 1, InferCol2Im, EvaluateCol2Im, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> Col2ImOps() { return kRows; }

}  // namespace requant
