// Operators of two values: a product with a graph input is computed in integers, and a function of
// two values is float without making its neighbors float.
#include <gtest/gtest.h>

#include "ir/verify.h"
#include "quant/model.h"

namespace requant {
namespace {

struct Gated {
  Builder b;
  Noise noise{21};
  Graph Make(const std::string& type, const Shape& gate_shape, bool divide = false) {
    Value* x = b.Input("x", {1, 3, 8, 8});
    Value* gate = b.Input("gate", gate_shape);
    Value* first = b.Op("Relu", {b.Conv(x, "first", {8, 3, 3, 3}, 1, noise)}, "relu");
    Value* other = gate;
    if (divide) {  // the divisor is not close to 0
      other = b.Op("Exp", {b.Conv(x, "log", {8, 3, 3, 3}, 1, noise)}, "positive");
    }
    Value* joined = b.Op(type, {first, other}, "joined");
    AttributeMap window;
    window.Set("kernel_shape", std::vector<int64_t>{3, 3});
    window.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
    Value* behind = b.Op("AveragePool", {b.Op("Relu", {joined}, "behind")}, "mean", window);
    Value* second = b.Op("Relu", {b.Conv(behind, "second", {8, 8, 3, 3}, 1, noise)}, "relu2");
    Value* sum = b.Op("Add", {second, first}, "sum");
    Value* third = b.Conv(sum, "third", {8, 8, 1, 1}, 0, noise);
    b.graph.AddOutput(b.Op("GlobalAveragePool", {third}, "y"));
    return std::move(b.graph);
  }
};

TEST(TwoValues, TheRestStaysQuantized) {
  for (const char* type : {"Mul", "Min", "Max", "Div", "Pow"}) {
    for (const Shape& shape :
         {Shape{1, 8, 1, 1}, Shape{1, 8, 8, 8}, Shape{1, 1, 8, 8}, Shape{8, 1, 1}, Shape{1}}) {
      const bool divide = std::string(type) == "Div" || std::string(type) == "Pow";
      const Graph graph = Gated().Make(type, shape, divide);
      const QuantizedModel model = QuantizeGraph(graph);
      for (const char* name : {"first_node", "behind_node", "mean_node", "second_node", "sum_node",
                               "third_node", "y_node"}) {
        EXPECT_TRUE(model.record.operators.at(name).quantized)
            << name << " behind " << type << " " << ShapeToString(shape);
      }
      const OperatorQuantization& op = model.record.operators.at("joined_node");
      EXPECT_EQ(op.quantized, std::string(type) == "Mul") << type;
      EXPECT_EQ(op.reason, op.quantized ? "" : "there is no integer operator for two values");
      const Graph integer = LowerToInteger(model).Release();
      VerifyGraph(integer);
      EXPECT_GT(Snr(graph, integer), 18) << type;
    }
  }
}

}  // namespace
}  // namespace requant
