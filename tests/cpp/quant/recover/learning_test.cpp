// Every recovery method alone, given scales, and difficult data.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/verify.h"
#include "quant/graph/prepare.h"
#include "quant/model.h"
#include "quant/observers/observer.h"
#include "quant/recover/recovery.h"

namespace requant {
namespace {

QuantizedModel Learn(const Graph& graph, const QuantizeOptions& options, int samples = 32) {
  Quantizer quantizer(FloatModel(graph), options);
  for (int i = 0; i < samples; ++i) {
    quantizer.Keep(RandomFeeds(graph, 100 + static_cast<uint32_t>(i)));
  }
  Calibrate(quantizer, quantizer.graph(), samples);
  return quantizer.Finish();
}

QuantizeOptions LowBits(int weights, int activations, std::vector<std::string> recover) {
  QuantizeOptions options;
  options.global.weights.bits = weights;
  options.global.activations.bits = activations;
  options.recover = std::move(recover);
  return options;
}

TEST(Learning, EveryMethodAloneGains) {
  const Graph graph = SmallNetwork();
  for (const auto& [weights, activations] : {std::pair{4, 8}, std::pair{4, 4}}) {
    const double plain =
        Snr(graph, LowerToInteger(Learn(graph, LowBits(weights, activations, {}))).graph(), 32);
    for (const RecoveryRow& row : RecoveryTable()) {
      if (row.stage == RecoveryStage::kGraph) continue;
      const QuantizedModel model = Learn(graph, LowBits(weights, activations, {row.name}));
      const Graph integer = LowerToInteger(model).Release();
      VerifyGraph(integer);
      const double got = Snr(graph, integer, 32);
      // The steps of activations hardly limit the accuracy of 8 bits.
      const double least = row.stage >= RecoveryStage::kChoose ? -0.3 : -0.5;
      EXPECT_GT(got, plain + least) << row.name << " " << weights << " " << activations;
      if (row.stage == RecoveryStage::kMeasure) continue;
      ASSERT_EQ(model.record.recovery.size(), 1u);
      EXPECT_EQ(model.record.recovery[0].method, row.name);
      EXPECT_GT(model.record.recovery[0].after_db, model.record.recovery[0].before_db - 0.1)
          << row.name;
    }
  }
}

/// Squares of the values, or products of the values before a layer with those behind it, exceed
/// what a float holds.
TEST(Learning, EveryMethodTakesValuesWhoseProductsOverflow) {
  for (const auto& [before, within] : {std::pair{1e20f, 1.0f}, std::pair{1e30f, 1.0f},
                                       std::pair{1e-24f, 1.0f}, std::pair{1e14f, 1e20f}}) {
    Builder b;
    Noise noise(7);
    Value* x = b.Input("x", {1, 2, 5, 5});
    Value* scaled = b.Op("Mul", {x, b.Const("before", Tensor::Scalar(before))}, "scaled");
    Value* read = b.Op("Abs", {scaled}, "read");  // no pass moves the factor through it
    Value* first = b.Op("Conv", {read, b.Const("w", noise.Make({4, 2, 2, 2}, within))}, "first");
    b.graph.AddOutput(b.Conv(b.Op("Relu", {first}, "r"), "last", {3, 4, 3, 3}, 0, noise));
    for (const RecoveryRow& row : RecoveryTable()) {
      SCOPED_TRACE(StrCat(before, ", ", within, ", ", row.name));
      QuantizeOptions options = LowBits(4, 8, {row.name});
      options.recover_steps = 3;
      const QuantizedModel model = Learn(b.graph, options, 18);
      const Tensor out = Interpret(LowerToInteger(model).graph(), RandomFeeds(b.graph, 1))[0];
      for (const float value : out.values<float>()) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST(Learning, ReconstructionBeatsNearest) {
  const Graph graph = SmallNetwork();
  const auto snr = [&](std::vector<std::string> recover) {
    return Snr(graph, LowerToInteger(Learn(graph, LowBits(3, 8, std::move(recover)), 64)).graph(),
               64);
  };
  const double plain = snr({});
  EXPECT_GT(snr({"adaround"}), plain + 1.5);
  EXPECT_GT(snr({"block_reconstruction"}), plain + 1.5);
}

TEST(Learning, StepsAndDeterminism) {
  const Graph graph = SmallNetwork();
  QuantizeOptions options = LowBits(4, 4, {"adaround", "learned_steps"});
  options.recover_steps = 4;
  std::string first;
  for (int round = 0; round < 2; ++round) {
    Quantizer quantizer(FloatModel(graph), options);
    for (int i = 0; i < 8; ++i) quantizer.Keep(RandomFeeds(graph, static_cast<uint32_t>(i)));
    Calibrate(quantizer, quantizer.graph(), 8);
    int steps = 0;
    std::set<std::string> methods;
    for (FinishProgress progress; !progress.finished; ++steps) {
      progress = quantizer.Step();
      methods.insert(progress.method);
      EXPECT_LE(progress.done, progress.total);
    }
    EXPECT_GT(steps, 10);
    EXPECT_EQ(methods, (std::set<std::string>{"round", "adaround", "learned_steps"}));
    const std::string json = RecordToJson(quantizer.Finish().record);
    if (round == 0) first = json;
    EXPECT_EQ(json, first);
  }
}

TEST(Learning, BatchesChangeWhatIsLearnedAndLargerOnesTakeAllSamples) {
  const Graph graph = SmallNetwork();
  const auto learned = [&](int64_t batch) {
    QuantizeOptions options = LowBits(3, 8, {"adaround"});
    options.recover_steps = 40;
    options.recover_batch = batch;
    return RecordToJson(Learn(graph, options, 16).record);
  };
  const std::string own = learned(0);
  EXPECT_NE(learned(1), own);
  EXPECT_NE(learned(20), own);
  EXPECT_EQ(learned(20), learned(20));
}

/// Images of 256 kB, of which 16 kB are left behind the first two layers.
Graph NarrowingNetwork() {
  Builder b;
  Noise noise(9);
  Value* x = b.Input("x", {1, 4, 128, 128});
  Value* first = b.Op("Relu", {b.Conv(x, "c1", {4, 4, 3, 3}, 1, noise)}, "r1");
  Value* second = b.Op("Relu", {b.Conv(first, "c2", {4, 4, 4, 4}, 0, noise, 1, 4)}, "r2");
  Value* third = b.Op("Relu", {b.Conv(second, "c3", {4, 4, 3, 3}, 1, noise)}, "r3");
  b.graph.AddOutput(b.Conv(third, "c4", {4, 4, 3, 3}, 1, noise));
  return std::move(b.graph);
}

TEST(Learning, BlocksOfSmallImagesTakeMoreSamples) {
  const Graph graph = NarrowingNetwork();
  const auto learned = [&](int64_t megabytes) {
    QuantizeOptions options = LowBits(4, 8, {"block_reconstruction"});
    options.recover_steps = 8;
    options.recover_memory = megabytes;
    return Learn(graph, options, 40).record;
  };
  const QuantizationRecord little = learned(12);
  // 12 MB hold 23 samples of 2 x 256 + 16 kB, and all 40 of 3 x 16 kB.
  EXPECT_NE(little.recovery[0].detail.find("on 23 to 40 samples"), std::string::npos)
      << little.recovery[0].detail;
  EXPECT_TRUE(little.warnings.empty());
  EXPECT_EQ(RecordToJson(learned(12)), RecordToJson(little));
  EXPECT_NE(learned(0).recovery[0].detail.find("on 40 samples"), std::string::npos);
}

TEST(Learning, SamplesThatDoNotFitAreReported) {
  Builder b;
  Noise noise(10);
  Value* x = b.Input("x", {1, 4, 128, 128});
  Value* first = b.Op("Relu", {b.Conv(x, "c1", {4, 4, 3, 3}, 1, noise)}, "r1");
  b.graph.AddOutput(b.Conv(first, "c2", {4, 4, 3, 3}, 1, noise));
  const auto warnings = [&](int64_t samples) {
    QuantizeOptions options = LowBits(4, 8, {"block_reconstruction"});
    options.recover_steps = 1;
    options.recover_samples = samples;
    options.recover_memory = 2;
    return Learn(b.graph, options, 12).record.warnings;
  };
  // 2 MB hold eight images of 256 kB, and two samples of 3 x 256 kB.
  const std::vector<std::string> of_blocks = warnings(8);
  ASSERT_EQ(of_blocks.size(), 1u);
  EXPECT_NE(of_blocks[0].find("used 2 of 8 samples"), std::string::npos) << of_blocks[0];
  const std::vector<std::string> of_images = warnings(10);
  ASSERT_EQ(of_images.size(), 2u);
  EXPECT_NE(of_images[0].find("work on 8 of 10 samples"), std::string::npos) << of_images[0];
}

TEST(Rewriting, KeepsTheFunction) {
  // conv - relu - depthwise - relu - conv, with channels of very different size.
  Builder b;
  Noise noise(5);
  Value* x = b.Input("x", {1, 3, 8, 8});
  const auto uneven = [](Value* weights, float factor) {
    Tensor tensor = weights->constant.Clone();
    const int64_t each = tensor.count() / tensor.dim(0);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      tensor.data<float>()[i] *= (i / each) % 4 == 0 ? factor : 1.0f;
    }
    weights->constant = tensor;
  };
  Value* a = b.Op("Relu", {b.Conv(x, "c1", {16, 3, 3, 3}, 1, noise)}, "r1");
  Value* d = b.Op("Relu", {b.Conv(a, "c2", {16, 1, 3, 3}, 1, noise, 16)}, "r2");
  b.graph.AddOutput(b.Conv(d, "c3", {4, 16, 1, 1}, 0, noise));
  uneven(b.graph.FindValue("c1_w"), 30);
  uneven(b.graph.FindValue("c2_w"), 1.0f / 30);
  const Graph& graph = b.graph;
  for (const char* method : {"equalize", "channel_split"}) {
    QuantizeOptions options;
    options.recover = {method};
    options.global.weights.per_channel = false;
    const QuantizedModel model = Learn(graph, options, 16);
    EXPECT_GT(Snr(graph, model.float_graph), 100) << method;
    options.recover = {};
    const double plain = Snr(graph, LowerToInteger(Learn(graph, options, 16)).graph());
    const double got = Snr(graph, LowerToInteger(model).graph());
    EXPECT_GT(got, plain + (std::string(method) == "equalize" ? 3 : -1)) << method;
    ASSERT_EQ(model.record.recovery.size(), 1u);
    const RecoveryStep& gain = model.record.recovery[0];
    EXPECT_FALSE(gain.detail.empty());
    EXPECT_GT(gain.before_db, 10) << method;
    if (std::string(method) == "equalize") {
      EXPECT_GT(gain.after_db, gain.before_db + 3);
    }
  }
  // Outliers among the input channels of a layer without groups.
  Builder plain;
  Value* first = plain.Op(
      "Relu", {plain.Conv(plain.Input("x", {1, 3, 8, 8}), "c1", {16, 3, 3, 3}, 1, noise)}, "r1");
  plain.graph.AddOutput(plain.Conv(first, "c2", {8, 16, 1, 1}, 0, noise));
  Tensor outlier = plain.graph.FindValue("c2_w")->constant.Clone();
  for (int64_t row = 0; row < 8; ++row) outlier.data<float>()[row * 16 + 5] *= 12;
  plain.graph.FindValue("c2_w")->constant = outlier;
  QuantizeOptions splitting;
  splitting.recover = {"channel_split"};
  splitting.global.weights.bits = 4;
  const QuantizedModel split = Learn(plain.graph, splitting, 16);
  EXPECT_GT(Snr(plain.graph, split.float_graph), 100);
  ASSERT_EQ(split.record.recovery.size(), 1u);
  EXPECT_NE(split.record.recovery[0].detail.find("1 channels split"), std::string::npos);
  EXPECT_GT(split.record.recovery[0].after_db, split.record.recovery[0].before_db + 0.3);
  // A ReLU6 becomes a Relu, and the record reports it.
  Graph clipped = SmallNetwork();
  QuantizeOptions options;
  options.recover = {"equalize"};
  EXPECT_GT(Snr(clipped, Learn(clipped, options, 8).float_graph), 100);
  options.recover = {"equalize_relu6"};
  const QuantizedModel model = Learn(clipped, options, 8);
  EXPECT_NE(model.record.recovery[0].detail.find("1 clips"), std::string::npos);
  VerifyGraph(model.float_graph);
}

TEST(GivenScales, ReplaceCalibration) {
  const Graph graph = SmallNetwork();
  QuantizeOptions options;
  options.recover = {};
  const QuantizedModel model = Learn(graph, options);
  QuantizeOptions given = options;
  for (const TensorQuantizationConfig& config : model.record.configs) {
    if (config.scale.empty() || config.state == QuantizationState::kPassiveBaked) continue;
    given.scales[config.value] = {config.scale, config.offset};
  }
  given.scales["nobody"] = {{1}, {}};
  Quantizer quantizer(FloatModel(graph), given);
  EXPECT_TRUE(quantizer.observed_values(0).empty());
  const QuantizedModel again = quantizer.Finish();  // no sample needed
  EXPECT_EQ(LargestDifference(LowerToInteger(model).graph(), LowerToInteger(again).graph()), 0);
  ASSERT_EQ(again.record.warnings.size(), 1u);
  EXPECT_NE(again.record.warnings[0].find("nobody"), std::string::npos);

  QuantizeOptions bad = options;
  bad.scales["x"] = {{-1}, {}};
  EXPECT_THROW(Quantizer(FloatModel(graph), bad), Error);
  bad.scales["x"] = {{0.1f}, {999}};
  EXPECT_THROW(Learn(graph, bad), Error);
  bad.scales = {{"conv1_w", {{0.1f, 0.2f}, {}}}};
  EXPECT_THROW(Learn(graph, bad), Error);
}

TEST(HardData, GivesWarningsOrErrorsNeverUselessScales) {
  const Graph graph = SmallNetwork();
  const auto quantize = [&](float value, const char* observer) {
    QuantizeOptions options;
    options.global.activations.observer = observer;
    Quantizer quantizer(FloatModel(graph), options);
    Tensor constant(DType::kFloat32, {1, 3, 8, 8});
    for (int64_t i = 0; i < constant.count(); ++i) constant.data<float>()[i] = value;
    for (int pass = 0; pass < quantizer.passes(); ++pass) {
      TensorMap seen = {{"x", constant}};
      if (pass == 0) quantizer.Keep(seen);
      InterpretOptions watch;
      watch.observe = [&](const Value& v, const Tensor& tensor) { seen[v.name] = tensor; };
      Interpret(graph, {{"x", constant}}, watch);
      for (const std::string& name : quantizer.observed_values(pass)) {
        quantizer.Observe(pass, name, seen.at(name));
      }
      quantizer.EndSample(pass);
    }
    return quantizer.Finish();
  };
  for (const ObserverRow& row : ObserverTable()) {
    for (const float value : {0.0f, 1e-40f, 1e-25f, 3.0f, 1e12f}) {
      const QuantizedModel model = quantize(value, row.name);
      for (const TensorQuantizationConfig& config : model.record.configs) {
        for (const float scale : config.scale) {
          EXPECT_TRUE(scale > 0 && std::isfinite(scale)) << row.name << " " << value;
        }
      }
      VerifyGraph(LowerToInteger(model).graph());
      if (value < 1e-20f) {
        EXPECT_FALSE(model.record.warnings.empty()) << row.name << " " << value;
      }
    }
  }
}

TEST(Analysis, SaysWhatCostsWhat) {
  const Graph graph = SmallNetwork();
  QuantizeOptions options;
  options.analyze = true;
  options.by_name["conv3_node"].weights.bits = 2;
  const std::string json = RecordToJson(Learn(graph, options, 12).record);
  const size_t at = json.find("\"analysis\":");
  ASSERT_NE(at, std::string::npos);
  EXPECT_NE(json.find("\"noise\":{\"8\":", at), std::string::npos);
  const auto number = [&](const std::string& name, const std::string& key) {
    const size_t object = json.find("\"name\":\"" + name + "\"", at);
    const size_t place = json.find("\"" + key + "\":", object);
    return std::stod(json.substr(place + key.size() + 3));
  };
  // The layer with two bits is the worst alone; eight bits cost less than four, four less than two.
  EXPECT_LT(number("conv3_node", "aloneSnr"), 20);
  EXPECT_GT(number("conv1_node", "aloneSnr"), 35);
  for (const char* node : {"conv1_node", "conv2_node", "conv3_node", "y_node"}) {
    EXPECT_LT(number(node, "8"), number(node, "4")) << node;
    EXPECT_LT(number(node, "4"), number(node, "2")) << node;
  }
}

}  // namespace
}  // namespace requant
