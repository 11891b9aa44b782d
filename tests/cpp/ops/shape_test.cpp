#include "ops/run_op.h"

namespace requant {
namespace {

Tensor List(std::vector<int64_t> values) { return Tensor::Vector<int64_t>(values); }

std::string InferWith(const OpCase& op, const ValueType& type, const std::vector<int64_t>& list) {
  Graph graph;
  graph.opsets[""] = op.opset;
  Node* node =
      graph.AddNode(op.op, "", {graph.AddValue("x", type), graph.AddConstant("list", List(list))},
                    {graph.AddValue("y")});
  return TypeToString(InferNode(graph, *node)[0]);
}

TEST(Shape, TakesARange) {
  const Tensor x(DType::kFloat32, {2, 3, 4});
  ExpectTensor(RunOp({"Shape", 15}, {x}), {3}, {2, 3, 4});
  ExpectTensor(RunOp({"Shape", 15}, {x}, {{"start", Int(-2)}}), {2}, {3, 4});
  ExpectTensor(RunOp({"Shape", 15}, {x}, {{"start", Int(1)}, {"end", Int(-1)}}), {1}, {3});
  ExpectTensor(RunOp({"Shape", 15}, {x}, {{"start", Int(2)}, {"end", Int(1)}}), {0}, {});
  ExpectTensor(RunOp({"Size"}, {x}), {}, {24});
  EXPECT_EQ(CodeOf([&] { RunOutputs({"Shape", 15, "", 0}, {x}); }), ErrorCode::kInvalidModel);
}

TEST(Reshape, CopiesAndInfers) {
  const Tensor x = Noise({2, 3, 4}, 1);
  EXPECT_EQ(RunOp({"Reshape"}, {x, List({0, -1})}).shape(), (Shape{2, 12}));
  EXPECT_EQ(RunOp({"Reshape"}, {x, List({4, 0, 2})}).shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(RunOp({"Reshape", 14}, {Tensor(DType::kFloat32, {0, 3}), List({3, 0})},
                  {{"allowzero", Int(1)}})
                .shape(),
            (Shape{3, 0}));
}

TEST(Reshape, KeepsTheBatchSymbol) {
  const ValueType x = FloatType({Named("N"), 16, 4, 4});
  EXPECT_EQ(InferWith({"Reshape"}, x, {0, -1}), "float32[N, 256]");
  EXPECT_EQ(InferWith({"Reshape"}, x, {-1, 256}), "float32[N, 256]");
  EXPECT_EQ(InferWith({"Reshape"}, x, {-1, 128}), "float32[?, 128]");
  EXPECT_EQ(InferWith({"Reshape"}, x, {0, 4, -1, 2}), "float32[N, 4, 32, 2]");
  // An anonymous dimension cancels, too.
  EXPECT_EQ(InferWith({"Reshape"}, FloatType({Dim(), 6}), {0, 3, -1}), "float32[?, 3, 2]");
  EXPECT_EQ(Infer({"Reshape"}, {x, {DType::kInt64, SymbolicShape{3}}}), "float32[?, ?, ?]");
}

TEST(Reshape, RefusesWhatCannotBe) {
  const ValueType x = FloatType({2, 6});
  const auto code = [&](const ValueType& type, const std::vector<int64_t>& shape) {
    return CodeOf([&] { InferWith({"Reshape"}, type, shape); });
  };
  EXPECT_EQ(code(x, {5, -1}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code(x, {2, 7}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code(x, {-1, -1}), ErrorCode::kInvalidModel);
  EXPECT_EQ(code(x, {-2, 6}), ErrorCode::kInvalidModel);
  EXPECT_EQ(code(x, {2, 6, 0}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code(FloatType({Named("N"), 6}), {0, 7}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code(FloatType({Named("N"), 6}), {4, 4}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code(x, {int64_t{1} << 62, int64_t{1} << 62}), ErrorCode::kInvalidModel);
}

TEST(Flatten, BothSidesOfTheAxis) {
  const Tensor x = Noise({2, 3, 4}, 1);
  EXPECT_EQ(RunOp({"Flatten"}, {x}).shape(), (Shape{2, 12}));
  EXPECT_EQ(RunOp({"Flatten"}, {x}, {{"axis", Int(0)}}).shape(), (Shape{1, 24}));
  EXPECT_EQ(RunOp({"Flatten"}, {x}, {{"axis", Int(3)}}).shape(), (Shape{24, 1}));
  EXPECT_EQ(RunOp({"Flatten"}, {x}, {{"axis", Int(-1)}}).shape(), (Shape{6, 4}));
  EXPECT_EQ(Infer({"Flatten"}, {FloatType({Named("N"), 2, 3})}), "float32[N, 6]");
}

TEST(Squeeze, AttributeAndInput) {
  const Tensor x = Noise({1, 3, 1}, 1);
  EXPECT_EQ(RunOp({"Squeeze", 11}, {x}, {{"axes", Ints({0})}}).shape(), (Shape{3, 1}));
  EXPECT_EQ(RunOp({"Squeeze", 13}, {x, List({-1})}).shape(), (Shape{1, 3}));
  EXPECT_EQ(RunOp({"Squeeze", 13}, {x}).shape(), (Shape{3}));
  EXPECT_EQ(CodeOf([&] { RunOp({"Squeeze", 13}, {x, List({1})}); }), ErrorCode::kShapeMismatch);
  EXPECT_EQ(RunOp({"Unsqueeze", 13}, {x, List({0, -1})}).shape(), (Shape{1, 1, 3, 1, 1}));
  EXPECT_EQ(RunOp({"Unsqueeze", 11}, {x}, {{"axes", Ints({2})}}).shape(), (Shape{1, 3, 1, 1}));
  EXPECT_EQ(CodeOf([&] { RunOp({"Unsqueeze", 13}, {x, List({0, 0})}); }), ErrorCode::kInvalidModel);
}

TEST(Expand, BroadcastsBothWays) {
  ExpectTensor(RunOp({"Expand"}, {Floats({1, 2}, {2, 1}), List({3})}), {2, 3}, {1, 1, 1, 2, 2, 2});
  EXPECT_EQ(InferWith({"Expand"}, FloatType({Named("N"), 1}), {1, 4}), "float32[N, 4]");
}

TEST(Cast, TruncatesSaturatesAndWraps) {
  const auto cast = [](const Tensor& x, DType to) {
    return RunOp({"Cast"}, {x}, {{"to", Int(static_cast<int64_t>(to))}});
  };
  const Tensor x = Floats({-1.9F, 1.9F, 300, -300, NAN, INFINITY});
  ExpectTensor(cast(x, DType::kInt8), {6}, {-1, 1, 127, -128, 0, 127});
  ExpectTensor(cast(x, DType::kUint8), {6}, {0, 1, 255, 0, 0, 255});
  ExpectTensor(cast(x, DType::kBool), {6}, {1, 1, 1, 1, 1, 1});
  ExpectTensor(cast(x, DType::kInt4), {6}, {-1, 1, 7, -8, 0, 7});
  ExpectTensor(cast(List({300, -1}), DType::kUint8), {2}, {44, 255});
  // 2^24 + 1 is no float32; the 64-bit integer itself survives in int64 and uint64.
  ExpectTensor(cast(List({16777217}), DType::kFloat32), {1}, {16777216});
  ExpectTensor(cast(Floats({1e30F}), DType::kInt64), {1}, {9223372036854775807.0});
  // 1 + 2^-11 is a tie in float16: to even.
  ExpectTensor(cast(Floats({1.00048828125F, 65504, 1e6F}), DType::kFloat16), {3},
               {1, 65504, INFINITY});
  ExpectTensor(cast(cast(Floats({0.1F}), DType::kBfloat16), DType::kFloat32), {1}, {0.10009765625});
}

TEST(Constants, AllForms) {
  ExpectTensor(RunOp({"Constant"}, {}, {{"value_ints", Ints({4, 5})}}), {2}, {4, 5});
  ExpectTensor(RunOp({"Constant"}, {}, {{"value_float", Attribute(2.5F)}}), {}, {2.5});
  ExpectTensor(RunOp({"Constant"}, {}, {{"value", Attribute(Floats({7}))}}), {1}, {7});
  ExpectTensor(RunOp({"ConstantOfShape"}, {List({2, 2})}, {{"value", Attribute(List({9}))}}),
               {2, 2}, {9, 9, 9, 9});
  ExpectTensor(RunOp({"Range"}, {Tensor::Scalar<int64_t>(5), Tensor::Scalar<int64_t>(-1),
                                 Tensor::Scalar<int64_t>(-2)}),
               {3}, {5, 3, 1});
  EXPECT_EQ(CodeOf([] {
              RunOp({"Range"}, {Tensor::Scalar(0.0F), Tensor::Scalar(1.0F), Tensor::Scalar(0.0F)});
            }),
            ErrorCode::kInvalidArgument);
  ExpectTensor(RunOp({"OneHot"}, {List({1, -1, 5}), Tensor::Scalar<int64_t>(3), Floats({0, 2})}),
               {3, 3}, {0, 2, 0, 0, 0, 2, 0, 0, 0});
  ExpectTensor(RunOp({"Trilu", 14}, {Floats({1, 2, 3, 4}, {2, 2})}, {{"upper", Int(0)}}), {2, 2},
               {1, 0, 3, 4});
  ExpectTensor(RunOp({"NonZero"}, {Floats({0, 1, 2, 0}, {2, 2})}), {2, 2}, {0, 1, 1, 0});
}

}  // namespace
}  // namespace requant
