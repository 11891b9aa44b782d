// Values of 16 codes are packed, two to a byte: the tests check which values are packed, and that
// the results stay the interpreter's.
#include "plan/pack/pack_activations.h"

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
  const char* type;
  int low;  ///< lowest code
  int weight_lo, weight_hi;
  int codes = 16;
};

constexpr Form kForms[] = {
    {"conv_q8_narrow_x", "uint8", 0, -8, 7},
    {"conv_q8_narrow_w", "int8", -128, -7, 7},
    {"conv_q8_lookup", "uint8", 240, -2, 1},
    {"conv_q8_popcount", "int8", -9, -4, 3},
    {"conv_q8_narrow_x", "uint8", 112, 0, 15},
    {"conv_q8_winograd_narrow", "int8", -20, -8, 7},
    {"conv_q8_winograd_dot8", "uint8", 0, -7, 7},
    {"conv_q8_winograd_4x3_dot8", "int8", 7, -2, 1, 5},
    {"conv_q8_winograd_strided_narrow", "uint8", 16, -8, 7},
    {"conv_q8_winograd_strided_dot8", "int8", -20, -7, 7},
};

bool Is(const Form& form, const char* what) {
  return std::string_view(form.kernel).find(what) != std::string_view::npos;
}
bool IsWinograd(const Form& form) { return Is(form, "winograd"); }

/// Two convolutions, an addition of both results, and a convolution of each: w is packed, and so is
/// v unless a pool reads it.
std::string Text(std::mt19937& random, const Form& form, int channels, int groups, bool pool) {
  const bool winograd = IsWinograd(form);
  const int size = winograd ? 3 : Pick(random, 1, 3);
  const int stride = Is(form, "strided") ? 2 : winograd ? 1 : Pick(random, 1, 2);
  const int pad = Pick(random, 0, 2), next = winograd ? 3 : 1;
  const std::string pads = winograd ? " {pads = [1, 1, 1, 1]}\n" : "\n";
  const std::string last =
      Is(form, "strided") ? " {pads = [1, 1, 1, 1], strides = [2, 2]}\n" : pads;
  const int inner = channels / groups, height = size + Pick(random, 0, 9);
  const int width = size + Pick(random, 0, 20);
  const std::string t = form.type;
  const auto clip = [](const char* to) {
    return StrCat("%", to, " = Clip(%", to, "_, %low, %high)\n");
  };
  return StrCat(
      "graph \"\" opset 13, com.microsoft 1\ninput %x: ", t, "[", Pick(random, 1, 2), ", ",
      channels, ", ", height, ", ", width,
      "]\nconst %s: float32[] = {1.0}\nconst %d: float32[] = {0.7}\nconst %ys: float32[] = {",
      inner * size * size, ".0}\nconst %z: ", t, "[] = {", form.low + form.codes / 3,
      "}\nconst %wz: int8[] = {0}\n", "const %low: ", t, "[] = {", form.low, "}\nconst %high: ", t,
      "[] = {", form.low + form.codes - 1, "}\n", "const %a: int8[", channels, ", ", inner, ", ",
      size, ", ", size,
      "] = ", Numbers(random, channels * inner * size * size, form.weight_lo, form.weight_hi),
      "\nconst %b: int8[", channels, ", ", channels, ", ", next, ", ", next,
      "] = ", Numbers(random, channels * channels * next * next, form.weight_lo, form.weight_hi),
      "\nconst %ws: float32[] = {1.0}\n%u = Clip(%x, %low, %high)\n",
      "%v_ = QLinearConv(%u, %s, %z, %a, %ws, %wz, %ys, %z) {strides = [", stride, ", ", stride,
      "], pads = [", pad, ", ", pad, ", ", pad, ", ", pad, "], group = ", groups, "}\n", clip("v"),
      "%w_ = QLinearConv(%v, %s, %z, %b, %ws, %wz, %ys, %z)", pads, clip("w"),
      "%t_ = com.microsoft::QLinearAdd(%w, %s, %z, %v, %d, %z, %s, %z)\n", clip("t"),
      "%y = QLinearConv(%t, %s, %z, %b, %ws, %wz, %ys, %z)", last, "output %y\n",
      "%k = QLinearConv(%w, %s, %z, %b, %ws, %wz, %ys, %z)", last, "output %k\n",
      pool ? "%p = MaxPool(%v) {kernel_shape = [1, 1]}\noutput %p\n" : "");
}

