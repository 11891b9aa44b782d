// Any number of threads computes the bits of one thread: networks of random sizes, in float and in
// integers, and the shipped network.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "api/requant.h"
#include "quant/model.h"
#include "support/files.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

const std::string kDemos = std::string(REQUANT_SOURCE_DIR) + "/demos/";

AttributeMap Window(int64_t kernel, int64_t stride, int64_t pad) {
  AttributeMap window;
  window.Set("kernel_shape", std::vector<int64_t>{kernel, kernel});
  window.Set("strides", std::vector<int64_t>{stride, stride});
  window.Set("pads", std::vector<int64_t>{pad, pad, pad, pad});
  return window;
}

/// A network with every kind of step that can be divided, large enough to be divided.
Graph Network(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&random](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  Builder b(14);
  Noise noise(seed);
  const int64_t c = pick(5, 19);
  const int64_t d = pick(17, 33);
  Value* x = b.Input("x", {pick(1, 2), pick(2, 4), pick(180, 230), pick(180, 230)});
  const int64_t channels = x->type.StaticShape()[1];
  Value* first = b.Op("Relu", {b.Conv(x, "conv1", {c, channels, 3, 3}, 1, noise, 1, 2)}, "relu1");
  Value* deep = b.Op("Clip",
                     {b.Conv(first, "conv2", {c, 1, 3, 3}, 1, noise, c),
                      b.Const("zero", Tensor::Scalar(0.0F)), b.Const("six", Tensor::Scalar(6.0F))},
                     "clip2");
  Value* wide = b.Conv(deep, "conv3", {d, c, 1, 1}, 0, noise);
  Value* small = b.Op("MaxPool", {wide}, "pool", Window(3, 2, 1));
  Value* sum =
      b.Op("Relu", {b.Op("Add", {small, b.Conv(small, "conv4", {d, d, 1, 1}, 0, noise)}, "add")},
           "relu4");
  Value* swish = b.Op("HardSwish", {sum}, "swish");
  Value* product = b.Op("Mul", {sum, swish}, "product");
  Value* scaled = b.Op("Mul", {product, b.Const("scales", noise.Make({d, 1, 1}))}, "scaled");
  Value* mean = b.Op("AveragePool", {scaled}, "mean", Window(3, 2, 1));
  Value* last = b.Conv(mean, "conv5", {d, d, 3, 3}, 1, noise);
  b.graph.AddOutput(scaled);
  b.graph.AddOutput(last);
  b.graph.AddOutput(b.Op("Softmax", {last}, "softmax"));
  return std::move(b.graph);
}

void ExpectSameBits(const PreparedModel& graph, const TensorMap& feeds, RequantizeMode mode,
                    std::set<std::string>* divided) {
  SessionOptions options;
  options.plan.requantize = mode;
  Session alone(graph.Clone(), options);
  const std::vector<Tensor> expected = alone.Run(feeds);
  for (const auto& step : alone.plan()->steps) EXPECT_EQ(step->parts.count, 1);
  for (const int threads : {2, 3, 7}) {
    testing::ThreadRunner runner(threads);
    options.runner = &runner;
    Session session(graph.Clone(), options);
    for (int run = 0; run < 3; ++run) {
      const std::vector<Tensor> outputs = session.Run(feeds);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(outputs[i].SameBits(expected[i])) << threads << " threads, output " << i;
      }
    }
    int steps = 0;
    for (const auto& step : session.plan()->steps) {
      if (step->parts.count < 2) continue;
      ++steps;
      divided->insert(step->kernel);
      EXPECT_LE(step->parts.count, threads);
      for (int part = 0; part < step->parts.count; ++part) {
        EXPECT_LT(step->parts.Begin(part), step->parts.Begin(part + 1));
      }
    }
    EXPECT_GT(steps, 0);
    EXPECT_GE(runner.runs, 3 * steps);  // an image of a batch can be a run of its own
  }
}

TEST(Threads, SameBitsOfRandomNetworks) {
  std::set<std::string> divided;
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = Network(seed);
    const TensorMap feeds = RandomFeeds(graph, seed);
    ExpectSameBits(PrepareForRun(graph), feeds, RequantizeMode::kUpward, &divided);
    Calibrator calibrator(graph, {});
    for (int pass = 0; pass < calibrator.passes(); ++pass) calibrator.Add(pass, feeds);
    const auto integer = PrepareForRun(LowerToInteger(calibrator.Finish()));
    for (const RequantizeMode mode : {RequantizeMode::kUpward, RequantizeMode::kFloat}) {
      ExpectSameBits(integer, feeds, mode, &divided);
    }
  }
  std::set<std::string> families;  // "dwconv_q8" of "dwconv_q8_vector"
  for (const std::string& name : divided) families.insert(name.substr(0, name.rfind('_')));
  for (const char* family : {"conv_f32", "dwconv_f32", "dwconv_q8", "maxpool_f32"}) {
    EXPECT_TRUE(families.contains(family)) << family;
  }
  EXPECT_GE(divided.size(), 20U);
}

