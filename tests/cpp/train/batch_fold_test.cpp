// Folding by the batch's own statistics, beside PyTorch in double precision: the numbers below are
// those of
//
//   u = conv2d(x, W, padding=1); f = gamma / sqrt(var(u) + 1e-5)
//   y = conv2d(x, fq(W * f), padding=1) + beta - f * mean(u)        fq: steps of 0.01, [-127, 127]
//   (y * dy).sum().backward(), then a step of SGD with the rate 0.02, and y again
//
// where fq passes gradients straight through inside of its range.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "quant/model.h"
#include "train/layer.h"

namespace requant {
namespace {

/// Numbers with three digits in [-1, 1], the same as those that PyTorch got.
Tensor Numbers(Shape shape, uint32_t seed) {
  Tensor out(DType::kFloat32, std::move(shape));
  Lcg random{seed};
  for (int64_t i = 0; i < out.count(); ++i) {
    const double value = random.Next() / 2147483648.0 - 1;
    out.data<float>()[i] = static_cast<float>(std::nearbyint(value * 1000) / 1000);
  }
  return out;
}

/// Outputs of the float network with that mean and deviation in each channel.
Tensor Outputs(const std::vector<double>& mean, const std::vector<double>& deviation) {
  Tensor out(DType::kFloat32, {1, static_cast<int64_t>(mean.size()), 8, 8});
  for (int64_t i = 0; i < out.count(); ++i) {
    const auto channel = static_cast<size_t>(i / 64);
    const double spread = std::sqrt(deviation[channel] * deviation[channel] - 1e-5);
    out.data<float>()[i] = static_cast<float>(mean[channel] + (i % 2 ? spread : -spread));
  }
  return out;
}

/// The samples of a batch.
std::vector<Tensor> Split(const Tensor& all) {
  std::vector<Tensor> out;
  const int64_t size = all.count() / all.dim(0);
  for (int64_t i = 0; i < all.dim(0); ++i) {
    Tensor& one = out.emplace_back(DType::kFloat32, Shape{1, all.dim(1), all.dim(2), all.dim(3)});
    std::copy_n(all.data<float>() + i * size, size, one.data<float>());
  }
  return out;
}

struct Conv {
  Conv() {
    Builder builder;
    Value* x = builder.Input("x", {1, 2, 5, 6});
    AttributeMap attributes;
    attributes.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
    builder.Op("Conv", {x, builder.Const("w", Numbers({3, 2, 3, 3}, 2))}, "y",
               std::move(attributes));
    graph = std::move(builder.graph);
    op.op_type = "Conv";
    op.rule = QuantRule::kConv;
    config.policy = kPerTensor | kLinear | kSymmetrical;
    config.dtype = DType::kInt8;
    config.quant_min = -127;
    config.quant_max = 127;
    config.scale = {0.01F};
    config.offset = {0};
    options.optimizer = TrainOptimizer::kSgd;
    options.momentum = 0;
    options.scales = TrainScales::kKeep;
    options.fold = TrainFold::kBatch;
  }
  Graph graph;
  OperatorQuantization op;
  TensorQuantizationConfig config;
  TrainOptions options;
};

void ExpectOutputs(const std::vector<Tensor>& y, size_t sample, int64_t pixel,
                   const std::vector<double>& expected, double sum, double squares) {
  double all = 0, all_squares = 0;
  for (const Tensor& one : y) {
    for (const float value : one.values<float>()) {
      all += static_cast<double>(value);
      all_squares += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  for (size_t channel = 0; channel < expected.size(); ++channel) {
    EXPECT_NEAR(y[sample].AsDouble(static_cast<int64_t>(channel) * 30 + pixel), expected[channel],
                2e-5);
  }
  EXPECT_NEAR(all, sum, 2e-3);
  EXPECT_NEAR(all_squares, squares, 2e-2);
}

TEST(BatchFold, AgreesWithPyTorch) {
  Conv conv;
  TrainLayer layer(*conv.graph.nodes()[0], conv.op, &conv.config, nullptr, conv.options);
  const std::vector<Tensor> wanted = {Outputs({0.1, -0.2, 0.3}, {0.5, 1.25, 2.0})};
  layer.Measure(wanted);
  layer.SetMeasuring(false);
  const std::vector<Tensor> x = Split(Numbers({3, 2, 5, 6}, 1));
  const std::vector<Tensor> dy = Split(Numbers({3, 3, 5, 6}, 3));
  layer.Begin();
  ExpectOutputs(layer.Forward(x), 0, 2 * 6 + 3, {0.487641, -1.74732, 2.06175}, 18.1087, 513.088);
  const std::vector<Tensor> dx = layer.Backward(x, dy, true);
  const double expected[] = {0.643893, 2.45426,  -1.41602, 1.05745, 1.91144, -0.365737,
                             0.620174, -5.22231, -1.13237, 1.24609, 3.93922, 2.96292};
  for (int64_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(dx[1].AsDouble(i / 6 * 30 + 12 + i % 6), expected[i], 5e-5) << i;
  }
  layer.Update(0.02);
  layer.Begin();
  ExpectOutputs(layer.Forward(x), 1, 3 * 6 + 2, {-0.32741, 0.939466, 0.590922}, 7.3874, 460.53);
}

/// The deployed weights and bias have the running statistics, which begin with those of the batch.
TEST(BatchFold, DeploysTheRunningStatistics) {
  Conv conv;
  TrainLayer layer(*conv.graph.nodes()[0], conv.op, &conv.config, nullptr, conv.options);
  const std::vector<Tensor> wanted = {Outputs({0.1, -0.2, 0.3}, {0.5, 1.25, 2.0})};
  layer.Measure(wanted);
  layer.SetMeasuring(true);
  const std::vector<Tensor> x = Split(Numbers({3, 2, 5, 6}, 1));
  for (int i = 0; i < 3; ++i) {
    layer.Begin();
    layer.Forward(x);
  }
  layer.Fold();
  const Tensor w = Numbers({3, 2, 3, 3}, 2);
  const double gamma[] = {0.5, 1.25, 2.0}, variance[] = {1.15827, 1.32726, 1.83656};
  for (int64_t i = 0; i < w.count(); ++i) {
    const double factor = gamma[i / 18] / std::sqrt(variance[i / 18] + 1e-5);
    EXPECT_NEAR(static_cast<double>(layer.weights()[static_cast<size_t>(i)]),
                w.AsDouble(i) * factor, 2e-5);
  }
}

}  // namespace
}  // namespace requant
