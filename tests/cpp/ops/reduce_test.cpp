#include "ops/run_op.h"

namespace requant {
namespace {

const float kInf = std::numeric_limits<float>::infinity();

TEST(Reduce, AxesAsAttributeOrInput) {
  const Tensor x = Floats({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  ExpectTensor(RunOp({"ReduceMean", 13}, {x}, {{"axes", Ints({0, -1})}}), {1, 2, 1}, {3.5, 5.5});
  const Tensor axes = Tensor::Vector<int64_t>({-1, 0});
  ExpectTensor(RunOp({"ReduceMean", 18}, {x, axes}, {{"keepdims", Int(0)}}), {2}, {3.5, 5.5});
  ExpectTensor(RunOp({"ReduceMean", 18}, {x}), {1, 1, 1}, {4.5});
  ExpectTensor(RunOp({"ReduceSum", 13}, {x, Tensor::Vector<int64_t>({1})}), {2, 1, 2},
               {4, 6, 12, 14});
  const Tensor none = Tensor::Vector<int64_t>({});
  EXPECT_TRUE(RunOp({"ReduceSum", 13}, {x, none}, {{"noop_with_empty_axes", Int(1)}}).SameBits(x));
  ExpectTensor(RunOp({"ReduceSum", 13}, {x, none}, {{"keepdims", Int(0)}}), {}, {36});
  EXPECT_EQ(CodeOf([&] {
              RunOp({"ReduceSum", 11}, {x}, {{"axes", Ints({0, -3})}});
            }),
            ErrorCode::kInvalidModel);
  EXPECT_EQ(CodeOf([&] {
              RunOp({"ReduceSum", 11}, {x}, {{"axes", Ints({3})}});
            }),
            ErrorCode::kInvalidModel);
}

TEST(Reduce, NothingButTheFunctionWithoutAxes) {
  const std::vector<AttributeMap::Entry> noop = {{"noop_with_empty_axes", Int(1)}};
  const Tensor x = Floats({-3, 2}, {2});
  for (const int opset : {18, 20}) {
    ExpectTensor(RunOp({"ReduceSumSquare", opset}, {x}, noop), {2}, {9, 4});
    ExpectTensor(RunOp({"ReduceL1", opset}, {x}, noop), {2}, {3, 2});
    ExpectTensor(RunOp({"ReduceL2", opset}, {x}, noop), {2}, {3, 2});
    ExpectTensor(RunOp({"ReduceLogSum", opset}, {x}, noop), {2}, {NAN, std::log(2.0)}, 1e-6);
    for (const char* op : {"ReduceLogSumExp", "ReduceMean", "ReduceMax", "ReduceProd"}) {
      ExpectTensor(RunOp({op, opset}, {x}, noop), {2}, {-3, 2});
    }
  }
}

TEST(Reduce, UnknownAxesKeepTheRankAtMost) {
  const ValueType x = FloatType({Named("N"), 4, 5});
  const ValueType axes{DType::kInt64, SymbolicShape{1}};
  EXPECT_EQ(Infer({"ReduceMean", 18}, {x, axes}), "float32[?, ?, ?]");
  EXPECT_EQ(Infer({"ReduceMean", 18}, {x, axes}, {{"keepdims", Int(0)}}), "float32[...]");
  EXPECT_EQ(Infer({"ReduceMean", 13}, {x}, {{"axes", Ints({1, 2})}}), "float32[N, 1, 1]");
}

TEST(Reduce, EveryKind) {
  const Tensor x = Floats({3, -4}, {1, 2});
  const auto run = [&](const char* name) {
    return RunOp({name, 13}, {x}, {{"axes", Ints({1})}, {"keepdims", Int(0)}}).AsDouble(0);
  };
  EXPECT_EQ(run("ReduceMax"), 3);
  EXPECT_EQ(run("ReduceMin"), -4);
  EXPECT_EQ(run("ReduceProd"), -12);
  EXPECT_EQ(run("ReduceL1"), 7);
  EXPECT_EQ(run("ReduceL2"), 5);
  EXPECT_EQ(run("ReduceSumSquare"), 25);
  EXPECT_TRUE(std::isnan(run("ReduceLogSum")));
  EXPECT_NEAR(run("ReduceLogSumExp"), std::log(std::exp(3) + std::exp(-4)), 1e-6);
  EXPECT_NEAR(RunOp({"ReduceLogSumExp", 13}, {Floats({1000, 1000})}).AsDouble(0),
              1000 + std::log(2), 1e-4);
}

TEST(Reduce, IntegersStayExact) {
  const Tensor x = Tensor::Vector<int64_t>({9007199254740993, 2, -2});
  EXPECT_EQ(RunOp({"ReduceSum", 11}, {x}).ToInts(), std::vector<int64_t>{9007199254740993});
  EXPECT_EQ(RunOp({"ReduceL1", 11}, {x}).ToInts(), std::vector<int64_t>{9007199254740997});
  EXPECT_EQ(RunOp({"ReduceMax", 13}, {Tensor::Vector<int8_t>({-7, -3})}).ToInts(),
            std::vector<int64_t>{-3});
}

TEST(Reduce, NothingGivesTheNeutralElement) {
  const Tensor x = Floats({}, {2, 0});
  const std::vector<AttributeMap::Entry> last = {{"axes", Ints({1})}, {"keepdims", Int(0)}};
  ExpectTensor(RunOp({"ReduceSum", 11}, {x}, last), {2}, {0, 0});
  ExpectTensor(RunOp({"ReduceProd", 11}, {x}, last), {2}, {1, 1});
  ExpectTensor(RunOp({"ReduceMax", 11}, {x}, last), {2}, {-kInf, -kInf});
  ExpectTensor(RunOp({"ReduceLogSumExp", 11}, {x}, last), {2}, {-kInf, -kInf});
  ExpectTensor(RunOp({"ReduceSum", 11}, {Floats({}, {0, 2})}, last), {0}, {});
}

TEST(ArgMax, TiesAndAxes) {
  const Tensor x = Floats({1, 3, 3, 5, 2, 5}, {2, 3});
  ExpectTensor(RunOp({"ArgMax"}, {x}, {{"axis", Int(1)}}), {2, 1}, {1, 0});
  ExpectTensor(RunOp({"ArgMax"}, {x},
                     {{"axis", Int(-1)}, {"keepdims", Int(0)}, {"select_last_index", Int(1)}}),
               {2}, {2, 2});
  ExpectTensor(RunOp({"ArgMin"}, {x}), {1, 3}, {0, 1, 0});
  EXPECT_EQ(RunOp({"ArgMax"}, {x}).dtype(), DType::kInt64);
  EXPECT_EQ(CodeOf([] { RunOp({"ArgMax"}, {Floats({}, {0, 2})}); }), ErrorCode::kInvalidArgument);
}

TEST(CumSum, Directions) {
  const Tensor x = Floats({1, 2, 3, 4}, {2, 2});
  const Tensor axis = Tensor::Scalar<int32_t>(1);
  ExpectTensor(RunOp({"CumSum"}, {x, axis}), {2, 2}, {1, 3, 3, 7});
  ExpectTensor(RunOp({"CumSum"}, {x, axis}, {{"reverse", Int(1)}, {"exclusive", Int(1)}}), {2, 2},
               {2, 0, 4, 0});
  ExpectTensor(RunOp({"CumSum"}, {x, Tensor::Scalar<int64_t>(-2)}), {2, 2}, {1, 2, 4, 6});
}

}  // namespace
}  // namespace requant
