// Known answers of files that the reader converts, run by the interpreter.
#include "tflite/read.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "interpret/interpreter.h"
#include "tflite/samples.h"

namespace requant::tflite {
namespace {

std::vector<std::string> OpTypes(const Graph& graph) {
  std::vector<std::string> types;
  for (const auto& node : graph.nodes()) types.push_back(node->op_type);
  return types;
}

template <typename T>
std::vector<T> ValuesOf(const Tensor& tensor) {
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

TEST(ReadTflite, KnowsFilesByTheirIdentifier) {
  EXPECT_TRUE(IsTflite(WriteFile({ConvGraph()})));
  EXPECT_FALSE(IsTflite({}));
  const std::vector<uint8_t> other(16, 8);
  EXPECT_FALSE(IsTflite(other));
}

TEST(ReadTflite, ConvertsAConvolutionOfFloats) {
  const Graph graph = ReadTflite(Shared(WriteFile({ConvGraph()})));
  EXPECT_EQ(OpTypes(graph), (std::vector<std::string>{"Transpose", "Conv", "Relu", "Transpose"}));
  EXPECT_EQ(graph.inputs()[0]->name, "x");
  EXPECT_EQ(graph.outputs()[0]->name, "y");
  EXPECT_EQ(TypeToString(graph.outputs()[0]->type), "float32[1, 2, 2, 2]");
  const auto results = Interpret(
      graph, {{"x", Tensor::FromVector<float>({1, 0, 0, 1, 10, 20, 1, 1}, {1, 2, 2, 2})}});
  EXPECT_EQ(ValuesOf<float>(results[0]), (std::vector<float>{0, 0, 1, 0, 49, 10, 2, 0}));
}

TEST(ReadTflite, WritesPairsAroundQuantizedOperators) {
  const Graph graph = ReadTflite(Shared(WriteFile({QuantizedConvGraph()})));
  EXPECT_EQ(OpTypes(graph),
            (std::vector<std::string>{"DequantizeLinear", "Transpose", "QuantizeLinear",
                                      "DequantizeLinear", "DequantizeLinear", "DequantizeLinear",
                                      "Conv", "Relu", "QuantizeLinear", "DequantizeLinear",
                                      "Transpose", "QuantizeLinear"}));
  EXPECT_EQ(graph.inputs()[0]->type.dtype, DType::kInt8);
  // Reals: x = [[1, 0], [0, 1], ...], y = [x0 + 2 x1 - 1, 1.5 x0 + 2 x1 - 2].
  const auto results = Interpret(
      graph, {{"x", Tensor::FromVector<int8_t>({-1, -3, -3, -1, 17, -3, 7, 7}, {1, 2, 2, 2})}});
  EXPECT_EQ(ValuesOf<int8_t>(results[0]), (std::vector<int8_t>{-10, -10, -6, -10, 26, 42, 46, 52}));
}

TEST(ReadTflite, ConvertsAConvolutionWithoutBias) {
  GraphSpec graph = ConvGraph();
  graph.nodes[0].inputs[2] = -1;
  const auto results =
      Interpret(ReadTflite(Shared(WriteFile({graph}))),
                {{"x", Tensor::FromVector<float>({1, 0, 0, 1, 10, 20, 1, 1}, {1, 2, 2, 2})}});
  EXPECT_EQ(ValuesOf<float>(results[0]), (std::vector<float>{1, 3, 2, 4, 50, 110, 3, 7}));
}

TEST(ReadTflite, MakesSparseTensorsDense) {
  const Graph graph = ReadTflite(Shared(WriteFile({SparseGraph()})));
  const auto results = Interpret(graph, {{"x", Tensor::FromVector<float>({2, 3}, {1, 2})}});
  EXPECT_EQ(ValuesOf<float>(results[0]), (std::vector<float>{21, 10}));
}

TEST(ReadTflite, ConvertsBranches) {
  const Graph graph = ReadTflite(Shared(WriteFile(BranchGraphs())));
  for (const bool condition : {true, false}) {
    const auto results = Interpret(graph, {{"c", Tensor::FromVector<bool>({condition}, {1})},
                                           {"x", Tensor::FromVector<float>({1, 2}, {2})}});
    EXPECT_EQ(ValuesOf<float>(results[0]),
              condition ? (std::vector<float>{11, 22}) : (std::vector<float>{1, 2}));
  }
}

TEST(ReadTflite, KeepsFloatsOf16Bits) {
  GraphSpec graph = ConvGraph();
  graph.tensors[1] = {"half",
                      TensorType::kFloat16,
                      {2, 1, 1, 2},
                      BytesOf<uint16_t>({0x3c00, 0x4000, 0x4200, 0x4400})};
  graph.tensors.push_back({"w", TensorType::kFloat32, {2, 1, 1, 2}});
  graph.nodes[0].inputs[1] = 4;
  graph.nodes.insert(graph.nodes.begin(), {6, {1}, {4}});
  const Graph read = ReadTflite(Shared(WriteFile({graph})));
  const Value* weights = read.FindValue("w");
  ASSERT_NE(weights, nullptr);
  EXPECT_NE(weights->constant.half(), nullptr);
  EXPECT_EQ(weights->constant.ToFloats(), (std::vector<float>{1, 2, 3, 4}));
}

TEST(ReadTflite, ReadsBytesThatAreNotAligned) {
  std::vector<uint8_t> bytes = WriteFile({ConvGraph()});
  bytes.insert(bytes.begin(), 0);
  const SharedBytes shared = Shared(std::move(bytes));
  const Graph graph = ReadTflite({shared.owner, shared.bytes.subspan(1)});
  EXPECT_EQ(graph.nodes().size(), 4U);
}

}  // namespace
}  // namespace requant::tflite
