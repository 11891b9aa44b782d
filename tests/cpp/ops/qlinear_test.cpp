// Integer operators: hand-computed values that lie on ties, so that the two requantize modes
// differ, and agreement with dequantize -> float operator -> quantize within one step.
#include "ops/run_op.h"

namespace requant {
namespace {

constexpr const char* kMs = "com.microsoft";
const Tensor kNone;

Tensor F(float value) { return Tensor::Scalar(value); }
Tensor U8(int value) { return Tensor::Scalar(static_cast<uint8_t>(value)); }
Tensor I8(int value) { return Tensor::Scalar(static_cast<int8_t>(value)); }
Tensor Bytes(std::vector<uint8_t> values, Shape shape) {
  return Tensor::FromVector<uint8_t>(values, std::move(shape));
}
Tensor Signed(std::vector<int8_t> values, Shape shape) {
  return Tensor::FromVector<int8_t>(values, std::move(shape));
}

void ExpectBoth(OpCase op, const std::vector<Tensor>& inputs, const std::vector<double>& fixed,
                const std::vector<double>& as_float,
                const std::vector<AttributeMap::Entry>& attributes = {}) {
  op.requantize = RequantizeMode::kUpward;
  EXPECT_EQ(RunOp(op, inputs, attributes).ToDoubles(), fixed) << op.op << " fixed";
  op.requantize = RequantizeMode::kFloat;
  EXPECT_EQ(RunOp(op, inputs, attributes).ToDoubles(), as_float) << op.op << " float";
}

TEST(QLinearConv, TiesInBothModes) {
  // (x - 3) * 2 + 1 = -3, 1, 5, 9; halved: -1.5, 0.5, 2.5, 4.5; zero point 10.
  ExpectBoth({"QLinearConv"},
             {Bytes({1, 3, 5, 7}, {1, 1, 2, 2}), F(0.5F), U8(3), Signed({2}, {1, 1, 1, 1}), F(0.5F),
              I8(0), F(0.5F), U8(10), Tensor::Vector<int32_t>({1})},
             {9, 11, 13, 15}, {8, 10, 12, 14});
}

TEST(QLinearConv, PaddingIsTheZeroPoint) {
  // x - 10 = 0 10 20 30 between zeros, w - 1 = 0 1 2.
  ExpectBoth({"QLinearConv"},
             {Bytes({10, 20, 30, 40}, {1, 1, 4}), F(1), U8(10), Bytes({1, 2, 3}, {1, 1, 3}), F(1),
              U8(1), F(1), U8(0)},
             {20, 50, 80, 30}, {20, 50, 80, 30}, {{"pads", Ints({1, 1})}});
}

TEST(QLinearConv, PerChannelAgreesWithFloat) {
  const Tensor x_real = Noise({2, 4, 5, 6}, 1);
  const Tensor w_real = Noise({6, 2, 3, 3}, 2);
  const Tensor w_scale = Floats({0.01F, 0.008F, 0.009F, 0.0079F, 0.02F, 0.011F});
  const Tensor w_zero = Signed({0, 0, 0, 0, 0, 0}, {6});
  const Tensor x = RunOp({"QuantizeLinear"}, {x_real, F(0.0081F), U8(121)});
  const Tensor w = RunOp({"QuantizeLinear"}, {w_real, w_scale, w_zero}, {{"axis", Int(0)}});
  const std::vector<AttributeMap::Entry> attributes = {
      {"group", Int(2)}, {"pads", Ints({1, 0, 2, 1})}, {"strides", Ints({2, 1})}};
  const Tensor real = RunOp({"Conv"},
                            {RunOp({"DequantizeLinear"}, {x, F(0.0081F), U8(121)}),
                             RunOp({"DequantizeLinear"}, {w, w_scale, w_zero}, {{"axis", Int(0)}})},
                            attributes);
  const Tensor want = RunOp({"QuantizeLinear"}, {real, F(0.03F), I8(-7)});
  for (const RequantizeMode mode : {RequantizeMode::kUpward, RequantizeMode::kFloat,
                                    RequantizeMode::kToNearest, RequantizeMode::kGemmlowp}) {
    const Tensor got =
        RunOp({"QLinearConv", 13, "", 1, mode},
              {x, F(0.0081F), U8(121), w, w_scale, w_zero, F(0.03F), I8(-7)}, attributes);
    ASSERT_EQ(got.shape(), want.shape());
    int different = 0;
    for (int64_t i = 0; i < got.count(); ++i) {
      EXPECT_LE(std::abs(got.AsInt64(i) - want.AsInt64(i)), 1);
      different += got.AsInt64(i) != want.AsInt64(i);
    }
    EXPECT_LE(different, got.count() / 50);
  }
}

TEST(QLinearConv, RefusesBadParameters) {
  const Tensor x = Bytes({1}, {1, 1, 1, 1});
  const Tensor w = Signed({1}, {1, 1, 1, 1});
  EXPECT_EQ(CodeOf([&] {
              RunOp({"QLinearConv"}, {x, F(1), U8(0), w, F(-1), I8(0), F(1), U8(0)});
            }),
            ErrorCode::kInvalidQuantization);
  EXPECT_EQ(CodeOf([&] {
              RunOp({"QLinearConv"}, {x, F(1), I8(0), w, F(1), I8(0), F(1), U8(0)});
            }),
            ErrorCode::kTypeMismatch);
  EXPECT_EQ(CodeOf([&] {
              RunOp({"QLinearConv"}, {x, F(1), U8(0), w, Floats({1, 1}), I8(0), F(1), U8(0)});
            }),
            ErrorCode::kShapeMismatch);
}

TEST(ConvInteger, ZeroPointPerChannel) {
  ExpectTensor(RunOp({"ConvInteger"}, {Bytes({2, 4}, {1, 1, 2}), Bytes({5, 7}, {2, 1, 1}), U8(1),
                                       Bytes({5, 4}, {2})}),
               {1, 2, 2}, {0, 0, 3, 9});
}

TEST(QLinearMatMul, RowsAndColumns) {
  const Tensor a = Bytes({1, 2, 3, 4}, {2, 2});
  const Tensor b = Signed({1, -1, 2, 3}, {2, 2});
  // a - (1, 0) per row = 0 1 / 3 4; b - (0, 1) per column = 1 -2 / 2 2; product 2 2 / 11 2.
  ExpectTensor(RunOp({"MatMulInteger"}, {a, b, Bytes({1, 0}, {2}), Signed({0, 1}, {2})}), {2, 2},
               {2, 2, 11, 2});
  // Scales 1, 0.5 by row and 1, 0.25 by column: 2 0.5 / 5.5 0.25.
  ExpectBoth({"QLinearMatMul"},
             {a, Floats({1, 0.5F}), Bytes({1, 0}, {2}), b, Floats({1, 0.25F}), Signed({0, 1}, {2}),
              F(1), I8(0)},
             {2, 1, 6, 0}, {2, 0, 6, 0});
}

TEST(QLinearMatMul, BroadcastsBatches) {
  const Tensor a = Bytes({1, 2, 3, 4}, {2, 1, 2});
  const Tensor b = Bytes({1, 1}, {2, 1});
  ExpectTensor(RunOp({"QLinearMatMul"}, {a, F(1), U8(0), b, F(1), U8(0), F(1), U8(0)}), {2, 1, 1},
               {3, 7});
}

TEST(QGemm, BiasTransposeAndFloatOutput) {
  const Tensor a = Bytes({1, 2}, {1, 2});
  const Tensor b = Signed({1, 2, 3, 4}, {2, 2});  // transposed: columns (1, 2) and (3, 4)
  const Tensor c = Tensor::Vector<int32_t>({0, -20});
  const std::vector<AttributeMap::Entry> transposed = {{"transB", Int(1)}};
  // 5 and 11 - 20 = -9; by 0.5: 2.5 and -4.5.
  ExpectBoth({"QGemm", 1, kMs}, {a, F(0.5F), U8(0), b, F(1), I8(0), c, F(1), I8(0)}, {3, -4},
             {2, -4}, transposed);
  ExpectTensor(RunOp({"QGemm", 1, kMs}, {a, F(0.5F), U8(0), b, F(1), I8(0), c}, transposed), {1, 2},
               {2.5, -4.5});
  // A negative alpha negates the sums, as multipliers have no sign.
  const std::vector<AttributeMap::Entry> turned = {{"transB", Int(1)}, {"alpha", -1.0F}};
  ExpectTensor(RunOp({"QGemm", 1, kMs}, {a, F(0.5F), U8(0), b, F(1), I8(0), c}, turned), {1, 2},
               {-2.5, 4.5});
}

TEST(QLinearAdd, Ties) {
  // (1 + 0) / 2 = 0.5, (3 + 0) / 2 = 1.5, (-1 + 0) / 2 = -0.5.
  const Tensor a = Signed({1, 3, -1, 127}, {4});
  const Tensor b = Signed({0}, {1});
  ExpectBoth({"QLinearAdd", 1, kMs}, {a, F(0.5F), I8(0), b, F(0.5F), I8(0), F(1), I8(0)},
             {1, 2, 0, 64}, {0, 2, 0, 64});
  // The float form adds the zero point before it rounds: 1.5 -> 2, 2.5 -> 2, 0.5 -> 0.
  ExpectBoth({"QLinearAdd", 1, kMs}, {a, F(0.5F), I8(0), b, F(0.5F), I8(0), F(1), I8(1)},
             {2, 3, 1, 65}, {2, 2, 0, 64});
}

TEST(QLinearMul, TiesAndBroadcast) {
  const Tensor a = Bytes({3, 4}, {2, 1});
  const Tensor b = Bytes({2, 3}, {2});
  // (a - 2) * (b - 1) = 1 2 / 2 4; times 0.5 plus 10.
  ExpectBoth({"QLinearMul", 1, kMs}, {a, F(0.5F), U8(2), b, F(1), U8(1), F(1), U8(10)},
             {11, 11, 11, 12}, {10, 11, 11, 12});
}

TEST(QLinearAveragePool, CountsAndLayouts) {
  const std::vector<AttributeMap::Entry> window = {{"kernel_shape", Ints({2, 2})}};
  const Tensor x = Bytes({1, 2, 3, 4}, {1, 1, 2, 2});
  ExpectBoth({"QLinearAveragePool", 1, kMs}, {x, F(1), U8(0), F(1), U8(0)}, {3}, {2}, window);
  // With padding: the top left window holds one value of 6 - 2 = 4; padding counts as real 0.
  std::vector<AttributeMap::Entry> padded = window;
  padded.emplace_back("pads", Ints({1, 1, 0, 0}));
  padded.emplace_back("strides", Ints({2, 2}));
  const Tensor one = Bytes({6}, {1, 1, 1, 1});
  ExpectBoth({"QLinearAveragePool", 1, kMs}, {one, F(1), U8(2), F(1), U8(2)}, {6}, {6}, padded);
  padded.emplace_back("count_include_pad", Int(1));
  ExpectBoth({"QLinearAveragePool", 1, kMs}, {one, F(1), U8(2), F(1), U8(2)}, {3}, {3}, padded);
  std::vector<AttributeMap::Entry> last = window;
  last.emplace_back("channels_last", Int(1));
  const Tensor pixels = Bytes({1, 10, 2, 20, 3, 30, 6, 60}, {1, 2, 2, 2});
  ExpectTensor(RunOp({"QLinearAveragePool", 1, kMs}, {pixels, F(1), U8(0), F(1), U8(0)}, last),
               {1, 1, 1, 2}, {3, 30});
}

TEST(QLinearGlobalAveragePool, Ties) {
  const Tensor x = Signed({1, 2, -1, -2}, {1, 2, 1, 2});
  ExpectBoth({"QLinearGlobalAveragePool", 1, kMs}, {x, F(1), I8(0), F(1), I8(0)}, {2, -1}, {2, -2});
}

TEST(QLinearUnary, Tables) {
  const Tensor x = Signed({-128, -10, 0, 127}, {4});
  ExpectTensor(RunOp({"QLinearLeakyRelu", 1, kMs}, {x, F(0.1F), I8(0), F(0.1F), I8(0)},
                     {{"alpha", Attribute(0.5F)}}),
               {4}, {-64, -5, 0, 127});
  ExpectTensor(RunOp({"QLinearSigmoid", 1, kMs}, {x, F(0.1F), I8(0), F(1.0F / 256), I8(-128)}), {4},
               {-128, -59, 0, 127});
  const Tensor soft = RunOp({"QLinearSoftmax", 1, kMs},
                            {Bytes({10, 10, 10, 10}, {2, 2}), F(1), U8(0), F(1.0F / 256), U8(0)},
                            {{"axis", Int(-1)}, {"opset", Int(13)}});
  ExpectTensor(soft, {2, 2}, {128, 128, 128, 128});
}

TEST(QLinearUnary, WithoutZeroPointsTheyAreZero) {
  const Tensor none;
  const Tensor x = Bytes({1, 20, 255}, {3, 1});
  for (const char* op : {"QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"}) {
    const Tensor given = RunOp({op, 1, kMs}, {x, F(0.02F), U8(0), F(1.0F / 256), U8(0)});
    ExpectTensor(RunOp({op, 1, kMs}, {x, F(0.02F), none, F(1.0F / 256)}), {3, 1},
                 given.ToDoubles());
    EXPECT_EQ(CodeOf([&] {
                RunOp({op, 1, kMs}, {x, none, U8(0), F(1), U8(0)});
              }),
              ErrorCode::kInvalidModel);
    EXPECT_EQ(CodeOf([&] { RunOp({op, 1, kMs}, {x, F(1)}); }), ErrorCode::kInvalidModel);
  }
}

TEST(QLinearConcat, RescalesEveryInput) {
  ExpectTensor(
      RunOp({"QLinearConcat", 1, kMs},
            {F(1), U8(0), Bytes({7, 200}, {1, 2}), F(1), U8(0), Bytes({14}, {1, 1}), F(2), U8(4)},
            {{"axis", Int(1)}}),
      {1, 3}, {7, 200, 20});
  EXPECT_EQ(CodeOf([] {
              RunOp({"QLinearConcat", 1, kMs},
                    {F(1), U8(0), Bytes({7}, {1}), F(1), U8(0), Bytes({1}, {1})});
            }),
            ErrorCode::kInvalidModel);
}

TEST(Lut, IndexIsTheBitPattern) {
  std::vector<uint8_t> table(256);
  for (size_t i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(255 - i);
  ExpectTensor(RunOp({"Lut", 1, kRequantDomain}, {Signed({-1, 0, -128}, {3}), Bytes(table, {256})}),
               {3}, {0, 255, 127});
  EXPECT_EQ(CodeOf([] {
              RunOp({"Lut", 1, kRequantDomain}, {Signed({1}, {1}), Bytes({1, 2}, {2})});
            }),
            ErrorCode::kShapeMismatch);
}

}  // namespace
}  // namespace requant