TEST(PackActivations, GivesTheInterpretersResults) {
  std::mt19937 random(61);
  for (int i = 0; i < 120; ++i) {
    const Form& form = kForms[i % 10];
    const int groups = !IsWinograd(form) && Pick(random, 0, 2) == 0 ? 2 : 1;
    const int block = IsWinograd(form) ? 16 : i % 10 == 0 ? 4 : 8;
    const int channels = groups * Pick(random, 1, 5) * block;
    const bool pool = i % 10 == 3;
    SCOPED_TRACE(StrCat(form.kernel, ", ", channels, " channels, case ", i));
    const Graph graph(ParseGraph(Text(random, form, channels, groups, pool)));
    const Value* x = graph.inputs()[0];
    Tensor input(x->type.dtype, x->type.StaticShape());
    for (int64_t at = 0; at < input.count(); ++at) {
      static_cast<uint8_t*>(input.raw())[at] =
          static_cast<uint8_t>(form.low + Pick(random, 0, form.codes - 1));
    }
    const TensorMap feeds = {{"x", input}};
    const std::vector<Tensor> expected = Interpret(graph, feeds);
    SessionOptions options;
    options.plan.force_kernels = {{"conv_q8", form.kernel}};
    options.plan.compact = true;
    Session session(graph, options);
    const std::vector<Tensor> results = session.Run(feeds);
    for (size_t at = 0; at < results.size(); ++at) {
      EXPECT_TRUE(results[at].SameBits(expected[at])) << at;
    }
    const auto& slots = session.plan()->slots;
    const auto is_packed = [&](const char* name) {
      return std::any_of(slots.begin(), slots.end(),
                         [&](const Slot& slot) { return slot.name == name && slot.packed; });
    };
    const bool blocked = channels % 8 == 0;
    EXPECT_EQ(is_packed("w"), blocked);
    EXPECT_EQ(is_packed("t"), blocked);
    // Narrow windows of few channels use a row that cannot pack.
    if (channels >= 32) {
      EXPECT_EQ(is_packed("v"), !pool && channels / groups % 8 == 0);
    }
    EXPECT_FALSE(is_packed("y"));
  }
}

TEST(PackActivations, CompactSessionsKeepWeightsPackedWhereBytesAreFaster) {
  std::mt19937 random(66);
  const Graph graph(ParseGraph(
      StrCat("graph \"\" opset 13\ninput %x: uint8[1, 32, 16, 16]\nconst %s: float32[] = {1.0}\n",
             "const %ys: float32[] = {300.0}\nconst %z: uint8[] = {128}\nconst %wz: int8[] = {0}\n",
             "const %w: int8[32, 32, 3, 3] = ", Numbers(random, 32 * 32 * 9, -8, 7),
             "\n%y = QLinearConv(%x, %s, %z, %w, %s, %wz, %ys, %z) {pads = [1, 1, 1, 1]}\n",
             "output %y\n")));
  Tensor input(DType::kUint8, {1, 32, 16, 16});
  for (int64_t at = 0; at < input.count(); ++at) {
    static_cast<uint8_t*>(input.raw())[at] = static_cast<uint8_t>(Pick(random, 0, 255));
  }
  const auto run = [&](bool compact) {
    SessionOptions options;
    options.plan.compact = compact;
    Session session(graph, options);
    EXPECT_TRUE(session.Run({{"x", input}})[0].SameBits(Interpret(graph, {{"x", input}})[0]));
    for (const auto& step : session.plan()->steps) {
      const std::string kernel = step->kernel;
      if (kernel.starts_with("conv_q8")) return kernel;
    }
    return std::string();
  };
  EXPECT_EQ(run(false), "conv_q8_winograd_4x4_pairs");
  EXPECT_EQ(run(true), "conv_q8_narrow_w");
}

