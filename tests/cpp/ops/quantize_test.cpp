#include "ops/run_op.h"

namespace requant {
namespace {

template <typename T>
Tensor Scalar(T value) {
  return Tensor::Scalar<T>(value);
}

TEST(QuantizeLinear, TiesToEvenAndSaturation) {
  const Tensor x = Floats({0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 1e9F, -1e9F, NAN});
  ExpectTensor(RunOp({"QuantizeLinear"}, {x, Scalar(1.0F), Scalar<int8_t>(3)}), {8},
               {3, 5, 5, 3, 1, 127, -128, 3});
  ExpectTensor(RunOp({"QuantizeLinear"}, {x, Scalar(1.0F)}), {8}, {0, 2, 2, 0, 0, 255, 0, 0});
  ExpectTensor(RunOp({"QuantizeLinear", 21}, {x, Scalar(0.25F)},
                     {{"output_dtype", Int(static_cast<int64_t>(DType::kInt4))}}),
               {8}, {2, 6, 7, -2, -6, 7, -8, 0});
  ExpectTensor(RunOp({"QuantizeLinear", 21}, {x, Scalar(0.001F), Scalar<int16_t>(1)}), {8},
               {501, 1501, 2501, -499, -1499, 32767, -32768, 1});
}

TEST(QuantizeLinear, PerAxisAndBlocked) {
  const Tensor x = Floats({1, 2, 3, 4, 5, 6}, {2, 3});
  ExpectTensor(RunOp({"QuantizeLinear"}, {x, Floats({1, 0.5F}), Tensor::Vector<uint8_t>({0, 10})},
                     {{"axis", Int(0)}}),
               {2, 3}, {1, 2, 3, 18, 20, 22});
  const Tensor scales = Floats({1, 0.5F, 0.25F, 0.1F}, {2, 2});
  const Tensor q =
      RunOp({"QuantizeLinear", 21}, {x, scales}, {{"axis", Int(1)}, {"block_size", Int(2)}});
  ExpectTensor(q, {2, 3}, {1, 2, 6, 16, 20, 60});
  ExpectTensor(
      RunOp({"DequantizeLinear", 21}, {q, scales}, {{"axis", Int(1)}, {"block_size", Int(2)}}),
      {2, 3}, {1, 2, 3, 4, 5, 6}, 1e-6);
  EXPECT_EQ(CodeOf([&] {
              RunOp({"QuantizeLinear"}, {x, Floats({1, 1})}, {{"axis", Int(1)}});
            }),
            ErrorCode::kShapeMismatch);
}

TEST(DequantizeLinear, EveryWidth) {
  ExpectTensor(RunOp({"DequantizeLinear"},
                     {Tensor::Vector<int8_t>({-128, 127}), Scalar(0.5F), Scalar<int8_t>(-1)}),
               {2}, {-63.5, 64});
  ExpectTensor(RunOp({"DequantizeLinear"}, {Tensor::Vector<int32_t>({-7}), Scalar(2.0F)}), {1},
               {-14});
  Tensor nibbles(DType::kUint4, {3});
  static_cast<uint8_t*>(nibbles.raw())[0] = 0xf1;
  static_cast<uint8_t*>(nibbles.raw())[1] = 0x07;
  ExpectTensor(RunOp({"DequantizeLinear", 21}, {nibbles, Scalar(1.0F)}), {3}, {1, 15, 7});
  ExpectTensor(RunOp({"DequantizeLinear", 1, "com.microsoft"},
                     {Tensor::Vector<uint8_t>({9}), Scalar(1.0F), Scalar<uint8_t>(4)}),
               {1}, {5});
}

TEST(QuantizeLinear, RefusesBadParameters) {
  const Tensor x = Floats({1, 2});
  for (const float scale : {0.0F, -1.0F, NAN, INFINITY}) {
    try {
      RunOp({"QuantizeLinear"}, {x, Scalar(scale)});
      ADD_FAILURE() << scale;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidQuantization);
      EXPECT_FALSE(error.context().value.empty());
    }
  }
  EXPECT_EQ(CodeOf([&] {
              RunOp({"QuantizeLinear"}, {x, Scalar(1.0F), Scalar(0.0F)});
            }),
            ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf([&] {
              RunOp({"DequantizeLinear"},
                    {Tensor::Vector<int8_t>({1}), Scalar(1.0F), Scalar<uint8_t>(0)});
            }),
            ErrorCode::kTypeMismatch);
}

TEST(DynamicQuantizeLinear, HoldsZero) {
  const std::vector<Tensor> y =
      RunOutputs({"DynamicQuantizeLinear", 13, "", 3}, {Floats({1, 2, 5.1F})});
  EXPECT_NEAR(y[1].AsDouble(0), 0.02, 1e-9);
  EXPECT_EQ(y[2].AsInt64(0), 0);
  ExpectTensor(y[0], {3}, {50, 100, 255});
  const std::vector<Tensor> zeros =
      RunOutputs({"DynamicQuantizeLinear", 13, "", 3}, {Floats({0, 0})});
  EXPECT_EQ(zeros[1].AsDouble(0), 1);
}

}  // namespace
}  // namespace requant
