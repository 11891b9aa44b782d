#include "quant/quantizer.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "numeric/affine.h"
#include "quant/assign/assign.h"
#include "quant/assign/joint.h"
#include "quant/graph/prepare.h"
#include "quant/grid/affine.h"
#include "quant/model.h"

namespace requant {
namespace {

TEST(Joint, SharesWhatBelongsTogether) {
  const Graph graph = FloatModel(SmallNetwork()).Release();
  QuantizationRecord record = AssignConfigs(graph, {});
  JoinConfigs(graph, record);
  const auto root = [&](const char* node, bool output, size_t slot = 0) {
    const OperatorQuantization& op = record.operators.at(node);
    return record.RootIndex(output ? op.outputs[slot] : op.inputs[slot]);
  };
  // The Relu decides the config of the Conv before it and of its own readers.
  EXPECT_EQ(root("conv1_node", true), root("relu1_node", true));
  EXPECT_EQ(root("conv2_node", false), root("relu1_node", true));
  EXPECT_EQ(root("add_node", false), root("relu1_node", true));
  EXPECT_EQ(root("conv2_node", true), root("clip2_node", true));
  EXPECT_EQ(root("add_node", true), root("relu3_node", true));
  // Passive operators keep the config of their input; an average has its own.
  EXPECT_EQ(root("pool_node", true), root("relu3_node", true));
  EXPECT_NE(root("mean_node", true), root("pool_node", true));
  EXPECT_EQ(root("flat_node", true), root("mean_node", true));
  // Separate values stay separate.
  EXPECT_NE(root("add_node", false, 0), root("add_node", false, 1));
  const OperatorQuantization& conv = record.operators.at("conv1_node");
  EXPECT_EQ(conv.activation, "relu1_node");
  EXPECT_EQ(record.configs[static_cast<size_t>(conv.outputs[0])].state,
            QuantizationState::kOverlapped);
  EXPECT_EQ(record.operators.at("relu1_node").absorbed_by, "conv1_node");
}

TEST(Joint, ConcatInputsJoinUnlessTheyServeOthers) {
  Builder b;
  Noise noise(4);
  Value* x = b.Input("x", {1, 3, 6, 6});
  Value* p = b.Conv(x, "p", {4, 3, 1, 1}, 0, noise);
  Noise alike(4);
  Value* q = b.Conv(x, "q", {4, 3, 1, 1}, 0, alike);
  for (const size_t slot : {size_t{1}, size_t{2}}) {
    Tensor& values = q->producer->inputs[slot]->constant;
    for (int64_t i = 0; i < values.count(); ++i) values.data<float>()[i] *= 1.2f;
  }
  AttributeMap axis;
  axis.Set("axis", int64_t{1});
  Value* c = b.Op("Concat", {p, q}, "c", axis);
  b.graph.AddOutput(b.Conv(c, "r", {2, 8, 1, 1}, 0, noise));
  b.graph.AddOutput(b.Conv(p, "s", {2, 4, 1, 1}, 0, noise));
  const QuantizedModel model = QuantizeGraph(b.graph);
  EXPECT_NE(OutputScale(model, "p_node"), OutputScale(model, "c_node"));
  EXPECT_EQ(OutputScale(model, "q_node"), OutputScale(model, "c_node"));
  const Graph integer = LowerToInteger(model).Release();
  VerifyGraph(integer);
  EXPECT_EQ(CountOps(integer, "QLinearConcat"), 1);
  EXPECT_GT(Snr(b.graph, integer), 30);
}

TEST(Quantizer, SmallNetworkStaysCloseToFloat) {
  const Graph graph = SmallNetwork();
  const QuantizedModel model = QuantizeGraph(graph);
  for (const bool use_lut : {true, false}) {
    const Graph integer = LowerToInteger(model, {.use_lut = use_lut}).Release();
    VerifyGraph(integer);
    EXPECT_GT(Snr(graph, integer), 30);
    EXPECT_EQ(CountOps(integer, "QLinearConv"), 3);
    EXPECT_EQ(CountOps(integer, "QLinearAdd"), 1);
    EXPECT_EQ(CountOps(integer, "QGemm"), 1);
    EXPECT_EQ(CountOps(integer, "QuantizeLinear"), 1);
    EXPECT_EQ(CountOps(integer, "DequantizeLinear"), 1);
    EXPECT_EQ(CountOps(integer, "Relu") + CountOps(integer, "Clip"), 0);
    EXPECT_NE(integer.FindNode("conv1_node"), nullptr);
    EXPECT_NE(integer.FindValue("relu1_q"), nullptr);
    EXPECT_EQ(integer.outputs()[0]->name, "y");
  }
  // Every state is one that a finished record may have.
  for (const TensorQuantizationConfig& config : model.record.configs) {
    EXPECT_NE(config.state, QuantizationState::kInitial) << config.node;
    EXPECT_NE(config.state, QuantizationState::kPassiveInit) << config.node;
  }
}

TEST(Quantizer, QdqAndQOperatorAgreeWithinOneStep) {
  const Graph graph = SmallNetwork();
  const QuantizedModel model = QuantizeGraph(graph);
  const Graph qdq = ToQdq(model);
  const Graph qoperator = ToQOperator(model);
  VerifyGraph(qdq);
  VerifyGraph(qoperator);
  const double step = static_cast<double>(OutputScale(model, "y_node"));
  EXPECT_LE(LargestDifference(qdq, qoperator), 1.01 * step);
  EXPECT_LE(LargestDifference(LowerToInteger(model).graph(), qoperator), 0);
  EXPECT_EQ(qdq.outputs()[0]->name, "y");
}

/// The last layer's accumulators become floats; nothing rounds the network's outputs.
TEST(Quantizer, OutputsAreFloats) {
  const Graph graph = SmallNetwork();
  const QuantizedModel bytes = QuantizeGraph(graph);
  const QuantizedModel floats = QuantizeGraph(graph, {.float_outputs = true});
  const Graph integer = LowerToInteger(floats).Release();
  VerifyGraph(integer);
  EXPECT_EQ(CountOps(integer, "QGemm") + CountOps(integer, "DequantizeLinear"), 0);
  EXPECT_EQ(CountOps(integer, "MatMulInteger"), 1);
  EXPECT_EQ(integer.outputs()[0]->name, "y");
  const auto& output = floats.record.operators.at("y_node").outputs[0];
  EXPECT_EQ(floats.record.configs[static_cast<size_t>(output)].state, QuantizationState::kFp32);
  EXPECT_GT(Snr(graph, integer), Snr(graph, LowerToInteger(bytes).graph()));
  // The exports give the same up to the rounding of float sums, as Q/DQ multiplies dequantized
  // numbers.
  const double step = static_cast<double>(OutputScale(bytes, "y_node"));
  EXPECT_LE(LargestDifference(integer, ToQOperator(floats)), 0);
  EXPECT_LE(LargestDifference(ToQdq(floats), ToQOperator(floats)), 1.01 * step);
  EXPECT_NE(LargestDifference(ToQOperator(floats), ToQOperator(bytes)), 0);
}

/// A channel without weights equals its bias, with the precision of floats.
TEST(Quantizer, BiasOfADeadChannelWithFloatOutputs) {
  for (const bool whole : {false, true}) {
    Builder b;
    Noise noise(9);
    Value* first = b.Conv(b.Input("x", {1, 3, 6, 6}), "first", {8, 3, 3, 3}, 1, noise);
    Value* y = b.Conv(b.Op("Relu", {first}, "relu"), "y", {4, 8, 1, 1}, 0, noise);
    Tensor& weights = y->producer->inputs[1]->constant;
    Tensor& bias = y->producer->inputs[2]->constant;
    for (int64_t i = 0; i < (whole ? weights.count() : 8); ++i) weights.data<float>()[i] = 0;
    bias.data<float>()[0] = -0.0136719f;
    b.graph.AddOutput(y);
    const QuantizedModel model = QuantizeGraph(b.graph, {.float_outputs = true});
    const Tensor got = Interpret(LowerToInteger(model).graph(), RandomFeeds(b.graph, 3))[0];
    for (int64_t i = 0; i < (whole ? 4 : 1) * 36; ++i) {
      const float wanted = bias.data<float>()[i / 36];
      EXPECT_NEAR(got.data<float>()[i], wanted, 1e-6f * std::fabs(wanted));
    }
  }
}

/// A last convolution, followed by operators that only move or average.
TEST(Quantizer, LastOperatorsStayFloat) {
  for (const bool pool : {false, true}) {
    Builder b(13);
    Noise noise(5);
    Value* first = b.Conv(b.Input("x", {1, 3, 6, 6}), "first", {8, 3, 3, 3}, 1, noise);
    Value* last = b.Conv(b.Op("Relu", {first}, "relu"), "last", {5, 8, 3, 3}, 1, noise);
    Value* moved = pool ? b.Op("GlobalAveragePool", {last}, "pool") : last;
    b.graph.AddOutput(b.Op("Flatten", {moved}, "flat"));
    const QuantizedModel model = QuantizeGraph(b.graph, {.float_outputs = true});
    const Graph integer = LowerToInteger(model).Release();
    VerifyGraph(integer);
    EXPECT_EQ(CountOps(integer, "QLinearConv"), 1);
    EXPECT_EQ(CountOps(integer, "ConvInteger"), 1);
    EXPECT_EQ(CountOps(integer, "DequantizeLinear"), 0);
    EXPECT_FALSE(model.record.operators.at("flat_node").quantized);
    EXPECT_GT(Snr(b.graph, integer), 30);
    std::optional<QuantizedModel> read = FromQdq(ToQdq(model));
    ASSERT_TRUE(read.has_value());
    ReadFileCodes(*read);
    EXPECT_EQ(PrintGraph(LowerToInteger(*read).graph()), PrintGraph(integer));
  }
}

void ExpectSameAfterRoundTrip(const Graph& graph, const QuantizedModel& model) {
  std::optional<QuantizedModel> read = FromQdq(ToQdq(model));
  ASSERT_TRUE(read.has_value());
  ReadFileCodes(*read);
  const Graph wanted = LowerToInteger(model).Release();
  const Graph got = LowerToInteger(*read).Release();
  VerifyGraph(got);
  EXPECT_EQ(LargestDifference(wanted, got), 0);
  EXPECT_EQ(wanted.nodes().size(), got.nodes().size());
  EXPECT_EQ(PrintGraph(wanted), PrintGraph(got));
  EXPECT_EQ(graph.inputs().size(), read->float_graph.inputs().size());
}

TEST(Quantizer, QdqComesBackAsTheSameIntegers) {
  const Graph graph = SmallNetwork();
  ExpectSameAfterRoundTrip(graph, QuantizeGraph(graph));
}

TEST(Quantizer, FloatGraphHasNoRecordToRead) { EXPECT_FALSE(FromQdq(SmallNetwork()).has_value()); }

/// Functions, scalars, Sub, Pad, Resize, Concat and a float island in one graph.
Graph MixedNetwork() {
  Builder b(14);
  Noise noise(9);
  Value* x = b.Input("x", {1, 3, 6, 6});
  Value* conv = b.Conv(x, "conv", {4, 3, 3, 3}, 1, noise);
  Value* sigmoid = b.Op("Sigmoid", {conv}, "sigmoid");
  Value* silu = b.Op("Mul", {conv, sigmoid}, "silu");
  Value* padded = b.Op(
      "Pad", {silu, b.Const("pads", Tensor::Vector<int64_t>({0, 0, 1, 1, 0, 0, 1, 1}))}, "padded");
  Value* second = b.Conv(padded, "second", {4, 4, 3, 3}, 0, noise);
  Value* hard = b.Op("HardSwish", {second}, "hard");
  Value* difference = b.Op("Sub", {hard, silu}, "difference");
  AttributeMap nearest;
  nearest.Set("mode", std::string("nearest"));
  nearest.Set("nearest_mode", std::string("floor"));
  nearest.Set("coordinate_transformation_mode", std::string("asymmetric"));
  Value* resized =
      b.Op("Resize", {difference, nullptr, b.Const("scales", Tensor::Vector<float>({1, 1, 2, 2}))},
           "resized", nearest);
  AttributeMap axis;
  axis.Set("axis", int64_t{1});
  Value* joined = b.Op("Concat", {resized, resized}, "joined", axis);
  Value* third = b.Conv(joined, "third", {6, 8, 3, 3}, 1, noise);
  Value* softmax = b.Op("Softmax", {third}, "softmax", axis);
  Value* weighted = b.Op("Mul", {softmax, third}, "weighted");
  AttributeMap mean;
  mean.Set("axes", std::vector<int64_t>{2, 3});
  mean.Set("keepdims", int64_t{0});
  Value* fourth = b.Conv(weighted, "fourth", {5, 6, 1, 1}, 0, noise);
  Value* scaled =
      b.Op("Mul", {fourth, b.Const("gains", noise.Make({1, 5, 1, 1}, 0.5f, 1))}, "scaled");
  Value* average = b.Op("ReduceMean", {scaled}, "average", mean);
  b.graph.AddOutput(b.Op("MatMul", {average, b.Const("m", noise.Make({5, 3}))}, "y"));
  return std::move(b.graph);
}

TEST(Quantizer, MixedNetwork) {
  const Graph graph = MixedNetwork();
  ExpectSameAfterRoundTrip(graph, QuantizeGraph(graph));
  const QuantizedModel model = QuantizeGraph(graph);
  const Graph lut = LowerToInteger(model).Release();
  const Graph plain = ToQOperator(model);
  const Graph qdq = ToQdq(model);
  VerifyGraph(lut);
  VerifyGraph(plain);
  VerifyGraph(qdq);
  EXPECT_GT(Snr(graph, lut), 25);
  EXPECT_EQ(LargestDifference(lut, plain), 0);
  const double step = static_cast<double>(OutputScale(model, "y_node"));
  EXPECT_LE(LargestDifference(plain, qdq), 4.01 * step);
  // x * sigmoid(x) is one table; the softmax and its product are a float island.
  EXPECT_EQ(model.record.operators.at("silu_node").table.size(), 2u);
  EXPECT_FALSE(model.record.operators.at("softmax_node").quantized);
  EXPECT_FALSE(model.record.operators.at("weighted_node").quantized);
  EXPECT_TRUE(model.record.operators.at("resized_node").quantized);
  EXPECT_EQ(CountOps(lut, "Sub"), 0);
  EXPECT_EQ(CountOps(plain, "Lut"), 0);
  ExpectSameAfterRoundTrip(graph, model);
}

/// One head of attention, a decomposed LayerNormalization, Gelu by Erf.
Graph Transformer() {
  Builder b;
  Noise noise(21);
  Value* x = b.Input("x", {2, 6, 16});
  const auto dense = [&](Value* in, const std::string& name, int64_t from, int64_t to) {
    Value* product = b.Op("MatMul", {in, b.Const(name + "_w", noise.Make({from, to}, 0.25f))},
                          name + "_product");
    return b.Op("Add", {product, b.Const(name + "_b", noise.Make({to}, 0.1f))}, name);
  };
  const auto scalar = [&](const std::string& name, float value) {
    return b.Const(name, Tensor::Scalar(value));
  };
  AttributeMap last;
  last.Set("axes", std::vector<int64_t>{-1});
  Value* centered = b.Op("Sub", {x, b.Op("ReduceMean", {x}, "mean", last)}, "centered");
  Value* square = b.Op("Mul", {centered, centered}, "square");
  Value* variance = b.Op("ReduceMean", {square}, "variance", last);
  Value* deviation =
      b.Op("Sqrt", {b.Op("Add", {variance, scalar("epsilon", 1e-5f)}, "stable")}, "deviation");
  Value* normal = b.Op("Div", {centered, deviation}, "normal");
  Value* query = dense(normal, "query", 16, 8);
  Value* key = dense(normal, "key", 16, 8);
  AttributeMap swap;
  swap.Set("perm", std::vector<int64_t>{0, 2, 1});
  Value* scores = b.Op("MatMul", {query, b.Op("Transpose", {key}, "turned", swap)}, "scores");
  Value* weights =
      b.Op("Softmax", {b.Op("Div", {scores, scalar("root", 2.83f)}, "scaled")}, "weights");
  Value* mixed = b.Op("MatMul", {weights, dense(normal, "value", 16, 16)}, "mixed");
  Value* residual = b.Op("Add", {x, dense(mixed, "project", 16, 16)}, "residual");
  Value* hidden = dense(residual, "hidden", 16, 32);
  Value* erf = b.Op("Erf", {b.Op("Div", {hidden, scalar("sqrt2", 1.41421356f)}, "ratio")}, "erf");
  Value* gelu = b.Op("Mul",
                     {b.Op("Mul", {hidden, b.Op("Add", {erf, scalar("one", 1)}, "more")}, "twice"),
                      scalar("half", 0.5f)},
                     "gelu");
  b.graph.AddOutput(dense(gelu, "y", 32, 16));
  return std::move(b.graph);
}

TEST(Quantizer, Transformer) {
  const Graph graph = Transformer();
  ExpectSameAfterRoundTrip(graph, QuantizeGraph(graph));
  const QuantizedModel model = QuantizeGraph(graph);
  // The normalization is an island; Gelu's five operators are one table.
  for (const char* name : {"centered_node", "square_node", "normal_node", "weights_node"}) {
    EXPECT_FALSE(model.record.operators.at(name).quantized) << name;
  }
  EXPECT_EQ(model.record.operators.at("gelu_node").table.size(), 5u);
  const Graph integer = LowerToInteger(model).Release();
  VerifyGraph(integer);
  EXPECT_EQ(CountOps(integer, "MatMul"), 0);
  EXPECT_EQ(CountOps(integer, "QLinearMatMul"), 8);
  EXPECT_EQ(CountOps(integer, "Lut"), 1);  // a factor that only changes the scale needs none
  EXPECT_GT(Snr(graph, integer), 22);
  EXPECT_EQ(LargestDifference(integer, ToQOperator(model)), 0);
  ExpectSameAfterRoundTrip(graph, model);
}

TEST(Quantizer, PreActivationAndConflictsOfBits) {
  Builder b;
  Noise noise(6);
  Value* x = b.Input("x", {1, 4, 5, 5});
  Value* a = b.Conv(x, "a", {4, 4, 1, 1}, 0, noise);
  Value* relu = b.Op("Relu", {a}, "relu");  // the value has other readers, so the Relu stands alone
  Value* c = b.Conv(relu, "c", {4, 4, 1, 1}, 0, noise);
  b.graph.AddOutput(b.Op("Add", {a, c}, "y"));
  QuantizeOptions options;
  options.by_name["c_node"].activations.bits = 6;
  const QuantizedModel model = QuantizeGraph(b.graph, options);
  const Graph integer = LowerToInteger(model).Release();
  VerifyGraph(integer);
  EXPECT_GT(Snr(b.graph, integer), 25);
  // One table for the Relu, one that converts its 8 bits to 6, and one back to 8 for the sum.
  EXPECT_EQ(CountOps(integer, "Lut"), 3);
  EXPECT_EQ(LargestDifference(integer, ToQOperator(model)), 0);
}

TEST(Quantizer, ClampsThatSaturationCannotDo) {
  Graph graph = SmallNetwork();
  QuantizeOptions options;
  options.global.activations.symmetric = true;
  const QuantizedModel model = QuantizeGraph(graph, options);
  const Graph integer = LowerToInteger(model).Release();
  EXPECT_EQ(CountOps(integer, "Clip"), 3);
  EXPECT_EQ(integer.FindNode("conv1_node")->outputs[0]->type.dtype, DType::kInt8);
  EXPECT_GT(Snr(graph, integer), 28);
  ExpectSameAfterRoundTrip(graph, model);
}

TEST(Quantizer, ObserversAndBitsWork) {
  const Graph graph = SmallNetwork();
  for (const char* observer : {"moving_average", "percentile", "mse"}) {
    QuantizeOptions options;
    options.global.activations.observer = observer;
    options.global.activations.percentile = 99.9;
    EXPECT_GT(Snr(graph, LowerToInteger(QuantizeGraph(graph, options)).graph()), 20) << observer;
  }
  QuantizeOptions options;
  options.global.activations.power_of_2 = true;
  options.global.weights.bits = 6;
  options.global.weights.per_channel = false;
  options.global.weights.observer = "mse";
  const QuantizedModel model = QuantizeGraph(graph, options);
  EXPECT_GT(Snr(graph, LowerToInteger(model).graph()), 15);
  const float scale = OutputScale(model, "conv1_node");
  EXPECT_EQ(std::exp2(std::round(std::log2(scale))), scale);
}

TEST(Quantizer, OverridesKeepFloat) {
  const Graph graph = SmallNetwork();
  QuantizeOptions options;
  options.by_name["conv3_node"].quantize = false;
  QuantizedModel model = QuantizeGraph(graph, options);
  Graph integer = LowerToInteger(model).Release();
  EXPECT_EQ(CountOps(integer, "Conv"), 1);
  EXPECT_EQ(CountOps(integer, "QLinearConv"), 2);
  EXPECT_EQ(model.record.operators.at("conv3_node").reason, "the options keep it in float");
  EXPECT_GT(Snr(graph, integer), 30);
  ExpectSameAfterRoundTrip(graph, model);

  options = {};
  options.by_type["Conv"].quantize = false;
  options.by_type["Gemm"].quantize = false;
  model = QuantizeGraph(graph, options);
  integer = LowerToInteger(model).Release();
  EXPECT_EQ(CountOps(integer, "QuantizeLinear"), 0);
  EXPECT_EQ(LargestDifference(graph, integer), 0);
  options = {};
  options.by_name["nobody"].quantize = false;
  EXPECT_THROW(Quantizer(FloatModel(graph), options), Error);
}

TEST(Quantizer, WeightsThatAreNoNumbersAreNamedBeforeCalibration) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF}) {
    for (const char* method : {"round_weights", "equalize"}) {
      Graph graph = SmallNetwork();
      graph.FindValue("conv1_w")->constant.data<float>()[3] = bad;
      QuantizeOptions options;
      options.recover = {method};
      try {
        const Quantizer quantizer(FloatModel(graph), options);
        FAIL() << method;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidModel) << error.message();
        EXPECT_EQ(error.context().node, "conv1_node");
        EXPECT_EQ(error.context().value, "conv1_w");
        EXPECT_FALSE(error.context().hint.empty());
      }
    }
  }
}

