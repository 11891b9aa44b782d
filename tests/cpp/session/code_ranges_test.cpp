// The range of codes that the planner derives for an 8-bit value. The kernel reveals it, as
// conv_q8_narrow_x only takes inputs of few codes. The results always equal the references'.
#include <gtest/gtest.h>

#include <random>

#include "ir/text.h"
#include "session/session.h"
#include "support/random_text.h"

namespace requant {
namespace {

using testing::Numbers;

constexpr const char* kNarrow = "conv_q8_narrow_x";

struct Case {
  const char* name;
  /// Operators that lead to %x from %q, uint8[1, 12, 6, 6] with codes of [0, 15], or from %any, the
  /// same type with any codes.
  const char* steps;
  bool narrow;
  int zero_point = 3;
};

constexpr Case kCases[] = {
    {"clip alone", "%x = Identity(%q)\n", true},
    {"pool", "%x = MaxPool(%q) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n", true},
    {"movement",
     "%t = Transpose(%q) {perm = [0, 2, 1, 3]}\n%u = Transpose(%t) {perm = [0, 2, 1, 3]}\n"
     "%r = Reshape(%u, %shape)\n%x = Concat(%r, %r) {axis = 2}\n",
     true},
    {"padding within", "%x = Pad(%q, %pads, %seven)\n", true},
    {"padding beyond", "%x = Pad(%q, %pads, %most)\n", false},
    {"input of the graph", "%x = Identity(%any)\n", false},
    {"joined with an input", "%x = Concat(%q, %any) {axis = 2}\n", false},
    {"clipped input", "%x = Clip(%any, %seven, %hundred)\n", true},
    {"a zero point far away", "%x = Identity(%q)\n", false, 200},
    {"a zero point outside, but near", "%x = Identity(%q)\n", true, 100},
    {"table", "%x = ai.requant::Lut(%any, %table)\n", true},
};

TEST(CodeRanges, DecideWhichKernelsMayRun) {
  std::mt19937 random(41);
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    const std::string zero = std::to_string(test.zero_point);
    const std::string text =
        "graph \"\" opset 13, ai.requant 1\ninput %f: float32[1, 12, 6, 6]\n"
        "input %any: uint8[1, 12, 6, 6]\n"
        "const %s: float32[] = {0.2}\nconst %z: uint8[] = {3}\nconst %xz: uint8[] = {" +
        zero +
        "}\nconst %wz: int8[] = {0}\nconst %ws: float32[] = {0.01}\n"
        "const %lo: uint8[] = {0}\nconst %hi: uint8[] = {15}\nconst %seven: uint8[] = {7}\n"
        "const %hundred: uint8[] = {100}\nconst %most: uint8[] = {255}\n"
        "const %shape: int64[4] = {1, 12, 6, 6}\nconst %pads: int64[8] = {0, 0, 1, 1, 0, 0, 1, 1}\n"
        "const %table: uint8[256] = " +
        Numbers(random, 256, 20, 35) +
        "\nconst %w: int8[9, 12, 3, 3] = " + Numbers(random, 972, -8, 7) +
        "\n%c = QuantizeLinear(%f, %s, %z)\n%q = Clip(%c, %lo, %hi)\n" + test.steps +
        "%y = QLinearConv(%x, %s, %xz, %w, %ws, %wz, %s, %z) {pads = [1, 1, 1, 1]}\noutput %y\n";
    const Graph graph(ParseGraph(text));
    TensorMap feeds;
    for (const Value* input : graph.inputs()) {
      Tensor tensor(input->type.dtype, input->type.StaticShape());
      for (int64_t i = 0; i < tensor.count(); ++i) {
        if (input->type.dtype == DType::kFloat32) {
          tensor.data<float>()[i] = static_cast<float>(random() % 1000) / 100 - 4;
        } else {
          tensor.data<uint8_t>()[i] = static_cast<uint8_t>(random());
        }
      }
      feeds[input->name] = std::move(tensor);
    }
    const std::vector<Tensor> expected = Interpret(graph, feeds);
    SessionOptions options;
    options.plan.force_kernels = {{"conv_q8", kNarrow}};
    Session session(graph, options);
    const std::vector<Tensor> results = session.Run(feeds);
    EXPECT_TRUE(results[0].SameBits(expected[0]));
    bool narrow = false;
    for (const auto& step : session.plan()->steps) narrow = narrow || step->kernel == kNarrow;
    EXPECT_EQ(narrow, test.narrow);
  }
}

}  // namespace
}  // namespace requant
