// A graph of one quantized operator with random operands, and what its forms in plain integer
// operators must give.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/integers/integers.h"
#include "passes/runner.h"
#include "passes/shape/infer_type.h"
#include "support/random_text.h"

namespace requant::testing {

inline constexpr int kExtremes[] = {0, 128, 255, -128, 127, 1, -1, 3};

/// A graph with one quantized operator, which tests fill with random operands.
class Case {
 public:
  explicit Case(uint32_t seed) : random(seed) { graph.opsets = {{"", 13}, {kMicrosoftDomain, 1}}; }

  DType RandomType() { return Pick(random, 0, 1) == 0 ? DType::kUint8 : DType::kInt8; }
  static int Lo(DType dtype) { return dtype == DType::kInt8 ? -128 : 0; }
  int Code(DType dtype) {
    // Every fourth code is an extreme one.
    const int lo = Lo(dtype);
    if (Pick(random, 0, 3) == 0) return Pick(random, 0, 1) == 0 ? lo : lo + 255;
    return Pick(random, lo, lo + 255);
  }
  Tensor Codes(DType dtype, Shape shape) {
    Tensor out(dtype, std::move(shape));
    for (int64_t i = 0; i < out.count(); ++i) {
      static_cast<uint8_t*>(out.raw())[i] = static_cast<uint8_t>(Code(dtype));
    }
    return out;
  }
  Value* Input(const std::string& name, DType dtype, const Shape& shape) {
    Value* value = graph.AddValue(name, {dtype, ToSymbolic(shape)});
    graph.AddInput(value);
    feeds[name] = Codes(dtype, shape);
    return value;
  }
  Value* Constant(Tensor tensor) { return graph.AddConstant("c", std::move(tensor)); }
  Value* Scale(int count = 1) {
    std::vector<float> scales;
    for (int i = 0; i < count; ++i) {
      scales.push_back(static_cast<float>(std::exp2(Pick(random, -90, -10) / 10.0)));
    }
    if (count > 1 && Pick(random, 0, 3) == 0) scales[0] = 0;  // a channel of zeros
    return Constant(count == 1 ? Tensor::Scalar(scales[0]) : Tensor::Vector(scales));
  }
  Value* Zero(DType dtype, int count = 1) {
    Tensor zeros(dtype, count == 1 ? Shape{} : Shape{count});
    for (int i = 0; i < count; ++i) {
      int zero = kExtremes[Pick(random, 0, 7)];
      if (zero < Lo(dtype) || zero > Lo(dtype) + 255) zero = 0;
      static_cast<uint8_t*>(zeros.raw())[i] = static_cast<uint8_t>(zero);
    }
    return Constant(zeros);
  }
  Value* Bias(Shape shape) {
    Tensor bias(DType::kInt32, std::move(shape));
    for (int64_t i = 0; i < bias.count(); ++i) {
      const int kind = Pick(random, 0, 9);
      bias.data<int32_t>()[i] = kind == 0   ? INT32_MAX
                                : kind == 1 ? INT32_MIN
                                            : Pick(random, -200000, 200000);
    }
    return Constant(bias);
  }
  Node* Finish(const char* op, const char* domain, std::vector<Value*> inputs,
               AttributeMap attributes = {}) {
    Value* y = graph.AddValue("y");
    Node* node = graph.AddNode(op, domain, std::move(inputs), {y}, std::move(attributes), "layer");
    graph.AddOutput(y);
    InferTypes(graph);
    return node;
  }

