// A convolution or matrix product and the addition that follows are one step, which gives the
// references' integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/str_cat.h"
#include "ir/text.h"
#include "session/session.h"
#include "support/random_text.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

using testing::Numbers;
using testing::Pick;

struct Form {
  const char* kernel;
  int codes;  ///< codes of the input, from 0
  int weight_lo, weight_hi;
};

constexpr Form kForms[] = {
    {"conv_q8_vector", 256, -128, 127},
    {"conv_q8_dot7", 256, -64, 63},
    {"conv_q8_lines", 256, -128, 127},
    {"conv_q8_narrow_x", 16, -8, 7},
    {"conv_q8_narrow_w", 256, -8, 7},
    {"conv_q8_lookup", 4, -2, 1},
    {"conv_q8_popcount", 4, -4, 3},
    {"conv_q8_scalar", 256, -128, 127},
    {"conv_q8_winograd_narrow", 16, -8, 7},
    {"conv_q8_winograd_dot8", 32, -7, 7},
    {"conv_q8_winograd_4x3_dot8", 4, -2, 1},
    {"conv_q8_winograd_pairs", 256, -128, 127},
    {"conv_q8_winograd_4x4_pairs", 256, -128, 127},
    {"conv_q8_winograd_strided_narrow", 16, -8, 7},
    {"conv_q8_winograd_strided_dot8", 16, -8, 7},
    {"conv_q8_winograd_strided_pairs", 256, -128, 127},
};

/// %y = [Clip]([Clip](conv(%c)) + %r), or %r + ...; every type int8 or uint8.
std::string Text(std::mt19937& random, const Form& form) {
  const auto type = [&] { return Pick(random, 0, 1) == 0 ? "int8" : "uint8"; };
  const std::string own = type(), other = type(), sum = type();
  const std::string_view kernel = form.kernel;
  const bool winograd = kernel.find("winograd") != std::string_view::npos;
  const bool strided = kernel.find("strided") != std::string_view::npos;
  const int channels = winograd ? 16 * Pick(random, 1, 3) : Pick(random, 1, 40);
  const int out = Pick(random, 1, 40), size = winograd ? 3 : Pick(random, 1, 3);
  const int height = size + Pick(random, 0, 9), width = size + Pick(random, 0, 20);
  const int batch = Pick(random, 1, 2), stride = winograd ? 1 + strided : Pick(random, 1, 2);
  const bool first = Pick(random, 0, 1) == 0, clips = Pick(random, 0, 1) == 0;
  const bool clips_own = Pick(random, 0, 1) == 0;
  const std::string shape = StrCat("[", batch, ", ", out, ", ", (height - size) / stride + 1, ", ",
                                   (width - size) / stride + 1, "]");
  const std::string a = StrCat(clips_own ? "%u" : "%v", ", %s, %own_z"), b = "%r, %rs, %other_z";
  return StrCat(
      "graph \"\" opset 13, com.microsoft 1\ninput %x: uint8[", batch, ", ", channels, ", ", height,
      ", ", width, "]\ninput %r: ", other, shape,
      "\nconst %s: float32[] = {1.0}\nconst %rs: float32[] = {0.7}\nconst %ts: float32[] = {1.3}\n",
      "const %ys: float32[] = {", channels * size * size * form.codes / 40 + 1, ".0}\n",
      "const %z: uint8[] = {", Pick(random, 0, form.codes - 1), "}\nconst %wz: int8[] = {0}\n",
      "const %own_z: ", own, "[] = {", Pick(random, 0, 100), "}\nconst %other_z: ", other, "[] = {",
      Pick(random, 0, 100), "}\nconst %sum_z: ", sum, "[] = {", Pick(random, 0, 100),
      "}\nconst %low: uint8[] = {0}\nconst %high: uint8[] = {", form.codes - 1,
      "}\nconst %least: ", sum, "[] = {", Pick(random, 0, 20), "}\nconst %most: ", sum, "[] = {",
      Pick(random, 60, 127), "}\nconst %own_least: ", own, "[] = {", Pick(random, 0, 50),
      "}\nconst %own_most: ", own, "[] = {", Pick(random, 51, 127), "}\nconst %w: int8[", out, ", ",
      channels, ", ", size, ", ", size,
      "] = ", Numbers(random, out * channels * size * size, form.weight_lo, form.weight_hi),
      "\nconst %b: int32[", out, "] = ", Numbers(random, out, -500, 500),
      "\n%c = Clip(%x, %low, %high)\n",
      "%v = QLinearConv(%c, %s, %z, %w, %s, %wz, %ys, %own_z, %b) {strides = [", stride, ", ",
      stride, "]}\n", clips_own ? "%u = Clip(%v, %own_least, %own_most)\n" : "",
      "%t = com.microsoft::QLinearAdd(", first ? b : a, ", ", first ? a : b, ", %ts, %sum_z)\n",
      clips ? "%y = Clip(%t, %least, %most)\n" : "%y = Identity(%t)\n", "output %y\n");
}