/// Three convolutions in a row; the first two give codes [0, 2^bits) and [low, low + 2^bits).
std::string Chain(std::mt19937& random, int bits, int channels, int groups, int inner_groups,
                  bool pools) {
  const auto conv = [&](const char* to, const char* from, const char* weights, const char* zero,
                        int group, int size) {
    const int stride = Pick(random, 1, 2), dilation = Pick(random, 1, 2);
    const auto pad = [&] { return Pick(random, 0, size - 1); };
    return StrCat("%", to, " = QLinearConv(%", from, ", %s, ", zero, ", ", weights,
                  ", %s, %wz, %ys, ", zero, ") {strides = [", stride, ", ", stride,
                  "], dilations = [", dilation, ", ", dilation, "], pads = [", pad(), ", ", pad(),
                  ", ", pad(), ", ", pad(), "], group = ", group, "}\n");
  };
  const bool is_signed = Pick(random, 0, 1) == 1;
  const std::string type = is_signed ? "int8" : "uint8";
  const int span = (1 << bits) - 1, least = is_signed ? -128 : 0;
  const int low = Pick(random, least, least + 255 - span);
  const auto weights = [&](const char* name, int group, int size) {
    const int inner = channels / group;
    return StrCat("const %", name, ": int8[", channels, ", ", inner, ", ", size, ", ", size,
                  "] = ", Numbers(random, channels * inner * size * size, -2, 1), "\n");
  };
  return StrCat("graph \"\" opset 13\ninput %x: ", type, "[2, ", channels, ", ", Pick(random, 7, 9),
                ", ", Pick(random, 7, 13), "]\nconst %s: float32[] = {1.0}\n",
                "const %ys: float32[] = {", channels / groups, ".0}\nconst %z: ", type, "[] = {",
                low + Pick(random, 0, span), "}\nconst %wz: int8[] = {0}\nconst %low: ", type,
                "[] = {", low, "}\nconst %high: ", type, "[] = {", low + span, "}\n",
                weights("a", groups, 3), weights("b", inner_groups, 2), weights("e", 1, 1),
                "%u = Clip(%x, %low, %high)\n", conv("v_", "u", "%a", "%z", groups, 3),
                pools ? "%p = Clip(%v_, %low, %high)\n%v = MaxPool(%p) {kernel_shape = [2, 2], "
                        "pads = [1, 0, 0, 1]}\n"
                      : "%v = Clip(%v_, %low, %high)\n",
                conv("w_", "v", "%b", "%z", inner_groups, 2), "%w = Clip(%w_, %low, %high)\n",
                conv("y", "w", "%e", "%z", 1, 1), "output %y\n");
}

TEST(PackActivations, PlanesOfBitsGoFromOneCountToTheNext) {
  std::mt19937 random(62);
  for (int i = 0; i < 60; ++i) {
    const int bits = i % 8 + 1, groups = Pick(random, 1, 2), inner_groups = Pick(random, 1, 2);
    const int channels = i % 5 == 4 ? 24 : groups * inner_groups * 32 * Pick(random, 1, 2);
    SCOPED_TRACE(StrCat("case ", i, ", ", bits, " bits, ", channels, " channels"));
    const Graph graph(
        ParseGraph(Chain(random, bits, channels, groups, inner_groups, i / 8 % 2 == 1)));
    const Value* x = graph.inputs()[0];
    Tensor input(x->type.dtype, x->type.StaticShape());
    for (int64_t at = 0; at < input.count(); ++at) {
      static_cast<uint8_t*>(input.raw())[at] = static_cast<uint8_t>(random());
    }
    const TensorMap feeds = {{"x", input}};
    const std::vector<Tensor> expected = Interpret(graph, feeds);
    testing::ThreadRunner threads(2);
    SessionOptions options;
    options.plan.force_kernels = {
        {"conv_q8", i % 3 == 0 ? "conv_q8_carry_save" : "conv_q8_popcount"}};
    options.plan.compact = i % 4 == 0;
    if (i % 2 == 1) options.runner = &threads;
    Session session(graph, options);
    EXPECT_TRUE(session.Run(feeds)[0].SameBits(expected[0]));
    for (const char* name : {"v", "w"}) {
      for (const Slot& slot : session.plan()->slots) {
        if (slot.name != name) continue;
        EXPECT_EQ(slot.planes, channels == 24 ? 0 : bits) << name;
      }
    }
  }
}

