// Signs, the codes -1 and 1, stay one bit between convolutions that pad them with 0: the tests
// check which values are planes, which lookups are gone, and that the results stay the
// interpreter's.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "session/session.h"
#include "support/random_text.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

using testing::Numbers;
using testing::Pick;

struct Form {
  int channels = 32, groups = 1, bits = 1;
  bool pools = false;    // a MaxPool between two convolutions
  bool direct = false;   // a convolution also reads the codes from which signs come
  bool falling = false;  // the lookup of sums makes 1 of codes below the threshold
};

/// A table of 256 entries, for the codes -128 to 127 of int8.
template <typename Entry>
std::string Table(Entry&& entry) {
  std::string text = "{";
  for (int byte = 0; byte < 256; ++byte) {
    text += StrCat(byte == 0 ? "" : ", ", entry(byte < 128 ? byte : byte - 256));
  }
  return text + "}";
}

/// Convolutions of signs: of the input, of a convolution's result, and of a sum of 8 bits.
std::string Text(std::mt19937& random, const Form& form) {
  const int codes = 1 << form.bits, inner = form.channels / form.groups;
  std::string text = StrCat(
      "graph \"\" opset 13, com.microsoft 1, ai.requant 1\ninput %x: int8[", Pick(random, 1, 2),
      ", ", form.channels, ", ", Pick(random, 5, 9), ", ", Pick(random, 5, 12),
      "]\nconst %s: float32[] = {1.0}\nconst %z: int8[] = {-1}\nconst %zero: int8[] = {0}\n",
      "const %ys: float32[] = {", inner, ".0}\nconst %bs: float32[] = {2.0}\n",
      "const %low: int8[] = {-1}\nconst %high: int8[] = {", codes - 2, "}\n");
  // Signs of codes from -1 on, as 2 u - (codes - 1) with u = code + 1.
  text += StrCat("const %signs: int8[256] = ", Table([&](int code) {
                   return 2 * std::clamp(code + 1, 0, codes - 1) - (codes - 1);
                 }),
                 "\n");
  const int at = Pick(random, -20, 20);
  text += StrCat("const %threshold: int8[256] = ",
                 Table([&](int code) { return (code >= at) != form.falling ? 1 : -1; }), "\n");
  const auto conv = [&](const char* to, const char* from, const char* zero, const char* scale,
                        const char* to_zero, int size) {
    const auto pad = [&] { return Pick(random, 0, size - 1); };
    const int stride = size == 1 ? 1 : Pick(random, 1, 2);
    text += StrCat("const %", to, "w: int8[", form.channels, ", ", inner, ", ", size, ", ", size,
                   "] = ", Numbers(random, form.channels * inner * size * size, 0, 1), "\n");
    text += StrCat("%", to, " = QLinearConv(%", from, ", %s, ", zero, ", %", to, "w, %s, %half, ",
                   scale, ", ", to_zero, ") {group = ", form.groups, ", pads = [", pad(), ", ",
                   pad(), ", ", pad(), ", ", pad(), "], strides = [", stride, ", ", stride, "]}\n");
  };
  text += StrCat("const %half: int8[] = {", Pick(random, 0, 1), "}\n");
  text += "%u = Clip(%x, %low, %high)\n%us = ai.requant::Lut(%u, %signs)\n";
  conv("a_", "us", "%zero", "%ys", "%z", 3);
  text += "%a = Clip(%a_, %low, %high)\n%as = ai.requant::Lut(%a, %signs)\n";
  text += form.pools ? "%m = MaxPool(%as) {kernel_shape = [2, 2], pads = [1, 0, 0, 1]}\n"
                     : "%m = Identity(%as)\n";
  conv("b", "m", "%zero", "%bs", "%zero", 2);
  text += "%c = com.microsoft::QLinearAdd(%b, %s, %zero, %b, %s, %zero, %bs, %zero)\n";
  text += "%cs = ai.requant::Lut(%c, %threshold)\n";
  conv("y", "cs", "%zero", "%ys", "%zero", 1);
  text += "output %y\n";
  text += "%q = com.microsoft::QLinearGlobalAveragePool(%c, %s, %zero, %s, %zero)\n";
  text += StrCat("%qs = ai.requant::Lut(%q, %threshold)\n%f = Flatten(%qs)\nconst %fw: int8[",
                 form.channels, ", 7] = ", Numbers(random, form.channels * 7, 0, 1),
                 "\n%i = MatMulInteger(%f, %fw)\noutput %i\n");
  if (form.direct) {
    conv("k", "a", "%z", "%ys", "%zero", 3);
    text += "output %k\n";
  }
  return text;
}

