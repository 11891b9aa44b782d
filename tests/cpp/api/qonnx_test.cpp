// QONNX networks run in integers and compute what the references of their operators compute.
#include <gtest/gtest.h>
#include <algorithm>

#include <cmath>
#include <random>
#include <set>
#include <string>

#include "api/requant.h"
#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"

namespace requant {
namespace {

constexpr const char* kHead = "graph \"q\" opset 13, qonnx.custom_op.general 1\n";

Tensor Random(std::mt19937& random, Shape shape) {
  Tensor tensor(DType::kFloat32, std::move(shape));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    // Include the numbers at which a sign changes: negative zero, zero and the smallest numbers.
    const uint32_t kind = random() % 16;
    tensor.data<float>()[i] = kind == 0   ? -0.0F
                              : kind == 1 ? 0.0F
                              : kind == 2 ? -1e-20F
                                          : static_cast<float>(random() % 2001) / 500 - 2;
  }
  return tensor;
}

std::string Floats(std::mt19937& random, int64_t count, bool positive = false) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    const int value = static_cast<int>(random() % 2001) - 1000;
    text += StrCat(i ? ", " : "", positive ? std::abs(value) + 1 : value, ".0e-3");
  }
  return text;
}

/// Runs the text in a session and with the references; returns the largest difference relative to
/// the largest magnitude. `kernels` receives the names of the session's kernels.
double Difference(const std::string& text, const Tensor& x, std::set<std::string>& kernels) {
  const Graph graph = ParseGraph(kHead + text);
  const Tensor expected = Interpret(graph, {{"x", x}})[0];
  Session session(PrepareForRun(graph), {});
  const Tensor got = session.Run({{"x", x}})[0];
  for (const auto& step : session.plan()->steps) kernels.insert(step->kernel);
  EXPECT_EQ(got.shape(), expected.shape());
  double difference = 0, largest = 1e-30;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double e = expected.data<float>()[i], g = got.data<float>()[i];
    difference = std::max(difference, std::abs(e - g));
    largest = std::max(largest, std::abs(e));
  }
  return difference / largest;
}

/// Whether any of the integer rows was used: which one is fastest for so few bits depends on the
/// machine.
bool HasIntegerProduct(const std::set<std::string>& kernels) {
  return std::any_of(kernels.begin(), kernels.end(),
                     [](const std::string& name) { return name.starts_with("conv_q8_"); });
}

constexpr const char* kScalars =
    "const %zero: float32[] = {0.0}\nconst %one: float32[] = {1.0}\nconst %half: float32[] = "
    "{0.5}\nconst %two: float32[] = {2.0}\nconst %three: float32[] = {3.0}\n";

TEST(Qonnx, BipolarConvolution) {
  std::mt19937 random(1);
  std::set<std::string> kernels;
  const std::string text =
      StrCat("input %x: float32[1, 20, 7, 9]\n", kScalars, "const %w: float32[17, 20, 3, 3] = {",
             Floats(random, 17 * 20 * 9), "}\nconst %ws: float32[17, 1, 1, 1] = {",
             Floats(random, 17, true), "}\nconst %b: float32[17] = {", Floats(random, 17),
             "}\n%a = qonnx.custom_op.general::BipolarQuant(%x, %half)\n"
             "%q = qonnx.custom_op.general::BipolarQuant(%w, %ws)\n"
             "%y = Conv(%a, %q, %b) {pads = [1, 1, 1, 1], strides = [2, 1]}\noutput %y\n");
  EXPECT_LT(Difference(text, Random(random, {1, 20, 7, 9}), kernels), 1e-6);
  EXPECT_TRUE(HasIntegerProduct(kernels));
}

TEST(Qonnx, FewBitsBetweenConvolutionsAndMatrices) {
  std::mt19937 random(2);
  std::set<std::string> kernels;
  const std::string text =
      StrCat("input %x: float32[2, 16, 5, 5]\n", kScalars, "const %w: float32[24, 16, 1, 1] = {",
             Floats(random, 24 * 16), "}\nconst %m: float32[30, 600] = {", Floats(random, 30 * 600),
             "}\nconst %ms: float32[30, 1] = {", Floats(random, 30, true), "}\n",
             "%a = qonnx.custom_op.general::Quant(%x, %half, %zero, %two) {signed = 0}\n"
             "%q = qonnx.custom_op.general::Quant(%w, %half, %zero, %two) {narrow = 1}\n"
             "%y = Conv(%a, %q)\n%r = Relu(%y)\n"
             "%s = qonnx.custom_op.general::Quant(%r, %one, %zero, %three) {signed = 0}\n"
             "%f = Flatten(%s)\n"
             "%p = qonnx.custom_op.general::BipolarQuant(%m, %ms)\n"
             "%t = Transpose(%p) {perm = [1, 0]}\n%u = MatMul(%f, %t)\noutput %u\n");
  EXPECT_LT(Difference(text, Random(random, {2, 16, 5, 5}), kernels), 1e-6);
  EXPECT_TRUE(HasIntegerProduct(kernels));
}

TEST(Qonnx, GemmWithTransposedWeights) {
  std::mt19937 random(3);
  std::set<std::string> kernels;
  const std::string text =
      StrCat("input %x: float32[3, 40]\n", kScalars, "const %w: float32[20, 40] = {",
             Floats(random, 20 * 40), "}\nconst %b: float32[20] = {", Floats(random, 20), "}\n",
             "%a = qonnx.custom_op.general::Quant(%x, %half, %zero, %three)\n"
             "%q = qonnx.custom_op.general::Quant(%w, %half, %zero, %one)\n"
             "%y = Gemm(%a, %q, %b) {transB = 1}\noutput %y\n");
  EXPECT_LT(Difference(text, Random(random, {3, 40}), kernels), 1e-6);
  EXPECT_TRUE(HasIntegerProduct(kernels));
}

TEST(Qonnx, WhatHasNoIntegersStays) {
  std::mt19937 random(4);
  std::set<std::string> kernels;
  const std::string text =
      StrCat("input %x: float32[3, 40]\n", kScalars, "const %w: float32[40, 20] = {",
             Floats(random, 20 * 40),
             "}\n%a = qonnx.custom_op.general::Quant(%x, %half, %one, %three)\n"
             "%q = qonnx.custom_op.general::Quant(%w, %half, %zero, %two)\n"
             "%y = MatMul(%a, %q)\noutput %y\n");
  EXPECT_LT(Difference(text, Random(random, {3, 40}), kernels), 1e-6);
  EXPECT_FALSE(kernels.contains("conv_q8_lookup"));
}

}  // namespace
}  // namespace requant
