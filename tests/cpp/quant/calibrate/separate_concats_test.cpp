// Operands of a Concat with unlike ranges get the steps that they would have alone.
#include "quant/calibrate/separate_concats.h"

#include <gtest/gtest.h>

#include <functional>

#include "ir/verify.h"
#include "quant/model.h"

namespace requant {
namespace {

AttributeMap Axis(int64_t axis) {
  AttributeMap attributes;
  attributes.Set("axis", axis);
  return attributes;
}

/// Two layers of one input: the results of the first reach several hundred, those of the second lie
/// between 0 and 1.
struct Unlike {
  Builder b;
  Noise noise{11};
  Value* large;
  Value* small;

  explicit Unlike(float factor = 600) {
    Value* x = b.Input("x", {1, 6, 8, 8});
    Value* wide = b.Conv(x, "wide", {4, 6, 3, 3}, 1, noise);
    for (const size_t slot : {size_t{1}, size_t{2}}) {
      Tensor& values = wide->producer->inputs[slot]->constant;
      for (int64_t i = 0; i < values.count(); ++i) values.data<float>()[i] *= factor;
    }
    large = b.Op("Relu", {wide}, "large");
    small = b.Op("Sigmoid", {b.Conv(x, "narrow", {5, 6, 3, 3}, 1, noise)}, "small");
  }