TensorMap Feeds(std::mt19937& random, const Graph& graph) {
  TensorMap feeds;
  for (const Value* input : graph.inputs()) {
    Tensor tensor(input->type.dtype, input->type.StaticShape());
    for (int64_t i = 0; i < tensor.count(); ++i) {
      static_cast<uint8_t*>(tensor.raw())[i] = static_cast<uint8_t>(random());
    }
    feeds[input->name] = std::move(tensor);
  }
  return feeds;
}

bool HasStep(const Session& session, std::string_view op, std::string_view kernel) {
  for (const auto& step : session.plan()->steps) {
    if (step->op.starts_with(op)) return step->kernel == kernel;
  }
  return false;
}

TEST(Residual, IsAddedByTheConvolutionsOwnStep) {
  std::mt19937 random(71);
  testing::ThreadRunner threads(3);
  int forced = 0, forced_with_clip = 0;
  for (int i = 0; i < 200; ++i) {
    const Form& form = kForms[static_cast<size_t>(i) % std::size(kForms)];
    const Graph graph(ParseGraph(Text(random, form)));
    const TensorMap feeds = Feeds(random, graph);
    SessionOptions options;
    options.plan.force_kernels = {{"conv_q8", form.kernel}};
    options.plan.requantize = i % 3 == 0 ? RequantizeMode::kFloat : RequantizeMode::kUpward;
    if (i % 2 == 1) options.runner = &threads;
    InterpretOptions interpret;
    interpret.requantize = options.plan.requantize;
    SCOPED_TRACE(StrCat(form.kernel, ", case ", i));
    const std::vector<Tensor> expected = Interpret(graph, feeds, interpret);
    Session session(graph, options);
    const std::vector<Tensor> results = session.Run(feeds);
    EXPECT_TRUE(results[0].SameBits(expected[0]));
    if (HasStep(session, "QLinearConv+QLinearAdd", form.kernel)) ++forced;
    if (HasStep(session, "QLinearConv+Clip+QLinearAdd", form.kernel)) ++forced_with_clip;
  }
  EXPECT_GT(forced, 40);
  EXPECT_GT(forced_with_clip, 40);
  EXPECT_GT(forced + forced_with_clip, 100);
}

TEST(Residual, IsAddedByAStepOfItsOwnWhereItHasTo) {
  std::mt19937 random(72);
  const Graph graph(ParseGraph(Text(random, kForms[0])));
  const TensorMap feeds = Feeds(random, graph);
  const auto steps = [&](const PlanOptions& plan) {
    SessionOptions options;
    options.plan = plan;
    Session session(graph, options);
    InterpretOptions interpret;
    interpret.requantize = plan.requantize;
    EXPECT_TRUE(session.Run(feeds)[0].SameBits(Interpret(graph, feeds, interpret)[0]));
    return std::count_if(session.plan()->steps.begin(), session.plan()->steps.end(),
                         [](const auto& step) { return step->op.starts_with("QLinearAdd"); });
  };
  PlanOptions options;
  EXPECT_EQ(steps(options), 0);
  options.requantize = RequantizeMode::kToNearest;  // additions have no kernel for this mode
  EXPECT_EQ(steps(options), 1);
  options = {};
  options.force_kernels = {{"qadd", "qadd_fixed_scalar"}};
  EXPECT_EQ(steps(options), 1);
  options = {};
  options.fuse = false;
  EXPECT_EQ(steps(options), 1);
  options = {};
  options.compact = true;
  EXPECT_EQ(steps(options), 0);
}

}  // namespace
}  // namespace requant
