#include "quant/recover/weights/layer_weights.h"

#include <gtest/gtest.h>

#include <tuple>

#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/model.h"
#include "quant/weights/weights.h"

namespace requant {
namespace {

/// A layer with correlated inputs that are not centered, like real ones.
struct Layer {
  Builder builder;
  Node* node = nullptr;
  std::vector<Tensor> inputs;
  TensorQuantizationConfig config;

  /// `upsampling`: the stride of a ConvTranspose, 0 for a Conv.
  Layer(int64_t channels, int64_t rows, int64_t kernel, int64_t group, int bits,
        int64_t upsampling = 0, bool symmetric = true) {
    Noise noise(3);
    Value* x = builder.Input("x", {1, channels, 8, 8});
    if (upsampling > 0) {
      AttributeMap attributes;
      attributes.Set("strides", std::vector<int64_t>{upsampling, upsampling});
      attributes.Set("group", group);
      attributes.Set("pads", std::vector<int64_t>{1, 0, 1, 0});
      const Shape shape = {channels, rows / group, kernel, kernel};
      Value* w = builder.Const("w", noise.Make(shape, 0.2f));
      node = builder.Op("ConvTranspose", {x, w}, "conv", std::move(attributes))->producer;
    } else {
      const Shape shape = {rows, channels / group, kernel, kernel};
      node = builder.Conv(x, "conv", shape, kernel / 2, noise, group)->producer;
    }
    // The patches of a ConvTranspose differ between phases, so more samples are needed.
    for (int i = 0; i < (upsampling > 0 ? 300 : 30); ++i) {
      Tensor input = noise.Make({1, channels, 8, 8}, 0.5f, 0.3f);
      const Tensor common = noise.Make({8, 8});
      for (int64_t j = 0; j < input.count(); ++j) {
        float& value = input.data<float>()[j];
        value += common.data<float>()[j % 64];
        if (value < 0) value = 0;
      }
      inputs.push_back(std::move(input));
    }
    const int axis = WeightAxis(*node, QuantRule::kConv);
    ApplySettings({.bits = bits, .symmetric = symmetric, .per_channel = axis >= 0}, true, config);
    config.axis = axis;
  }
};

/// The oracle: the interpreter's convolution of the weight error.
double MeasuredError(Layer& layer, const Tensor& integers, std::vector<double>* mean = nullptr) {
  const Tensor& weights = layer.node->inputs[1]->constant;
  Tensor error = DequantizeParameter(integers, layer.config);
  for (int64_t i = 0; i < error.count(); ++i) {
    error.data<float>()[i] -= weights.data<float>()[i];
  }
  const int64_t rows = ViewWeights(*layer.node, QuantRule::kConv).rows;
  double sum = 0;
  double count = 0;
  std::vector<double> shift(static_cast<size_t>(rows));
  std::vector<double> squares(static_cast<size_t>(rows));
  for (const Tensor& input : layer.inputs) {
    const std::vector<const Tensor*> feeds = {&input, &error};
    const Tensor out =
        EvaluateNode(layer.builder.graph, *layer.node, feeds, RequantizeMode::kUpward)[0];
    const int64_t pixels = out.count() / rows;
    for (int64_t i = 0; i < out.count(); ++i) {
      const double value = out.AsDouble(i);
      const auto row = static_cast<size_t>(i / pixels % rows);
      shift[row] += value;
      squares[row] += value * value;
    }
    count += static_cast<double>(pixels);
  }
  for (size_t row = 0; row < shift.size(); ++row) {
    shift[row] /= count;
    sum += squares[row] / count - (mean ? shift[row] * shift[row] : 0);
  }
  if (mean) *mean = shift;
  return sum;
}

/// The total output error of all rows that the moments predict: E[(d^T x)^2], or its variance if
/// centered; by the full matrix if there is one, else by its diagonal (and the mean).
double PredictedError(const Tensor& weights, const Tensor& integers, const InputMoments& moments,
                      const TensorQuantizationConfig& config, bool centered) {
  const WeightMatrix& view = moments.view();
  const auto k = static_cast<size_t>(view.k);
  const float* data = weights.data<float>();
  double sum = 0;
  std::vector<double> error(k);
  for (int64_t group = 0; group < view.groups; ++group) {
    const std::vector<double> matrix =
        moments.full() ? moments.Matrix(group, centered) : std::vector<double>();
    const std::vector<double> variance = moments.Diagonal(group, true);
    const std::vector<double> mean = moments.Mean(group);
    for (int64_t i = 0; i < view.rows_per_group(); ++i) {
      const int64_t row = group * view.rows_per_group() + i;
      double shift = 0;
      for (size_t column = 0; column < k; ++column) {
        const int64_t at = view.At(row, static_cast<int64_t>(column));
        const int64_t code = integers.AsInt64(at) - config.OffsetOfRow(row);
        error[column] =
            static_cast<double>(code) * config.ScaleOfRow(row) - static_cast<double>(data[at]);
        shift += error[column] * mean[column];
        if (matrix.empty()) sum += variance[column] * error[column] * error[column];
      }
      for (size_t a = 0; a < k && !matrix.empty(); ++a) {
        for (size_t b = 0; b < k; ++b) sum += error[a] * error[b] * matrix[a * k + b];
      }
      if (matrix.empty() && !centered) sum += shift * shift;
    }
  }
  return sum;
}

TEST(Recover, RoundingLowersTheMeasuredError) {
  struct Case {
    int64_t channels, rows, kernel, group, upsampling;
    bool affine = false;
  };
  for (const Case& c :
       {Case{16, 8, 3, 1, 0}, Case{12, 12, 3, 12, 0}, Case{32, 16, 1, 1, 0}, Case{8, 8, 3, 2, 0},
        Case{16, 6, 4, 1, 2}, Case{32, 16, 2, 1, 2}, Case{8, 8, 3, 2, 2}, Case{9, 9, 3, 9, 1},
        Case{16, 8, 3, 1, 0, true}, Case{12, 12, 3, 12, 0, true}, Case{8, 8, 3, 2, 0, true},
        Case{16, 6, 4, 1, 2, true}}) {
    Layer layer(c.channels, c.rows, c.kernel, c.group, 4, c.upsampling, !c.affine);
    const Tensor& weights = layer.node->inputs[1]->constant;
    InputMoments moments(*layer.node, QuantRule::kConv);
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      moments.Observe(layer.inputs[i], static_cast<uint32_t>(i));
    }
    EXPECT_GE(moments.count(), 480);
    ScaleWeights(weights, moments.view(), 0.01, 0.02, {}, layer.config);
    const Tensor nearest = QuantizeParameter(weights, layer.config);
    for (const bool centered : {false, true}) {
      const Tensor rounded = RoundWeights(weights, moments, layer.config, centered);
      std::vector<double> mean;
      const double before = MeasuredError(layer, nearest, centered ? &mean : nullptr);
      const double after = MeasuredError(layer, rounded, centered ? &mean : nullptr);
      // The taps of one channel are hardly correlated here, so that a depthwise layer gains little.
      EXPECT_LT(after, (c.group == c.channels ? 1.0 : 0.9) * before)
          << c.channels << " " << c.kernel << " " << centered << " " << c.upsampling;
      // The prediction of the moments equals the error of the layer.
      EXPECT_NEAR(PredictedError(weights, rounded, moments, layer.config, centered), after,
                  0.1 * after)
          << c.channels << " " << c.group << " " << c.upsampling;
      for (int64_t i = 0; i < rounded.count(); ++i) {
        EXPECT_GE(rounded.AsInt64(i), c.affine ? 0 : -7);
        EXPECT_LE(rounded.AsInt64(i), c.affine ? 15 : 7);
      }
    }
  }
}

TEST(Recover, WiderStepsLowerTheMeasuredError) {
  struct Case {
    int64_t channels, rows, kernel, group, upsampling;
    double most;  // relative to the error before
  };
  for (const Case& c : {Case{12, 12, 3, 12, 0, 0.75}, Case{16, 8, 1, 1, 0, 0.75},
                        Case{32, 16, 1, 1, 0, 0.85}, Case{8, 8, 3, 1, 2, 0.9}}) {
    Layer layer(c.channels, c.rows, c.kernel, c.group, 8, c.upsampling);
    const Tensor& weights = layer.node->inputs[1]->constant;
    InputMoments moments(*layer.node, QuantRule::kConv);
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      moments.Observe(layer.inputs[i], static_cast<uint32_t>(i));
    }
    ScaleWeights(weights, moments.view(), 0.01, 0.02, {}, layer.config);
    const std::vector<float> start = layer.config.scale;
    const double before = MeasuredError(layer, RoundWeights(weights, moments, layer.config, false));
    // With any steps, and with multiples of a unit, of which there are fewer.
    for (const double unit : {0.0, 0.004 * static_cast<double>(start[0])}) {
      layer.config.scale = start;
      if (unit > 0) {
        for (float& scale : layer.config.scale) {
          scale = static_cast<float>(std::ceil(static_cast<double>(scale) / unit) * unit);
        }
      }
      RefineScales(weights, moments, false, unit, layer.config);
      ASSERT_EQ(layer.config.scale.size(), start.size());
      for (size_t i = 0; i < start.size(); ++i) {
        const auto scale = static_cast<double>(layer.config.scale[i]);
        EXPECT_GE(layer.config.scale[i], start[i]);
        EXPECT_LE(scale, 1.1501 * static_cast<double>(start[i]) + 2 * unit);
        if (unit > 0) {
          EXPECT_NEAR(scale / unit, std::round(scale / unit), 1e-4);
        }
      }
      const double after =
          MeasuredError(layer, RoundWeights(weights, moments, layer.config, false));
      EXPECT_LT(after, c.most * before) << c.channels << " " << c.kernel << " " << unit;
    }
  }
}