TEST(Threads, SameBitsOfTheShippedNetwork) {
  const Graph graph = testing::ReadModelFile(kDemos + "models/fashion_mnist.onnx");
  Calibrator calibrator(graph, {});
  const auto images = testing::ReadIdxImages(kDemos + "data/calibration-images-idx3-ubyte", 4);
  for (int pass = 0; pass < calibrator.passes(); ++pass) {
    for (const Tensor& image : images) calibrator.Add(pass, {{"image", image}});
  }
  const auto integer = PrepareForRun(LowerToInteger(calibrator.Finish()));
  std::set<std::string> divided;
  for (const Tensor& image : images) {
    ExpectSameBits(PrepareForRun(graph), {{"image", image}}, RequantizeMode::kUpward, &divided);
    ExpectSameBits(integer, {{"image", image}}, RequantizeMode::kUpward, &divided);
  }
}

TEST(Threads, SameBitsOfDecodersAndNorms) {
  std::set<std::string> divided;
  Noise noise(11);
  Builder norm(17);
  norm.graph.AddOutput(norm.Op("LayerNormalization",
                               {norm.Input("x", {301, 190}), norm.Const("scale", noise.Make({190})),
                                norm.Const("bias", noise.Make({190}))},
                               "norm"));
  Builder decoder(13);
  Value* up = decoder.Op(
      "ConvTranspose",
      {decoder.Input("x", {2, 5, 23, 31}), decoder.Const("weights", noise.Make({5, 9, 4, 4}))},
      "up", Window(4, 2, 1));
  AttributeMap linear;
  linear.Set("mode", std::string("linear"));
  Tensor scales(DType::kFloat32, {4});
  const float factors[] = {1.0F, 1.0F, 1.7F, 2.1F};
  std::copy(std::begin(factors), std::end(factors), scales.data<float>());
  decoder.graph.AddOutput(decoder.Op(
      "Resize", {up, nullptr, decoder.Const("scales", std::move(scales))}, "resized", linear));
  for (const Graph* graph : {&norm.graph, &decoder.graph}) {
    ExpectSameBits(PrepareForRun(*graph), RandomFeeds(*graph, 3), RequantizeMode::kUpward,
                   &divided);
  }
  for (const char* kernel : {"layer_norm_f32_simd128", "resize_linear_f32_simd128"}) {
    EXPECT_TRUE(divided.contains(kernel)) << kernel;
  }
}

TEST(Threads, SessionsThatWantFewerGetFewer) {
  const auto graph = PrepareForRun(Network(9));
  const TensorMap feeds = RandomFeeds(graph.graph(), 9);
  testing::ThreadRunner runner(3);
  SessionOptions options;
  options.runner = &runner;
  for (const int wanted : {0, 1, 2, 3, 50}) {
    options.plan.threads = wanted;
    Session session(graph.Clone(), options);
    session.Run(feeds);
    int most = 0;
    for (const auto& step : session.plan()->steps) most = std::max(most, step->parts.count);
    EXPECT_EQ(most, wanted == 0 ? 3 : std::min(wanted, 3));
  }
}

TEST(Threads, CalibrationIsTheSame) {
  const Graph graph = Network(10);
  testing::ThreadRunner runner(2);
  Calibrator alone(graph, {});
  Calibrator divided(graph, {}, &runner);
  for (int pass = 0; pass < alone.passes(); ++pass) {
    for (uint32_t seed = 0; seed < 2; ++seed) {
      const TensorMap feeds = RandomFeeds(graph, seed);
      alone.Add(pass, feeds);
      divided.Add(pass, feeds);
    }
  }
  EXPECT_EQ(RecordToJson(alone.Finish().record), RecordToJson(divided.Finish().record));
  EXPECT_GT(runner.runs, 0);
}

/// The files of networks that learned for two batches, with their normalizations and without.
std::vector<std::string> Trained(const QuantizedModel& model, const Graph& graph,
                                 ParallelRunner* runner) {
  std::vector<std::string> out;
  for (const TrainFold fold : {TrainFold::kRunning, TrainFold::kBatch}) {
    TrainOptions options;
    options.fold = fold;
    options.runner = runner;
    Trainer trainer(model, options);
    for (int batch = 0; batch < 2; ++batch) {
      for (uint32_t i = 0; i < 3; ++i) trainer.Add(RandomFeeds(graph, i), -1);
      while (!trainer.Advance(0.01).finished) {
      }
    }
    out.push_back(RecordToJson(trainer.Finish().record));
  }
  return out;
}

TEST(Threads, TrainingIsTheSame) {
  const Graph graph = Network(7);
  QuantizeOptions options;
  options.recover = {};
  const QuantizedModel model = QuantizeGraph(graph, options);
  const std::vector<std::string> wanted = Trained(model, graph, nullptr);
  for (const int threads : {2, 5}) {
    testing::ThreadRunner runner(threads);
    EXPECT_EQ(Trained(model, graph, &runner), wanted) << threads;
    EXPECT_GT(runner.runs, 20) << threads;
  }
}

}  // namespace
}  // namespace requant
