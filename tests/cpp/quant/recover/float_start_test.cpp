// Operators that stop being quantized: temporarily (DEACTIVATED) and for good (DEQUANTIZED).
#include <gtest/gtest.h>

#include "ir/verify.h"
#include "quant/model.h"
#include "quant/recover/choose_float/switch_off.h"
#include "quant/recover/recovery.h"
#include "quant/sim/simulator.h"

namespace requant {
namespace {

/// A first layer whose channels are a small signal on a large mean, and a second layer that reads
/// the signal: eight bits for 0..6 preserve little of it. The layers that follow have twenty times
/// as many products.
Graph SmallSignalOnLargeMean() {
  Builder b;
  Noise noise(3);
  Value* x = b.Input("x", {1, 3, 8, 8});
  Value* zero = b.Const("zero", Tensor::Scalar(0.0f));
  Value* six = b.Const("six", Tensor::Scalar(6.0f));
  Value* a = b.Op("Clip", {b.Conv(x, "c1", {4, 3, 1, 1}, 0, noise), zero, six}, "r1");
  Tensor weights = b.graph.FindValue("c1_w")->constant.Clone();
  for (int64_t i = 0; i < weights.count(); ++i) weights.data<float>()[i] *= 0.02f;
  b.graph.FindValue("c1_w")->constant = weights;
  b.graph.FindValue("c1_b")->constant = Tensor::FromVector<float>({3, 3, 5.9f, 2}, {4});
  Value* second = b.Conv(a, "c2", {8, 4, 1, 1}, 0, noise);
  weights = b.graph.FindValue("c2_w")->constant.Clone();
  std::vector<float> bias(8);
  for (int64_t row = 0; row < 8; ++row) {
    for (int64_t c = 0; c < 4; ++c) {
      float& w = weights.data<float>()[row * 4 + c];
      w *= 50;
      bias[static_cast<size_t>(row)] -=
          w * std::vector<float>{3, 3, 5.9f, 2}[static_cast<size_t>(c)];
    }
  }
  b.graph.FindValue("c2_w")->constant = weights;
  b.graph.FindValue("c2_b")->constant = Tensor::FromVector<float>(bias, {8});
  Value* wide =
      b.Op("Relu", {b.Conv(b.Op("Relu", {second}, "r2"), "c3", {16, 8, 3, 3}, 1, noise)}, "r3");
  b.graph.AddOutput(b.Conv(wide, "c4", {8, 16, 1, 1}, 0, noise));
  return std::move(b.graph);
}

QuantizedModel Start(const Graph& graph, std::vector<std::string> recover) {
  QuantizeOptions options;
  options.recover = std::move(recover);
  Quantizer quantizer(FloatModel(graph), options);
  for (uint32_t i = 0; i < 16; ++i) quantizer.Keep(RandomFeeds(graph, 100 + i));
  Calibrate(quantizer, quantizer.graph(), 16);
  return quantizer.Finish();
}

std::vector<QuantizationState> StatesOf(const QuantizationRecord& record) {
  std::vector<QuantizationState> states;
  for (const TensorQuantizationConfig& config : record.configs) states.push_back(config.state);
  return states;
}

TEST(FloatStart, LeavesWhatCostsMostInFloat) {
  const Graph graph = SmallSignalOnLargeMean();
  const QuantizedModel plain = Start(graph, {});
  const QuantizedModel model = Start(graph, {"float_start"});
  ASSERT_EQ(model.record.recovery.size(), 1u);
  EXPECT_GT(model.record.recovery[0].after_db, model.record.recovery[0].before_db + 10);
  // The method goes as far as it pays: the other layers are quantized.
  for (const char* name : {"c1_node", "r1_node", "c2_node"}) {
    EXPECT_FALSE(model.record.operators.at(name).quantized) << name;
    EXPECT_EQ(model.record.operators.at(name).reason, "float_start keeps it in float");
  }
  EXPECT_TRUE(model.record.operators.at("c3_node").quantized);
  int dequantized = 0;
  for (const TensorQuantizationConfig& config : model.record.configs) {
    const bool is_float = !model.record.operators.at(config.node).quantized;
    dequantized += config.state == QuantizationState::kDequantized;
    EXPECT_EQ(IsQuantizing(config.state), !is_float && config.state != QuantizationState::kSoi)
        << config.node << " " << config.value << " " << StateName(config.state);
  }
  EXPECT_GE(dequantized, 6);  // inputs, weights and outputs of three layers
  const Graph integer = LowerToInteger(model).Release();
  VerifyGraph(integer);
  EXPECT_GT(Snr(graph, integer), Snr(graph, LowerToInteger(plain).graph()) + 10);
  EXPECT_NE(RecordToJson(model.record).find("\"state\":\"DEQUANTIZED\""), std::string::npos);
  // Every export agrees.
  for (const Graph& file : {ToQdq(model), ToQOperator(model), ToQonnx(model)}) {
    VerifyGraph(file);
    EXPECT_EQ(file.FindValue("c1_w")->constant.dtype(), DType::kFloat32);
  }
}

TEST(FloatStart, ChangesNothingWhereItDoesNotPay) {
  const Graph graph = SmallNetwork();
  const QuantizedModel plain = Start(graph, {});
  const QuantizedModel model = Start(graph, {"float_start"});
  // The first layer has a third of the products here, which is more than the method may spend.
  EXPECT_EQ(model.record.recovery[0].detail, "everything stays quantized");
  EXPECT_EQ(StatesOf(model.record), StatesOf(plain.record));
  EXPECT_EQ(LargestDifference(LowerToInteger(plain).graph(), LowerToInteger(model).graph()), 0);
}

/// Choices that do worse than half of the others are measured on a few samples only.
TEST(FloatStart, DropsChoicesOnTheWay) {
  Builder b;
  Noise noise(5);
  Value* x = b.Input("x", {1, 4, 8, 8});
  for (int i = 0; i < 10; ++i) {
    const std::string name = "c" + std::to_string(i);
    x = b.Op("Relu", {b.Conv(x, name, {4, 4, 1, 1}, 0, noise)}, name + "_r");
  }
  b.graph.AddOutput(b.Conv(x, "wide", {64, 4, 3, 3}, 1, noise));
  QuantizeOptions options;
  options.recover = {"float_start"};
  Quantizer quantizer(FloatModel(b.graph), options);
  constexpr int64_t kSamples = 16;
  for (uint32_t i = 0; i < kSamples; ++i) quantizer.Keep(RandomFeeds(b.graph, 100 + i));
  Calibrate(quantizer, quantizer.graph(), kSamples);
  int64_t most = 0, done = 0, total = 0;
  for (FinishProgress progress; !progress.finished;) {
    progress = quantizer.Step();
    if (std::string_view(progress.method) != "float_start" || progress.total == 0) continue;
    EXPECT_GE(progress.done, done);
    EXPECT_LE(progress.done, progress.total);
    done = progress.done;
    total = progress.total;
    most = std::max(most, total);
  }
  EXPECT_EQ(done, total);
  EXPECT_GE(most, 10 * kSamples);
  // Of n choices and the network without any, n do two samples, n / 2 do two more, and so on.
  EXPECT_LT(total, most / 2);
}

TEST(SwitchedOff, IsFloatAndComesBack) {
  const Graph graph = SmallNetwork();
  QuantizedModel model = Start(graph, {});
  const std::vector<QuantizationState> before = StatesOf(model.record);
  Simulator simulator(model.float_graph, model.record);
  for (const auto& node : model.float_graph.nodes()) {
    if (simulator.Layer(node.get())) simulator.SetWeights(node.get(), nullptr);
  }
  const TensorMap feeds = RandomFeeds(graph, 7);
  const Tensor wanted = simulator.Outputs(feeds, SimMode::kFloat)[0];
  const Tensor rounded = simulator.Outputs(feeds, SimMode::kQuantized)[0];
  std::vector<std::string> all;
  for (const auto& [name, op] : model.record.operators) {
    if (op.quantized) all.push_back(name);
  }
  {
    const SwitchedOff off(model.record, all);
    EXPECT_NE(StatesOf(model.record), before);
    for (const TensorQuantizationConfig& config : model.record.configs) {
      EXPECT_FALSE(IsQuantizing(config.state));
    }
    const Tensor got = simulator.Outputs(feeds, SimMode::kQuantized)[0];
    EXPECT_EQ(got.ToFloats(), wanted.ToFloats());
  }
  EXPECT_EQ(StatesOf(model.record), before);
  EXPECT_EQ(simulator.Outputs(feeds, SimMode::kQuantized)[0].ToFloats(), rounded.ToFloats());
  EXPECT_NE(rounded.ToFloats(), wanted.ToFloats());
}

/// A method that makes the outputs worse is undone and leaves nothing but its line in the record.
TEST(Undo, GivesBackWhatWasBefore) {
  int undone = 0;
  int kept = 0;
  // Whether a method is undone for a network is chance, so networks are tried until one is.
  for (uint32_t seed = 1; seed <= 12 || (undone == 0 && seed <= 60); ++seed) {
    const Graph graph = SmallNetwork(seed);
    const QuantizedModel plain = Start(graph, {});
    for (const char* method : {"empirical_bias", "learned_steps"}) {
      const QuantizedModel model = Start(graph, {method});
      const RecoveryStep& step = model.record.recovery.at(0);
      const bool is_undone =
          step.detail.find("; undone: the outputs fell to ") != std::string::npos;
      const double difference =
          LargestDifference(LowerToInteger(plain).graph(), LowerToInteger(model).graph());
      if (!is_undone) {
        ++kept;
        continue;
      }
      ++undone;
      EXPECT_EQ(step.before_db, step.after_db);
      EXPECT_EQ(difference, 0) << method << " " << seed;
      EXPECT_EQ(StatesOf(model.record), StatesOf(plain.record));
      for (size_t i = 0; i < plain.record.configs.size(); ++i) {
        EXPECT_EQ(model.record.configs[i].scale, plain.record.configs[i].scale);
      }
    }
  }
  EXPECT_GT(undone, 0);
  EXPECT_GT(kept, 0);
}

}  // namespace
}  // namespace requant