void ExpectBiasCorrectionIsTheMeanShift(bool symmetric) {
  Layer layer(16, 8, 3, 1, 4, 0, symmetric);
  const Tensor& weights = layer.node->inputs[1]->constant;
  InputMoments moments(*layer.node, QuantRule::kConv);
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    moments.Observe(layer.inputs[i], static_cast<uint32_t>(i));
  }
  ScaleWeights(weights, moments.view(), 0.01, 0.02, {}, layer.config);
  const Tensor integers = QuantizeParameter(weights, layer.config);
  std::vector<double> measured;
  MeasuredError(layer, integers, &measured);
  const std::vector<double> shift = MeanShift(weights, integers, moments, layer.config);
  ASSERT_EQ(shift.size(), measured.size());
  for (size_t i = 0; i < shift.size(); ++i) EXPECT_NEAR(shift[i], measured[i], 1e-5);
}

TEST(Recover, BiasCorrectionIsTheMeanShift) {
  for (const bool symmetric : {true, false}) ExpectBiasCorrectionIsTheMeanShift(symmetric);
}

TEST(Recover, LongRowsSteerTheMeanOnly) {
  Builder builder;
  Noise noise(5);
  Value* x = builder.Input("x", {4, 1500});
  Value* y = builder.Op("MatMul", {x, builder.Const("w", noise.Make({1500, 6}, 0.03f))}, "y");
  InputMoments moments(*y->producer, QuantRule::kMatMul);
  for (uint32_t i = 0; i < 20; ++i) moments.Observe(noise.Make({4, 1500}, 1, 0.5f), i);
  EXPECT_FALSE(moments.full());
  EXPECT_EQ(moments.count(), 80);
  TensorQuantizationConfig config;
  ApplySettings({.bits = 4, .symmetric = true, .per_channel = true}, true, config);
  config.axis = 1;
  const Tensor& weights = y->producer->inputs[1]->constant;
  ScaleWeights(weights, moments.view(), 0.01, 0.02, {}, config);
  const Tensor nearest = QuantizeParameter(weights, config);
  const Tensor rounded = RoundWeights(weights, moments, config, false);
  EXPECT_LT(PredictedError(weights, rounded, moments, config, false),
            PredictedError(weights, nearest, moments, config, false));
}

