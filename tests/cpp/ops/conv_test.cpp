#include "ops/run_op.h"

namespace requant {
namespace {

const OpCase kConv{"Conv", 11};
const OpCase kTranspose{"ConvTranspose", 11};

/// Convolution in another order than the reference: for every output element and every weight, with
/// a test of each coordinate.
std::vector<double> NaiveConv2d(const Tensor& x, const Tensor& w, const Tensor& b, int64_t group,
                                int64_t stride, int64_t dilation, int64_t pad_top, int64_t pad_left,
                                int64_t out_h, int64_t out_w) {
  std::vector<double> out;
  const int64_t channels = x.dim(1);
  const int64_t depth = w.dim(1);
  const auto at = [&](int64_t n, int64_t c, int64_t y, int64_t z) -> double {
    if (y < 0 || z < 0 || y >= x.dim(2) || z >= x.dim(3)) return 0;
    return x.AsDouble(((n * channels + c) * x.dim(2) + y) * x.dim(3) + z);
  };
  for (int64_t n = 0; n < x.dim(0); ++n) {
    for (int64_t m = 0; m < w.dim(0); ++m) {
      const int64_t first = m * group / w.dim(0) * depth;
      for (int64_t o = 0; o < out_h * out_w; ++o) {
        double sum = b.AsDouble(m);
        for (int64_t i = 0; i < depth * w.dim(2) * w.dim(3); ++i) {
          const int64_t kx = i % w.dim(3);
          const int64_t ky = i / w.dim(3) % w.dim(2);
          const int64_t c = i / w.dim(3) / w.dim(2);
          sum += w.AsDouble(m * depth * w.dim(2) * w.dim(3) + i) *
                 at(n, first + c, o / out_w * stride + ky * dilation - pad_top,
                    o % out_w * stride + kx * dilation - pad_left);
        }
        out.push_back(sum);
      }
    }
  }
  return out;
}

TEST(Conv, GroupedDilatedStridedAgreesWithTheDefinition) {
  const Tensor x = Noise({2, 4, 9, 7}, 1);
  const Tensor w = Noise({6, 2, 3, 2}, 2);
  const Tensor b = Noise({6}, 3);
  const Tensor y = RunOp(kConv, {x, w, b},
                         {{"group", Int(2)},
                          {"strides", Ints({2, 2})},
                          {"dilations", Ints({2, 2})},
                          {"pads", Ints({1, 2, 3, 0})}});
  // (9 + 4 - 5) / 2 + 1 and (7 + 2 - 3) / 2 + 1
  ExpectTensor(y, {2, 6, 5, 4}, NaiveConv2d(x, w, b, 2, 2, 2, 1, 2, 5, 4), 1e-6);
}

TEST(Conv, OddPaddingOfSameLowerIsInFront) {
  const Tensor x = Floats({1, 2, 3}, {1, 1, 3});
  const Tensor w = Floats({10, 1}, {1, 1, 2});
  // LOWER: 0 1 2 3; UPPER: 1 2 3 0
  ExpectTensor(RunOp(kConv, {x, w}, {{"auto_pad", Text("SAME_LOWER")}}), {1, 1, 3}, {1, 12, 23});
  ExpectTensor(RunOp(kConv, {x, w}, {{"auto_pad", Text("SAME_UPPER")}}), {1, 1, 3}, {12, 23, 30});
  ExpectTensor(RunOp(kConv, {x, w}, {{"auto_pad", Text("VALID")}}), {1, 1, 2}, {12, 23});
}

TEST(Conv, ThreeDimensionsAndDoubles) {
  const Tensor x = Tensor::FromVector<double>({1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 2, 2, 2});
  const Tensor w = Tensor::FromVector<double>({1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 2, 2, 2});
  ExpectTensor(RunOp(kConv, {x, w}, {{"pads", Ints({0, 0, 0, 1, 0, 1})}}), {1, 1, 2, 1, 2},
               {36, 20, 26, 14});
}

TEST(Conv, EmptyBatch) {
  const Tensor y = RunOp(kConv, {Floats({}, {0, 3, 8, 8}), Noise({2, 3, 3, 3}, 1)});
  ExpectTensor(y, {0, 2, 6, 6}, {});
}

TEST(Conv, SymbolsPassThrough) {
  const ValueType x = FloatType({Named("N"), 3, Named("H"), 32});
  EXPECT_EQ(Infer(kConv, {x, FloatType({8, 3, 3, 3})}, {{"pads", Ints({1, 1, 1, 1})}}),
            "float32[N, 8, H, 32]");
  EXPECT_EQ(Infer(kConv, {x, FloatType({8, 3, 3, 3})}), "float32[N, 8, ?, 30]");
  EXPECT_EQ(Infer(kConv, {{DType::kFloat32, {}}, FloatType({8, 3, 3, 3})}), "float32[...]");
}

TEST(Conv, RefusesTheImpossible) {
  const auto code = [](SymbolicShape x, SymbolicShape w,
                       std::vector<AttributeMap::Entry> attributes) {
    return CodeOf([&] { Infer(kConv, {FloatType(x), FloatType(w)}, attributes); });
  };
  const SymbolicShape x = {1, 4, 5, 5};
  EXPECT_EQ(code(x, {2, 3, 3, 3}, {}), ErrorCode::kShapeMismatch);  // channels
  EXPECT_EQ(code(x, {2, 4, 3}, {}), ErrorCode::kShapeMismatch);     // rank
  EXPECT_EQ(code(x, {3, 2, 3, 3}, {{"group", Int(2)}}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code(x, {2, 4, 3, 3}, {{"group", Int(0)}}), ErrorCode::kInvalidModel);
  // the window is larger than the image
  EXPECT_EQ(code(x, {2, 4, 6, 3}, {}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code(x, {2, 4, 3, 3}, {{"strides", Ints({0, 1})}}), ErrorCode::kInvalidModel);
  EXPECT_EQ(code(x, {2, 4, 3, 3}, {{"strides", Ints({1})}}), ErrorCode::kInvalidModel);
  EXPECT_EQ(code(x, {2, 4, 3, 3}, {{"pads", Ints({-1, 0, 0, 0})}}), ErrorCode::kInvalidModel);
  EXPECT_EQ(code(x, {2, 4, 3, 3}, {{"kernel_shape", Ints({5, 3})}}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({1, 4, 5, 5}, {Named("M"), 4, Named("K"), Named("K")},
                 {{"kernel_shape", Ints({int64_t{1} << 40, int64_t{1} << 40})}}),
            ErrorCode::kInvalidModel);
  EXPECT_EQ(code(x, {2, 4, 3, 3}, {{"dilations", Ints({INT64_MAX, 1})}}), ErrorCode::kInvalidModel);
}

TEST(ConvTranspose, OutputPaddingAndGroups) {
  // One channel per group; the second has weights 10 times the first.
  const Tensor x = Floats({1, 2, 3, 4}, {1, 2, 2});
  const Tensor w = Floats({1, 2, 3, 10, 20, 30}, {2, 1, 3});
  const Tensor y = RunOp(kTranspose, {x, w, Floats({0.5F, 0})},
                         {{"group", Int(2)},
                          {"strides", Ints({2})},
                          {"output_padding", Ints({1})},
                          {"pads", Ints({1, 0})}});
  // Full: 1 2 3+2 4 6 (0) and 30 60 90+40 80 120 (0); the first is padding.
  ExpectTensor(y, {1, 2, 5}, {2.5, 5.5, 4.5, 6.5, 0.5, 60, 130, 80, 120, 0});
}

TEST(ConvTranspose, IsTheGradientOfConv) {
  // <conv(x), y> == <x, convTranspose(y)> for the same weights.
  const Tensor x = Noise({1, 4, 6, 5}, 1);
  const Tensor w = Noise({6, 2, 3, 2}, 2);
  const std::vector<AttributeMap::Entry> attributes = {
      {"group", Int(2)}, {"dilations", Ints({1, 2})}, {"pads", Ints({1, 0, 1, 1})}};
  const Tensor conv = RunOp(kConv, {x, w}, attributes);
  const Tensor y = Noise(conv.shape(), 3);
  const Tensor back = RunOp(kTranspose, {y, w}, attributes);
  ASSERT_EQ(back.shape(), x.shape());
  double left = 0;
  double right = 0;
  for (int64_t i = 0; i < y.count(); ++i) left += conv.AsDouble(i) * y.AsDouble(i);
  for (int64_t i = 0; i < x.count(); ++i) right += x.AsDouble(i) * back.AsDouble(i);
  EXPECT_NEAR(left, right, 1e-4);
}

TEST(ConvTranspose, OutputShapeDecidesThePads) {
  const Tensor x = Floats({1, 1}, {1, 1, 2});
  const Tensor w = Floats({1, 2, 3}, {1, 1, 3});
  // The full result is 1 2 4 2 3; one element is cropped: the first, or with SAME_UPPER the last.
  ExpectTensor(RunOp(kTranspose, {x, w}, {{"strides", Ints({2})}, {"output_shape", Ints({4})}}),
               {1, 1, 4}, {2, 4, 2, 3});
  ExpectTensor(
      RunOp(kTranspose, {x, w}, {{"strides", Ints({2})}, {"auto_pad", Text("SAME_UPPER")}}),
      {1, 1, 4}, {1, 2, 4, 2});
}

}  // namespace
}  // namespace requant
