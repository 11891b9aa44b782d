// Activation equalization on networks whose channels differ by far. The judge is the float network
// before it, computed by the interpreter, and a product in double precision.
#include "quant/recover/equalize/scaling_groups.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quant/model.h"

namespace requant {
namespace {

/// As Calibrate of model.h, but with the network that the quantizer has changed meanwhile.
QuantizedModel Equalized(const Graph& graph, const std::vector<std::string>& recover) {
  QuantizeOptions options;
  options.recover = recover;
  Quantizer quantizer(FloatModel(graph), options);
  for (int pass = 0; pass < quantizer.passes(); ++pass) {
    for (uint32_t i = 0; i < 16; ++i) {
      const TensorMap feeds = RandomFeeds(graph, 100 + i);
      if (pass == 0) quantizer.Keep(feeds);
      if (quantizer.wants_sample(pass)) {
        const std::vector<std::string> names = quantizer.observed_values(pass);
        TensorMap seen = feeds;
        InterpretOptions watch;
        watch.observe = [&](const Value& value, const Tensor& tensor) {
          seen[value.name] = tensor;
        };
        Interpret(quantizer.graph(), feeds, watch);
        for (const std::string& name : names) quantizer.Observe(pass, name, seen.at(name));
      }
      quantizer.EndSample(pass);
    }
  }
  return quantizer.Finish();
}

/// LayerNormalization with three channels that are fifty times the others (as large language models
/// have them, Xiao et al. 2023, figure 1), one head of attention and an MLP behind a second one.
Graph OutlierTransformer() {
  Builder b(17);
  Noise noise(4);
  constexpr int64_t kWidth = 32;
  Value* x = b.Input("x", {2, 6, kWidth});
  const auto normalize = [&](Value* in, const std::string& name) {
    Tensor gain = noise.Make({kWidth}, 0.1f, 1);
    for (const int64_t channel : {3, 17, 30}) gain.data<float>()[channel] *= 50;
    AttributeMap last;
    last.Set("axis", int64_t{-1});
    return b.Op("LayerNormalization",
                {in, b.Const(name + "_gain", gain), b.Const(name + "_shift", noise.Make({kWidth}))},
                name, last);
  };
  const auto dense = [&](Value* in, const std::string& name, int64_t from, int64_t to) {
    Tensor weights = noise.Make({from, to}, 0.2f);
    if (from == kWidth) {  // what meets an outlier is small, or nothing else would be heard
      for (const int64_t row : {3, 17, 30}) {
        for (int64_t i = 0; i < to; ++i) weights.data<float>()[row * to + i] *= 0.05f;
      }
    }
    return b.Op("MatMul", {in, b.Const(name + "_w", weights)}, name);
  };
  Value* normal = normalize(x, "first");
  AttributeMap swap;
  swap.Set("perm", std::vector<int64_t>{0, 2, 1});
  Value* key = b.Op("Transpose", {dense(normal, "key", kWidth, 8)}, "turned", swap);
  Value* scores = b.Op("MatMul", {dense(normal, "query", kWidth, 8), key}, "scores");
  Value* mixed =
      b.Op("MatMul", {b.Op("Softmax", {scores}, "weights"), dense(normal, "value", kWidth, 16)},
           "mixed");
  Value* residual = b.Op("Add", {x, dense(mixed, "project", 16, kWidth)}, "residual");
  Value* hidden = dense(normalize(residual, "second"), "hidden", kWidth, 64);
  b.graph.AddOutput(dense(b.Op("Gelu", {hidden}, "gelu"), "y", 64, kWidth));
  b.graph.opsets[""] = 20;
  return std::move(b.graph);
}

TEST(EqualizeActivations, OutlierChannelsOfATransformer) {
  const Graph graph = OutlierTransformer();
  const Quantizer typed(FloatModel(graph), {});
  const std::vector<ScalingGroup> groups = FindScalingGroups(typed.graph());
  ASSERT_EQ(groups.size(), 2u);  // the two normalizations
  const QuantizedModel plain = Equalized(graph, {});
  const QuantizedModel equal = Equalized(graph, {"equalize_activations"});
  // The float function stays, up to the rounding of its new constants.
  EXPECT_GT(Snr(graph, equal.float_graph), 100);
  const double before = Snr(graph, LowerToInteger(plain).graph());
  const double after = Snr(graph, LowerToInteger(equal).graph());
  EXPECT_GT(after, before + 6) << before << " dB";
  ASSERT_EQ(equal.record.recovery.size(), 1u);
  const RecoveryStep& step = equal.record.recovery[0];
  EXPECT_EQ(step.method, "equalize_activations");
  EXPECT_GT(step.after_db, step.before_db + 6);
  EXPECT_NE(step.detail.find("of 2 groups"), std::string::npos) << step.detail;
}

/// One product by hand: with the factors that the constants show, x W in double precision is the
/// same, and its error on the grids of both is the one that shrinks.
TEST(EqualizeActivations, ProductInDouble) {
  const Graph graph = OutlierTransformer();
  const QuantizedModel equal = Equalized(graph, {"equalize_activations"});
  const Tensor& gain = graph.FindNode("first_node")->inputs[1]->constant;
  const Tensor& new_gain = equal.float_graph.FindNode("first_node")->inputs[1]->constant;
  const Tensor& weights = graph.FindNode("query_node")->inputs[1]->constant;
  const Tensor& new_weights = equal.float_graph.FindNode("query_node")->inputs[1]->constant;
  double most = 0;
  double least = 1e30;
  for (int64_t c = 0; c < 32; ++c) {
    const double factor = new_gain.AsDouble(c) / gain.AsDouble(c);
    most = std::max(most, factor);
    least = std::min(least, factor);
    for (int64_t i = 0; i < 8; ++i) {
      const double wanted = weights.AsDouble(c * 8 + i);
      EXPECT_NEAR(new_weights.AsDouble(c * 8 + i) * factor, wanted, 1e-6 * std::fabs(wanted));
    }
  }
  EXPECT_GT(most / least, 4);
}

/// Convolutions, a depthwise one between clips, and a residual sum: channels that the clip never
/// touches grow up to it, and no further.
TEST(EqualizeActivations, ThroughClipsAndSums) {
  Builder b;
  Noise noise(8);
  Value* x = b.Input("x", {1, 3, 8, 8});
  const auto clip = [&](Value* in, const std::string& name) {
    return b.Op("Clip",
                {in, b.Const(name + "_low", Tensor::Scalar(0.0f)),
                 b.Const(name + "_high", Tensor::Scalar(6.0f))},
                name);
  };
  const auto shrink = [&](const std::string& name) {  // every other channel is nearly nothing
    for (const char* part : {"_w", "_b"}) {
      Value* value = b.graph.FindValue(name + part);
      const int64_t each = value->constant.count() / 8;
      for (int64_t i = 0; i < value->constant.count(); ++i) {
        if (i / each % 2 == 0) value->constant.data<float>()[i] *= 0.02f;
      }
    }
  };
  Value* expand = clip(b.Conv(x, "expand", {8, 3, 1, 1}, 0, noise), "clip1");
  shrink("expand");
  Value* depthwise = clip(b.Conv(expand, "depthwise", {8, 1, 3, 3}, 1, noise, 8), "clip2");
  shrink("depthwise");
  Value* project = b.Conv(depthwise, "project", {8, 8, 1, 1}, 0, noise);
  Value* other = b.Conv(x, "other", {8, 3, 1, 1}, 0, noise);
  Value* sum = b.Op("Relu", {b.Op("Add", {project, other}, "sum")}, "relu");
  b.graph.AddOutput(b.Conv(sum, "y", {4, 8, 1, 1}, 0, noise));
  for (const char* name : {"depthwise", "project"}) {  // and what reads them makes up for it
    Tensor& weights = b.graph.FindValue(std::string(name) + "_w")->constant;
    for (int64_t i = 0; i < weights.count(); ++i) {
      const int64_t channel = std::string(name) == "depthwise" ? i / 9 : i % 8;
      if (channel % 2 == 0) weights.data<float>()[i] *= 50;
    }
  }
  const Quantizer typed(FloatModel(b.graph), {});
  const std::vector<ScalingGroup> groups = FindScalingGroups(typed.graph());
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[2].makers.size(), 2u);  // project and other, through the sum
  const QuantizedModel plain = Equalized(b.graph, {});
  const QuantizedModel equal = Equalized(b.graph, {"equalize_activations"});
  EXPECT_GT(Snr(b.graph, equal.float_graph), 60);
  EXPECT_GT(Snr(b.graph, LowerToInteger(equal).graph()),
            Snr(b.graph, LowerToInteger(plain).graph()) + 3);
  EXPECT_EQ(CountOps(LowerToInteger(equal).graph(), "QLinearConv"),
            CountOps(LowerToInteger(plain).graph(), "QLinearConv"));
}

/// A gated block, down(silu(gate(x)) * up(x)), whose product has a few loud channels, as those of
/// trained language models do.
Graph GatedBlock() {
  Builder b;
  Noise noise(5);
  constexpr int64_t kWidth = 24;
  constexpr int64_t kHidden = 48;
  Value* x = b.Input("x", {2, 12, kWidth});
  const auto dense = [&](Value* in, const std::string& name, int64_t from, int64_t to) {
    Tensor weights = noise.Make({from, to});
    for (int64_t i = 0; i < weights.count(); ++i) weights.data<float>()[i] *= 0.3f;
    return b.Op("MatMul", {in, b.Const(name + "_w", weights)}, name);
  };
  Value* normal = b.Op("RMSNormalization", {x, b.Const("gain", noise.Make({kWidth}))}, "normal");
  Value* gate = dense(normal, "gate", kWidth, kHidden);
  Value* silu = b.Op("Mul", {gate, b.Op("Sigmoid", {gate}, "sigmoid")}, "silu");
  Value* up = dense(normal, "up", kWidth, kHidden);
  Value* product = b.Op("Mul", {silu, up}, "product");
  b.graph.AddOutput(dense(product, "y", kHidden, kWidth));
  for (const char* name : {"up_w", "y_w"}) {
    Tensor& weights = b.graph.FindValue(name)->constant;
    const bool is_up = std::string(name) == "up_w";
    for (int64_t i = 0; i < weights.count(); ++i) {
      const int64_t channel = is_up ? i % kHidden : i / kWidth;
      if (channel % 16 == 0) weights.data<float>()[i] *= is_up ? 40.0f : 1 / 40.0f;
    }
  }
  b.graph.opsets[""] = 23;
  return std::move(b.graph);
}

TEST(EqualizeActivations, ThroughTheProductOfAGatedBlock) {
  const Graph graph = GatedBlock();
  const Quantizer typed(FloatModel(graph), {});
  const std::vector<ScalingGroup> groups = FindScalingGroups(typed.graph());
  ASSERT_EQ(groups.size(), 2u);  // behind the normalization, and between up and y
  const auto gated = std::find_if(groups.begin(), groups.end(),
                                  [](const ScalingGroup& group) { return group.channels == 48; });
  ASSERT_NE(gated, groups.end());
  ASSERT_EQ(gated->makers.size(), 1u);
  EXPECT_EQ(gated->makers[0]->inputs[1]->name, "up_w");
  const QuantizedModel plain = Equalized(graph, {});
  const QuantizedModel equal = Equalized(graph, {"equalize_activations"});
  EXPECT_GT(Snr(graph, equal.float_graph), 100);
  EXPECT_GT(Snr(graph, LowerToInteger(equal).graph()),
            Snr(graph, LowerToInteger(plain).graph()) + 6);
}

/// LeakyRelu and PRelu let positive factors through: f(c x) = c f(x).
TEST(EqualizeActivations, ThroughSlopes) {
  for (const std::string type : {"LeakyRelu", "PRelu"}) {
    Builder b;
    Noise noise(4);
    Value* a = b.Conv(b.Input("x", {1, 3, 6, 6}), "a", {4, 3, 1, 1}, 0, noise);
    for (const char* part : {"a_w", "a_b"}) {
      Tensor& values = b.graph.FindValue(part)->constant;
      const int64_t each = values.count() / 4;
      for (int64_t i = 0; i < each; ++i) values.data<float>()[i] *= 50;
    }
    std::vector<Value*> inputs = {a};
    if (type == "PRelu") inputs.push_back(b.Const("slope", noise.Make({4, 1, 1})));
    b.graph.AddOutput(b.Conv(b.Op(type, inputs, "slopes"), "y", {2, 4, 1, 1}, 0, noise));
    const Quantizer typed(FloatModel(b.graph), {});
    EXPECT_EQ(FindScalingGroups(typed.graph()).size(), 1u) << type;
    const QuantizedModel equal = Equalized(b.graph, {"equalize_activations"});
    EXPECT_GT(Snr(b.graph, equal.float_graph), 100) << type;
    ASSERT_EQ(equal.record.recovery.size(), 1u);
    EXPECT_EQ(equal.record.recovery[0].detail, "1 of 1 groups of channels equalized") << type;
  }
}

/// Both operands of a product cannot carry the same factors: their squares would come out.
TEST(EqualizeActivations, ProductsOfOneGroupAreLeftAlone) {
  for (const bool same : {true, false}) {
    Builder b;
    Noise noise(6);
    Value* a = b.Conv(b.Input("x", {1, 3, 4, 4}), "a", {4, 3, 1, 1}, 0, noise);
    Value* other = same ? a : b.Op("Relu", {a}, "relu");
    b.graph.AddOutput(b.Conv(b.Op("Mul", {a, other}, "square"), "y", {2, 4, 1, 1}, 0, noise));
    const Quantizer typed(FloatModel(b.graph), {});
    EXPECT_TRUE(FindScalingGroups(typed.graph()).empty());
  }
}

/// Values that a graph output, a constant operand or a second kind of axis meets are left alone.
TEST(EqualizeActivations, WhatStopsIt) {
  for (const char* what : {"nothing", "output", "sigmoid", "bias"}) {
    Builder b;
    Noise noise(2);
    Value* a = b.Conv(b.Input("x", {1, 3, 4, 4}), "a", {4, 3, 1, 1}, 0, noise);
    const std::string kind = what;
    Value* read = kind == "sigmoid" ? b.Op("Sigmoid", {a}, "between")
                  : kind == "bias"
                      ? b.Op("Add", {a, b.Const("c", noise.Make({1, 4, 1, 1}))}, "between")
                      : a;
    b.graph.AddOutput(b.Conv(read, "y", {2, 4, 1, 1}, 0, noise));
    if (kind == "output") b.graph.AddOutput(a);
    const Quantizer typed(FloatModel(b.graph), {});
    EXPECT_EQ(FindScalingGroups(typed.graph()).empty(), kind != "nothing") << what;
  }
}

/// A sum with an operand that lets no factors through spoils all that is added to it later, from
/// whichever layer one looks.
TEST(EqualizeActivations, ChainsBehindWhatStopsIt) {
  Builder b;
  Noise noise(3);
  Value* x = b.Input("x", {1, 3, 4, 4});
  Value* other = b.Op("Sigmoid", {b.Conv(x, "q", {4, 3, 1, 1}, 0, noise)}, "other");
  Value* first = b.Op("Add", {b.Conv(x, "p", {4, 3, 1, 1}, 0, noise), other}, "first");
  Value* relu = b.Op("Relu", {first}, "relu");
  Value* second = b.Op("Add", {b.Conv(relu, "c", {4, 4, 1, 1}, 0, noise), relu}, "second");
  b.graph.AddOutput(b.Conv(second, "y", {2, 4, 1, 1}, 0, noise));
  const Quantizer typed(FloatModel(b.graph), {});
  EXPECT_TRUE(FindScalingGroups(typed.graph()).empty());
  const QuantizedModel equal = Equalized(b.graph, {"equalize_activations"});
  EXPECT_GT(Snr(b.graph, equal.float_graph), 100);
}

/// A channel that hardly speaks in calibration is given more codes, but not all of them: what it
/// says later would burst them.
TEST(EqualizeActivations, QuietChannelsKeepRoom) {
  Builder b;
  Noise noise(4);
  Value* a = b.Conv(b.Input("x", {1, 4, 4, 4}), "a", {4, 4, 1, 1}, 0, noise);
  b.graph.AddOutput(b.Conv(b.Op("Relu", {a}, "relu"), "y", {2, 4, 1, 1}, 0, noise));
  const auto scale = [&](const char* name, float factor, auto&& is_its) {
    Tensor& constant = b.graph.FindValue(name)->constant;
    for (int64_t i = 0; i < constant.count(); ++i) {
      if (is_its(i)) constant.data<float>()[i] *= factor;
    }
  };
  scale("a_w", 1e-3f, [](int64_t i) { return i / 4 == 3; });
  scale("a_b", 1e-3f, [](int64_t i) { return i == 3; });
  scale("y_w", 1e3f, [](int64_t i) { return i % 4 == 3; });
  const QuantizedModel equal = Equalized(b.graph, {"equalize_activations"});
  const Tensor& before = b.graph.FindValue("a_w")->constant;
  const Tensor& after = equal.float_graph.FindNode("a_node")->inputs[1]->constant;
  const auto factor = [&](int64_t c) { return after.AsDouble(c * 4) / before.AsDouble(c * 4); };
  const double others = std::max({factor(0), factor(1), factor(2)});
  EXPECT_GT(factor(3) / others, 4);
  EXPECT_LT(factor(3) / others, 500);  // a thousand times would fill the range
}

}  // namespace
}  // namespace requant