TEST(Recover, ProductsAreExact) {
  for (const auto& [groups, k, products] :
       {std::tuple{1, 1, true}, std::tuple{3, 9, true}, std::tuple{1, 37, true},
        std::tuple{2, 40, true}, std::tuple{1, 45, false}}) {
    const int64_t length = groups * k;
    std::vector<int64_t> sums(static_cast<size_t>(length));
    std::vector<int64_t> wanted(static_cast<size_t>(length * k));
    ProductSums whole(groups, k, products);
    ProductSums shards[2] = {{groups, k, products}, {groups, k, products}};
    Noise noise(static_cast<uint32_t>(k));
    int64_t count = 0;
    std::vector<float> quad(static_cast<size_t>(length * 4));
    for (int turn = 0; turn < 90; ++turn) {
      // Most values fit 16 bits, some do not, and two are too large to be exact.
      const float size = turn % 20 == 7 ? 100000.0f
                         : turn == 33   ? 5e6f
                         : turn % 3     ? 4000.0f
                                        : 20.0f;
      const int64_t vectors = turn % 5 == 4 ? 1 + turn % 3 : 4;
      std::fill(quad.begin(), quad.end(), 0.0f);
      for (int64_t lane = 0; lane < vectors; ++lane) {
        float largest = 0;
        std::vector<int64_t> ints;
        for (int64_t i = 0; i < length; ++i) {
          const float x = noise.Uniform() * size;
          quad[static_cast<size_t>(i * 4 + lane)] = x * 0.25f;
          ints.push_back(std::llrint(x));
          largest = std::max(largest, std::fabs(x));
        }
        if (largest > 2097152.0f) continue;
        ++count;
        for (int64_t i = 0; i < length; ++i) {
          const int64_t group = i / k;
          sums[static_cast<size_t>(i)] += ints[static_cast<size_t>(i)];
          for (int64_t j = 0; j < k; ++j) {
            wanted[static_cast<size_t>(i * k + j)] +=
                ints[static_cast<size_t>(i)] * ints[static_cast<size_t>(group * k + j)];
          }
        }
      }
      std::vector<float> copy = quad;
      whole.Add(copy, static_cast<int>(vectors), 4);
      copy = quad;
      shards[turn % 7 < 3].Add(copy, static_cast<int>(vectors), 4);
    }
    shards[0].Add(shards[1]);
    for (const ProductSums* got : {&whole, &shards[0]}) {
      EXPECT_EQ(got->count(), count);
      for (int64_t i = 0; i < length; ++i) {
        const int64_t group = i / k;
        EXPECT_EQ(got->Sum(group, i % k), static_cast<double>(sums[static_cast<size_t>(i)]));
        EXPECT_EQ(got->Square(group, i % k),
                  static_cast<double>(wanted[static_cast<size_t>(i * k + i % k)]));
        for (int64_t j = 0; j < k && products; ++j) {
          EXPECT_EQ(got->Product(group, i % k, j),
                    static_cast<double>(wanted[static_cast<size_t>(i * k + j)]));
        }
      }
    }
  }
}

