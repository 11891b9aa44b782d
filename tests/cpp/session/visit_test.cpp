// Values that a visitor sees while a graph runs equal those that a graph with these outputs
// returns.
#include <gtest/gtest.h>

#include <set>

#include "base/lcg.h"
#include "passes/runner.h"
#include "session/session.h"
#include "session/taps.h"

namespace requant {
namespace {

Tensor Filled(Shape shape, uint32_t seed) {
  Tensor out(DType::kFloat32, std::move(shape));
  Lcg random{seed};
  for (int64_t i = 0; i < out.count(); ++i) {
    out.data<float>()[i] = static_cast<float>(random.Next() >> 8) / 8388608.0f - 1.0f;
  }
  return out;
}

/// A network in which layouts change and outputs share memory with other values, are written in
/// place and into a Concat.
Graph Network() {
  Graph graph;
  graph.opsets[""] = 17;
  const auto op = [&graph](const char* type, std::vector<Value*> inputs, const char* name,
                           AttributeMap attributes = {}) {
    return graph.AddOp(type, "", std::move(inputs), name, {}, std::move(attributes),
                       std::string(name) + "_node");
  };
  const auto constant = [&graph](const char* name, Shape shape) {
    return graph.AddConstant(name, Filled(std::move(shape), 7));
  };
  Value* x = graph.AddValue("x", {DType::kFloat32, ToSymbolic({2, 8, 6, 10})});
  graph.AddInput(x);
  AttributeMap same, depthwise, axis, flat;
  same.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
  depthwise.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
  depthwise.Set("group", int64_t{16});
  axis.Set("axis", int64_t{1});
  flat.Set("axis", int64_t{1});
  Value* a = op("Relu", {op("Conv", {x, constant("w1", {16, 8, 3, 3})}, "conv1", same)}, "relu1");
  Value* b = op("Conv", {a, constant("w2", {16, 1, 3, 3})}, "conv2", depthwise);
  Value* c = op("Sigmoid", {b}, "sigmoid");
  Value* d = op("Add", {a, c}, "sum");
  Value* e = op("Concat", {a, d}, "both", axis);
  Value* f = op("Exp", {op("Neg", {e}, "neg")}, "exp");
  Value* g = op("GlobalAveragePool", {f}, "mean");
  Value* h = op("Flatten", {g}, "flat", flat);
  Value* k = op("Relu", {h}, "relu2");
  graph.AddOutput(op("MatMul", {k, constant("w3", {32, 5})}, "y"));
  graph.AddOutput(op("Transpose", {op("Flatten", {d}, "rows", flat)}, "turned"));
  return graph;
}

Tensor Plain(const Tensor& tensor, bool channels_last) {
  if (!channels_last) return tensor.Clone();
  Tensor out(tensor.dtype(), tensor.shape());
  const int64_t channels = tensor.dim(1), plane = tensor.dim(2) * tensor.dim(3);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const int64_t image = i / (channels * plane), c = i / plane % channels, at = i % plane;
    out.data<float>()[i] = tensor.data<float>()[(image * plane + at) * channels + c];
  }
  return out;
}

TEST(Visit, SeesWhatARunReturns) {
  Graph graph = Network();
  RunPasses(graph, {});
  const TensorMap feeds = {{"x", Filled({2, 8, 6, 10}, 3)}};
  std::vector<std::string> names;
  for (const auto& value : graph.values()) {
    if (value->producer) names.push_back(value->name);
  }
  // Visit all values together, and each alone, so that the others are fused or overwritten.
  std::vector<std::vector<std::string>> choices = {names};
  for (const std::string& name : names) choices.push_back({name});
  bool turned = false;
  for (const std::vector<std::string>& taps : choices) {
    const Graph tapped = WithTaps(graph, taps);
    Session run(tapped, {});
    const std::vector<Tensor> wanted = run.Run(feeds);
    SessionOptions options;
    options.plan.visit = true;
    Session visiting(tapped, options);
    for (int again = 0; again < 2; ++again) {
      std::set<size_t> seen;
      visiting.Visit(feeds, [&](size_t output, const Tensor& tensor, bool channels_last) {
        EXPECT_TRUE(seen.insert(output).second);
        turned = turned || channels_last;
        EXPECT_TRUE(Plain(tensor, channels_last).SameBits(wanted[output]))
            << tapped.outputs()[output]->name;
      });
      EXPECT_EQ(seen.size(), tapped.outputs().size());
    }
    if (taps.size() == names.size()) {
      EXPECT_LT(visiting.memory().arena, run.memory().arena);
    }
  }
  EXPECT_TRUE(turned);
}

/// Parts end where a shape depends on data; the values of one part must still exist when all parts
/// have run.
TEST(Visit, SeesWhatTheProgramReturns) {
  Graph graph = Network();
  Value* last = graph.outputs()[0];
  graph.AddOutput(graph.AddOp("NonZero", "", {last}, "where", {}));
  RunPasses(graph, {});
  const TensorMap feeds = {{"x", Filled({2, 8, 6, 10}, 3)}};
  std::vector<std::string> names;
  for (const auto& value : graph.values()) {
    if (value->producer && value->type.dtype == DType::kFloat32) names.push_back(value->name);
  }
  ASSERT_GT(names.size(), 8u);
  const Graph tapped = WithTaps(graph, names);
  const std::vector<Tensor> expected = Session(tapped, {}).Run(feeds);
  SessionOptions options;
  options.plan.visit = true;
  Session session(tapped, options);
  std::set<size_t> seen;
  session.Visit(feeds, [&](size_t output, const Tensor& tensor, bool channels_last) {
    seen.insert(output);
    EXPECT_TRUE(Plain(tensor, channels_last).SameBits(expected[output])) << output;
  });
  EXPECT_EQ(session.plan(), nullptr);
  EXPECT_EQ(seen.size(), expected.size());
}

}  // namespace
}  // namespace requant
