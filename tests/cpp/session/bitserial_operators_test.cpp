// BitUnpack, BitSerialConv and BitSerialMatMul on random shapes: the references beside the
// popcounts that define them, and sessions, which run integer products, beside the references.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "ops/bits/bitpack.h"
#include "passes/shape/infer_type.h"
#include "session/session.h"
#include "support/random_text.h"

namespace requant {
namespace {

using testing::Dims, testing::Numbers, testing::Pick;

constexpr int kWidths[] = {8, 16, 32, 64};

struct Case {
  std::string form;
  int bits, weight_bits, width, bit_axis, weight_bit_axis;
  bool conv, narrow, packs;  // packs: BitPack of bounded codes stands before
  bool last;                 // channels are the last dimension of x and y
  int batch, channels, height, size, outputs, kernel, stride, pad, dilation, group;
};

Case Random(std::mt19937& random) {
  static constexpr const char* kForms[] = {"and", "mixed", "xnor"};
  Case c{};
  c.form = kForms[Pick(random, 0, 2)];
  c.bits = Pick(random, 0, 2) ? Pick(random, 1, 2) : Pick(random, 1, c.form == "xnor" ? 7 : 8);
  c.weight_bits = Pick(random, 0, 2) ? 1 : Pick(random, 1, c.form == "and" ? 8 : 7);
  c.width = kWidths[Pick(random, 0, 3)];
  c.conv = Pick(random, 0, 2) > 0;
  c.last = c.conv && Pick(random, 0, 2) == 0;
  c.narrow = Pick(random, 0, 1) == 1;
  c.packs = Pick(random, 0, 1) == 1;
  c.bit_axis = Pick(random, 0, c.conv ? 4 : 2);
  c.weight_bit_axis = Pick(random, 0, c.conv ? 4 : 2);
  c.batch = Pick(random, 1, 2);
  c.group = c.conv && Pick(random, 0, 3) == 0 ? 2 : 1;
  c.channels = c.group * Pick(random, 1, Pick(random, 0, 2) ? 20 : 90);
  c.height = Pick(random, 3, 8);
  c.size = Pick(random, 3, 8);
  c.outputs = c.group * Pick(random, 1, 20);
  c.kernel = Pick(random, 1, 3);
  c.stride = Pick(random, 1, 2);
  c.pad = Pick(random, 0, 1);
  c.dilation = c.kernel < 3 && Pick(random, 0, 2) == 0 ? 2 : 1;
  return c;
}

int Count(const std::vector<int>& dims) {
  int count = 1;
  for (const int dim : dims) count *= dim;
  return count;
}

/// The network: x, as codes, is packed in the graph, or its words are the input.
std::string TextOf(const Case& c, std::mt19937& random) {
  const std::vector<int> w =
      c.conv ? std::vector<int>{c.outputs, c.channels / c.group, c.kernel, c.kernel}
             : std::vector<int>{c.channels, c.outputs};
  const std::vector<int> x = c.last   ? std::vector<int>{c.batch, c.height, c.size, c.channels}
                             : c.conv ? std::vector<int>{c.batch, c.channels, c.height, c.size}
                                      : std::vector<int>{c.batch, c.channels};
  const int axis = c.last ? 3 : 1, w_axis = c.conv ? 1 : 0;
  std::string text =
      StrCat("graph \"\" opset 21, ai.requant 1\ninput %c: uint8", Dims(x), "\nconst %w: uint8",
             Dims(w), " = ", Numbers(random, Count(w), 0, (1 << c.weight_bits) - 1), "\n");
  text += StrCat("const %low: uint8[] = {0}\nconst %high: uint8[] = {", (1 << c.bits) - 1, "}\n");
  text += c.packs ? "%b = Clip(%c, %low, %high)\n" : "%b = Identity(%c)\n";
  text += StrCat("%x = ai.requant::BitPack(%b) {axis = ", axis, ", bit_axis = ", c.bit_axis,
                 ", bits = ", c.bits, ", pack_type = ", c.width, "}\n");
  text +=
      StrCat("%p = ai.requant::BitPack(%w) {axis = ", w_axis, ", bit_axis = ", c.weight_bit_axis,
             ", bits = ", c.weight_bits, ", pack_type = ", c.width, "}\n");
  text += StrCat("%y = ai.requant::BitSerial", c.conv ? "Conv" : "MatMul", "(%x, %p) {form = \"",
                 c.form, "\", length = ", c.channels, ", bits = ", c.bits,
                 ", weight_bits = ", c.weight_bits, ", bit_axis = ", c.bit_axis,
                 ", weight_bit_axis = ", c.weight_bit_axis, ", out_type = \"",
                 c.narrow ? "int16" : "int32", "\"");
  if (c.conv) {
    text += StrCat(", strides = ", Dims({c.stride, c.stride}),
                   ", pads = ", Dims({c.pad, c.pad, c.pad, c.pad}),
                   ", dilations = ", Dims({c.dilation, c.dilation}), ", group = ", c.group,
                   c.last ? ", channels_last = 1" : "");
  }
  return text + "}\noutput %y\n";
}

/// The definition, bit by bit, for one pair of codes: the sum over planes of both.
int Product(const Case& c, int x, int w) {
  int sum = 0;
  for (int i = 0; i < c.bits; ++i) {
    for (int j = 0; j < c.weight_bits; ++j) {
      const int a = x >> i & 1, b = w >> j & 1;
      const int p = c.form == "and"     ? (a & b)
                    : c.form == "mixed" ? (a & b) - (a & (b ^ 1))
                                        : 1 - 2 * (a ^ b);
      sum += p << (i + j);
    }
  }
  return sum;
}

std::vector<int> Expected(const Case& c, const Tensor& codes, const Tensor& w) {
  const int mask = (1 << c.bits) - 1;
  const auto code = [&](int64_t i) {
    const auto value = static_cast<int>(codes.AsInt64(i));
    return c.packs ? std::min(value, mask) : value & mask;
  };
  std::vector<int> out;
  if (!c.conv) {
    for (int n = 0; n < c.batch; ++n) {
      for (int m = 0; m < c.outputs; ++m) {
        int sum = 0;
        for (int k = 0; k < c.channels; ++k) {
          sum +=
              Product(c, code(n * c.channels + k), static_cast<int>(w.AsInt64(k * c.outputs + m)));
        }
        out.push_back(sum);
      }
    }
  } else {
    const int reach = c.dilation * (c.kernel - 1) + 1, depth = c.channels / c.group;
    const int rows = (c.height + 2 * c.pad - reach) / c.stride + 1;
    const int columns = (c.size + 2 * c.pad - reach) / c.stride + 1;
    for (int n = 0; n < c.batch; ++n) {
      for (int m = 0; m < c.outputs; ++m) {
        const int first = m / (c.outputs / c.group) * depth;
        for (int at = 0; at < rows * columns; ++at) {
          int sum = 0;
          for (int k = 0; k < depth * c.kernel * c.kernel; ++k) {
            const int channel = k / (c.kernel * c.kernel), tap = k % (c.kernel * c.kernel);
            const int y = at / columns * c.stride - c.pad + tap / c.kernel * c.dilation;
            const int x = at % columns * c.stride - c.pad + tap % c.kernel * c.dilation;
            if (y < 0 || y >= c.height || x < 0 || x >= c.size) continue;
            const int from = c.last
                                 ? ((n * c.height + y) * c.size + x) * c.channels + first + channel
                                 : ((n * c.channels + first + channel) * c.height + y) * c.size + x;
            sum += Product(c, code(from),
                           static_cast<int>(w.AsInt64(m * depth * c.kernel * c.kernel + k)));
          }
          out.push_back(sum);
        }
      }
    }
  }
  if (c.last) {
    const std::vector<int> first = out;
    const size_t outputs = static_cast<size_t>(c.outputs);
    const size_t batch = static_cast<size_t>(c.batch), pixels = out.size() / batch / outputs;
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t pixel = i / outputs, m = i % outputs;
      out[i] = first[(pixel / pixels * outputs + m) * pixels + pixel % pixels];
    }
  }
  if (c.narrow) {
    for (int& sum : out) sum = std::clamp(sum, -32768, 32767);
  }
  return out;
}

TEST(BitSerial, RandomShapes) {
  std::mt19937 random(12);
  int without_pack = 0;
  for (int i = 0; i < 300; ++i) {
    const Case c = Random(random);
    const std::string text = TextOf(c, random);
    SCOPED_TRACE(text);
    Graph graph(ParseGraph(text));
    Tensor codes(DType::kUint8, graph.inputs()[0]->type.StaticShape());
    for (int64_t k = 0; k < codes.count(); ++k) {
      codes.data<uint8_t>()[k] = static_cast<uint8_t>(random());
    }
    const TensorMap feeds = {{"c", codes}};
    const Tensor reference = Interpret(graph, feeds)[0];
    const std::vector<int> expected = Expected(c, codes, graph.FindValue("w")->constant);
    ASSERT_EQ(reference.dtype(), c.narrow ? DType::kInt16 : DType::kInt32);
    ASSERT_EQ(reference.count(), static_cast<int64_t>(expected.size()));
    for (int64_t k = 0; k < reference.count(); ++k) {
      ASSERT_EQ(reference.AsInt64(k), expected[static_cast<size_t>(k)]) << "output " << k;
    }
    Graph rewritten = graph.Clone();
    InferTypes(rewritten);
    ASSERT_TRUE(RewriteBitSerial(rewritten));
    ASSERT_TRUE(Interpret(rewritten, feeds)[0].SameBits(reference));
    Session session(rewritten, {});
    ASSERT_TRUE(session.Run(feeds)[0].SameBits(reference));
    bool packs = false;
    for (const auto& node : rewritten.nodes()) packs = packs || node->op_type == "BitUnpack";
    without_pack += !packs;
    EXPECT_TRUE(!c.packs || !packs);
  }
  EXPECT_GT(without_pack, 100);
}

TEST(BitSerial, ImagesWithChannelsLastAreNotTransposed) {
  std::mt19937 random(13);
  const auto layer = [&](const char* to, const char* from) {
    const std::string t = to;
    return StrCat("%", t, "p = ai.requant::BitPack(%", from, ")\nconst %", t,
                  "c: uint8[64, 64, 3, 3] = ", Numbers(random, 64 * 64 * 9, 0, 1), "\n%", t,
                  "w = ai.requant::BitPack(%", t, "c) {axis = 1}\n%", t,
                  "s = ai.requant::BitSerialConv(%", t, "p, %", t,
                  "w) {channels_last = 1, length = 64, form = \"xnor\", pads = [1, 1, 1, 1]}\n");
  };
  const Graph graph(ParseGraph(
      StrCat("graph \"\" opset 21, ai.requant 1, com.microsoft 1\ninput %x: uint8[1, 9, 8, 64]\n",
             "const %low: uint8[] = {0}\nconst %high: uint8[] = {1}\nconst %zero: int32[] = {0}\n",
             "%u = Clip(%x, %low, %high)\n", layer("a", "u"),
             "%b = Greater(%as, %zero)\n%v_ = Cast(%b) {to = 2}\n%v = Clip(%v_, %low, %high)\n",
             layer("d", "v"), "output %ds\n")));
  Tensor codes(DType::kUint8, {1, 9, 8, 64});
  for (int64_t k = 0; k < codes.count(); ++k) {
    codes.data<uint8_t>()[k] = static_cast<uint8_t>(random() % 2);
  }
  const TensorMap feeds = {{"x", codes}};
  Graph rewritten = graph.Clone();
  InferTypes(rewritten);
  ASSERT_TRUE(RewriteBitSerial(rewritten));
  Session session(rewritten, {});
  const Tensor expected = Interpret(graph, feeds)[0];
  EXPECT_TRUE(session.Run(feeds)[0].SameBits(expected));
  const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
  EXPECT_TRUE(Session({saved, *saved}, {}).Run(feeds)[0].SameBits(expected));
  int bits = 0;
  for (const auto& step : session.plan()->steps) {
    EXPECT_FALSE(step->kernel.starts_with("transpose") || step->kernel == "strided_copy")
        << step->kernel << " " << step->op;
    bits += step->kernel == "lut_bits" ? 1 : 0;
  }
  EXPECT_EQ(bits, 2);
}

TEST(BitSerial, Int16Saturates) {
  std::string ones;
  for (int i = 0; i < 200; ++i) ones += i ? ", 255" : "255";
  const Graph graph(ParseGraph(StrCat(
      "graph \"\" opset 21, ai.requant 1\ninput %c: uint8[1, 200]\nconst %w: uint8[200, 1] = {",
      ones, "}\n%x = ai.requant::BitPack(%c) {bits = 8}\n",
      "%p = ai.requant::BitPack(%w) {axis = 0, bits = 8}\n",
      "%y = ai.requant::BitSerialMatMul(%x, %p) {form = \"and\", length = 200, bits = 8, ",
      "weight_bits = 8, out_type = \"int16\"}\noutput %y\n")));
  Tensor codes(DType::kUint8, {1, 200});
  std::fill_n(codes.data<uint8_t>(), 200, uint8_t{255});
  EXPECT_EQ(Interpret(graph, {{"c", codes}})[0].AsInt64(0), 32767);
}

TEST(BitSerial, RefusesWhatNoPlanesHold) {
  const auto run = [](const std::string& attributes) {
    return Interpret(
        Graph(ParseGraph(StrCat("graph \"\" opset 21, ai.requant 1\ninput %x: uint32[1, 2, 1]\n",
                                "const %w: uint32[1, 3, 1] = {1, 2, 3}\n",
                                "%y = ai.requant::BitSerialMatMul(%x, %w) {", attributes,
                                "}\noutput %y\n"))),
        {{"x", Tensor(DType::kUint32, {1, 2, 1})}});
  };
  for (const char* bad : {"length = 80", "length = 40, bits = 2", "length = 40, form = \"or\"",
                          "length = 40, out_type = \"int8\"", "length = 40, weight_bits = 8"}) {
    EXPECT_THROW((void)run(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace requant
