#include "train/trainer.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "quant/grid/affine.h"
#include "quant/model.h"
#include "quant/sim/simulator.h"
#include "train/network.h"

namespace requant {
namespace {

QuantizeOptions Bits(int activations, int weights) {
  QuantizeOptions options;
  options.global.activations.bits = activations;
  options.global.weights.bits = weights;
  options.recover = {};
  return options;
}

TrainProgress Learn(Trainer& trainer, const Graph& graph, uint32_t seed, int samples, double rate,
                    bool labelled = false) {
  for (int i = 0; i < samples; ++i) {
    trainer.Add(RandomFeeds(graph, seed + static_cast<uint32_t>(i)), labelled ? i % 5 : -1);
  }
  for (;;) {
    const TrainProgress progress = trainer.Advance(rate);
    if (progress.finished) return progress;
  }
}

/// A grouped transposed convolution, concat, squeeze and excitation, an average, rows of a MatMul.
Graph BranchedNetwork() {
  Builder b;
  Noise noise(9);
  Value* x = b.Input("x", {1, 4, 5, 5});
  AttributeMap up;
  up.Set("strides", std::vector<int64_t>{2, 2});
  up.Set("group", int64_t{2});
  Value* wide = b.Op(
      "ConvTranspose",
      {x, b.Const("up_w", noise.Make({4, 3, 2, 2}, 0.4f)), b.Const("up_b", noise.Make({6}, 0.1f))},
      "up", up);
  Value* left = b.Op("LeakyRelu", {b.Conv(wide, "left", {4, 6, 1, 1}, 0, noise)}, "leaky");
  Value* right = b.Op("HardSwish", {b.Conv(wide, "right", {4, 3, 3, 3}, 1, noise, 2)}, "hard");
  AttributeMap axis;
  axis.Set("axis", int64_t{1});
  Value* both = b.Op("Concat", {left, right}, "both", axis);
  Value* gate =
      b.Op("Sigmoid",
           {b.Conv(b.Op("GlobalAveragePool", {both}, "squeeze"), "excite", {8, 8, 1, 1}, 0, noise)},
           "gate");
  Value* scaled = b.Op("Mul", {both, gate}, "scaled");
  AttributeMap window;
  window.Set("kernel_shape", std::vector<int64_t>{2, 2});
  window.Set("strides", std::vector<int64_t>{2, 2});
  Value* pooled = b.Op("AveragePool", {scaled}, "pooled", window);
  AttributeMap order;
  order.Set("perm", std::vector<int64_t>{0, 2, 3, 1});
  Value* rows = b.Op("Transpose", {pooled}, "rows", order);
  b.graph.AddOutput(b.Op("MatMul", {rows, b.Const("fc", noise.Make({8, 3}, 0.4f))}, "y"));
  b.graph.opsets[""] = 14;
  return std::move(b.graph);
}

/// Checks the gradients of the whole network, with grids so fine that difference quotients show the
/// true slope. Differences move the weights of the graph; normalization cancels most of their
/// effect, so both cases are checked.
void CheckGradients(const Graph& graph, size_t layers) {
  const QuantizedModel model = QuantizeGraph(graph, Bits(24, 24));
  const Value* output = model.float_graph.outputs()[0];
  constexpr int kSamples = 3;
  const auto samples = [&](Simulator& simulator) {
    std::vector<Values> out;
    for (int i = 0; i < kSamples; ++i) {
      out.push_back(simulator.Start(RandomFeeds(graph, 100 + static_cast<uint32_t>(i))));
    }
    return out;
  };
  TrainOptions options;
  options.batch_norm = false;
  options.scales = TrainScales::kKeep;
  options.optimizer = TrainOptimizer::kSgd;
  options.momentum = 0;
  // One step of SGD at rate 1 moves the parameters by their gradients.
  QuantizationRecord record = model.record;
  TrainNetwork network(model.float_graph, record, options, {output});
  EXPECT_TRUE(network.unreached().empty());
  EXPECT_EQ(network.layers().size(), layers);
  network.Begin(samples(network.simulator()));
  for (size_t at = 0; at < network.size(); ++at) network.Forward(at);
  std::vector<Tensor> gradients;
  for (size_t sample = 0; sample < kSamples; ++sample) {
    gradients.push_back(network.Get(sample, output).Clone());
  }
  network.AddGradients(output, std::move(gradients));
  for (size_t at = network.size(); at-- > 0;) network.Backward(at);
  network.Update(1);
  for (const auto& [node, layer] : network.layers()) {
    const Tensor& weights = node->inputs[1]->constant;
    const auto loss = [&, name = node->name](int slot, int64_t element, float step) {
      const Graph moved = model.float_graph.Clone();
      Node* own = moved.FindNode(name);
      Tensor changed = own->inputs[static_cast<size_t>(slot)]->constant.Clone();
      changed.data<float>()[element] += step;
      own->inputs[static_cast<size_t>(slot)]->constant = changed;
      double sum = 0;
      for (int i = 0; i < kSamples; ++i) {
        const Tensor y = Interpret(moved, RandomFeeds(graph, 100 + static_cast<uint32_t>(i)))[0];
        for (int64_t j = 0; j < y.count(); ++j) sum += y.AsDouble(j) * y.AsDouble(j) / 2;
      }
      return sum;
    };
    constexpr float kStep = 5e-4f;
    for (int64_t i = 0; i < weights.count(); i += 17) {
      const double wanted = (loss(1, i, kStep) - loss(1, i, -kStep)) / (2.0 * 5e-4);
      const double got = static_cast<double>(weights.data<float>()[i]) -
                         static_cast<double>(layer->weights()[static_cast<size_t>(i)]);
      EXPECT_NEAR(got, wanted, 0.04 * std::fabs(wanted) + 0.02) << node->name << " " << i;
    }
    if (layer->bias().empty()) continue;
    const double wanted = (loss(2, 1, kStep) - loss(2, 1, -kStep)) / (2.0 * 5e-4);
    const double got = static_cast<double>(node->inputs[2]->constant.data<float>()[1]) -
                       static_cast<double>(layer->bias()[1]);
    EXPECT_NEAR(got, wanted, 0.04 * std::fabs(wanted) + 0.02) << node->name;
  }
}

TEST(TrainNetwork, GradientsAgainstDifferences) {
  CheckGradients(SmallNetwork(), 4);
  CheckGradients(BranchedNetwork(), 5);
}

/// Every form of training reduces the loss, and the deployed network is the trained one.
TEST(Trainer, LearnsAndDeploys) {
  const Graph graph = SmallNetwork();
  struct Case {
    const char* what;
    TrainOptions options;
    double rate;
  };
  const TrainOptions values = {.loss = TrainLoss::kValues};
  std::vector<Case> cases = {{"learned scales", values, 3e-3},
                             {"observed scales", values, 3e-3},
                             {"kept scales", values, 3e-3},
                             {"no normalization", values, 3e-3},
                             {"SGD", values, 3e-2},
                             {"weight decay", values, 3e-3}};
  cases[1].options.scales = TrainScales::kObserve;
  cases[2].options.scales = TrainScales::kKeep;
  cases[3].options.batch_norm = false;
  cases[4].options.optimizer = TrainOptimizer::kSgd;
  cases[5].options.weight_decay = 0.01;
  for (const Case& c : cases) {
    QuantizeOptions quantize = Bits(4, 3);
    quantize.global.activations.observer = "moving_average";
    const QuantizedModel model = QuantizeGraph(graph, quantize);
    const double before = Snr(graph, LowerToInteger(model).graph());
    Trainer trainer(model, c.options);
    double first = 0, last = 0;
    constexpr int kBatches = 60;
    for (int batch = 0; batch < kBatches; ++batch) {
      if (batch == 45) trainer.Freeze();
      const double rate = c.rate * (1 - batch / double{kBatches});
      const double loss =
          Learn(trainer, graph, 5000 + static_cast<uint32_t>(batch) * 16, 16, rate).loss;
      if (batch < 5) first += loss / 5;
      if (batch >= kBatches - 5) last += loss / 5;
    }
    const QuantizedModel trained = trainer.Finish();
    EXPECT_LT(last, 0.8 * first) << c.what;
    const Graph integer = LowerToInteger(trained).Release();
    VerifyGraph(integer);
    // The integer network has the error of the last batches, up to rounding at ties.
    const double after = Snr(graph, integer);
    EXPECT_GT(after, before + 1) << c.what;
    EXPECT_NEAR(after, -10 * std::log10(last), 4) << c.what;
    EXPECT_EQ(trained.record.recovery.back().method, "train");
    for (const TensorQuantizationConfig& config : trained.record.configs) {
      if (config.bits != 4 || config.scale.size() != 1 || !(config.range_max > config.range_min) ||
          config.state != QuantizationState::kActivated) {
        continue;
      }
      const double codes = static_cast<double>(config.quant_max - config.quant_min);
      EXPECT_NEAR((config.range_max - config.range_min) / static_cast<double>(config.scale[0]),
                  codes,
                  0.03 * codes)
          << c.what << " " << config.value;  // scales of sums get simple factors, up to 2 %
    }
    // The integers are the float graph's weights on their grid.
    for (const auto& node : trained.float_graph.nodes()) {
      const OperatorQuantization& op = trained.record.operators.at(node->name);
      if (op.rule != QuantRule::kConv) continue;
      const auto& config = trained.record.configs[static_cast<size_t>(op.inputs[1])];
      EXPECT_TRUE(QuantizeParameter(node->inputs[1]->constant, config).SameBits(config.baked))
          << c.what;
      EXPECT_EQ(config.bits, 3);
    }
    // The exports agree.
    const std::optional<QuantizedModel> read = FromQdq(ToQdq(trained));
    ASSERT_TRUE(read.has_value()) << c.what;
    EXPECT_EQ(LargestDifference(integer, LowerToInteger(*read).graph()), 0) << c.what;
  }
}

/// Freezing at the start corrects means and deviations by the measured ones, and deploys the
/// result.
TEST(Trainer, FreezesAtOnce) {
  const Graph graph = SmallNetwork();
  const QuantizedModel model = QuantizeGraph(graph, Bits(8, 3));
  const double before = Snr(graph, LowerToInteger(model).graph());
  Trainer trainer(model, {.measured_batches = 4, .loss = TrainLoss::kValues});
  trainer.Freeze();
  for (uint32_t batch = 0; batch < 4; ++batch) Learn(trainer, graph, 5000 + 16 * batch, 16, 1);
  const QuantizedModel trained = trainer.Finish();
  EXPECT_GT(Snr(graph, LowerToInteger(trained).graph()), before + 1);
  trainer.Freeze();
  trainer.Clear();
}

/// A model that was read from a file with Q/DQ can be trained further.
TEST(Trainer, LearnsWhatAFileSays) {
  const Graph graph = SmallNetwork();
  const QuantizedModel model = QuantizeGraph(graph, Bits(8, 4));
  const std::optional<QuantizedModel> read = FromQdq(ToQdq(model));
  ASSERT_TRUE(read.has_value());
  Trainer trainer(*read, {.scales = TrainScales::kKeep, .loss = TrainLoss::kValues});
  for (uint32_t batch = 0; batch < 4; ++batch) Learn(trainer, graph, 16 * batch, 8, 1e-3);
  const QuantizedModel trained = trainer.Finish();
  VerifyGraph(LowerToInteger(trained).graph());
  EXPECT_FALSE(trained.float_graph.nodes().empty());
}

TEST(Trainer, ObservedScalesFollowTheirFormula) {
  const Graph graph = SmallNetwork();
  for (const ScaleFormula formula : {ScaleFormula::kGoogle, ScaleFormula::kCambricon}) {
    for (const bool per_channel : {false, true}) {
      QuantizeOptions quantize = Bits(8, 8);
      quantize.global.activations.observer = "moving_average";
      quantize.global.activations.formula = quantize.global.weights.formula = formula;
      quantize.global.activations.symmetric = true;
      quantize.global.weights.per_channel = per_channel;
      const QuantizedModel model = QuantizeGraph(graph, quantize);
      Trainer trainer(model, {.scales = TrainScales::kObserve, .loss = TrainLoss::kValues});
      for (uint32_t batch = 0; batch < 3; ++batch) Learn(trainer, graph, 16 * batch, 8, 1e-3);
      const QuantizedModel trained = trainer.Finish();
      VerifyGraph(LowerToInteger(trained).graph());
      for (const auto& node : trained.float_graph.nodes()) {
        const OperatorQuantization& op = trained.record.operators.at(node->name);
        if (op.rule != QuantRule::kConv) continue;
        const auto& config = trained.record.configs[static_cast<size_t>(op.inputs[1])];
        EXPECT_EQ(config.scale.size(), per_channel ? size_t{8} : size_t{1});
        for (const float scale : config.scale) {
          int exponent = 0;
          if (formula == ScaleFormula::kGoogle) continue;
          EXPECT_EQ(std::frexp(scale, &exponent), 0.5f);  // a power of two
        }
      }
    }
  }
}

/// Operators of other networks are trained and deployed as well.
TEST(Trainer, LearnsBranches) {
  const Graph graph = BranchedNetwork();
  const QuantizedModel model = QuantizeGraph(graph, Bits(6, 4));
  const double before = Snr(graph, LowerToInteger(model).graph());
  for (const bool batch_norm : {false, true}) {
    Trainer trainer(model,
                    {.batch_norm = batch_norm, .measured_batches = 8, .loss = TrainLoss::kValues});
    constexpr int kBatches = 80;
    for (int batch = 0; batch < kBatches; ++batch) {
      if (batch == 60) trainer.Freeze();
      Learn(trainer, graph, 5000 + static_cast<uint32_t>(batch) * 16, 16,
            3e-3 * (1 - batch / double{kBatches}));
    }
    const QuantizedModel trained = trainer.Finish();
    const Graph integer = LowerToInteger(trained).Release();
    VerifyGraph(integer);
    EXPECT_GT(Snr(graph, integer), before + 0.8) << batch_norm;  // from 18.9 dB
  }
}

/// The steps of the second batch; the first one is measured.
int64_t StepsOfABatch(const TrainOptions& options, bool labelled) {
  const Graph graph = SmallNetwork();
  Trainer trainer(QuantizeGraph(graph), options);
  Learn(trainer, graph, 1, 4, 1e-3, labelled);
  trainer.Add(RandomFeeds(graph, 9), labelled ? 1 : -1);
  int64_t steps = 1;
  while (!trainer.Advance(1e-3).finished) ++steps;
  return steps;
}

TEST(Trainer, RunsTheFloatNetworkOnlyForItsAnswers) {
  TrainOptions labels;
  labels.loss = TrainLoss::kScores;
  labels.label_share = 1;
  const int64_t all = StepsOfABatch({}, true);
  EXPECT_EQ(all % 3, 0);
  EXPECT_EQ(StepsOfABatch(labels, true), all / 3 * 2);
  EXPECT_EQ(StepsOfABatch(labels, false), all);
  labels.label_share = 0.9;
  EXPECT_EQ(StepsOfABatch(labels, true), all);
  labels.label_share = 1;
  labels.loss = TrainLoss::kValues;
  EXPECT_EQ(StepsOfABatch(labels, true), all);
}

TEST(Trainer, CountsRightAnswers) {
  const Graph graph = SmallNetwork();
  Trainer trainer(QuantizeGraph(graph), {});
  const TrainProgress progress = Learn(trainer, graph, 1, 10, 1e-3, true);
  EXPECT_EQ(progress.labelled, 10);
  EXPECT_GE(progress.correct, 0);
  EXPECT_LE(progress.correct, 10);
}

void ExpectError(ErrorCode code, const char* part, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error with " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Trainer, RefusesWhatMakesNoSense) {
  const Graph graph = SmallNetwork();
  const QuantizedModel model = QuantizeGraph(graph);
  const auto bad = ErrorCode::kInvalidArgument;
  ExpectError(bad, "momentum", [&] { Trainer(model, {.momentum = 1}); });
  ExpectError(bad, "weightDecay", [&] { Trainer(model, {.weight_decay = -1}); });
  ExpectError(bad, "labelShare", [&] { Trainer(model, {.label_share = NAN}); });
  ExpectError(bad, "scaleRate", [&] { Trainer(model, {.scale_rate = -1}); });
  Trainer trainer(model, {});
  ExpectError(bad, "no batch", [&] { trainer.Advance(1e-3); });
  ExpectError(bad, "no batch", [&] { trainer.Finish(); });
  TensorMap feeds = RandomFeeds(graph, 1);
  feeds.begin()->second.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  ExpectError(bad, "NaN", [&] { trainer.Add(feeds, -1); });
  ExpectError(bad, "lacks", [&] { trainer.Add({}, -1); });
  ExpectError(ErrorCode::kShapeMismatch, "x", [&] {
    trainer.Add({{"x", Tensor(DType::kFloat32, {1, 3, 8, 9})}}, -1);
  });
  trainer.Add(RandomFeeds(graph, 1), -1);
  trainer.Advance(1e-3);
  ExpectError(bad, "between", [&] { trainer.Add(RandomFeeds(graph, 1), -1); });
  // A rate at which the weights of a layer without a grid exceed all bounds.
  QuantizeOptions with_floats;
  with_floats.by_type["Gemm"].quantize = false;
  Trainer wild(QuantizeGraph(graph, with_floats), {.batch_norm = false});
  ExpectError(bad, "is no number", [&] {
    for (uint32_t i = 0; i < 50; ++i) Learn(wild, graph, i, 4, 1e30);
  });
  // Rounding would make codes of infinite weights.
  Trainer infinite(model, {});
  ExpectError(bad, "are infinite or NaN after batch 1", [&] {
    for (uint32_t i = 0; i < 2; ++i) Learn(infinite, graph, i, 4, 1e60);
  });
}

/// Behind an operator without gradient nothing learns, and the record reports it.
TEST(Trainer, LayersOutOfReach) {
  Builder b;
  Noise noise(1);
  Value* x = b.Input("x", {1, 3, 8, 8});
  Value* first = b.Op("Relu", {b.Conv(x, "conv1", {4, 3, 3, 3}, 1, noise)}, "relu1");
  AttributeMap axis;
  axis.Set("axis", int64_t{1});
  Value* blocked = b.Op("CumSum", {first, b.Const("one", Tensor::Scalar<int64_t>(1))}, "sums");
  b.graph.AddOutput(b.Conv(blocked, "conv2", {5, 4, 1, 1}, 0, noise));
  Trainer trainer(QuantizeGraph(b.graph), {.loss = TrainLoss::kValues});
  Learn(trainer, b.graph, 1, 4, 1e-3);
  const QuantizedModel trained = trainer.Finish();
  std::string all;
  for (const std::string& warning : trained.record.warnings) all += warning + "\n";
  EXPECT_NE(all.find("layer 'conv1_node' did not learn: no gradient goes through 'sums_node'"),
            std::string::npos)
      << all;

  Builder none;
  none.graph.AddOutput(none.Op("Relu", {none.Input("x", {1, 3})}, "y"));
  ExpectError(ErrorCode::kUnsupported, "no layer", [&] { Trainer(QuantizeGraph(none.graph), {}); });
}

}  // namespace
}  // namespace requant