TEST(Recover, MomentsOfEitherLayoutAreTheSame) {
  for (const int64_t group : {int64_t{1}, int64_t{16}}) {
    Layer layer(16, 16, 3, group, 8);
    Noise noise(4);
    const Tensor plain = noise.Make({2, 16, 9, 7}, 0.5f, 0.3f);
    Tensor turned(DType::kFloat32, plain.shape());
    for (int64_t i = 0; i < plain.count(); ++i) {
      const int64_t image = i / (16 * 63), c = i / 63 % 16, at = i % 63;
      turned.data<float>()[(image * 63 + at) * 16 + c] = plain.data<float>()[i];
    }
    InputMoments a(*layer.node, QuantRule::kConv);
    InputMoments b(*layer.node, QuantRule::kConv);
    a.Observe(plain, 3);
    b.Observe(turned, 3, true);
    EXPECT_EQ(a.Matrix(0, false), b.Matrix(0, false));
    EXPECT_EQ(a.Mean(0), b.Mean(0));
  }
}

TEST(Recover, MomentsAreDeterministic) {
  Layer layer(16, 8, 3, 1, 8);
  InputMoments a(*layer.node, QuantRule::kConv);
  InputMoments b(*layer.node, QuantRule::kConv);
  Noise noise(1);
  const Tensor large = noise.Make({1, 16, 40, 40});
  a.Observe(large, 3);
  b.Observe(large, 3);
  EXPECT_EQ(a.Matrix(0, true), b.Matrix(0, true));
  EXPECT_EQ(a.count(), 128);  // of 1,600
}

TEST(Weights, MultipliersStayInABand) {
  Builder builder;
  Noise noise(2);
  Value* x = builder.Input("x", {1, 4, 4, 4});
  Value* y = builder.Conv(x, "conv", {4, 4, 1, 1}, 0, noise);
  Tensor weights = y->producer->inputs[1]->constant.Clone();
  for (int64_t i = 0; i < 4; ++i) {
    weights.data<float>()[4 + i] = 0;       // dead
    weights.data<float>()[8 + i] *= 1e-6f;  // very small
  }
  const WeightMatrix view = ViewWeights(*y->producer, QuantRule::kConv);
  TensorQuantizationConfig config;
  ApplySettings({.symmetric = true, .per_channel = true}, true, config);
  config.axis = 0;
  const double in = 0.02, out = 0.05;
  ScaleWeights(weights, view, in, out, {0, 0.3, 0.3, 0}, config);
  const auto multiplier = [&](size_t row) {
    return in * static_cast<double>(config.scale[row]) / out;
  };
  EXPECT_NEAR(std::log2(multiplier(1)), -13.5, 1e-3);
  EXPECT_NEAR(std::log2(multiplier(2)), -20.5, 1e-3);
  EXPECT_NEAR(
      static_cast<double>(config.scale[0]) * 127,
      [&] {
        float largest = 0;
        for (int i = 0; i < 4; ++i) {
          largest = std::max(largest, std::fabs(weights.data<float>()[i]));
        }
        return static_cast<double>(largest);
      }(),
      1e-6);
  // A huge bias must fit int32.
  ScaleWeights(weights, view, in, out, {1e9, 0, 0, 0}, config);
  EXPECT_LE(1e9 / (in * static_cast<double>(config.scale[0])), 1073741824.0 * 1.0001);
}

}  // namespace
}  // namespace requant