/// v = clip(conv(u)); t = clip(conv(v) + r), where r is v or a graph's input; y = conv(t).
std::string Residual(std::mt19937& random, const Form& form, int channels, bool packed_residual) {
  const std::string t = form.type;
  const int height = Pick(random, 1, 9), width = Pick(random, 1, 20);
  const std::string other = packed_residual ? "%v, %d, %z" : "%r, %d, %z";
  const std::string own = "%w, %s, %z";
  const bool first = Pick(random, 0, 1) == 0;
  const std::string shape = StrCat("[2, ", channels, ", ", height, ", ", width, "]");
  return StrCat(
      "graph \"\" opset 13, com.microsoft 1\ninput %x: ", t, shape, "\ninput %r: ", t, shape,
      "\nconst %s: float32[] = {1.0}\nconst %d: float32[] = {0.7}\nconst %ys: float32[] = {",
      channels, ".0}\nconst %z: ", t, "[] = {", form.low + form.codes / 3,
      "}\nconst %wz: int8[] = {0}\n", "const %low: ", t, "[] = {", form.low, "}\nconst %high: ", t,
      "[] = {", form.low + 15, "}\nconst %b: int8[", channels, ", ", channels,
      ", 1, 1] = ", Numbers(random, channels * channels, form.weight_lo, form.weight_hi),
      "\n%u = Clip(%x, %low, %high)\n%v_ = QLinearConv(%u, %s, %z, %b, %s, %wz, %ys, %z)\n"
      "%v = Clip(%v_, %low, %high)\n%w = QLinearConv(%v, %s, %z, %b, %s, %wz, %ys, %z)\n"
      "%t_ = com.microsoft::QLinearAdd(",
      first ? own : other, ", ", first ? other : own, ", %s, %z)\n%t = Clip(%t_, %low, %high)\n",
      "%y = QLinearConv(%t, %s, %z, %b, %s, %wz, %ys, %z)\noutput %y\n");
}

TEST(PackActivations, SumsOfAStepAndItsResidual) {
  std::mt19937 random(63);
  for (int i = 0; i < 60; ++i) {
    const Form& form = kForms[i % 5];
    const int channels = 8 * Pick(random, 2, 6);
    const bool packed_residual = i % 3 != 0;
    SCOPED_TRACE(StrCat(form.kernel, ", ", channels, " channels, case ", i));
    const Graph graph(ParseGraph(Residual(random, form, channels, packed_residual)));
    TensorMap feeds;
    for (const Value* x : graph.inputs()) {
      Tensor input(x->type.dtype, x->type.StaticShape());
      for (int64_t at = 0; at < input.count(); ++at) {
        static_cast<uint8_t*>(input.raw())[at] = static_cast<uint8_t>(random());
      }
      feeds[x->name] = std::move(input);
    }
    testing::ThreadRunner threads(2);
    SessionOptions options;
    options.plan.force_kernels = {{"conv_q8", form.kernel}};
    options.plan.compact = true;
    options.plan.requantize = i % 4 == 0 ? RequantizeMode::kFloat : RequantizeMode::kUpward;
    if (i % 2 == 1) options.runner = &threads;
    InterpretOptions interpret;
    interpret.requantize = options.plan.requantize;
    Session session(graph, options);
    EXPECT_TRUE(session.Run(feeds)[0].SameBits(Interpret(graph, feeds, interpret)[0]));
    for (const Slot& slot : session.plan()->slots) {
      EXPECT_NE(slot.name, "w");
      if (slot.name != "t" && slot.name != "v") continue;
      EXPECT_TRUE(slot.packed || slot.planes) << slot.name;
    }
  }
}

