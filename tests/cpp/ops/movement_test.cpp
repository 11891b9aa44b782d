#include "ops/run_op.h"

namespace requant {
namespace {

Tensor List(std::vector<int64_t> values) { return Tensor::Vector<int64_t>(values); }
Tensor Count(Shape shape) {
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::FromVector<float>(values, std::move(shape));
}

TEST(Transpose, AnyElementSize) {
  ExpectTensor(RunOp({"Transpose"}, {Count({2, 3})}), {3, 2}, {0, 3, 1, 4, 2, 5});
  const Tensor bytes = Tensor::FromVector<uint8_t>({1, 2, 3, 4}, {1, 2, 2});
  ExpectTensor(RunOp({"Transpose"}, {bytes}, {{"perm", Ints({1, 2, 0})}}), {2, 2, 1}, {1, 2, 3, 4});
  EXPECT_EQ(CodeOf([&] {
              RunOp({"Transpose"}, {bytes}, {{"perm", Ints({0, 0, 1})}});
            }),
            ErrorCode::kInvalidModel);
  EXPECT_EQ(CodeOf([&] {
              RunOp({"Transpose"}, {Tensor(DType::kInt4, {2, 2})});
            }),
            ErrorCode::kUnsupported);
}

TEST(Concat, JoinsAndChecks) {
  ExpectTensor(RunOp({"Concat"}, {Count({2, 1}), Count({2, 2})}, {{"axis", Int(-1)}}), {2, 3},
               {0, 0, 1, 1, 2, 3});
  EXPECT_EQ(CodeOf([] {
              RunOp({"Concat"}, {Count({2, 1}), Count({3, 1})}, {{"axis", Int(1)}});
            }),
            ErrorCode::kShapeMismatch);
  EXPECT_EQ(Infer({"Concat"}, {FloatType({Named("N"), 2}), FloatType({Named("N"), Dim()})},
                  {{"axis", Int(1)}}),
            "float32[N, ?]");
}

TEST(Slice, NegativeStepsAndClamping) {
  const Tensor x = Count({6});
  const auto slice = [&](int64_t start, int64_t end, int64_t step) {
    return RunOp({"Slice"}, {x, List({start}), List({end}), List({0}), List({step})}).ToDoubles();
  };
  using V = std::vector<double>;
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(slice(1, 5, 2), (V{1, 3}));
  EXPECT_EQ(slice(-2, kFar, 1), (V{4, 5}));
  EXPECT_EQ(slice(-1, -kFar, -1), (V{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(slice(4, 0, -2), (V{4, 2}));
  EXPECT_EQ(slice(100, -7, -3), (V{5, 2}));
  EXPECT_EQ(slice(-100, 2, 1), (V{0, 1}));
  EXPECT_EQ(slice(3, 3, 1), V{});
  EXPECT_EQ(slice(2, 5, kFar), (V{2}));
  EXPECT_EQ(slice(5, -kFar - 1, -kFar - 1), (V{5}));
  EXPECT_EQ(CodeOf([&] { slice(0, 1, 0); }), ErrorCode::kInvalidModel);
  ExpectTensor(RunOp({"Slice", 9}, {Count({2, 3})},
                     {{"starts", Ints({1})}, {"ends", Ints({3})}, {"axes", Ints({1})}}),
               {2, 2}, {1, 2, 4, 5});
}

TEST(Slice, UnknownDimensions) {
  Graph graph;
  graph.opsets[""] = 13;
  Node* node = graph.AddNode(
      "Slice", "",
      {graph.AddValue("x", FloatType({Named("N"), 8})), graph.AddConstant("s", List({0, 2})),
       graph.AddConstant("e", List({std::numeric_limits<int64_t>::max(), 5}))},
      {graph.AddValue("y")});
  EXPECT_EQ(TypeToString(InferNode(graph, *node)[0]), "float32[N, 3]");
}

TEST(Split, EqualListedAndUneven) {
  const Tensor x = Count({5});
  std::vector<Tensor> parts = RunOutputs({"Split", 18, "", 2}, {x}, {{"num_outputs", Int(2)}});
  ExpectTensor(parts[0], {3}, {0, 1, 2});
  ExpectTensor(parts[1], {2}, {3, 4});
  parts = RunOutputs({"Split", 13, "", 2}, {x, List({1, 4})});
  ExpectTensor(parts[1], {4}, {1, 2, 3, 4});
  parts = RunOutputs({"Split", 11, "", 2}, {Count({2, 4})}, {{"axis", Int(1)}});
  ExpectTensor(parts[1], {2, 2}, {2, 3, 6, 7});
  EXPECT_EQ(CodeOf([&] { RunOutputs({"Split", 13, "", 2}, {x}); }), ErrorCode::kShapeMismatch);
  EXPECT_EQ(CodeOf([&] {
              RunOutputs({"Split", 13, "", 2}, {x, List({1, 5})});
            }),
            ErrorCode::kShapeMismatch);
}

TEST(Pad, Modes) {
  const Tensor x = Count({3});
  const auto pad = [&](const char* mode, int64_t begin, int64_t end) {
    return RunOp({"Pad", 19}, {x, List({begin, end})}, {{"mode", Text(mode)}}).ToDoubles();
  };
  using V = std::vector<double>;
  EXPECT_EQ(pad("constant", 1, 2), (V{0, 0, 1, 2, 0, 0}));
  EXPECT_EQ(pad("reflect", 2, 2), (V{2, 1, 0, 1, 2, 1, 0}));
  EXPECT_EQ(pad("reflect", 5, 0), (V{1, 0, 1, 2, 1, 0, 1, 2}));  // numpy continues like this
  EXPECT_EQ(pad("edge", 2, 1), (V{0, 0, 0, 1, 2, 2}));
  EXPECT_EQ(pad("wrap", 2, 4), (V{1, 2, 0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(pad("constant", -1, 1), (V{1, 2, 0}));
  EXPECT_EQ(CodeOf([&] { pad("constant", -2, -2); }), ErrorCode::kShapeMismatch);
}

TEST(Pad, ConstantsAxesAndOldForm) {
  const Tensor x = Tensor::FromVector<int8_t>({1, 2, 3, 4}, {2, 2});
  ExpectTensor(RunOp({"Pad", 18}, {x, List({1, 0}), Tensor::Scalar<int8_t>(-5), List({-1})}),
               {2, 3}, {-5, 1, 2, -5, 3, 4});
  ExpectTensor(
      RunOp({"Pad", 2}, {Floats({1}, {1})}, {{"pads", Ints({1, 0})}, {"value", Attribute(3.0F)}}),
      {2}, {3, 1});
  EXPECT_EQ(CodeOf([&] {
              RunOp({"Pad", 13}, {x, List({0, 1, 0, 1}), Tensor::Scalar(1.0F)});
            }),
            ErrorCode::kTypeMismatch);
}

TEST(Tile, Repeats) {
  ExpectTensor(RunOp({"Tile"}, {Count({1, 2}), List({2, 2})}), {2, 4}, {0, 1, 0, 1, 0, 1, 0, 1});
}

TEST(DepthToSpace, BothModesAndBack) {
  const Tensor x = Count({1, 8, 1, 1});
  ExpectTensor(RunOp({"DepthToSpace"}, {x}, {{"blocksize", Int(2)}}), {1, 2, 2, 2},
               {0, 2, 4, 6, 1, 3, 5, 7});
  ExpectTensor(RunOp({"DepthToSpace"}, {x}, {{"blocksize", Int(2)}, {"mode", Text("CRD")}}),
               {1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Tensor space = RunOp({"DepthToSpace"}, {x}, {{"blocksize", Int(2)}});
  EXPECT_TRUE(RunOp({"SpaceToDepth"}, {space}, {{"blocksize", Int(2)}}).SameBits(x));
  EXPECT_EQ(CodeOf([&] {
              RunOp({"DepthToSpace"}, {x}, {{"blocksize", Int(3)}});
            }),
            ErrorCode::kShapeMismatch);
}

TEST(Gather, NegativeAndOutOfRange) {
  const Tensor x = Count({3, 2});
  ExpectTensor(RunOp({"Gather"}, {x, List({-1, 0})}), {2, 2}, {4, 5, 0, 1});
  ExpectTensor(RunOp({"Gather"}, {x, Tensor::Scalar<int64_t>(1)}, {{"axis", Int(1)}}), {3},
               {1, 3, 5});
  EXPECT_EQ(CodeOf([&] { RunOp({"Gather"}, {x, List({3})}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf([&] { RunOp({"Gather"}, {x, List({-4})}); }), ErrorCode::kInvalidArgument);
  ExpectTensor(RunOp({"GatherElements"}, {x, Tensor::FromVector<int64_t>({1, 0, 1}, {3, 1})},
                     {{"axis", Int(1)}}),
               {3, 1}, {1, 2, 5});
  ExpectTensor(RunOp({"GatherND"}, {x, Tensor::FromVector<int64_t>({2, 1, 0, -1}, {2, 2})}), {2},
               {5, 1});
}

TEST(Scatter, Reductions) {
  const Tensor x = Count({4});
  const Tensor at = Tensor::FromVector<int64_t>({1, -1, 1}, {3});
  const Tensor updates = Floats({10, 20, 30});
  const auto scatter = [&](const char* reduction) {
    return RunOp({"ScatterElements", 18}, {x, at, updates}, {{"reduction", Text(reduction)}})
        .ToDoubles();
  };
  using V = std::vector<double>;
  EXPECT_EQ(scatter("none"), (V{0, 30, 2, 20}));
  EXPECT_EQ(scatter("add"), (V{0, 41, 2, 23}));
  EXPECT_EQ(scatter("mul"), (V{0, 300, 2, 60}));
  EXPECT_EQ(scatter("max"), (V{0, 30, 2, 20}));
  EXPECT_EQ(scatter("min"), (V{0, 1, 2, 3}));
  ExpectTensor(RunOp({"ScatterND", 13}, {Count({2, 2}), Tensor::FromVector<int64_t>({1}, {1, 1}),
                                         Floats({8, 9}, {1, 2})}),
               {2, 2}, {0, 1, 8, 9});
}

TEST(TopK, TiesTakeTheLowerIndex) {
  const std::vector<Tensor> top =
      RunOutputs({"TopK", 11, "", 2}, {Floats({1, 3, 3, 2}), List({2})});
  ExpectTensor(top[0], {2}, {3, 3});
  ExpectTensor(top[1], {2}, {1, 2});
  const std::vector<Tensor> least = RunOutputs({"TopK", 11, "", 2}, {Count({2, 2}), List({1})},
                                               {{"largest", Int(0)}, {"axis", Int(0)}});
  ExpectTensor(least[1], {1, 2}, {0, 0});
  EXPECT_EQ(CodeOf([] {
              RunOutputs({"TopK", 11, "", 2}, {Floats({1}), List({2})});
            }),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace requant
