#include "tflite/convert/dynamic.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "numeric/row_codes.h"
#include "ops/shape/select.h"
#include "tflite/convert/weights.h"

namespace requant::tflite {
namespace {

/// The weights as bytes, with their dimensions permuted.
Value* ByteWeights(Context& context, size_t slot, const std::vector<int64_t>& perm) {
  const FileTensor& file = context.input(slot);
  return context.graph().graph().AddConstant(file.name, Bytes(*context.constant(slot), perm));
}

/// The scales of the weights in a shape that broadcasts with the layer's output, `inner` dimensions
/// from its end.
Value* WeightScales(Context& context, size_t slot, int64_t inner) {
  const std::vector<float>& scales = context.input(slot).quantization.scales;
  Shape shape(static_cast<size_t>(inner) + 1, 1);
  shape[0] = static_cast<int64_t>(scales.size());
  return context.graph().AddConstant(Tensor::Vector(scales).Reshaped(shape));
}

/// Integers of a product as floats in steps of the weights' scales.
Value* Sums(Context& context, Value* integers, size_t weights, int64_t inner) {
  Value* sums = context.Cast(integers, DType::kFloat32);
  return context.Add("Mul", {sums, WeightScales(context, weights, inner)});
}

Value* WithBias(Context& context, Value* product, size_t slot, int64_t inner) {
  if (!context.has(slot)) return product;
  Value* bias = context.Reals(slot);
  if (inner > 0) {
    std::vector<int64_t> shape(static_cast<size_t>(inner) + 1, 1);
    shape[0] = -1;
    bias = context.Add("Reshape", {bias, context.Ints(shape)});
  }
  return context.Add("Add", {product, bias});
}

/// Rounds to the codes 0 to 255, half to even.
Value* Rounded(Context& context, Value* x) {
  Value* zero = context.graph().AddConstant(Tensor::Scalar(uint8_t{0}));
  return context.Add("QuantizeLinear", {x, context.Scalar(1), zero});
}

/// Rows x = s (q - z) with a range from 0 or less to 0 or more.
struct RowCodes {
  Value* codes;   // q, uint8 as the rows
  Value* zeros;   // z, uint8 [.., 1]
  Value* scales;  // s, float32 [.., 1]
};

/// The pass FuseRowCodes knows these operators. An integer product takes one zero point for all
/// rows, so the sum of (q - z) w is that of q w, less z times the sum of w.
RowCodes CodesOfRows(Context& context, Value* rows) {
  Value* axis = context.Ints({-1});
  Value* zero = context.Scalar(0);
  Value* least = context.Add("Min", {context.Add("ReduceMin", {rows, axis}), zero});
  Value* most = context.Add("Max", {context.Add("ReduceMax", {rows, axis}), zero});
  Value* scale = context.Add("Mul", {context.Add("Sub", {most, least}), context.Scalar(kRowShare)});
  scale = context.Add("Max", {scale, context.Scalar(kLeastRowScale)});
  Value* zeros = Rounded(context, context.Add("Neg", {context.Add("Div", {least, scale})}));
  Value* steps = context.Add("Round", {context.Add("Div", {rows, scale})});
  Value* codes =
      Rounded(context, context.Add("Add", {steps, context.Cast(zeros, DType::kFloat32)}));
  return {codes, zeros, scale};
}

/// The sums of int8 weights [out, ..] of each output channel, as int32 [out, 1, 1].
Tensor ChannelSums(const Tensor& weights) {
  Tensor sums(DType::kInt32, {weights.dim(0), 1, 1});
  const auto* from = weights.data<int8_t>();
  const int64_t each = weights.count() / std::max<int64_t>(1, weights.dim(0));
  for (int64_t o = 0; o < weights.dim(0); ++o, from += each) {
    sums.data<int32_t>()[o] = std::accumulate(from, from + each, int32_t{0});
  }
  return sums;
}

/// The integers of a convolution in steps of the weights' scales, with a scale for each image, as
/// LiteRT.js gives them. Zeros around an image are codes as those within it.
Value* SumsOfImages(Context& context, Value* image, Value* w, AttributeMap attributes) {
  const std::vector<int64_t> pads = attributes.Ints("pads", {});
  attributes.Remove("pads");
  if (std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; })) {
    Value* around = context.Ints({0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3]});
    image = context.Add("Pad", {image, around});
  }
  const RowCodes made =
      CodesOfRows(context, context.Add("Reshape", {image, context.Ints({0, -1})}));
  const auto of_images = [&](Value* of_rows) {
    return context.Add("Reshape", {of_rows, context.Ints({-1, 1, 1, 1})});
  };
  Value* codes = context.Add("Reshape", {made.codes, context.Add("Shape", {image})});
  Value* channels = context.graph().AddConstant(ChannelSums(w->constant));
  Value* zeros = context.Cast(of_images(made.zeros), DType::kInt32);
  Value* sums = context.Add("ConvInteger", {codes, w}, std::move(attributes));
  Value* integers = context.Add("Sub", {sums, context.Add("Mul", {zeros, channels})});
  return context.Add("Mul", {Sums(context, integers, 1, 2), of_images(made.scales)});
}

}  // namespace

bool IsDynamicLayer(Context& context, size_t input, size_t weights, int64_t axis) {
  if (context.graph().float_layers()) return false;
  if (context.input(input).dtype != DType::kFloat32 || !context.has(weights)) return false;
  const FileTensor& file = context.input(weights);
  const Quantization& grid = file.quantization;
  if (context.constant(weights) == nullptr || grid.scales.empty()) return false;
  if (file.dtype != DType::kInt8 && file.dtype != DType::kInt4) return false;
  return (grid.scales.size() == 1 || grid.axis == axis) &&
         std::all_of(grid.zero_points.begin(), grid.zero_points.end(),
                     [](int64_t zero) { return zero == 0; });
}

Value* DynamicProduct(Context& context, Value* rows, bool one_row, size_t weights, size_t bias) {
  Value* w = ByteWeights(context, weights, {1, 0});
  if (one_row) {
    const std::vector<Value*> made = context.graph().AddMany("DynamicQuantizeLinear", {rows}, 3);
    Value* sums = Sums(context, context.Add("MatMulInteger", {made[0], w, made[2]}), weights, 0);
    return WithBias(context, context.Add("Mul", {sums, made[1]}), bias, 0);
  }
  const RowCodes made = CodesOfRows(context, rows);
  Value* columns = context.graph().AddConstant(ColumnSums(w->constant));
  Value* less = context.Add("Mul", {context.Cast(made.zeros, DType::kInt32), columns});
  Value* integers = context.Add("Sub", {context.Add("MatMulInteger", {made.codes, w}), less});
  return WithBias(context, context.Add("Mul", {Sums(context, integers, weights, 0), made.scales}),
                  bias, 0);
}

Value* DynamicConv(Context& context, const std::vector<int64_t>& perm, AttributeMap attributes,
                   size_t bias) {
  Value* w = ByteWeights(context, 1, perm);
  Value* image = context.Reals(0, Order::kPlanar);
  if (!(context.input(0).shape[0] == Dim(1)) && !attributes.Has("auto_pad")) {
    return WithBias(context, SumsOfImages(context, image, w, std::move(attributes)), bias, 2);
  }
  const std::vector<Value*> made = context.graph().AddMany("DynamicQuantizeLinear", {image}, 3);
  Value* integers = context.Add("ConvInteger", {made[0], w, made[2]}, std::move(attributes));
  Value* sums = Sums(context, integers, 1, 2);
  return WithBias(context, context.Add("Mul", {sums, made[1]}), bias, 2);
}

}  // namespace requant::tflite
