#include "ops/run_op.h"

namespace requant {
namespace {

const float kNaN = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

TEST(Unary, RoundTakesTiesToEven) {
  ExpectTensor(RunOp({"Round"}, {Floats({0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 0.49999997F, -1.2F,
                                         8388609.0F, -kInf})}),
               {10}, {0, 2, 2, -0.0, -2, -2, 0, -1, 8388609, -kInf});
}

TEST(Unary, ClipInAllItsForms) {
  const Tensor x = Floats({-2, 0, 2, kNaN});
  ExpectTensor(RunOp({"Clip", 6}, {x}, {{"min", -1.0F}, {"max", 1.0F}}), {4}, {-1, 0, 1, kNaN});
  const Tensor missing;
  ExpectTensor(RunOp({"Clip", 11}, {x, missing, Tensor::Scalar(1.0F)}), {4}, {-2, 0, 1, kNaN});
  ExpectTensor(RunOp({"Clip", 11}, {x, Tensor::Scalar(-1.0F)}), {4}, {-1, 0, 2, kNaN});
  ExpectTensor(RunOp({"Clip", 11}, {Floats({-kInf, kInf})}), {2}, {-kInf, kInf});
  const Tensor bytes = Tensor::Vector<int8_t>({-128, 5, 127});
  ExpectTensor(RunOp({"Clip", 12}, {bytes, Tensor::Scalar<int8_t>(0), Tensor::Scalar<int8_t>(6)}),
               {3}, {0, 5, 6});
  // max wins when the bounds are crossed
  ExpectTensor(RunOp({"Clip", 11}, {x, Tensor::Scalar(3.0F), Tensor::Scalar(1.0F)}), {4},
               {1, 1, 1, kNaN});
  EXPECT_EQ(CodeOf([&] { RunOp({"Clip", 11}, {x, Floats({0, 1})}); }), ErrorCode::kShapeMismatch);
  EXPECT_EQ(CodeOf([&] {
              RunOp({"Clip", 11}, {x, Tensor::Scalar<int8_t>(0)});
            }),
            ErrorCode::kTypeMismatch);
}

TEST(Unary, ReluOfIntegersAndNaN) {
  ExpectTensor(RunOp({"Relu", 14}, {Tensor::Vector<int8_t>({-3, 0, 7})}), {3}, {0, 0, 7});
  ExpectTensor(RunOp({"Relu", 14}, {Tensor::Vector<int32_t>({-3, 9})}), {2}, {0, 9});
  ExpectTensor(RunOp({"Relu"}, {Floats({-1, kNaN, 2})}), {3}, {0, kNaN, 2});
}

TEST(Unary, IntegersOfAbsNegSign) {
  const Tensor x = Tensor::Vector<int64_t>({-9007199254740993, 0, 4});
  EXPECT_EQ(RunOp({"Abs"}, {x}).ToInts(), (std::vector<int64_t>{9007199254740993, 0, 4}));
  EXPECT_EQ(RunOp({"Neg"}, {x}).ToInts(), (std::vector<int64_t>{9007199254740993, 0, -4}));
  EXPECT_EQ(RunOp({"Sign"}, {x}).ToInts(), (std::vector<int64_t>{-1, 0, 1}));
  EXPECT_EQ(RunOp({"Neg"}, {Tensor::Vector<int8_t>({-128})}).ToInts(), std::vector<int64_t>{-128});
}

TEST(Unary, FunctionsByTheirFormulas) {
  struct Row {
    OpCase op;
    float x;
    double want;
    std::vector<AttributeMap::Entry> attributes = {};
  };
  const std::vector<Row> rows = {
      {{"Sigmoid"}, 0, 0.5},
      {{"Sigmoid"}, -200, 0},
      {{"Tanh"}, 0.5F, 0.46211715726},
      {{"HardSigmoid"}, 1, 0.7},
      {{"HardSigmoid"}, 1, 0.75, {{"alpha", 0.25F}}},
      {{"HardSwish", 14}, 1, 4.0 / 6},
      {{"HardSwish", 14}, -4, 0},
      {{"LeakyRelu"}, -2, -0.02},
      {{"Elu"}, -1, std::exp(-1) - 1},
      {{"Selu"}, -1, 1.0507009873554805 * 1.6732632423543772 * (std::exp(-1) - 1)},
      {{"Celu"}, -2, 2 * (std::exp(-1) - 1), {{"alpha", 2.0F}}},
      {{"Softplus"}, 100, 100},
      {{"Softplus"}, 0, std::log(2)},
      {{"Softplus"}, kInf, kInf},
      {{"Softplus"}, kNaN, kNaN},
      {{"Softsign"}, -3, -0.75},
      {{"Erf"}, 0.5F, 0.5204998778},
      {{"Gelu", 20}, 1, 0.8413447461},
      {{"Gelu", 20}, 1, 0.8411919906, {{"approximate", Text("tanh")}}},
      {{"Mish", 18}, 1, 0.8650983883},
      {{"ThresholdedRelu"}, 1, 0},
      {{"ThresholdedRelu"}, 1.5F, 1.5},
      {{"Shrink"}, -2, -0.5, {{"bias", 1.5F}, {"lambd", 1.5F}}},
      {{"Shrink"}, 1.5F, 0, {{"bias", 1.5F}, {"lambd", 1.5F}}},
      {{"Shrink"}, kNaN, 0},  // neither below nor above
      {{"ThresholdedRelu"}, kNaN, 0},
      {{"Reciprocal"}, 4, 0.25},
      {{"Sqrt"}, -1, kNaN},
      {{"Floor"}, -1.5F, -2},
      {{"Ceil"}, -1.5F, -1},
      {{"Log"}, 0, -kInf},
      {{"Atanh"}, 0.5F, 0.5493061443},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.op.op + "(" + std::to_string(row.x) + ")");
    ExpectTensor(RunOp(row.op, {Floats({row.x})}, row.attributes), {1}, {row.want}, 2e-7);
  }
  EXPECT_EQ(Infer({"Exp"}, {FloatType({Named("N"), 3})}), "float32[N, 3]");
  EXPECT_EQ(CodeOf([] { RunOp({"Exp"}, {Tensor::Vector<int32_t>({1})}); }),
            ErrorCode::kTypeMismatch);
}

TEST(Unary, TestsAndLogic) {
  const Tensor x = Floats({1, kNaN, kInf, -kInf});
  ExpectTensor(RunOp({"IsNaN"}, {x}), {4}, {0, 1, 0, 0});
  ExpectTensor(RunOp({"IsInf"}, {x}, {{"detect_positive", Int(0)}}), {4}, {0, 0, 0, 1});
  ExpectTensor(RunOp({"Not"}, {RunOp({"IsNaN"}, {x})}), {4}, {1, 0, 1, 1});
}

TEST(Dropout, IsTheIdentityWithATrueMask) {
  const Tensor x = Floats({1, -2});
  const std::vector<Tensor> y = RunOutputs({"Dropout", 13, "", 2}, {x, Tensor::Scalar(0.9F)});
  EXPECT_TRUE(y[0].SameBits(x));
  EXPECT_EQ(y[1].dtype(), DType::kBool);
  ExpectTensor(y[1], {2}, {1, 1});
  EXPECT_EQ(RunOutputs({"Dropout", 7, "", 2}, {x})[1].dtype(), DType::kFloat32);
  const Tensor training = RunOp({"Not"}, {Tensor(DType::kBool, {})});
  EXPECT_EQ(CodeOf([&] {
              RunOp({"Dropout"}, {x, Tensor::Scalar(0.5F), training});
            }),
            ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace requant