TEST(Quantizer, BadCalibrationIsNamed) {
  const Graph graph = SmallNetwork();
  Quantizer empty(FloatModel(graph), {});
  EXPECT_THROW(empty.Finish(), Error);
  Quantizer quantizer(FloatModel(graph), {});
  Tensor bad = RandomFeeds(graph, 1).at("x");
  bad.data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  try {
    quantizer.Observe(0, "x", bad);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.context().value, "x");
    EXPECT_NE(error.message().find("NaN at index 5"), std::string::npos) << error.message();
  }
  EXPECT_THROW(quantizer.Observe(0, "nobody", bad), Error);
  EXPECT_THROW(quantizer.Observe(3, "x", bad), Error);
  EXPECT_THROW(quantizer.EndSample(1), Error);
  QuantizeOptions options;
  options.recover = {"magic"};
  EXPECT_THROW(Quantizer(FloatModel(graph), options), Error);
  options = {};
  options.global.weights.observer = "moving_average";
  EXPECT_THROW(Quantizer(FloatModel(graph), options), Error);
}

TEST(Quantizer, RecoveryLowersTheErrorOfFewBits) {
  const Graph graph = SmallNetwork(3);
  const auto snr = [&](std::vector<std::string> recover) {
    QuantizeOptions options;
    options.global.weights.bits = 4;
    options.recover = std::move(recover);
    return Snr(graph, LowerToInteger(QuantizeGraph(graph, options, 32)).graph(), 32);
  };
  const double none = snr({});
  EXPECT_GT(snr({"bias_correction"}), none);
  EXPECT_GT(snr({"round_weights", "bias_correction"}), none + 1);
}

