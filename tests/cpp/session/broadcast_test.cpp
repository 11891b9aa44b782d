// Operators of two tensors with different shapes give the reference's bits: with every row, with
// threads, and saved.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "session/session.h"
#include "support/random_text.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

using testing::Dims, testing::Pick;

/// Declares %a and %b with up to five dimensions, each of which may be 1 or (in front) missing in
/// one of them.
std::string Inputs(std::mt19937& random, const std::string& a_type, const std::string& b_type) {
  const int rank = Pick(random, 1, 5);
  const int longest = Pick(random, 0, rank - 1);
  std::vector<int> a, b;
  for (int i = 0; i < rank; ++i) {
    const int size = Pick(random, 1, i == longest ? 200 : 4);
    const int form = Pick(random, 0, 3);
    a.push_back(form == 1 ? 1 : size);
    b.push_back(form == 2 ? 1 : size);
  }
  std::vector<int>& shorter = Pick(random, 0, 1) == 0 ? a : b;
  shorter.erase(shorter.begin(), shorter.begin() + Pick(random, 0, rank));
  return StrCat("graph \"\" opset 17, com.microsoft 1\ninput %a: ", a_type, Dims(a),
                "\ninput %b: ", b_type, Dims(b), "\n");
}

float AnyFloat(std::mt19937& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kSpecial[] = {0,     -0.0F,  1,       -1,    2,   -2,        3,         0.5F,
                                -0.5F, 1e-40F, -1e-40F, 3e38F, NAN, kInfinity, -kInfinity};
  switch (Pick(random, 0, 5)) {
    case 0:
      return kSpecial[Pick(random, 0, 14)];
    case 1:
      return std::bit_cast<float>(static_cast<uint32_t>(random()));
    default:
      return static_cast<float>(Pick(random, -40, 40)) / 8;
  }
}

TensorMap Feeds(std::mt19937& random, const Graph& graph) {
  TensorMap feeds;
  for (const Value* input : graph.inputs()) {
    Tensor tensor(input->type.dtype, input->type.StaticShape());
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (tensor.dtype() == DType::kFloat32) {
        tensor.data<float>()[i] = AnyFloat(random);
      } else {
        static_cast<uint8_t*>(tensor.raw())[i] = static_cast<uint8_t>(random());
      }
    }
    feeds[input->name] = tensor;
  }
  return feeds;
}

/// Runs a session, and the same one saved; checks that it has one step, which is not the reference.
Tensor RunOnce(const Graph& graph, const TensorMap& feeds, const SessionOptions& options) {
  Session session(graph, options);
  const Tensor result = session.Run(feeds)[0];
  EXPECT_EQ(session.plan()->steps.size(), 1u);
  EXPECT_NE(session.plan()->steps[0]->kernel, "reference");
  const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
  SessionOptions again;
  again.runner = options.runner;
  EXPECT_TRUE(Session(SharedBytes{saved, *saved}, again).Run(feeds)[0].SameBits(result));
  return result;
}

TEST(Broadcast, QuantizedGivesTheReferencesBits) {
  std::mt19937 random(5);
  testing::ThreadRunner threads(3);
  const auto type = [&] { return std::string(Pick(random, 0, 1) == 1 ? "int8" : "uint8"); };
  const auto zero = [&](const std::string& of) {
    return Pick(random, 0, 255) - (of == "int8" ? 128 : 0);
  };
  for (int i = 0; i < 200; ++i) {
    const std::string a = type(), b = type(), y = type();
    const char* op = i % 2 == 0 ? "Add" : "Mul";
    const std::string text = StrCat(
        Inputs(random, a, b), "const %s: float32[] = {0.0", Pick(random, 1, 9), "}\nconst %az: ", a,
        "[] = {", zero(a), "}\nconst %bz: ", b, "[] = {", zero(b), "}\nconst %t: float32[] = {0.",
        Pick(random, 10, 99), "}\nconst %yz: ", y, "[] = {", zero(y),
        "}\n%y = com.microsoft::QLinear", op, "(%a, %s, %az, %b, %t, %bz, %t, %yz)\noutput %y\n");
    SCOPED_TRACE(text);
    const Graph graph(ParseGraph(text));
    const TensorMap feeds = Feeds(random, graph);
    for (const RequantizeMode mode : {RequantizeMode::kUpward, RequantizeMode::kFloat}) {
      const Tensor expected = Interpret(graph, feeds, {mode, {}})[0];
      SessionOptions options;
      options.plan.requantize = mode;
      if (i % 3 == 1) options.runner = &threads;
      if (i % 3 == 2) {
        const std::string family = i % 2 == 0 ? "qadd" : "qmul";
        const char* form = mode == RequantizeMode::kFloat ? "_float" : "_fixed";
        options.plan.force_kernels = {{family, StrCat(family, form, "_scalar")}};
      }
      ASSERT_TRUE(RunOnce(graph, feeds, options).SameBits(expected));
    }
  }
}

TEST(Broadcast, ComparisonsGiveTheReferencesBits) {
  std::mt19937 random(6);
  testing::ThreadRunner threads(3);
  constexpr const char* kOps[] = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"};
  for (int i = 0; i < 300; ++i) {
    const std::string text =
        StrCat(Inputs(random, "float32", "float32"), "%y = ", kOps[i % 5], "(%a, %b)\noutput %y\n");
    SCOPED_TRACE(text);
    const Graph graph(ParseGraph(text));
    const TensorMap feeds = Feeds(random, graph);
    SessionOptions options;
    if (i % 3 == 1) options.runner = &threads;
    if (i % 3 == 2) options.plan.force_kernels = {{"binary_f32", "compare_f32_scalar"}};
    ASSERT_TRUE(RunOnce(graph, feeds, options).SameBits(Interpret(graph, feeds)[0]));
  }
}

/// The error in units in the last place of the exact value.
double ErrorOf(float got, double exact) {
  const auto rounded = static_cast<float>(exact);
  if (std::isnan(got) || std::isnan(rounded)) {
    return std::isnan(got) == std::isnan(rounded) ? 0 : HUGE_VAL;
  }
  if (got == rounded) return std::signbit(got) == std::signbit(rounded) ? 0 : HUGE_VAL;
  if (std::isinf(rounded)) return HUGE_VAL;
  const float size = std::fabs(rounded);
  return std::fabs(got - exact) / (std::nextafter(size, INFINITY) - size);
}

TEST(Broadcast, SinesAreAccurate) {
  std::mt19937 random(8);
  for (const bool cosine : {false, true}) {
    const auto graph = ParseGraph(StrCat("graph \"\" opset 17\ninput %a: float32[5003]\n%y = ",
                                         cosine ? "Cos" : "Sin", "(%a)\noutput %y\n"));
    double worst = 0;
    for (int i = 0; i < 40; ++i) {
      Tensor x(DType::kFloat32, {5003});
      for (int64_t k = 0; k < x.count(); ++k) {
        x.data<float>()[k] = i == 0
                                 ? AnyFloat(random)
                                 : std::ldexp(static_cast<float>(Pick(random, -1000000, 1000000)),
                                              Pick(random, -24, 8));
      }
      const Tensor got = Interpret(graph, {{"a", x}})[0];
      for (int64_t k = 0; k < x.count(); ++k) {
        const double angle = x.data<float>()[k];
        worst = std::max(worst,
                         ErrorOf(got.data<float>()[k], cosine ? std::cos(angle) : std::sin(angle)));
      }
    }
    EXPECT_LE(worst, 0.502);
  }
}

}  // namespace
}  // namespace requant