  /// A layer that gives both operands the same weight.
  Value* Reader(Value* joined, const std::string& name, float factor = 600) {
    Value* y = b.Conv(joined, name, {6, 9, 1, 1}, 0, noise);
    Tensor& weights = y->producer->inputs[1]->constant;
    for (int64_t row = 0; row < 6; ++row) {
      for (int64_t i = 0; i < 4; ++i) weights.data<float>()[row * 9 + i] /= factor;
    }
    return y;
  }
};

/// The least signal to noise ratio of an output, in dB.
double LeastSnr(const Graph& graph, const Graph& integer) {
  double least = 1e9;
  for (size_t output = 0; output < graph.outputs().size(); ++output) {
    double signal = 0;
    double noise = 0;
    for (uint32_t i = 0; i < 8; ++i) {
      const TensorMap feeds = RandomFeeds(graph, 1000 + i);
      const Tensor a = Interpret(graph, feeds)[output];
      const Tensor b = Interpret(integer, feeds)[output];
      for (int64_t j = 0; j < a.count(); ++j) {
        signal += a.AsDouble(j) * a.AsDouble(j);
        noise += std::pow(a.AsDouble(j) - b.AsDouble(j), 2);
      }
    }
    least = std::min(least, 10 * std::log10(signal / (noise + 1e-30)));
  }
  return least;
}

TEST(SeparateConcats, FactorsGoIntoTheLayersBehind) {
  struct Case {
    const char* name;
    std::function<Value*(Unlike&, Value*)> between;
  };
  AttributeMap window;
  window.Set("kernel_shape", std::vector<int64_t>{2, 2});
  const Case cases[] = {
      {"nothing", [](Unlike&, Value* joined) { return joined; }},
      {"Relu", [](Unlike& u, Value* joined) { return u.b.Op("Relu", {joined}, "relu"); }},
      {"MaxPool",
       [&](Unlike& u, Value* joined) { return u.b.Op("MaxPool", {joined}, "pool", window); }},
      {"AveragePool",
       [&](Unlike& u, Value* joined) { return u.b.Op("AveragePool", {joined}, "mean", window); }},
  };
  for (const Case& one : cases) {
    Unlike u;
    Value* joined = u.b.Op("Concat", {u.large, u.small}, "joined", Axis(1));
    Value* between = one.between(u, joined);
    u.b.graph.AddOutput(u.Reader(between, "first"));
    u.b.graph.AddOutput(u.Reader(between, "second"));
    const QuantizedModel model = QuantizeGraph(u.b.graph);
    const Graph integer = LowerToInteger(model).Release();
    VerifyGraph(integer);
    EXPECT_GT(LeastSnr(u.b.graph, integer), 30) << one.name;
    // Only the names of scales have changed.
    EXPECT_EQ(CountOps(integer, "QLinearConcat"), 0) << one.name;
    EXPECT_EQ(CountOps(integer, "Lut"), 1) << one.name;  // the Sigmoid
    EXPECT_EQ(CountOps(integer, "QuantizeLinear"), 1) << one.name;
    EXPECT_LT(LargestDifference(u.b.graph, model.float_graph), 1e-3) << one.name;
    EXPECT_EQ(LargestDifference(integer, ToQOperator(model)), 0) << one.name;
    EXPECT_GT(LeastSnr(u.b.graph, ToQdq(model)), 30) << one.name;
  }
}

/// An average of many values has a much smaller range than the values.
TEST(SeparateConcats, AveragesHaveRangesOfTheirOwn) {
  Unlike u;
  Value* centered = u.b.Op("Tanh", {u.b.Conv(u.small, "even", {5, 5, 1, 1}, 0, u.noise)}, "tanh");
  Value* joined = u.b.Op("Concat", {u.large, centered}, "joined", Axis(1));
  Value* mean = u.b.Op("GlobalAveragePool", {joined}, "mean");
  Value* rows = u.b.Op("Flatten", {mean}, "rows", Axis(1));
  Tensor weights = u.noise.Make({9, 4});
  for (int64_t i = 0; i < 4 * 4; ++i) weights.data<float>()[i] /= 600;
  u.b.graph.AddOutput(u.b.Op("MatMul", {rows, u.b.Const("w", weights)}, "y"));
  const QuantizedModel model = QuantizeGraph(u.b.graph);
  const float of_joined = OutputScale(model, "joined_node");
  EXPECT_LT(OutputScale(model, "mean_node"), 0.7f * of_joined);
  EXPECT_GT(LeastSnr(u.b.graph, LowerToInteger(model).graph()), 28);
}

TEST(SeparateConcats, RowsOfMatrixProducts) {
  Builder b;
  Noise noise(3);
  Value* x = b.Input("x", {6, 8});
  Value* large = b.Op("MatMul", {x, b.Const("w1", noise.Make({8, 5}, 300))}, "large");
  Value* small =
      b.Op("Tanh", {b.Op("MatMul", {x, b.Const("w2", noise.Make({8, 7}))}, "inner")}, "small");
  Value* fixed = b.Const("fixed", noise.Make({6, 2}, 0.01f));
  Value* joined = b.Op("Concat", {large, small, fixed}, "joined", Axis(-1));
  Tensor weights = noise.Make({14, 4});
  for (int64_t i = 0; i < 5 * 4; ++i) weights.data<float>()[i] /= 300;
  for (int64_t i = 12 * 4; i < 14 * 4; ++i) weights.data<float>()[i] *= 100;
  b.graph.AddOutput(b.Op("MatMul", {joined, b.Const("w3", weights)}, "y"));
  const QuantizedModel model = QuantizeGraph(b.graph);
  EXPECT_GT(LeastSnr(b.graph, LowerToInteger(model).graph()), 28);
}

/// With readers that cannot take factors, everything in between stays in float and names the
/// reason.
TEST(SeparateConcats, OthersStayInFloat) {
  struct Case {
    const char* name;
    std::function<void(Unlike&, Value*)> read;
  };
  const Case cases[] = {
      {"an output", [](Unlike& u, Value* joined) { u.b.graph.AddOutput(joined); }},
      {"an output and a layer",
       [](Unlike& u, Value* joined) {
         u.b.graph.AddOutput(joined);
         u.b.graph.AddOutput(u.Reader(joined, "reader"));
       }},
      {"a function and a layer",
       [](Unlike& u, Value* joined) {
         u.b.graph.AddOutput(u.b.Op("Sqrt", {joined}, "root"));
         u.b.graph.AddOutput(u.Reader(joined, "reader"));
       }},
      {"layers of both parts",
       [](Unlike& u, Value* joined) {
         const auto part = [&](int64_t from, int64_t to, const char* name) {
           const auto ints = [&](const char* what, int64_t value) {
             Tensor tensor(DType::kInt64, {1});
             tensor.data<int64_t>()[0] = value;
             return u.b.Const(std::string(name) + what, tensor);
           };
           return u.b.Op("Slice", {joined, ints("from", from), ints("to", to), ints("axis", 1)},
                         name);
         };
         u.b.graph.AddOutput(u.b.Conv(part(0, 4, "boxes"), "first", {3, 4, 1, 1}, 0, u.noise));
         u.b.graph.AddOutput(u.b.Conv(part(4, 9, "scores"), "second", {3, 5, 1, 1}, 0, u.noise));
       }},
  };
  for (const Case& one : cases) {
    Unlike u;
    one.read(u, u.b.Op("Concat", {u.large, u.small}, "joined", Axis(1)));
    const QuantizedModel model = QuantizeGraph(u.b.graph);
    const Graph integer = LowerToInteger(model).Release();
    VerifyGraph(integer);
    const OperatorQuantization& concat = model.record.operators.at("joined_node");
    EXPECT_FALSE(concat.quantized) << one.name;
    EXPECT_NE(concat.reason.find("unlike"), std::string::npos) << one.name;
    EXPECT_GT(LeastSnr(u.b.graph, integer), 30) << one.name;
    // The scores arrive on their own grid.
    const TensorMap feeds = RandomFeeds(u.b.graph, 77);
    if (one.name != std::string("an output")) continue;
    const Tensor wanted = Interpret(u.b.graph, feeds)[0];
    const Tensor got = Interpret(integer, feeds)[0];
    for (int64_t i = 4 * 64; i < 9 * 64; ++i) {
      EXPECT_NEAR(wanted.data<float>()[i], got.data<float>()[i], 0.02) << one.name;
    }
  }
}

/// Parts joined along another axis cannot have factors: a layer that reads both stays in float.
TEST(SeparateConcats, OtherAxes) {
  Unlike u;
  Value* taller = u.b.Conv(u.small, "same", {4, 5, 1, 1}, 0, u.noise);
  Value* joined = u.b.Op("Concat", {u.large, taller}, "joined", Axis(2));
  u.b.graph.AddOutput(u.b.Conv(joined, "reader", {3, 4, 1, 1}, 0, u.noise));
  const QuantizedModel model = QuantizeGraph(u.b.graph);
  EXPECT_FALSE(model.record.operators.at("reader_node").quantized);
  const Graph integer = LowerToInteger(model).Release();
  const TensorMap feeds = RandomFeeds(u.b.graph, 5);
  const Tensor wanted = Interpret(u.b.graph, feeds)[0];
  const Tensor got = Interpret(integer, feeds)[0];
  double signal = 0;
  double noise = 0;
  for (int64_t channel = 0; channel < 3; ++channel) {
    for (int64_t i = 64; i < 128; ++i) {  // the lower half comes from small values
      const double x = wanted.AsDouble(channel * 128 + i);
      signal += x * x;
      noise += std::pow(x - got.AsDouble(channel * 128 + i), 2);
    }
  }
  EXPECT_GT(10 * std::log10(signal / noise), 30);
}

TEST(SeparateConcats, AlikeStaysOneScale) {
  Unlike u(1);
  Value* joined =
      u.b.Op("Concat", {u.small, u.b.Op("Sigmoid", {u.large}, "other")}, "joined", Axis(1));
  u.b.graph.AddOutput(u.b.Conv(joined, "reader", {6, 9, 1, 1}, 0, u.noise));
  const QuantizedModel model = QuantizeGraph(u.b.graph);
  EXPECT_TRUE(
      model.record.recovery.end() ==
      std::find_if(model.record.recovery.begin(), model.record.recovery.end(),
                   [](const RecoveryStep& step) { return step.method == "separate_concats"; }));
  EXPECT_EQ(OutputScale(model, "joined_node"), OutputScale(model, "small_node"));
}

/// A Concat of Concats: the result of the inner one is joined again.
TEST(SeparateConcats, Nested) {
  Unlike u;
  Value* inner = u.b.Op("Concat", {u.large, u.small}, "inner", Axis(1));
  Value* outer = u.b.Op("Concat", {inner, u.small}, "outer", Axis(1));
  Value* y = u.b.Conv(outer, "reader", {6, 14, 1, 1}, 0, u.noise);
  Tensor& weights = y->producer->inputs[1]->constant;
  for (int64_t row = 0; row < 6; ++row) {
    for (int64_t i = 0; i < 4; ++i) weights.data<float>()[row * 14 + i] /= 600;
  }
  u.b.graph.AddOutput(y);
  const QuantizedModel model = QuantizeGraph(u.b.graph);
  EXPECT_GT(LeastSnr(u.b.graph, LowerToInteger(model).graph()), 30);
}

/// Shards, observers with two passes, and scales given by the user.
TEST(SeparateConcats, OtherWaysToRanges) {
  for (const char* observer : {"mse", "percentile", "auto"}) {
    Unlike u;
    Value* joined = u.b.Op("Concat", {u.large, u.small}, "joined", Axis(1));
    u.b.graph.AddOutput(u.Reader(joined, "reader"));
    QuantizeOptions options;
    options.global.activations.observer = observer;
    EXPECT_GT(LeastSnr(u.b.graph, LowerToInteger(QuantizeGraph(u.b.graph, options)).graph()), 30)
        << observer;
  }
  Unlike u;
  u.b.graph.AddOutput(u.Reader(u.b.Op("Concat", {u.large, u.small}, "joined", Axis(1)), "reader"));
  QuantizeOptions options;
  options.scales["joined"] = {{5.0f}, {0}};
  const QuantizedModel model = QuantizeGraph(u.b.graph, options);
  EXPECT_EQ(OutputScale(model, "joined_node"), 5.0f);
}

}  // namespace
}  // namespace requant