/// A pointwise convolution, three depthwise ones with any windows, and a convolution.
std::string Depthwise(std::mt19937& random, const Form& form, int channels) {
  const std::string t = form.type;
  const auto depthwise = [&](const char* to, const char* from, const char* weights, int size) {
    const int stride = Pick(random, 1, 2), dilation = Pick(random, 1, 2);
    const auto pad = [&] { return Pick(random, 0, size - 1); };
    return StrCat("%", to, "_ = QLinearConv(%", from, ", %s, %z, %", weights,
                  ", %s, %wz, %ds, %z) {strides = [", stride, ", ", stride, "], dilations = [",
                  dilation, ", ", dilation, "], pads = [", pad(), ", ", pad(), ", ", pad(), ", ",
                  pad(), "], group = ", channels, "}\n%", to, " = Clip(%", to, "_, %low, %high)\n");
  };
  const auto weights = [&](const char* name, int size) {
    return StrCat("const %", name, ": int8[", channels, ", 1, ", size, ", ", size,
                  "] = ", Numbers(random, channels * size * size, form.weight_lo, form.weight_hi),
                  "\n");
  };
  const int first = Pick(random, 1, 4);
  return StrCat(
      "graph \"\" opset 13\ninput %x: ", t, "[2, ", channels, ", ", Pick(random, 19, 24), ", ",
      Pick(random, 19, 40), "]\nconst %s: float32[] = {1.0}\nconst %ds: float32[] = {6.0}\n",
      "const %ys: float32[] = {", channels, ".0}\nconst %z: ", t, "[] = {",
      form.low + form.codes / 3, "}\nconst %wz: int8[] = {0}\nconst %low: ", t, "[] = {", form.low,
      "}\nconst %high: ", t, "[] = {", form.low + form.codes - 1, "}\nconst %b: int8[", channels,
      ", ", channels,
      ", 1, 1] = ", Numbers(random, channels * channels, form.weight_lo, form.weight_hi), "\n",
      weights("a", first), weights("c", 3), weights("e", 2),
      "%u = Clip(%x, %low, %high)\n%p_ = QLinearConv(%u, %s, %z, %b, %s, %wz, %ys, %z)\n"
      "%p = Clip(%p_, %low, %high)\n",
      depthwise("v", "p", "a", first), depthwise("w", "v", "c", 3), depthwise("t", "w", "e", 2),
      "%y = QLinearConv(%t, %s, %z, %b, %s, %wz, %ys, %z)\noutput %y\n");
}

TEST(PackActivations, OfDepthwiseConvolutions) {
  std::mt19937 random(64);
  testing::ThreadRunner threads(3);
  for (int i = 0; i < 60; ++i) {
    const Form& form = kForms[i % 5];
    const int channels = i % 6 == 0 ? Pick(random, 1, 70) : 8 * Pick(random, 1, 18);
    SCOPED_TRACE(StrCat(form.kernel, ", ", channels, " channels, case ", i));
    const Graph graph(ParseGraph(Depthwise(random, form, channels)));
    const Value* x = graph.inputs()[0];
    Tensor input(x->type.dtype, x->type.StaticShape());
    for (int64_t at = 0; at < input.count(); ++at) {
      static_cast<uint8_t*>(input.raw())[at] =
          static_cast<uint8_t>(form.low + Pick(random, 0, form.codes - 1));
    }
    const TensorMap feeds = {{"x", input}};
    SessionOptions options;
    options.plan.force_kernels = {{"conv_q8", form.kernel}, {"dwconv_q8", "dwconv_q8_narrow"}};
    options.plan.compact = true;
    options.plan.requantize = i % 4 == 0 ? RequantizeMode::kFloat : RequantizeMode::kUpward;
    if (i % 2 == 1) options.runner = &threads;
    InterpretOptions interpret;
    interpret.requantize = options.plan.requantize;
    const Tensor expected = Interpret(graph, feeds, interpret)[0];
    Session session(graph, options);
    EXPECT_TRUE(session.Run(feeds)[0].SameBits(expected));
    int packed = 0;
    for (const Slot& slot : session.plan()->slots) packed += slot.packed ? 1 : 0;
    // Values between depthwise layers are always packed; others are if the other layer uses a row
    // for few bits.
    EXPECT_TRUE(channels % 8 == 0 ? packed == 2 || packed == 4 : packed == 0) << packed;
    if (channels % 8 == 0 && channels >= 32) {
      EXPECT_EQ(packed, 4);
    }
    // By default, values are packed if the machine multiplies whole bytes as well.
    options.plan.force_kernels.clear();
    Session usual(graph, options);
    EXPECT_TRUE(usual.Run(feeds)[0].SameBits(expected));
  }
}