  std::mt19937 random;
  Graph graph;
  TensorMap feeds;
};

inline std::vector<int64_t> Ints(const std::vector<Tensor>& tensors) {
  std::vector<int64_t> out;
  for (const Tensor& tensor : tensors) {
    for (const int64_t value : tensor.ToInts()) out.push_back(value);
  }
  return out;
}

inline std::vector<double> Reals(const std::vector<Tensor>& tensors) {
  return tensors[0].ToDoubles();
}

/// Expects that all forms of a case give the operator's results; returns those in mode `fixed`.
inline std::vector<int64_t> ExpectForms(const Case& given, const std::string& note) {
  for (const RequantizeMode mode :
       {RequantizeMode::kUpward, RequantizeMode::kToNearest, RequantizeMode::kGemmlowp}) {
    InterpretOptions options;
    options.requantize = mode;
    const std::vector<Tensor> wanted = Interpret(given.graph, given.feeds, options);
    for (const Decomposition how : {Decomposition::kSubtractFirst, Decomposition::kFourTerms}) {
      Graph graph = given.graph.Clone();
      const IntegerReport report = LegalizeToIntegers(graph, {how, mode});
      VerifyGraph(graph);
      EXPECT_TRUE(report.left.empty()) << note << report.left[0].reason;
      EXPECT_EQ(report.legalized.size(), 1U);
      const std::string text = PrintGraph(graph, {8});
      EXPECT_EQ(text.find("QLinear"), std::string::npos) << text;
      EXPECT_EQ(text.find("QGemm"), std::string::npos) << text;
      // The results do not depend on the mode that runs them.
      InterpretOptions other;
      other.requantize = RequantizeMode::kFloat;
      const std::vector<Tensor> got = Interpret(graph, given.feeds, other);
      EXPECT_EQ(got[0].dtype(), wanted[0].dtype());
      EXPECT_EQ(got[0].shape(), wanted[0].shape());
      EXPECT_EQ(Reals(got), Reals(wanted)) << note << text;
      // Passes keep them.
      RunPasses(graph, {});
      EXPECT_EQ(Reals(Interpret(graph, given.feeds, other)), Reals(wanted)) << note << text;
      if (::testing::Test::HasFailure()) return {};
    }
  }
  return Ints(Interpret(given.graph, given.feeds));
}

/// Mode `fixed` in this file's own words: a multiplier that is k / 2^16 to float's precision is
/// that number; every other one has 31 bits.
inline int64_t Fixed(int64_t accumulator, double m, int64_t zero, DType dtype) {
  accumulator = static_cast<int32_t>(static_cast<uint32_t>(accumulator));
  const double units = std::nearbyint(m * 65536);
  if (units >= 1 && units <= 32768 && std::fabs(units / 65536 - m) <= m / 8388608) {
    m = units / 65536;
  }
  int exponent = 0;
  int64_t mantissa = m == 0 ? 0 : std::llround(std::ldexp(std::frexp(m, &exponent), 31));
  if (mantissa == int64_t{1} << 31) {
    mantissa /= 2;
    ++exponent;
  }
  const int shift = 31 - exponent;
  int64_t steps = 0;
  if (mantissa != 0 && shift <= 62) {
    steps = (accumulator * mantissa + (int64_t{1} << (shift - 1))) >> shift;
  }
  const int64_t lo = dtype == DType::kInt8 ? -128 : 0;
  return std::clamp(std::clamp<int64_t>(steps, INT32_MIN, INT32_MAX) + zero, lo, lo + 255);
}

inline AttributeMap RandomWindow(std::mt19937& random, int spatial, std::vector<int64_t>& kernel,
                                 bool dilate) {
  AttributeMap attributes;
  std::vector<int64_t> strides, dilations, pads;
  for (int i = 0; i < spatial; ++i) {
    kernel.push_back(Pick(random, 1, 3));
    strides.push_back(Pick(random, 1, 2));
    dilations.push_back(dilate ? Pick(random, 1, 2) : 1);
  }
  for (int i = 0; i < 2 * spatial; ++i) {
    pads.push_back(Pick(random, 0, static_cast<int>(kernel[static_cast<size_t>(i % spatial)]) - 1));
  }
  const int automatic = Pick(random, 0, 5);
  attributes.Set("kernel_shape", kernel);
  attributes.Set("strides", strides);
  if (automatic == 0) {
    attributes.Set("auto_pad", std::string("SAME_UPPER"));
  } else if (automatic == 1) {
    attributes.Set("auto_pad", std::string("SAME_LOWER"));
  } else {
    attributes.Set("pads", pads);
  }
  if (dilate && automatic > 1) attributes.Set("dilations", dilations);
  return attributes;
}

}  // namespace requant::testing