TEST(PackSigns, OneBitGoesFromOneConvolutionToTheNext) {
  std::mt19937 random(71);
  const char* const kernels[] = {"conv_q8_lookup", "conv_q8_popcount", "conv_q8_carry_save"};
  int planes = 0;
  for (int i = 0; i < 96; ++i) {
    Form form;
    form.groups = Pick(random, 1, 2);
    form.channels = form.groups * 32 * Pick(random, 1, 3);
    const char* kernel = kernels[i % 3];
    // Lookups read one plane only, which has two neighboring codes or signs.
    form.bits = i % 3 == 0 ? 1 : Pick(random, 1, 3);
    form.pools = i % 4 == 1;
    form.direct = i % 8 == 2;
    form.falling = i % 2 == 1;
    SCOPED_TRACE(StrCat(kernel, ", case ", i, ", ", form.bits, " bits"));
    const Graph graph(ParseGraph(Text(random, form)));
    const Value* x = graph.inputs()[0];
    Tensor input(x->type.dtype, x->type.StaticShape());
    for (int64_t at = 0; at < input.count(); ++at) {
      input.data<int8_t>()[at] = static_cast<int8_t>(Pick(random, -2, 1 << form.bits));
    }
    const TensorMap feeds = {{"x", input}};
    const std::vector<Tensor> expected = Interpret(graph, feeds);
    SessionOptions options;
    options.plan.force_kernels = {{"conv_q8", kernel}};
    options.plan.compact = i % 5 == 0;
    testing::ThreadRunner threads(2);
    if (i % 7 == 0) options.runner = &threads;
    Session session(graph, options);
    const std::vector<Tensor> results = session.Run(feeds);
    for (size_t at = 0; at < results.size(); ++at) {
      EXPECT_TRUE(results[at].SameBits(expected[at])) << at;
    }
    const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
    const std::vector<Tensor> again = Session({saved, *saved}, options).Run(feeds);
    for (size_t at = 0; at < results.size(); ++at) {
      EXPECT_TRUE(again[at].SameBits(expected[at])) << at;
    }
    int lookups = 0, bits = 0;
    for (const auto& step : session.plan()->steps) {
      lookups += step->kernel.starts_with("lut_") && step->kernel != "lut_bits" ? 1 : 0;
      bits += step->kernel == "lut_bits" ? 1 : 0;
      planes += session.plan()->slots[static_cast<size_t>(step->outputs[0])].planes;
    }
    // Those of sums become bits; those of the input are bytes that are transposed, and those that a
    // pool reads are bytes.
    EXPECT_EQ(bits, 2);
    EXPECT_EQ(lookups, form.pools ? 2 : 1);
  }
  EXPECT_GT(planes, 2 * 96);
}

TEST(PackSigns, BytesStayWhereSomethingElseReadsThem) {
  std::mt19937 random(72);
  Form form;
  std::string text = Text(random, form) + "output %as\n";
  const Graph graph(ParseGraph(text));
  const Value* x = graph.inputs()[0];
  Tensor input(x->type.dtype, x->type.StaticShape());
  for (int64_t at = 0; at < input.count(); ++at) {
    input.data<int8_t>()[at] = static_cast<int8_t>(Pick(random, -1, 0));
  }
  const std::vector<Tensor> expected = Interpret(graph, {{"x", input}});
  SessionOptions options;
  options.plan.force_kernels = {{"conv_q8", "conv_q8_lookup"}};
  Session session(graph, options);
  const std::vector<Tensor> results = session.Run({{"x", input}});
  for (size_t at = 0; at < results.size(); ++at) {
    EXPECT_TRUE(results[at].SameBits(expected[at])) << at;
  }
  for (const Slot& slot : session.plan()->slots) {
    EXPECT_FALSE((slot.name == "a" || slot.name == "as") && slot.planes != 0) << slot.name;
  }
}

}  // namespace
}  // namespace requant
