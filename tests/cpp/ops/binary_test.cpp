#include "ops/run_op.h"

namespace requant {
namespace {

const float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Binary, Broadcasting) {
  const Tensor a = Floats({1, 2, 3, 4, 5, 6}, {2, 1, 3});
  const Tensor b = Floats({10, 20}, {2, 1});
  ExpectTensor(RunOp({"Add"}, {a, b}), {2, 2, 3}, {11, 12, 13, 21, 22, 23, 14, 15, 16, 24, 25, 26});
  ExpectTensor(RunOp({"Sub"}, {Tensor::Scalar(1.0F), Floats({1, 2})}), {2}, {0, -1});
  ExpectTensor(RunOp({"Mul"}, {Floats({}, {0, 3}), Floats({1, 2, 3})}), {0, 3}, {});
  EXPECT_EQ(Infer({"Add"}, {FloatType({Named("N"), 1, 4}), FloatType({3, Named("W")})}),
            "float32[N, 3, 4]");
  EXPECT_EQ(Infer({"Mul"}, {FloatType({Named("N"), 8}), FloatType({Named("N"), 1})}),
            "float32[N, 8]");
  EXPECT_EQ(CodeOf([] {
              Infer({"Add"}, {FloatType({2, 3}), FloatType({2})});
            }),
            ErrorCode::kShapeMismatch);
  EXPECT_EQ(CodeOf([] {
              RunOp({"Add"}, {Floats({1}), Tensor::Vector<int32_t>({1})});
            }),
            ErrorCode::kTypeMismatch);
}

TEST(Binary, FloatResultsAreCorrectlyRounded) {
  const float a = 16777216.0F;  // 2^24
  ExpectTensor(RunOp({"Add"}, {Floats({a, a}), Floats({1, 3})}), {2}, {a, a + 4.0});
  ExpectTensor(RunOp({"Div"}, {Floats({1, 1, 0}), Floats({3, 0, 0})}), {3},
               {1.0F / 3.0F, std::numeric_limits<double>::infinity(), kNaN});
}

TEST(Binary, IntegerDivisionTruncates) {
  const Tensor a = Tensor::Vector<int32_t>({-7, 7, -7, INT32_MIN});
  const Tensor b = Tensor::Vector<int32_t>({2, -2, -2, -1});
  EXPECT_EQ(RunOp({"Div"}, {a, b}).ToInts(), (std::vector<int64_t>{-3, -3, 3, INT32_MIN}));
  EXPECT_EQ(RunOp({"Mod"}, {a, b}).ToInts(), (std::vector<int64_t>{1, -1, -1, 0}));
  EXPECT_EQ(RunOp({"Mod"}, {a, b}, {{"fmod", Int(1)}}).ToInts(),
            (std::vector<int64_t>{-1, 1, -1, 0}));
  EXPECT_EQ(CodeOf([&] {
              RunOp({"Div"}, {a, Tensor::Scalar<int32_t>(0)});
            }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf([] { RunOp({"Mod"}, {Floats({1}), Floats({1})}); }), ErrorCode::kInvalidModel);
  ExpectTensor(RunOp({"Mod"}, {Floats({-5.5F}), Floats({2})}, {{"fmod", Int(1)}}), {1}, {-1.5});
}

TEST(Binary, IntegersWrapAndKeep64Bits) {
  EXPECT_EQ(
      RunOp({"Add", 14}, {Tensor::Vector<uint8_t>({250}), Tensor::Vector<uint8_t>({10})}).ToInts(),
      std::vector<int64_t>{4});
  const int64_t big = 9007199254740993;  // 2^53 + 1
  EXPECT_EQ(RunOp({"Mul"}, {Tensor::Vector<int64_t>({big}), Tensor::Vector<int64_t>({3})}).ToInts(),
            std::vector<int64_t>{3 * big});
  const Tensor huge = Tensor::Vector<uint64_t>({UINT64_MAX});
  const Tensor one = Tensor::Vector<uint64_t>({1});
  ExpectTensor(RunOp({"Greater"}, {huge, one}), {1}, {1});
  EXPECT_TRUE(RunOp({"Max"}, {huge, one}).SameBits(huge));
}

TEST(Binary, PowMixesTypes) {
  ExpectTensor(RunOp({"Pow"}, {Floats({2, 9, -8}), Floats({3, 0.5F, 2})}), {3}, {8, 3, 64});
  ExpectTensor(RunOp({"Pow"}, {Floats({2, 3}), Tensor::Scalar<int64_t>(2)}), {2}, {4, 9});
  EXPECT_EQ(
      RunOp({"Pow"}, {Tensor::Vector<int64_t>({3, -2}), Tensor::Vector<int64_t>({39, 3})}).ToInts(),
      (std::vector<int64_t>{4052555153018976267, -8}));
  EXPECT_EQ(RunOp({"Pow"}, {Tensor::Vector<int32_t>({2, 9}), Floats({3, 0.5F})}).ToInts(),
            (std::vector<int64_t>{8, 3}));
}

TEST(Binary, VariadicMinMaxSumMean) {
  const std::vector<Tensor> in = {Floats({1, 5}), Floats({2, 2}, {2, 1}), Tensor::Scalar(3.0F)};
  ExpectTensor(RunOp({"Max"}, in), {2, 2}, {3, 5, 3, 5});
  ExpectTensor(RunOp({"Min"}, in), {2, 2}, {1, 2, 1, 2});
  ExpectTensor(RunOp({"Sum"}, in), {2, 2}, {6, 10, 6, 10});
  ExpectTensor(RunOp({"Mean"}, in), {2, 2}, {2, 10.0F / 3, 2, 10.0F / 3});
  ExpectTensor(RunOp({"Max"}, {Floats({kNaN, 1}), Floats({1, kNaN})}), {2}, {kNaN, kNaN});
  ExpectTensor(RunOp({"Min"}, {Floats({4})}), {1}, {4});
}

TEST(Binary, ComparisonsAndLogic) {
  const Tensor a = Floats({1, 2, kNaN});
  const Tensor b = Floats({1, 1, kNaN});
  ExpectTensor(RunOp({"Equal"}, {a, b}), {3}, {1, 0, 0});
  ExpectTensor(RunOp({"Greater"}, {a, b}), {3}, {0, 1, 0});
  ExpectTensor(RunOp({"LessOrEqual"}, {a, b}), {3}, {1, 0, 0});
  const Tensor p = RunOp({"Greater"}, {Floats({1, 1, 0, 0}), Tensor::Scalar(0.5F)});
  const Tensor q = RunOp({"Greater"}, {Floats({1, 0, 1, 0}), Tensor::Scalar(0.5F)});
  ExpectTensor(RunOp({"And"}, {p, q}), {4}, {1, 0, 0, 0});
  ExpectTensor(RunOp({"Or"}, {p, q}), {4}, {1, 1, 1, 0});
  ExpectTensor(RunOp({"Xor"}, {p, q}), {4}, {0, 1, 1, 0});
  ExpectTensor(RunOp({"Equal"}, {p, q}), {4}, {1, 0, 0, 1});
}

TEST(Binary, WhereBroadcastsAllThree) {
  const Tensor condition = RunOp({"Greater"}, {Floats({1, 0}, {2, 1}), Tensor::Scalar(0.5F)});
  ExpectTensor(RunOp({"Where"},
                     {condition, Tensor::Vector<int64_t>({1, 2, 3}), Tensor::Scalar<int64_t>(-1)}),
               {2, 3}, {1, 2, 3, -1, -1, -1});
}

TEST(Binary, PReluStretchesTheSlopeOnly) {
  const Tensor x = Floats({-1, 2, -3, -4}, {1, 2, 2});
  ExpectTensor(RunOp({"PRelu", 9}, {x, Floats({0.5F, 2}, {2, 1})}), {1, 2, 2}, {-0.5, 2, -6, -8});
  EXPECT_EQ(CodeOf([] {
              Infer({"PRelu", 9}, {FloatType({1, 2}), FloatType({3, 2})});
            }),
            ErrorCode::kShapeMismatch);
}

}  // namespace
}  // namespace requant
