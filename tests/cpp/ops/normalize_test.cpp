#include "ops/run_op.h"

namespace requant {
namespace {

TEST(Softmax, TheAxisMeansAMatrixUntilOpset12) {
  const Tensor x = Floats({0, 0, 0, 0, 0, 0, 0, 0}, {1, 2, 2, 2});
  // Opset 11: everything from axis 1 on is one row of 8; opset 13: the last axis of 2.
  const double eighth = 0.125;
  ExpectTensor(RunOp({"Softmax", 11}, {x}), {1, 2, 2, 2}, std::vector<double>(8, eighth));
  ExpectTensor(RunOp({"Softmax", 13}, {x}), {1, 2, 2, 2}, std::vector<double>(8, 0.5));
  const Tensor y = Floats({1, 2, 3, 1}, {2, 2});
  const double a = 1 / (1 + std::exp(2.0));
  const double b = 1 / (1 + std::exp(-1.0));
  ExpectTensor(RunOp({"Softmax", 13}, {y}, {{"axis", Int(0)}}), {2, 2}, {a, b, 1 - a, 1 - b}, 1e-7);
}

TEST(Softmax, LargeValuesDoNotOverflow) {
  ExpectTensor(RunOp({"Softmax"}, {Floats({1000, 1000, -1000})}), {3}, {0.5, 0.5, 0});
  ExpectTensor(RunOp({"LogSoftmax"}, {Floats({1000, 1000})}), {2}, {-std::log(2), -std::log(2)},
               1e-7);
  ExpectTensor(RunOp({"Hardmax"}, {Floats({1, 3, 3, 2})}), {4}, {0, 1, 0, 0});
  ExpectTensor(RunOp({"Softmax"}, {Floats({}, {3, 0})}), {3, 0}, {});
  EXPECT_EQ(CodeOf([] {
              Infer({"Softmax"}, {FloatType({2, 3})}, {{"axis", Int(2)}});
            }),
            ErrorCode::kInvalidModel);
}

TEST(BatchNormalization, PerChannel) {
  const Tensor x = Floats({1, 2, 3, 4}, {1, 2, 2});
  const Tensor y = RunOp({"BatchNormalization", 9},
                         {x, Floats({2, 1}), Floats({0, 10}), Floats({1, 3}), Floats({4, 0.25F})},
                         {{"epsilon", 0.0F}});
  ExpectTensor(y, {1, 2, 2}, {0, 1, 10, 12});
  const ValueType vector = FloatType({3});
  EXPECT_EQ(CodeOf([&] {
              Infer({"BatchNormalization", 9},
                    {FloatType({Named("N"), 4, 8, 8}), vector, vector, vector, vector});
            }),
            ErrorCode::kShapeMismatch);
  EXPECT_EQ(CodeOf([&] {
              Infer({"BatchNormalization", 14},
                    {FloatType({Named("N"), 3}), vector, vector, vector, vector},
                    {{"training_mode", Int(1)}});
            }),
            ErrorCode::kUnsupported);
}

TEST(Lrn, EvenSizesReachFurtherUp) {
  // size 2: channels c and c + 1.
  const Tensor y = RunOp({"LRN"}, {Floats({1, 2, 3}, {1, 3, 1})},
                         {{"size", Int(2)}, {"alpha", 2.0F}, {"beta", 1.0F}, {"bias", 1.0F}});
  ExpectTensor(y, {1, 3, 1}, {1.0 / 6, 2.0 / 14, 3.0 / 10}, 1e-7);
}

TEST(LayerNormalization, NormalizesTheTrailingAxes) {
  const std::vector<Tensor> y = RunOutputs(
      {"LayerNormalization", 17, "", 3},
      {Floats({1, 3, -2, 2}, {2, 2}), Floats({1, 10}), Floats({0, 1})}, {{"epsilon", 0.0F}});
  ExpectTensor(y[0], {2, 2}, {-1, 11, -1, 11});
  ExpectTensor(y[1], {2, 1}, {2, 0});
  ExpectTensor(y[2], {2, 1}, {1, 0.5});
}

TEST(InstanceNormalization, EachPlaneAlone) {
  ExpectTensor(RunOp({"InstanceNormalization"},
                     {Floats({1, 3, 10, 30}, {1, 2, 2}), Floats({1, 2}), Floats({0, 5})},
                     {{"epsilon", 0.0F}}),
               {1, 2, 2}, {-1, 1, 3, 7});
}

TEST(GroupNormalization, ParametersPerGroupThenPerChannel) {
  const Tensor x = Floats({1, 3, 10, 30}, {1, 4, 1});
  const std::vector<AttributeMap::Entry> attributes = {{"num_groups", Int(2)}, {"epsilon", 0.0F}};
  ExpectTensor(RunOp({"GroupNormalization", 18}, {x, Floats({1, 2}), Floats({0, 5})}, attributes),
               {1, 4, 1}, {-1, 1, 3, 7});
  ExpectTensor(RunOp({"GroupNormalization", 21}, {x, Floats({1, 2, 3, 4}), Floats({0, 0, 0, 1})},
                     attributes),
               {1, 4, 1}, {-1, 2, -3, 5});
}

TEST(LpNormalization, ZerosStayZeros) {
  ExpectTensor(RunOp({"LpNormalization"}, {Floats({3, -4, 0, 0}, {2, 2})}), {2, 2},
               {0.6, -0.8, 0, 0}, 1e-7);
  ExpectTensor(
      RunOp({"LpNormalization"}, {Floats({3, -1}, {2, 1})}, {{"axis", Int(0)}, {"p", Int(1)}}),
      {2, 1}, {0.75, -0.25});
}

}  // namespace
}  // namespace requant