TEST(PackActivations, OfMatrixProducts) {
  std::mt19937 random(65);
  testing::ThreadRunner threads(2);
  for (int i = 0; i < 40; ++i) {
    const Form& form = kForms[i % 5];
    const int inner = i % 6 == 0 ? Pick(random, 1, 70) : 8 * Pick(random, 2, 12);
    const int rows = Pick(random, 1, 70), outer = Pick(random, 1, 40);
    SCOPED_TRACE(StrCat(form.kernel, ", ", rows, " x ", inner, ", case ", i));
    const std::string t = form.type;
    const auto weights = [&](const char* name, int k, int n) {
      return StrCat("const %", name, ": int8[", k, ", ", n,
                    "] = ", Numbers(random, k * n, form.weight_lo, form.weight_hi), "\n");
    };
    const Graph graph(ParseGraph(StrCat(
        "graph \"\" opset 13, com.microsoft 1\ninput %x: ", t, "[", rows, ", ", inner,
        "]\nconst %s: float32[] = {1.0}\nconst %ys: float32[] = {", inner, ".0}\nconst %z: ", t,
        "[] = {", form.low + form.codes / 3, "}\nconst %wz: int8[] = {0}\nconst %low: ", t,
        "[] = {", form.low, "}\nconst %high: ", t, "[] = {", form.low + form.codes - 1, "}\n",
        weights("a", inner, inner), weights("b", inner, outer),
        "%u = Clip(%x, %low, %high)\n%v_ = QLinearMatMul(%u, %s, %z, %a, %s, %wz, %ys, %z)\n"
        "%v = Clip(%v_, %low, %high)\n%w_ = QLinearMatMul(%v, %s, %z, %a, %s, %wz, %ys, %z)\n"
        "%w = Clip(%w_, %low, %high)\n"
        "%t_ = com.microsoft::QLinearAdd(%w, %s, %z, %v, %s, %z, %s, %z)\n"
        "%t = Clip(%t_, %low, %high)\n"
        "%y = QLinearMatMul(%t, %s, %z, %b, %s, %wz, %ys, %z)\noutput %y\n")));
    const Value* x = graph.inputs()[0];
    Tensor input(x->type.dtype, x->type.StaticShape());
    for (int64_t at = 0; at < input.count(); ++at) {
      static_cast<uint8_t*>(input.raw())[at] = static_cast<uint8_t>(random());
    }
    const TensorMap feeds = {{"x", input}};
    const Tensor expected = Interpret(graph, feeds)[0];
    SessionOptions options;
    options.plan.force_kernels = {{"conv_q8", form.kernel}};
    options.plan.compact = true;
    if (i % 2 == 1) options.runner = &threads;
    Session session(graph, options);
    EXPECT_TRUE(session.Run(feeds)[0].SameBits(expected));
    int packed = 0, planes = 0;
    for (const Slot& slot : session.plan()->slots) {
      packed += slot.packed ? 1 : 0;
      planes += slot.planes != 0 ? 1 : 0;
    }
    if (inner % 8 != 0) {
      EXPECT_EQ(packed + planes, 0);
    } else if (inner >= 32) {
      EXPECT_EQ(packed + planes, 2);
    }
  }
}

}  // namespace
}  // namespace requant
