// Rounding the layers in turn: against all integers that a small layer could have, and on networks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "quant/model.h"
#include "quant/sim/elements.h"
#include "quant/sim/simulator.h"

namespace requant {
namespace {

constexpr int kSamples = 48;

QuantizedModel Recovered(const Graph& graph, int weights, int activations,
                         std::vector<std::string> recover, int samples = kSamples) {
  QuantizeOptions options;
  options.global.weights.bits = weights;
  options.global.activations.bits = activations;
  options.recover = std::move(recover);
  Quantizer quantizer(FloatModel(graph), options);
  for (int i = 0; i < samples; ++i) {
    quantizer.Keep(RandomFeeds(graph, 100 + static_cast<uint32_t>(i)));
  }
  Calibrate(quantizer, quantizer.graph(), samples);
  return quantizer.Finish();
}

/// The pixels of one image channel, in double precision.
using Channel = std::vector<double>;

/// The mean square of y - q x' - b with the best b, over the pixels of all samples.
double ErrorOf(const std::vector<double>& q, const std::vector<Channel>& x, const Channel& y) {
  double sum = 0;
  double squares = 0;
  for (size_t at = 0; at < y.size(); ++at) {
    double error = y[at];
    for (size_t i = 0; i < q.size(); ++i) error -= q[i] * x[i][at];
    sum += error;
    squares += error * error;
  }
  const auto count = static_cast<double>(y.size());
  return squares / count - sum / count * (sum / count);
}

TEST(SequentialRounding, ComesCloseToTheBestOfAllIntegers) {
  Builder b;
  Noise noise(3);
  Value* x = b.Input("x", {1, 4, 8, 8});
  Value* y = b.Conv(x, "layer", {6, 4, 1, 1}, 0, noise);
  b.graph.AddOutput(y);
  const QuantizedModel model =
      Recovered(b.graph, 3, 3, {"round_weights", "bias_correction", "sequential_rounding"});
  const QuantizedModel plain = Recovered(b.graph, 3, 3, {"round_weights", "bias_correction"});
  const auto& op = model.record.operators.at("layer_node");
  const TensorQuantizationConfig& grid = model.record.Root(op.inputs[0]);

  std::vector<Channel> read(4), wanted(6);
  for (int i = 0; i < kSamples; ++i) {
    const TensorMap feeds = RandomFeeds(b.graph, 100 + static_cast<uint32_t>(i));
    const Tensor rounded = FakeQuantizeTensor(feeds.at("x"), grid);
    const Tensor out = Interpret(b.graph, feeds)[0];
    for (int64_t at = 0; at < 64; ++at) {
      for (int64_t c = 0; c < 4; ++c) {
        read[static_cast<size_t>(c)].push_back(rounded.AsDouble(c * 64 + at));
      }
      for (int64_t c = 0; c < 6; ++c) {
        wanted[static_cast<size_t>(c)].push_back(out.AsDouble(c * 64 + at));
      }
    }
  }
  const auto error = [&](const QuantizedModel& of, int64_t row) {
    const TensorQuantizationConfig& weights =
        of.record.configs[static_cast<size_t>(of.record.operators.at("layer_node").inputs[1])];
    std::vector<double> q;
    for (int64_t i = 0; i < 4; ++i) {
      q.push_back(static_cast<double>(weights.baked.AsInt64(row * 4 + i)) *
                  weights.ScaleOfRow(row));
    }
    return ErrorOf(q, read, wanted[static_cast<size_t>(row)]);
  };
  const TensorQuantizationConfig& weights = model.record.configs[static_cast<size_t>(op.inputs[1])];
  double all = 0, all_plain = 0, all_best = 0;
  for (int64_t row = 0; row < 6; ++row) {
    double best = HUGE_VAL;
    const auto low = weights.quant_min, high = weights.quant_max;
    const double scale = weights.ScaleOfRow(row);
    for (int64_t code = 0; code < 8 * 8 * 8 * 8; ++code) {
      std::vector<double> q;
      for (int64_t i = 0, rest = code; i < 4; ++i, rest /= 8) {
        q.push_back(static_cast<double>(std::min<int64_t>(low + rest % 8, high)) * scale);
      }
      best = std::min(best, ErrorOf(q, read, wanted[static_cast<size_t>(row)]));
    }
    all += error(model, row);
    all_plain += error(plain, row);
    all_best += best;
  }
  // Error feedback decides one weight after the other: not quite the best of 7^4 choices.
  EXPECT_LT(all, 1.15 * all_best);
  EXPECT_LT(all, 0.98 * all_plain);
}

TEST(SequentialRounding, GainsOnNetworks) {
  const Graph graph = SmallNetwork();
  const auto snr = [&](std::vector<std::string> recover) {
    return Snr(graph, LowerToInteger(Recovered(graph, 3, 8, std::move(recover))).graph(), 64);
  };
  const double rounded = snr({"round_weights", "bias_correction"});
  EXPECT_GT(snr({"round_weights", "bias_correction", "sequential_rounding"}), rounded + 1);
  EXPECT_GT(snr({"sequential_rounding"}), rounded + 1);
}

TEST(SequentialRounding, TakesLayersOfEveryForm) {
  Builder b;
  Noise noise(11);
  Value* x = b.Input("x", {2, 4, 9, 7});
  Value* grouped = b.Op("Relu", {b.Conv(x, "grouped", {8, 2, 3, 3}, 1, noise, 2, 2)}, "r1");
  Value* depthwise = b.Op("Relu", {b.Conv(grouped, "depthwise", {8, 1, 3, 3}, 1, noise, 8)}, "r2");
  AttributeMap flat;
  flat.Set("axis", int64_t{1});
  Value* rows = b.Op("Flatten", {depthwise}, "flat", flat);
  Value* product = b.Op("MatMul", {rows, b.Const("w", noise.Make({160, 6}, 0.1f))}, "product");
  b.graph.AddOutput(product);
  const QuantizedModel model = Recovered(b.graph, 4, 8, {"sequential_rounding"});
  EXPECT_NE(model.record.recovery[0].detail.find("of 3 layers improved"), std::string::npos)
      << model.record.recovery[0].detail;
  EXPECT_GT(model.record.recovery[0].after_db, model.record.recovery[0].before_db + 0.5);
  EXPECT_EQ(RecordToJson(Recovered(b.graph, 4, 8, {"sequential_rounding"}).record),
            RecordToJson(model.record));
}

TEST(SequentialRounding, LeavesLayersOfConstantInputs) {
  Builder b;
  Noise noise(12);
  Value* x = b.Input("x", {1, 2, 4, 4});
  // No sample is above 100: the Relu writes zeros.
  Value* zeros = b.Op("Relu", {b.Op("Sub", {x, b.Const("far", Tensor::Scalar(100.0f))}, "s")}, "r");
  b.graph.AddOutput(b.Conv(zeros, "layer", {3, 2, 1, 1}, 0, noise));
  const auto outputs = [&](std::vector<std::string> recover) {
    const QuantizedModel model = Recovered(b.graph, 4, 8, std::move(recover), 20);
    return Interpret(LowerToInteger(model).graph(), RandomFeeds(b.graph, 1))[0];
  };
  EXPECT_TRUE(outputs({"sequential_rounding"}).SameBits(outputs({})));
}

}  // namespace
}  // namespace requant
