// Weights and activations of one bit: -1 and 1 with the mean magnitude as their scale (XNOR-Net,
// DoReFa-Net), and 0 and 1. The oracle is a loop in double over the codes.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/verify.h"
#include "quant/lower/expand_signs.h"
#include "quant/model.h"

namespace requant {
namespace {

const TensorQuantizationConfig& Weights(const QuantizedModel& model, const std::string& node) {
  const int index = model.record.operators.at(node).inputs[1];
  return model.record.configs[static_cast<size_t>(index)];
}

/// conv, conv, conv: each reads what the one before writes, and the last one writes floats.
struct Chain {
  int64_t channels, size, kernel, pad, stride, group;
  bool relu;
  Graph Make(uint32_t seed) const {
    Builder b;
    Noise noise(seed);
    Value* x = b.Input("x", {1, channels, size, size + 1});
    for (const char* name : {"first", "second", "third"}) {
      x = b.Conv(x, name, {channels, channels / group, kernel, kernel}, pad, noise, group, stride);
      if (relu && std::string(name) != "third") x = b.Op("Relu", {x}, std::string(name) + "_relu");
    }
    b.graph.AddOutput(x);
    return std::move(b.graph);
  }
};

constexpr Chain kChains[] = {{8, 9, 3, 1, 1, 1, false},  {32, 7, 3, 1, 1, 1, false},
                             {8, 13, 3, 1, 1, 8, false}, {33, 5, 1, 0, 1, 1, false},
                             {6, 17, 3, 0, 2, 2, false}, {16, 8, 3, 1, 1, 1, true},
                             {5, 15, 5, 2, 1, 5, true},  {40, 6, 1, 0, 1, 1, true}};

struct Codes {
  Shape shape;
  std::vector<int64_t> codes;  // 0 lies outside of an image
  double scale = 1;
};

/// The codes of real numbers, as the definition says.
Codes Quantize(const std::vector<double>& x, const Shape& shape,
               const TensorQuantizationConfig& config) {
  Codes out{shape, {}, static_cast<double>(config.scale[0])};
  for (const double value : x) {
    if (config.bipolar()) {
      out.codes.push_back(value >= config.threshold * out.scale ? 1 : -1);
    } else {
      const double code = std::nearbyint(value / out.scale) + config.offset[0];
      const auto low = static_cast<double>(config.quant_min);
      const auto high = static_cast<double>(config.quant_max);
      out.codes.push_back(static_cast<int64_t>(std::fmin(std::fmax(code, low), high)) -
                          config.offset[0]);
    }
  }
  return out;
}

/// The convolution of codes, and the bias, as real numbers.
std::vector<double> Convolve(const Codes& x, const Node& node, const QuantizedModel& model,
                             Shape& shape) {
  const OperatorQuantization& op = model.record.operators.at(node.name);
  const TensorQuantizationConfig& w = Weights(model, node.name);
  const Tensor& bias = model.record.configs[static_cast<size_t>(op.inputs[2])].baked;
  const Shape& k = w.baked.shape();
  const int64_t pad = node.attributes.Ints("pads")[0];
  const int64_t stride = node.attributes.Ints("strides")[0];
  const int64_t group = node.attributes.Int("group", 1);
  const int64_t height = x.shape[2], width = x.shape[3];
  shape = {1, k[0], (height + 2 * pad - k[2]) / stride + 1, (width + 2 * pad - k[3]) / stride + 1};
  std::vector<double> out;
  for (int64_t o = 0; o < k[0]; ++o) {
    const double unit = x.scale * w.ScaleOfRow(o);
    const int64_t first = o / (k[0] / group) * k[1];
    for (int64_t y = 0; y < shape[2]; ++y) {
      for (int64_t z = 0; z < shape[3]; ++z) {
        int64_t sum = bias.AsInt64(o);  // in units of the products, so that sums of 0 are exact
        for (int64_t i = 0; i < k[1] * k[2] * k[3]; ++i) {
          const int64_t at_y = y * stride + i / k[3] % k[2] - pad;
          const int64_t at_z = z * stride + i % k[3] - pad;
          if (at_y < 0 || at_z < 0 || at_y >= height || at_z >= width) continue;
          const int64_t channel = first + i / (k[2] * k[3]);
          sum += x.codes[static_cast<size_t>((channel * height + at_y) * width + at_z)] *
                 w.baked.AsInt64(o * k[1] * k[2] * k[3] + i);
        }
        out.push_back(static_cast<double>(sum) * unit);
      }
    }
  }
  return out;
}

QuantizedModel Quantized(const Graph& graph, int weights, int activations, bool symmetric,
                         bool per_channel = true, std::vector<std::string> recover = {}) {
  QuantizeOptions options;
  options.global.weights.bits = weights;
  options.global.weights.per_channel = per_channel;
  options.global.activations.bits = activations;
  options.global.activations.symmetric = symmetric;
  options.float_outputs = true;
  options.recover = std::move(recover);
  return QuantizeGraph(graph, options);
}

TEST(OneBit, WeightsAreSignsTimesTheMeanMagnitude) {
  for (const bool per_channel : {true, false}) {
    for (const Chain& chain : kChains) {
      const Graph graph = chain.Make(3);
      const QuantizedModel model = Quantized(graph, 1, 8, false, per_channel);
      for (const char* name : {"first", "second", "third"}) {
        const Tensor& real = graph.FindValue(StrCat(name, "_w"))->constant;
        const TensorQuantizationConfig& config = Weights(model, StrCat(name, "_node"));
        EXPECT_EQ(config.bits, 1);
        const auto scales = static_cast<int64_t>(config.scale.size());
        ASSERT_EQ(scales, per_channel ? chain.channels : 1);
        const int64_t row = real.count() / scales;
        for (int64_t channel = 0; channel < scales; ++channel) {
          double sum = 0;
          for (int64_t i = channel * row; i < (channel + 1) * row; ++i) {
            sum += std::fabs(real.AsDouble(i));
            EXPECT_EQ(config.baked.AsInt64(i), real.AsDouble(i) >= 0 ? 1 : -1);
          }
          EXPECT_NEAR(config.scale[static_cast<size_t>(channel)], sum / static_cast<double>(row),
                      1e-6 * sum);
        }
      }
    }
  }
}

/// The integer model computes what its definition says: signs of convolutions of signs.
TEST(OneBit, IntegersAreThoseOfTheDefinition) {
  struct Form {
    int activations;
    bool symmetric;
  };
  int64_t elements = 0;
  int64_t different = 0;
  for (const Form& form : {Form{8, false}, Form{4, false}, Form{2, false}, Form{1, false},
                           Form{1, true}, Form{2, true}}) {
    for (const Chain& chain : kChains) {
      SCOPED_TRACE(StrCat("A", form.activations, form.symmetric ? "s " : " ", chain.channels));
      const Graph graph = chain.Make(5);
      const QuantizedModel model = Quantized(graph, 1, form.activations, form.symmetric);
      const Graph integer = LowerToInteger(model).Release();
      VerifyGraph(integer);
      for (uint32_t seed = 0; seed < 3; ++seed) {
        const TensorMap feeds = RandomFeeds(graph, 50 + seed);
        const Tensor& input = feeds.at("x");
        std::vector<double> values = input.ToDoubles();
        Shape shape = input.shape();
        for (const char* name : {"first_node", "second_node", "third_node"}) {
          const Node& node = *model.float_graph.FindNode(name);
          const int slot = model.record.operators.at(name).inputs[0];
          if (chain.relu && std::string(name) != "first_node") {
            for (double& value : values) value = std::fmax(value, 0);
          }
          const Codes codes = Quantize(values, shape, model.record.Root(slot));
          values = Convolve(codes, node, model, shape);
        }
        const std::vector<double> got = Interpret(integer, feeds)[0].ToDoubles();
        ASSERT_EQ(got.size(), values.size());
        double size = 0;
        for (const double value : values) size = std::fmax(size, std::fabs(value));
        for (size_t i = 0; i < got.size(); ++i) {
          ++elements;
          // Multipliers are fixed-point numbers, which decide sums close to a tie of two codes.
          different += std::fabs(got[i] - values[i]) > 1e-5 * size;
          if (form.activations == 1 && form.symmetric && !chain.relu) {
            EXPECT_NEAR(got[i], values[i], 1e-5 * size);
          }
        }
      }
    }
  }
  EXPECT_LT(static_cast<double>(different), 0.02 * static_cast<double>(elements));
}

TEST(OneBit, RecoveryKeepsSigns) {
  const Graph graph = kChains[0].Make(7);
  for (const char* method :
       {"equalize", "channel_split", "equalize_activations", "round_weights", "bias_correction",
        "adaround", "learned_steps", "block_reconstruction", "empirical_bias"}) {
    for (const bool signs : {false, true}) {
      SCOPED_TRACE(StrCat(method, signs ? " A1" : " A8"));
      const QuantizedModel model = Quantized(graph, 1, signs ? 1 : 8, signs, true, {method});
      VerifyGraph(LowerToInteger(model).graph());
      for (const auto& node : model.float_graph.nodes()) {
        if (!node->Is(Op::kConv)) continue;
        const Tensor& codes = Weights(model, node->name).baked;
        for (int64_t i = 0; i < codes.count(); ++i) EXPECT_EQ(std::abs(codes.AsInt64(i)), 1);
      }
    }
  }
}

/// Error feedback between two codes brings the outputs of layers closer to the float ones.
TEST(OneBit, ErrorFeedbackGains) {
  for (const Chain& chain : kChains) {
    const QuantizedModel model = Quantized(chain.Make(9), 1, 8, false, true, {"round_weights"});
    ASSERT_EQ(model.record.recovery.size(), 1U);
    EXPECT_GE(model.record.recovery[0].after_db, model.record.recovery[0].before_db + 0.1);
  }
}

/// Signs of values that are never negative begin at one step, and biases make up for their mean.
TEST(OneBit, SignsBehindRelu) {
  const Graph graph = kChains[7].Make(11);
  const QuantizedModel signs = Quantized(graph, 8, 1, true);
  const QuantizedModel bits = Quantized(graph, 8, 1, false);
  const auto config = [](const QuantizedModel& model, const char* name) {
    return model.record.Root(model.record.operators.at(name).inputs[0]);
  };
  EXPECT_EQ(config(signs, "first_node").threshold, 0);
  EXPECT_EQ(config(signs, "second_node").threshold, 1);
  EXPECT_FLOAT_EQ(2 * config(signs, "second_node").scale[0], config(bits, "second_node").scale[0]);
  // The last layer has no zeros around its image: both say the same of what it reads.
  EXPECT_GT(Snr(graph, LowerToInteger(signs).graph()), 1);
  EXPECT_NE(RecordToJson(signs.record).find("\"threshold\":1"), std::string::npos);
}

TEST(OneBit, ExpansionIsUndoneByContraction) {
  for (const Chain& chain : kChains) {
    const QuantizedModel model = Quantized(chain.Make(13), 1, 1, true);
    ASSERT_NE(model.record.expand_signs, nullptr);
    QuantizedModel expanded = ExpandSigns(model);
    EXPECT_EQ(expanded.record.expand_signs, nullptr);
    VerifyGraph(expanded.float_graph);
    EXPECT_GE(CountOps(expanded.float_graph, "Add"), 3);
    ContractSigns(expanded);
    ASSERT_NE(expanded.record.expand_signs, nullptr);
    EXPECT_EQ(CountOps(expanded.float_graph, "Add"), 0);
    EXPECT_EQ(LargestDifference(LowerToInteger(model).graph(), LowerToInteger(expanded).graph()),
              0);
  }
}

TEST(OneBit, WhatSignsDoNotHaveIsRefused) {
  const Graph graph = kChains[0].Make(1);
  const auto refused = [&](const auto& change, const char* what) {
    QuantizeOptions options;
    options.global.weights.bits = 1;
    options.global.activations.bits = 1;
    options.global.activations.symmetric = true;
    change(options.global);
    try {
      QuantizeGraph(graph, options);
      ADD_FAILURE() << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << what;
      EXPECT_NE(error.context().value.find(what), std::string::npos) << error.context().value;
    }
  };
  refused([](auto& all) { all.weights.formula = ScaleFormula::kGoogle; }, "weights.formula");
  refused([](auto& all) { all.activations.formula = ScaleFormula::kCambricon; },
          "activations.formula");
  refused([](auto& all) { all.weights.rounding = RoundingPolicy::kHalfUp; }, "weights.rounding");
  refused([](auto& all) { all.weights.full_range = true; }, "weights.fullRange");
  refused([](auto& all) { all.activations.per_channel = true; }, "activations.perChannel");
  refused([](auto& all) { all.weights.bits = 0; }, "weights.bits");
}

}  // namespace
}  // namespace requant