TEST(Quantizer, RefittedScalesLowerTheErrorOfFewBits) {
  double gain = 0;
  for (const uint32_t seed : {1, 2, 3, 4}) {
    const Graph graph = SmallNetwork(seed);
    for (const bool per_channel : {false, true}) {
      for (const int bits : {2, 3, 4}) {
        for (const bool rounds : {false, true}) {
          QuantizeOptions options;
          options.global.weights.bits = bits;
          options.global.weights.per_channel = per_channel;
          options.recover = {"bias_correction"};
          if (rounds) options.recover.emplace_back("round_weights");
          const QuantizedModel plain = QuantizeGraph(graph, options, 32);
          options.recover.emplace_back("refit_scales");
          const QuantizedModel refitted = QuantizeGraph(graph, options, 32);
          for (const RecoveryStep& step : refitted.record.recovery) {
            if (step.method != "refit_scales") continue;
            EXPECT_GE(step.after_db, step.before_db);
          }
          gain += (Snr(graph, LowerToInteger(refitted).graph(), 32) -
                   Snr(graph, LowerToInteger(plain).graph(), 32)) /
                  48;
        }
      }
    }
  }
  EXPECT_GT(gain, 1) << "dB on average";
}

TEST(Quantizer, RefittingLeavesPowersOfTwoAndGivenScales) {
  const Graph graph = SmallNetwork(3);
  QuantizeOptions options;
  options.global.weights.bits = 3;
  options.global.weights.power_of_2 = true;
  options.recover = {"refit_scales"};
  const QuantizedModel quantized = QuantizeGraph(graph, options, 32);
  for (const TensorQuantizationConfig& config : quantized.record.configs) {
    if (config.state != QuantizationState::kBaked) continue;
    for (const float scale : config.scale) EXPECT_EQ(PowerOfTwoScale(scale), scale);
  }
}

