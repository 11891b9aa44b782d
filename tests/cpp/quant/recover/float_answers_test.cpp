// Operators that stay in float because answers depend on them, and the estimate of how many answers
// do.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/str_cat.h"
#include "ir/verify.h"
#include "quant/model.h"
#include "quant/sim/answers.h"

namespace requant {
namespace {

/// Measures by drawing noise what AnswerOdds integrates.
double CountedOdds(const Tensor& scores, double sigma) {
  std::mt19937 bits(3);
  std::normal_distribution<double> normal(0, sigma);
  const int64_t rows = scores.dim(0), classes = scores.dim(1);
  constexpr int kRounds = 4000;
  int kept = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const float* begin = scores.data<float>() + row * classes;
    const int64_t first = std::max_element(begin, begin + classes) - begin;
    for (int round = 0; round < kRounds; ++round) {
      int64_t best = 0;
      double most = -1e300;
      for (int64_t i = 0; i < classes; ++i) {
        const double noisy = static_cast<double>(begin[i]) + normal(bits);
        if (noisy > most) {
          most = noisy;
          best = i;
        }
      }
      kept += best == first;
    }
  }
  return 100.0 * kept / static_cast<double>(rows * kRounds);
}

TEST(AnswerOdds, AreWhatCountingGives) {
  Noise noise(4);
  for (const int64_t classes : {2, 5, 40}) {
    const Tensor scores = noise.Make({12, classes});
    AnswerOdds odds;
    odds.Add(scores);
    for (const double sigma : {0.02, 0.1, 0.3, 1.0}) {
      // 48,000 draws: a share of one half is accurate to 0.7 of 100 (three deviations).
      EXPECT_NEAR(odds.Kept(sigma * sigma), CountedOdds(scores, sigma), sigma < 0.5 ? 0.8 : 1.6)
          << classes << " classes, " << sigma;
    }
  }
}

TEST(AnswerOdds, WithoutNoiseOrScores) {
  AnswerOdds odds;
  EXPECT_TRUE(odds.empty());
  EXPECT_EQ(odds.Kept(1), 100);
  odds.Add(Tensor::FromVector<float>({1, 2, 3}, {3}));       // rank 1: no rows
  odds.Add(Tensor::FromVector<float>({1, 2, 3}, {3, 1}));    // a single class
  odds.Add(Tensor::FromVector<int32_t>({1, 2, 3}, {1, 3}));  // integers
  EXPECT_TRUE(odds.empty());
  odds.Add(Tensor::FromVector<float>({2, 2, 1}, {1, 3}));
  EXPECT_EQ(odds.Kept(0), 100);
  EXPECT_NEAR(odds.Kept(1e-8), 50, 1e-6);  // two equal scores
}

/// The first layer makes a small signal on a large mean, and the second reads the signal. Eight
/// bits preserve little of it, and 20 classes differ only by it.
Graph CloseClasses(bool softmax) {
  Builder b;
  Noise noise(11);
  Value* x = b.Conv(b.Input("x", {1, 3, 8, 8}), "c0", {4, 3, 3, 3}, 1, noise);
  for (int i = 1; i < 8; ++i) {
    const int64_t kernel = i == 1 ? 1 : 3;
    x = b.Conv(b.Op("Relu", {x}, StrCat("r", i)), StrCat("c", i), {4, 4, kernel, kernel},
               kernel / 2, noise);
  }
  constexpr float kMean = 3, kSignal = 0.02f;
  Tensor& first = b.graph.FindValue("c0_w")->constant;
  Tensor& second = b.graph.FindValue("c1_w")->constant;
  Tensor& moved = b.graph.FindValue("c1_b")->constant;
  for (int64_t i = 0; i < first.count(); ++i) first.data<float>()[i] *= kSignal;
  b.graph.FindValue("c0_b")->constant =
      Tensor::FromVector<float>({kMean, kMean, kMean, kMean}, {4});
  for (int64_t i = 0; i < second.count(); ++i) {
    second.data<float>()[i] /= kSignal;
    moved.data<float>()[i / 4] -= second.data<float>()[i] * kMean;
  }
  AttributeMap flat, gemm;
  flat.Set("axis", int64_t{1});
  gemm.Set("transB", int64_t{1});
  Value* rows = b.Op("Flatten", {x}, "flat", flat);
  Value* bias = b.Const("b", Tensor(DType::kFloat32, {20}));
  Value* y = b.Op("Gemm", {rows, b.Const("w", noise.Make({20, 256})), bias}, "y", gemm);
  b.graph.AddOutput(softmax ? b.Op("Softmax", {y}, "p") : y);
  // The part that all inputs have in common decides nothing.
  InterpretOptions options;
  options.observe = [&](const Value& value, const Tensor& tensor) {
    for (int64_t i = 0; value.name == "y" && i < 20; ++i) {
      bias->constant.data<float>()[i] = -tensor.data<float>()[i];
    }
  };
  Interpret(b.graph, RandomFeeds(b.graph, 7), options);
  return std::move(b.graph);
}

QuantizedModel Quantized(const Graph& graph, std::vector<std::string> recover, int bits = 8) {
  QuantizeOptions options;
  options.recover = std::move(recover);
  options.global.activations.bits = bits;
  options.global.weights.bits = bits;
  options.float_outputs = true;
  Quantizer quantizer(FloatModel(graph), options);
  for (uint32_t i = 0; i < 16; ++i) quantizer.Keep(RandomFeeds(graph, 100 + i));
  Calibrate(quantizer, quantizer.graph(), 16);
  return quantizer.Finish();
}

int FloatLayers(const QuantizedModel& model) {
  int count = 0;
  for (const auto& [name, op] : model.record.operators) {
    if (op.reason != "float_answers keeps it in float") continue;
    EXPECT_FALSE(op.quantized) << name;
    count += name.starts_with("c");
  }
  return count;
}

TEST(FloatAnswers, KeepsWhatAnswersDependOn) {
  const Graph graph = CloseClasses(false);
  const QuantizedModel plain = Quantized(graph, {});
  const QuantizedModel model = Quantized(graph, {"float_answers"});
  ASSERT_EQ(model.record.recovery.size(), 1u);
  const int layers = FloatLayers(model);
  EXPECT_GE(layers, 2) << model.record.recovery[0].detail;
  EXPECT_LE(layers, 5);  // of 8: at most six tenths of the products
  EXPECT_TRUE(model.record.operators.at("c7_node").quantized);
  EXPECT_GT(model.record.recovery[0].after_db, model.record.recovery[0].before_db + 1);
  const Graph integer = LowerToInteger(model).Release();
  VerifyGraph(integer);
  EXPECT_GT(Snr(graph, integer), Snr(graph, LowerToInteger(plain).graph()) + 1);
}

/// Probabilities count by the scores they come from.
TEST(FloatAnswers, LooksBehindSoftmax) {
  EXPECT_EQ(FloatLayers(Quantized(CloseClasses(true), {"float_answers"})),
            FloatLayers(Quantized(CloseClasses(false), {"float_answers"})));
}

TEST(FloatAnswers, ChangesNothingWhereAnswersStay) {
  const Graph graph = CloseClasses(false);
  const QuantizedModel model = Quantized(graph, {"float_answers"}, 16);
  EXPECT_EQ(model.record.recovery[0].detail, "everything stays quantized");
  EXPECT_EQ(FloatLayers(model), 0);
}

TEST(FloatAnswers, SaysWhenThereAreNoAnswers) {
  Builder b;
  Noise noise(2);
  Value* x = b.Conv(b.Input("x", {1, 3, 8, 8}), "c0", {4, 3, 3, 3}, 1, noise);
  b.graph.AddOutput(b.Conv(x, "c1", {4, 4, 3, 3}, 1, noise));
  EXPECT_EQ(Quantized(b.graph, {"float_answers"}).record.recovery[0].detail,
            "the output is not the scores of classes");
}

}  // namespace
}  // namespace requant
