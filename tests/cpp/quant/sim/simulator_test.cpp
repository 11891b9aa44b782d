#include "quant/sim/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "ir/verify.h"
#include "ops/quantized/wide.h"
#include "quant/model.h"
#include "quant/recover/learn/blocks.h"
#include "quant/recover/learn/tape.h"
#include "quant/sim/gemm.h"

namespace requant {
namespace {

TEST(Gemm, AgainstSums) {
  Noise noise(1);
  struct Case {
    int64_t rows, columns, depth;
  };
  for (const Case& c : {Case{1, 1, 1}, Case{5, 9, 7}, Case{4, 8, 300}, Case{17, 3, 513}}) {
    const Tensor a = noise.Make({c.rows, c.depth});
    const Tensor b = noise.Make({c.columns, c.depth});  // read transposed
    Tensor out(DType::kFloat32, {c.rows, c.columns});
    Gemm(c.rows, c.columns, c.depth, {a.data<float>(), c.depth, 1}, {b.data<float>(), 1, c.depth},
         out.data<float>(), c.columns, false);
    for (int64_t i = 0; i < c.rows; ++i) {
      for (int64_t j = 0; j < c.columns; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < c.depth; ++k) {
          sum += a.AsDouble(i * c.depth + k) * b.AsDouble(j * c.depth + k);
        }
        EXPECT_NEAR(out.AsDouble(i * c.columns + j), sum, 1e-4 * std::sqrt(double(c.depth)));
      }
    }
  }
}

/// A number added to all class scores of a row changes no answer; for other outputs it is an error.
TEST(SnrMeter, ScoresAndOtherOutputs) {
  for (const bool scores : {true, false}) {
    const std::vector<int64_t> shape =
        scores ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{6};
    const Tensor wanted = Tensor::FromVector<float>({1, 2, 6, -1, 0, 1}, shape);
    const Tensor got = Tensor::FromVector<float>({2, 3, 7, -1, 0.5f, 1}, shape);
    SnrMeter meter;
    meter.Add(wanted, got);
    const double all = 10 * std::log10(43 / 3.25);
    EXPECT_NEAR(meter.Decibels(), all, 1e-9);
    // Rows less their means: signal 14 + 2, errors (1/6, -1/3, 1/6) in the second row.
    EXPECT_NEAR(meter.ScoreDecibels(), scores ? 10 * std::log10(16 * 6.0) : all, 1e-9);
  }
}

TEST(Simulator, FloatIsTheInterpreter) {
  const Graph graph = SmallNetwork();
  const QuantizedModel model = QuantizeGraph(graph);
  Simulator simulator(model.float_graph, model.record);
  const TensorMap feeds = RandomFeeds(graph, 5);
  const Tensor wanted = Interpret(graph, feeds)[0];
  const Tensor got = simulator.Outputs(feeds, SimMode::kFloat)[0];
  for (int64_t i = 0; i < wanted.count(); ++i) {
    EXPECT_NEAR(got.AsDouble(i), wanted.AsDouble(i), 1e-5);
  }
}

/// The integer network agrees with the simulator, up to a step where a sum rounds differently.
TEST(Simulator, QuantizedIsTheIntegerNetwork) {
  const Graph graph = SmallNetwork();
  for (const int bits : {4, 8}) {
    QuantizeOptions options;
    options.global.activations.bits = bits;
    options.global.weights.bits = bits;
    const QuantizedModel model = QuantizeGraph(graph, options);
    const Graph integer = LowerToInteger(model).Release();
    VerifyGraph(integer);
    Simulator simulator(model.float_graph, model.record);
    for (const Node* node : simulator.nodes()) {
      if (!simulator.Layer(node)) continue;
      const int slot = model.record.operators.at(node->name).inputs[2];
      const TensorQuantizationConfig& bias = model.record.configs[static_cast<size_t>(slot)];
      std::vector<double> values;
      for (int64_t i = 0; i < bias.baked.count(); ++i) {
        const size_t channel = bias.scale.size() > 1 ? static_cast<size_t>(i) : 0;
        values.push_back(bias.baked.AsDouble(i) * static_cast<double>(bias.scale[channel]));
      }
      simulator.SetWeights(node, &values);
    }
    const double step = static_cast<double>(OutputScale(model, "y_node"));
    int apart = 0;
    for (int i = 0; i < 8; ++i) {
      const TensorMap feeds = RandomFeeds(graph, 40 + static_cast<uint32_t>(i));
      const Tensor wanted = Interpret(integer, feeds)[0];
      const Tensor got = simulator.Outputs(feeds, SimMode::kQuantized)[0];
      for (int64_t j = 0; j < wanted.count(); ++j) {
        const double difference = std::fabs(got.AsDouble(j) - wanted.AsDouble(j));
        EXPECT_LE(difference, 2.01 * step);
        apart += difference > 0.5 * step;
      }
    }
    EXPECT_LE(apart, 6) << bits;
  }
}

/// Compares gradients with difference quotients, on grids so fine that these show the true slope.
void ExpectGradientsOfDifferences(const Graph& graph) {
  QuantizeOptions options;
  options.global.activations.bits = 24;
  options.global.weights.bits = 24;
  options.recover = {};
  const QuantizedModel model = QuantizeGraph(graph, options);
  Simulator simulator(model.float_graph, model.record);
  for (const Node* node : simulator.nodes()) {
    if (simulator.Layer(node)) simulator.SetWeights(node, nullptr);
  }
  const std::vector<Block> blocks = ResidualBlocks(simulator);
  ASSERT_FALSE(blocks.empty());
  size_t covered = 0;
  for (const Block& block : blocks) {
    EXPECT_EQ(block.begin, covered);
    covered = block.end;
  }
  EXPECT_EQ(covered, simulator.nodes().size());

  Tape tape(simulator);
  const TensorMap feeds = RandomFeeds(graph, 7);
  const size_t end = simulator.nodes().size();
  for (const Node* node : simulator.nodes()) {
    SimLayer* layer = simulator.Layer(node);
    if (!layer) continue;
    LayerGradient& own = tape.layers[node];
    own.weights = layer->weights;
    own.bias = layer->bias;
    own.weight_gradient.assign(own.weights.size(), 0);
    own.bias_gradient.assign(own.bias.size(), 0);
  }
  const Value* output = model.float_graph.outputs()[0];
  const auto loss = [&] {
    Values values = simulator.Start(feeds);
    tape.Forward(values, 0, end);
    double sum = 0;
    const Tensor& y = values.at(output);
    for (int64_t i = 0; i < y.count(); ++i) sum += y.AsDouble(i) * y.AsDouble(i) / 2;
    return sum;
  };
  Values values = simulator.Start(feeds);
  tape.Forward(values, 0, end);
  tape.Backward(values, {{output, values.at(output)}});
  for (auto& [node, own] : tape.layers) {
    for (size_t i = 0; i < own.weights.size(); i += 13) {
      const float kept = own.weights[i];
      constexpr float kStep = 0.002f;
      own.weights[i] = kept + kStep;
      const double up = loss();
      own.weights[i] = kept - kStep;
      const double down = loss();
      own.weights[i] = kept;
      const double wanted = (up - down) / (2 * static_cast<double>(kStep));
      EXPECT_NEAR(static_cast<double>(own.weight_gradient[i]), wanted,
                  0.05 * std::fabs(wanted) + 0.02)
          << node->name << " " << i;
    }
    if (own.bias.empty()) continue;
    const float kept = own.bias[0];
    own.bias[0] = kept + 0.002f;
    const double up = loss();
    own.bias[0] = kept - 0.002f;
    const double down = loss();
    own.bias[0] = kept;
    const double wanted = (up - down) / 0.004;
    EXPECT_NEAR(static_cast<double>(own.bias_gradient[0]), wanted, 0.05 * std::fabs(wanted) + 0.02)
        << node->name;
  }
}

TEST(Tape, GradientsAgainstDifferences) { ExpectGradientsOfDifferences(SmallNetwork()); }

/// Both operands of a sum have one gradient, and one of them gets more before the other is read.
TEST(Tape, GradientsOfSharedSums) {
  Builder b;
  Noise noise(31);
  Value* x = b.Input("x", {1, 6});
  const auto layer = [&](Value* from, const char* name) {
    return b.Op("MatMul", {from, b.Const(std::string(name) + "_w", noise.Make({6, 6}, 0.5f))},
                name);
  };
  Value* early = layer(x, "early");
  Value* late = layer(x, "late");
  Value* more = layer(late, "more");
  Value* sum = b.Op("Add", {late, early}, "sum");
  b.graph.AddOutput(b.Op("Add", {sum, more}, "y"));
  ExpectGradientsOfDifferences(b.graph);
}

/// Grids without an integer operator run in float.
TEST(Simulated, ExoticGridsRun) {
  const Graph graph = SmallNetwork();
  struct Case {
    const char* what;
    TensorSettings activations, weights;
    double least_db;
  };
  const TensorSettings plain = {.symmetric = true, .per_channel = true};
  TensorSettings wide_weights = plain;
  wide_weights.bits = 16;
  TensorSettings small_weights = plain;
  small_weights.small_float = {4, 3};
  const std::vector<Case> cases = {
      {"16 bits", {.bits = 16}, wide_weights, 60},
      {"20 bits", {.bits = 20}, plain, 30},
      {"e4m3", {.symmetric = true, .small_float = {4, 3}}, small_weights, 22},
      {"e5m2", {.symmetric = true, .small_float = {5, 2}}, plain, 15},
      {"per channel", {.symmetric = true, .per_channel = true, .axis = 1}, plain, 25},
      {"half up", {.rounding = RoundingPolicy::kHalfUp}, plain, 30},
      {"up", {.rounding = RoundingPolicy::kUp}, plain, 15},
  };
  for (const Case& c : cases) {
    QuantizeOptions options;
    options.global.activations = c.activations;
    options.global.weights = c.weights;
    const QuantizedModel model = QuantizeGraph(graph, options);
    const Graph lowered = LowerToInteger(model).Release();
    VerifyGraph(lowered);
    EXPECT_EQ(CountOps(lowered, "QLinearConv"), 0) << c.what;
    EXPECT_GE(CountOps(lowered, "FakeQuantize"), 5) << c.what;
    EXPECT_GT(Snr(graph, lowered), c.least_db) << c.what;
    EXPECT_EQ(lowered.outputs()[0]->name, "y");
  }
  // If one layer has such a grid, the others stay integer.
  QuantizeOptions options;
  options.by_name["conv3_node"].activations.bits = 16;
  const QuantizedModel model = QuantizeGraph(graph, options);
  const Graph lowered = LowerToInteger(model).Release();
  VerifyGraph(lowered);
  EXPECT_EQ(CountOps(lowered, "QLinearConv"), 2);
  EXPECT_GT(Snr(graph, lowered), 30);
}

/// The first of a table's operators reads the exotic grid, the last one writes bytes.
TEST(Simulated, TablesThatReadAnExoticGrid) {
  Builder b;
  Noise noise(3);
  Value* conv = b.Conv(b.Input("x", {1, 3, 6, 6}), "conv", {4, 3, 3, 3}, 1, noise);
  b.graph.AddOutput(b.Op("Tanh", {b.Op("Sigmoid", {conv}, "inner")}, "y"));
  for (const TensorSettings& grid :
       {TensorSettings{.bits = 20}, TensorSettings{.symmetric = true, .small_float = {4, 3}},
        TensorSettings{.symmetric = true, .per_channel = true, .axis = 1},
        TensorSettings{.rounding = RoundingPolicy::kUp}}) {
    QuantizeOptions options;
    options.recover.clear();
    options.float_outputs = false;
    options.by_name["conv_node"].activations = grid;
    options.by_name["inner_node"].activations = grid;
    const QuantizedModel model = QuantizeGraph(b.graph, options);
    EXPECT_TRUE(model.record.operators.at("y_node").simulated);
    const Graph lowered = LowerToInteger(model).Release();
    VerifyGraph(lowered);
    EXPECT_GT(Snr(b.graph, lowered), 25) << grid.bits;
  }
}

TEST(LowBits, StayInsideTheirCodes) {
  const Graph graph = SmallNetwork();
  for (const int bits : {2, 3, 4, 5, 9, 12, 15}) {
    for (const bool symmetric : {false, true}) {
      QuantizeOptions options;
      options.global.activations.bits = bits;
      options.global.activations.symmetric = symmetric;
      options.global.weights.bits = std::min(bits, 8);
      const QuantizedModel model = QuantizeGraph(graph, options);
      const Graph integer = LowerToInteger(model).Release();
      VerifyGraph(integer);
      const int64_t top = symmetric ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
      std::map<std::string, std::pair<int64_t, int64_t>> seen;
      InterpretOptions watch;
      watch.observe = [&](const Value& value, const Tensor& tensor) {
        if (!IsCode(tensor.dtype())) return;
        // The results of an operator before its Clip may differ.
        for (const Node* reader : value.consumers) {
          if (reader->Is("Clip")) return;
        }
        for (int64_t i = 0; i < tensor.count(); ++i) {
          EXPECT_LE(tensor.AsInt64(i), top) << value.name;
          EXPECT_GE(tensor.AsInt64(i), symmetric ? -top : 0) << value.name;
        }
      };
      Interpret(integer, RandomFeeds(graph, 3), watch);
      // Exported files give the same.
      const double step = static_cast<double>(OutputScale(model, "y_node"));
      EXPECT_LE(LargestDifference(ToQdq(model), integer), 1.01 * step);
      // There, ONNX Runtime computes 16-bit codes in float.
      EXPECT_LE(LargestDifference(ToQOperator(model), integer), bits > 8 ? 1.01 * step : 0);
      const std::optional<QuantizedModel> read = FromQdq(ToQdq(model));
      ASSERT_TRUE(read.has_value());
      EXPECT_EQ(LargestDifference(LowerToInteger(*read).graph(), integer), 0);
      const auto bits_of = [](const QuantizedModel& from) {
        return from.record.Root(from.record.operators.at("conv1_node").inputs[0]).bits;
      };
      EXPECT_EQ(bits_of(*read), bits);
      if (bits != 4 && bits != 2) continue;
      const Graph nibbles = ToQdq(model, bits);
      VerifyGraph(nibbles);
      EXPECT_EQ(nibbles.opset(), bits == 2 ? 25 : 21);
      EXPECT_EQ(LargestDifference(ToQdq(model), nibbles), 0);
      const std::optional<QuantizedModel> back = FromQdq(nibbles);
      ASSERT_TRUE(back.has_value());
      EXPECT_EQ(LargestDifference(LowerToInteger(*back).graph(), integer), 0);
      EXPECT_EQ(bits_of(*back), bits);
      const int weights = back->record.operators.at("conv1_node").inputs[1];
      EXPECT_EQ(back->record.configs[static_cast<size_t>(weights)].bits, bits);
    }
  }
}

}  // namespace
}  // namespace requant