TEST(Quantizer, ConvolutionWithoutBiasGetsOne) {
  Builder b;
  Noise noise(12);
  Value* x = b.Input("x", {1, 3, 6, 6});
  AttributeMap none;
  b.graph.AddOutput(b.Op("Conv", {x, b.Const("w", noise.Make({4, 3, 1, 1}))}, "y", none));
  ExpectSameAfterRoundTrip(b.graph, QuantizeGraph(b.graph));
  const QuantizedModel model = QuantizeGraph(b.graph);
  EXPECT_EQ(LowerToInteger(model).graph().FindNode("y_node")->inputs.size(), 9u);
  ExpectSameAfterRoundTrip(b.graph, model);
  QuantizeOptions options;
  options.recover.clear();
  const QuantizedModel plain = QuantizeGraph(b.graph, options);
  EXPECT_EQ(LowerToInteger(plain).graph().FindNode("y_node")->inputs.size(), 8u);
}

/// Widening scales for simple multipliers would violate other formulas.
TEST(Quantizer, FormulasAreKeptToTheLastBit) {
  const Graph graph = SmallNetwork();
  for (const ScaleFormula formula :
       {ScaleFormula::kCambricon, ScaleFormula::kGoogle, ScaleFormula::kPpq}) {
    QuantizeOptions options;
    options.recover.clear();
    options.global.weights.formula = options.global.activations.formula = formula;
    options.global.activations.symmetric = true;
    const QuantizedModel model = QuantizeGraph(graph, options);
    int seen = 0;
    for (const TensorQuantizationConfig& config : model.record.configs) {
      const bool weights = config.state == QuantizationState::kBaked;
      if (config.state != QuantizationState::kActivated && !weights) continue;
      for (const float scale : config.scale) {
        int exponent = 0;
        const bool whole = std::frexp(scale, &exponent) == 0.5f;
        EXPECT_TRUE(whole || formula != ScaleFormula::kCambricon) << scale;
        ++seen;
      }
      if (config.per_channel()) continue;
      const double magnitude = std::max(-config.range_min, config.range_max);
      EXPECT_EQ(config.scale[0], static_cast<float>(SymmetricScale(magnitude, config)));
    }
    EXPECT_GT(seen, 20);
  }
}

TEST(Quantizer, ThirtyTwoBits) {
  const Graph graph = SmallNetwork();
  QuantizeOptions options;
  options.recover.clear();
  const auto snr = [&](int bits) {
    options.global.activations.bits = bits;
    return Snr(graph, LowerToInteger(QuantizeGraph(graph, options)).graph());
  };
  EXPECT_NEAR(snr(32), snr(24), 0.1);
}

TEST(Record, Json) {
  const std::string json = RecordToJson(QuantizeGraph(SmallNetwork()).record);
  EXPECT_NE(json.find("\"name\":\"conv1_node\",\"type\":\"Conv\",\"quantized\":true"),
            std::string::npos);
  EXPECT_NE(json.find("PER_CHANNEL|LINEAR|SYMMETRICAL"), std::string::npos);
  EXPECT_NE(json.find("\"state\":\"OVERLAPPED\""), std::string::npos);
  int depth = 0;
  for (const char c : json) depth += c == '{' || c == '[' ? 1 : (c == '}' || c == ']' ? -1 : 0);
  EXPECT_EQ(depth, 0);
}

}  // namespace
}  // namespace requant
