// Gradients of operators without weights against difference quotients.
#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "ir/text.h"
#include "quant/model.h"
#include "quant/sim/backward.h"

namespace requant {
namespace {

struct Case {
  const char* what;
  const char* graph;
};

// Values lie apart, so that no difference of 2^-8 crosses the corner of a MaxPool or Relu.
constexpr Case kCases[] = {
    {"Add", "%y = Add(%a, %b)"},
    {"Sub", "%y = Sub(%a, %b)"},
    {"Mul", "%y = Mul(%a, %b)"},
    {"Div", "%y = Div(%a, %b)"},
    {"Mul of itself", "%y = Mul(%a, %a)"},
    {"Concat", "%y = Concat(%a, %b) {axis = 2}"},
    {"Relu", "%y = Relu(%a)"},
    {"Clip", "%y = Clip(%a, %low, %high)"},
    {"PRelu", "%y = PRelu(%a, %slope)"},
    {"Softmax", "%y = Softmax(%a) {axis = 1}"},
    {"Softmax of the last axis", "%y = Softmax(%a) {axis = -1}"},
    {"GlobalAveragePool", "%y = GlobalAveragePool(%a)"},
    {"MaxPool", "%y = MaxPool(%a) {kernel_shape = [2, 3], strides = [1, 2], pads = [0, 1, 1, 1]}"},
    {"AveragePool", "%y = AveragePool(%a) {kernel_shape = [3, 2], pads = [1, 0, 1, 1]}"},
    {"AveragePool with pads",
     "%y = AveragePool(%a) {kernel_shape = [3, 2], pads = [1, 0, 1, 1], count_include_pad = 1}"},
    {"Flatten", "%y = Flatten(%a)"},
    {"Transpose", "%y = Transpose(%a) {perm = [0, 2, 3, 1]}"},
    {"Slice", "%y = Slice(%a, %starts, %ends, %axes, %steps)"},
    {"Split", "%y, %z = Split(%a) {axis = 1}"},
    {"Pad", "%y = Pad(%a, %pads, %seven)"},
    {"Pad, reflected", "%y = Pad(%a, %pads) {mode = \"reflect\"}"},
    {"Gather", "%y = Gather(%a, %places) {axis = 3}"},
    {"DepthToSpace", "%y = DepthToSpace(%a) {blocksize = 2}"},
    {"Sigmoid", "%y = Sigmoid(%a)"},
    {"HardSwish", "%y = HardSwish(%a)"},
};

Graph GraphOf(const Case& c) {
  return ParseGraph(
      StrCat("graph \"\" opset 14\n"
             "input %a: float32[1, 4, 4, 5]\n"
             "input %b: float32[1, 4, 4, 5]\n"
             "const %low: float32[] = {-0.5}\n"
             "const %high: float32[] = {0.5}\n"
             "const %slope: float32[4, 1, 1] = {0.5, 0.25, -0.5, 2.0}\n"
             "const %starts: int64[2] = {3, 1}\n"
             "const %ends: int64[2] = {-9, 5}\n"
             "const %axes: int64[2] = {2, 3}\n"
             "const %steps: int64[2] = {-2, 2}\n"
             "const %pads: int64[8] = {0, 0, 1, 2, 0, 0, 3, 1}\n"
             "const %seven: float32[] = {7.0}\n"
             "const %places: int64[3] = {4, 0, 4}\n",
             c.graph, "\noutput %y\n"));
}

/// Every element is a different multiple of 1/16, with either sign, in a shuffled order.
Tensor Spread(const Shape& shape, int64_t step) {
  Tensor out(DType::kFloat32, shape);
  for (int64_t i = 0; i < out.count(); ++i) {
    const int64_t place = i * step % out.count();
    const float middle = static_cast<float>(out.count() - 1) / 2;
    out.data<float>()[i] = (static_cast<float>(place) - middle) / 16;
  }
  return out;
}

/// Checks the gradients of the last node with inputs %a, %b and so on.
void ExpectDifferences(const std::string& what, const Graph& graph) {
  const Node& node = *graph.nodes().back();
  ASSERT_TRUE(HasGradient(node)) << what;
  std::vector<Tensor> inputs;
  std::vector<bool> wanted;
  for (const Value* value : node.inputs) {
    inputs.push_back(value->is_constant()
                         ? value->constant
                         : Spread(value->type.StaticShape(), value->name == "a" ? 37 : 23));
    wanted.push_back(!value->is_constant());
  }
  const auto run = [&] {
    std::vector<const Tensor*> read;
    for (const Tensor& input : inputs) read.push_back(&input);
    return EvaluateNode(graph, node, read, RequantizeMode::kUpward);
  };
  const std::vector<Tensor> outputs = run();
  OperatorGradients gradients(graph);
  for (size_t output = 0; output < outputs.size(); ++output) {
    Noise noise(3);
    const Tensor dy = noise.Make(outputs[output].shape());
    const auto loss = [&] {
      double sum = 0;
      const Tensor y = run()[output];
      for (int64_t i = 0; i < y.count(); ++i) sum += y.AsDouble(i) * dy.AsDouble(i);
      return sum;
    };
    const std::vector<Tensor> made = gradients.Backward(node, inputs, outputs, output, dy, wanted);
    ASSERT_EQ(made.size(), inputs.size()) << what;
    for (size_t slot = 0; slot < inputs.size(); ++slot) {
      if (!wanted[slot]) {
        EXPECT_TRUE(made[slot].empty()) << what;
        continue;
      }
      ASSERT_EQ(made[slot].shape(), inputs[slot].shape()) << what;
      const int64_t stride = inputs[slot].count() > 40 ? 7 : 1;
      for (int64_t i = 0; i < inputs[slot].count(); i += stride) {
        constexpr float kStep = 0x1p-8f;
        const Tensor kept = inputs[slot];
        Tensor moved = kept.Clone();
        inputs[slot] = moved;
        moved.data<float>()[i] += kStep;
        const double up = loss();
        moved.data<float>()[i] -= 2 * kStep;
        const double down = loss();
        inputs[slot] = kept;
        const double slope = (up - down) / (2 * static_cast<double>(kStep));
        EXPECT_NEAR(made[slot].AsDouble(i), slope, 0.02 * std::fabs(slope) + 2e-3)
            << what << ", input " << slot << ", element " << i;
      }
    }
  }
}

TEST(OperatorGradients, AgainstDifferences) {
  for (const Case& c : kCases) ExpectDifferences(c.what, GraphOf(c));
}

struct Product {
  const char *a, *b, *c;  // shapes; nullptr without C
  const char* node;
};

constexpr Product kProducts[] = {
    {"3, 4", "4, 2", nullptr, "MatMul(%a, %b)"},
    {"4", "4", nullptr, "MatMul(%a, %b)"},
    {"4", "4, 2", nullptr, "MatMul(%a, %b)"},
    {"3, 4", "4", nullptr, "MatMul(%a, %b)"},
    {"2, 3, 4", "4", nullptr, "MatMul(%a, %b)"},
    {"4", "2, 4, 3", nullptr, "MatMul(%a, %b)"},
    {"2, 3, 4", "1, 4, 2", nullptr, "MatMul(%a, %b)"},
    {"2, 3, 4", "4, 2", nullptr, "MatMul(%a, %b)"},
    {"2, 1, 3, 4", "3, 4, 5", nullptr, "MatMul(%a, %b)"},
    {"9, 11", "11, 10", nullptr, "MatMul(%a, %b)"},
    {"3, 4", "4, 2", "2", "Gemm(%a, %b, %c)"},
    {"4, 3", "4, 2", "3, 1", "Gemm(%a, %b, %c) {transA = 1, alpha = 0.5, beta = 2.0}"},
    {"3, 4", "2, 4", "3, 2", "Gemm(%a, %b, %c) {transB = 1, alpha = -1.5}"},
    {"4, 3", "2, 4", "", "Gemm(%a, %b, %c) {transA = 1, transB = 1, beta = 0.25}"},
    {"4, 3", "2, 4", nullptr, "Gemm(%a, %b) {transA = 1, transB = 1}"},
};

/// Both operands are computed, and need not be matrices.
TEST(OperatorGradients, OfProductsAgainstDifferences) {
  for (const Product& product : kProducts) {
    std::string text = StrCat("graph \"\" opset 14\ninput %a: float32[", product.a,
                              "]\ninput %b: float32[", product.b, "]\n");
    if (product.c) text += StrCat("input %c: float32[", product.c, "]\n");
    text += StrCat("%y = ", product.node, "\noutput %y\n");
    ExpectDifferences(text, ParseGraph(text));
  }
}

/// Computed indices may differ from sample to sample.
TEST(OperatorGradients, FollowComputedIndices) {
  const Graph graph = ParseGraph(
      "graph \"\" opset 14\n"
      "input %x: float32[4]\n"
      "input %places: int64[n]\n"
      "%y = Gather(%x, %places)\n"
      "output %y\n");
  const Node& node = *graph.nodes().back();
  OperatorGradients gradients(graph);
  const Tensor x = Tensor::Vector<float>({1, 2, 3, 4});
  for (const std::vector<int64_t>& places :
       {std::vector<int64_t>{0, 1, 3, 3, 2}, {2}, {}, {3, 1}, {1, 3}}) {
    const Tensor indices = Tensor::Vector<int64_t>(places);
    std::vector<float> dy, expected(4);
    for (const int64_t place : places) {
      dy.push_back(static_cast<float>(dy.size() + 1));
      expected[static_cast<size_t>(place)] += dy.back();
    }
    const std::vector<Tensor> read = {x, indices};
    const std::vector<const Tensor*> operands = {&x, &indices};
    const std::vector<Tensor> outputs =
        EvaluateNode(graph, node, operands, RequantizeMode::kUpward);
    const Tensor made =
        gradients.Backward(node, read, outputs, 0, Tensor::Vector(dy), {true, false})[0];
    EXPECT_EQ(made.ToFloats(), expected) << places.size();
  }
}

/// Operators without a gradient are reported as such.
TEST(OperatorGradients, NoneForOthers) {
  const Graph graph = GraphOf({"ArgMax", "%y = ArgMax(%a)"});
  EXPECT_FALSE(HasGradient(*graph.nodes().back()));
}

}  // namespace
}  // namespace requant
