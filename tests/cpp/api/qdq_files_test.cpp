// Files that round in unusual positions: a session computes exactly what the file's nodes define,
// as all scales are powers of two and all sums are exact.
#include <gtest/gtest.h>

#include <algorithm>

#include "api/requant.h"
#include "base/str_cat.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/random_text.h"

namespace requant {
namespace {

std::string Numbers(const Tensor& tensor) {
  std::string text;
  for (int64_t i = 0; i < std::min<int64_t>(tensor.count(), 16); ++i) {
    text += StrCat(" ", tensor.AsDouble(i));
  }
  return text;
}

std::string Compare(const std::vector<Tensor>& wanted, const std::vector<Tensor>& got) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool same = wanted[i].dtype() == got[i].dtype() && wanted[i].shape() == got[i].shape();
    for (int64_t at = 0; at < wanted[i].count(); ++at) {
      if (same && wanted[i].AsDouble(at) == got[i].AsDouble(at)) continue;
      return StrCat("output ", i, " is", Numbers(got[i]), ", not", Numbers(wanted[i]));
    }
  }
  return "";
}

/// The difference between the session and the nodes of this file; empty if there is none.
std::string Difference(const std::string& text, const TensorMap& feeds) {
  const Graph graph = ParseGraph(text);
  InterpretOptions options;
  options.requantize = RequantizeMode::kFloat;
  const std::vector<Tensor> wanted = Interpret(graph, feeds, options);
  try {
    const PreparedModel ready = PrepareForRun(graph);
    VerifyGraph(ready.graph());
    std::string wrong = Compare(wanted, Interpret(ready.graph(), feeds, options));
    if (!wrong.empty()) return "session: " + wrong;
    const QuantizedModel model = ReadQuantized(graph);
    wrong = Compare(wanted, Interpret(LowerToInteger(model).graph(), feeds, options));
    if (!wrong.empty()) return "record: " + wrong;
    wrong = Compare(wanted, Interpret(ToQdq(model), feeds, options));
    return wrong.empty() ? "" : "export: " + wrong;
  } catch (const std::exception& error) {
    const std::string what = error.what();
    return what.find("says nothing about") != std::string::npos ? "" : StrCat("threw ", what);
  }
}

TensorMap Feeds() {
  Tensor x(DType::kFloat32, {1, 2, 2, 2});
  Tensor i(DType::kUint8, {1, 2, 2, 2});
  constexpr float kNumbers[] = {20, -5, 3, 7.25, 12, -1, 0.5, -9};
  for (int at = 0; at < 8; ++at) {
    x.data<float>()[at] = kNumbers[at];
    static_cast<uint8_t*>(i.raw())[at] = static_cast<uint8_t>(at * 37);
  }
  return {{"x", x}, {"i", i}, {"zin", Tensor::Scalar(static_cast<uint8_t>(8))}};
}

/// Grids 0 to 4 and 8 have 8 bits, the fifth has 16, the sixth is per channel, the seventh has 4.
constexpr const char* kHead = R"(graph "" opset 21
input %x: float32[1, 2, 2, 2]
input %i: uint8[1, 2, 2, 2]
input %zin: uint8[]
const %s0: float32[] = {0.125}
const %z0: uint8[] = {0}
const %s1: float32[] = {0.0625}
const %z1: uint8[] = {64}
const %s2: float32[] = {0.125}
const %z2: uint8[] = {100}
const %s3: float32[] = {0.03125}
const %z3: int8[] = {0}
const %s4: float32[] = {0.25}
const %z4: int8[] = {-100}
const %s5: float32[] = {0.00390625}
const %z5: int16[] = {-5}
const %s6: float32[2] = {0.125, 0.0625}
const %z6: uint8[2] = {4, 50}
const %s7: float32[] = {0.5}
const %z7: int4[] = {2}
const %s8: float32[] = {0.25}
const %z8: int8[] = {0}
const %minus: int8[] = {-7}
const %plus: int8[] = {7}
const %mq: int8[2, 2] = {64, 32, -64, 32}
const %shape: int64[4] = {1, 2, 2, 2}
const %pads: int64[8] = {0, 0, 1, 0, 0, 0, 0, 0}
const %ax2: int64[1] = {2}
const %ib: int32[2] = {100, -77}
const %fw: float32[2, 2, 1, 1] = {0.5, 1.5, -1, 0.75}
const %fb: float32[2] = {0.5, -1.5}
const %w: int8[2, 2, 1, 1] = {64, -32, 32, 64}
const %ws: float32[] = {0.015625}
const %wz: int8[] = {0}
const %kq: uint8[1, 2, 1, 1] = {100, 30}
const %low: float32[] = {0}
const %high: float32[] = {6}
const %two: float32[] = {2}
const %st: int64[1] = {1}
const %en: int64[1] = {3}
const %ax: int64[1] = {1}
)";

/// The text of a pair: `name` = `from` on a grid.
std::string Pair(const std::string& from, const std::string& name, int grid) {
  const std::string axis = grid == 6 ? " {axis = 1}" : "";
  return StrCat("%", name, "q = QuantizeLinear(%", from, ", %s", grid, ", %z", grid, ")", axis,
                "\n%", name, " = DequantizeLinear(%", name, "q, %s", grid, ", %z", grid, ")", axis,
                "\n");
}

std::string File(const std::string& body) { return StrCat(kHead, body); }

void ExpectRight(const std::string& body) {
  EXPECT_EQ(Difference(File(body), Feeds()), "") << body;
}

int64_t Count(const Graph& graph, std::string_view op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [op](const auto& node) { return node->op_type == op; });
}

/// A float value, and the same value after another pair.
TEST(QdqFiles, DirectReadersSeeTheFirstPair) {
  const std::string firsts[] = {
      Pair("x", "a", 5),
      Pair("x", "a", 6),
      "%aq = QuantizeLinear(%x, %s0, %zin)\n%a = DequantizeLinear(%aq, %s0, %zin)\n",
      "%a = DequantizeLinear(%i, %s2, %z2)\n",
  };
  for (const std::string& first : firsts) {
    for (const char* op : {"Add(%a, %b)", "Mul(%a, %b)", "Sub(%a, %b)", "Concat(%a, %b) {axis = 1}",
                           "Min(%a, %b)", "MatMul(%a, %b)"}) {
      const std::string body = StrCat(first, Pair("a", "b", 3), "%o = ", op, "\n");
      ExpectRight(StrCat(body, Pair("o", "y", 2), "output %y"));
      ExpectRight(StrCat(first, Pair("a", "c", 3), Pair("c", "b", 1), "%o = ", op, "\n",
                         Pair("o", "y", 2), "output %y"));
    }
  }
  // Two pairs read one value side by side; operators behind one are not affected by the other.
  ExpectRight(StrCat("%r = Relu(%x)\n", Pair("r", "a", 3), Pair("r", "b", 5), "%o = Mul(%a, %b)\n",
                     Pair("o", "y", 2), "output %y"));
}

TEST(QdqFiles, ThreePairsInARow) {
  for (const char* between :
       {"", "%n = Identity(%b)\n", "%n = MaxPool(%b) {kernel_shape = [1, 1]}\n"}) {
    const char* last = *between ? "n" : "b";
    for (const int third : {2, 3, 4}) {
      const std::string row = StrCat("%r = LeakyRelu(%x) {alpha = 0.5}\n", Pair("r", "a", 2),
                                     Pair("a", "b", 3), between, Pair(last, "c", third));
      ExpectRight(StrCat(row, "output %c"));
      ExpectRight(StrCat(row, "%o = Add(%a, %c)\n", Pair("o", "y", 4), "output %y"));
      ExpectRight(StrCat(row, "%s = Sigmoid(%c)\n", Pair("s", "y", 1), "output %y"));
    }
  }
}

/// Nodes that replace pairs may get the names of these pairs.
TEST(QdqFiles, FourPairsInARow) {
  ExpectRight(StrCat(Pair("x", "a", 4), Pair("a", "b", 1),
                     "%v = DequantizeLinear(%w, %ws, %wz)\n%o = Conv(%b, %v)\n", Pair("o", "c", 0),
                     Pair("c", "d", 2), Pair("d", "y", 0), "output %y"));
}

/// A Clip of the integers is part of a grid.
TEST(QdqFiles, FewCodesBesideAll) {
  const std::string few =
      "%n = QuantizeLinear(%r, %s8, %z8)\n%m = Clip(%n, %minus, %plus)\n"
      "%a = DequantizeLinear(%m, %s8, %z8)\n";
  const std::string all = Pair("r", "b", 8);
  for (const std::string& both : {few + all, all + few}) {
    ExpectRight(StrCat("%r = LeakyRelu(%x) {alpha = 0.5}\n", both, "%o = Mul(%a, %b)\n",
                       Pair("o", "y", 2), "output %y"));
  }
}

TEST(QdqFiles, ConstantsThroughTwoPairs) {
  for (const char* reader : {"k", "kd"}) {
    ExpectRight(StrCat("%k = DequantizeLinear(%kq, %s1, %z1)\n", Pair("k", "kd", 0),
                       Pair("x", "a", 2), "%o = Mul(%a, %", reader, ")\n", Pair("o", "y", 3),
                       "output %y"));
  }
}

TEST(QdqFiles, InputThroughTwoPairsIntoAFunction) {
  for (const char* op : {"Sigmoid(%b)", "Relu(%b)", "Clip(%b, %low, %high)", "Div(%b, %two)"}) {
    ExpectRight(StrCat(Pair("x", "a", 3), Pair("a", "b", 0), "%f = ", op, "\n", Pair("f", "y", 1),
                       "output %y"));
  }
}

TEST(QdqFiles, FunctionOfOneValueOnTwoGrids) {
  for (const char* op : {"Add", "Mul", "Sub", "Min"}) {
    for (const char* first : {"", "%r = Relu(%x)\n"}) {
      ExpectRight(StrCat(first, Pair(*first ? "r" : "x", "a", 2), Pair("a", "b", 3),
                         "%c = Clip(%b, %low, %high)\n%o = ", op, "(%a, %c)\n%e = Sigmoid(%o)\n",
                         Pair("e", "y", 1), "output %y"));
    }
  }
}

TEST(QdqFiles, IntegersThatAreCastAreData) {
  const std::string cast = StrCat("%f = Cast(%i) {to = 1}\n", Pair("x", "b", 2));
  for (const char* op : {"Concat(%a, %b) {axis = 1}", "Add(%a, %b)", "Transpose(%a)", "Relu(%a)"}) {
    ExpectRight(StrCat(cast, Pair("f", "a", 2), "%o = ", op, "\n", Pair("o", "y", 2), "output %y"));
  }
  // Without a pair the values have no grid.
  ExpectRight(StrCat(cast, "%o = Concat(%f, %b) {axis = 1}\n", Pair("o", "y", 2), "output %y"));
}

/// A convolution of one channel.
std::string BiasFile(const std::string& weight_scale, const std::string& bias, bool pair) {
  return StrCat("const %bw: int8[1, 2, 1, 1] = {0, 1}\nconst %bws: float32[] = {", weight_scale,
                "}\nconst %fl: float32[1] = {1.5}\nconst %in: int32[1] = {1500}\n",
                "const %is: float32[] = {0.001}\n%a = DequantizeLinear(%i, %s1, %z0)\n",
                "%v = DequantizeLinear(%bw, %bws, %wz)\n", bias, "%o = Conv(%a, %v, %bias)\n",
                pair ? Pair("o", "y", 1) : "%y = Identity(%o)\n", "output %y");
}

TEST(QdqFiles, BiasesThatFitNoInteger) {
  const char* biases[] = {"%bias = Identity(%fl)\n", "%bias = DequantizeLinear(%in, %is)\n"};
  for (const char* bias : biases) {
    for (const char* scale : {"1e-10", "100.0", "10.0"}) {
      const std::string text = File(BiasFile(scale, bias, true));
      EXPECT_EQ(Difference(text, Feeds()), "") << scale << " " << bias;
      EXPECT_EQ(Count(PrepareForRun(ParseGraph(text)).graph(), "QLinearConv"), 0);
    }
    const std::string text = File(BiasFile("0.0078125", bias, true));
    EXPECT_EQ(Difference(text, Feeds()), "") << bias;
    EXPECT_EQ(Count(PrepareForRun(ParseGraph(text)).graph(), "QLinearConv"), 1);
  }
}

/// A bias is added in float if the accumulators become floats.
TEST(QdqFiles, BiasesOfFloatSums) {
  for (const char* scale : {"1e-10", "128.0", "10.0"}) {
    const std::string text = File(BiasFile(scale, "%bias = Identity(%fl)\n", false));
    EXPECT_EQ(Difference(text, Feeds()), "") << scale;
    EXPECT_EQ(Count(PrepareForRun(ParseGraph(text)).graph(), "ConvInteger"), 1);
  }
}

TEST(QdqFiles, RowsOfTheirOwnScalesStay) {
  const Graph graph = ParseGraph(R"(graph "" opset 21
input %x: float32[3, 2]
const %s: float32[] = {0.125}
const %z: uint8[] = {10}
const %rows: float32[3] = {0.125, 0.25, 0.5}
const %zeros: uint8[3] = {10, 20, 30}
const %w: uint8[2, 2] = {1, 20, 30, 4}
%q = QuantizeLinear(%x, %rows, %zeros) {axis = 0}
%m = QLinearMatMul(%q, %rows, %zeros, %w, %s, %z, %s, %z)
%n = QLinearMatMul(%m, %s, %z, %w, %s, %z, %s, %z)
%y = DequantizeLinear(%n, %s, %z)
output %y)");
  Tensor x(DType::kFloat32, {3, 2});
  for (int at = 0; at < 6; ++at) x.data<float>()[at] = static_cast<float>(at) - 2.5F;
  const QuantizedModel model = ReadQuantized(graph);
  EXPECT_EQ(
      Compare(Interpret(graph, {{"x", x}}), Interpret(LowerToInteger(model).graph(), {{"x", x}})),
      "");
  EXPECT_EQ(Count(model.float_graph, "QLinearMatMul"), 1);
}

TEST(QdqFiles, FactorOfQGemmIsThatOfItsBias) {
  const Graph graph = ParseGraph(R"(graph "" opset 21, com.microsoft 1
input %x: float32[3, 2]
const %s: float32[] = {0.125}
const %z: uint8[] = {10}
const %w: uint8[2, 2] = {1, 20, 30, 4}
const %b: int32[2] = {1000, -500}
%q = QuantizeLinear(%x, %s, %z)
%g = com.microsoft::QGemm(%q, %s, %z, %w, %s, %z, %b, %s, %z) {alpha = 0.5}
%y = DequantizeLinear(%g, %s, %z)
output %y)");
  Tensor x(DType::kFloat32, {3, 2});
  for (int at = 0; at < 6; ++at) x.data<float>()[at] = static_cast<float>(at) - 2.5F;
  const Graph read = LowerToInteger(ReadQuantized(graph)).Release();
  EXPECT_EQ(Compare(Interpret(graph, {{"x", x}}), Interpret(read, {{"x", x}})), "");
}

/// Scales per channel with one zero point for all, or vice versa.
TEST(QdqFiles, ZeroPointsOfChannelsAreRead) {
  for (const char* weights : {"%two, %wz", "%s, %zeros", "%two, %zeros"}) {
    const Graph graph = ParseGraph(StrCat(R"(graph "" opset 21
input %x: float32[1, 1, 1, 2]
const %s: float32[] = {0.125}
const %z: uint8[] = {10}
const %wz: uint8[] = {100}
const %w: uint8[2, 1, 1, 1] = {1, 120}
const %two: float32[2] = {0.125, 0.5}
const %zeros: uint8[2] = {90, 150}
%q = QuantizeLinear(%x, %s, %z)
%c = QLinearConv(%q, %s, %z, %w, )",
                                          weights, R"(, %s, %z)
%y = DequantizeLinear(%c, %s, %z)
output %y)"));
    Tensor x(DType::kFloat32, {1, 1, 1, 2});
    x.data<float>()[0] = 1;
    x.data<float>()[1] = -0.5F;
    const QuantizedModel model = ReadQuantized(graph);
    EXPECT_EQ(
        Compare(Interpret(graph, {{"x", x}}), Interpret(LowerToInteger(model).graph(), {{"x", x}})),
        "");
    for (const TensorQuantizationConfig& config : model.record.configs) {
      if (config.baked.rank() != 4) continue;
      const bool one = std::string(weights).find("%wz") != std::string::npos;
      EXPECT_EQ(config.offset,
                one ? (std::vector<int32_t>{100, 100}) : (std::vector<int32_t>{90, 150}));
    }
  }
}

/// Operators and pairs in any order, on any of the previous values.
std::string RandomFile(uint32_t seed) {
  using testing::Pick;
  std::mt19937 random(seed);
  std::string body;
  std::vector<std::string> values = {"x"};
  int made = 0;
  const auto any = [&] {
    const int from =
        Pick(random, 0, 2) == 0 ? 0 : std::max<int>(0, static_cast<int>(values.size()) - 3);
    return values[static_cast<size_t>(Pick(random, from, static_cast<int>(values.size()) - 1))];
  };
  const auto add = [&](const std::string& line) {
    body += StrCat("%v", made, " = ", line, "\n");
    values.push_back(StrCat("v", made++));
  };
  const auto pair = [&](const std::string& from, int grid) {
    const std::string axis = grid == 6 ? " {axis = 1}" : "";
    const std::string zero = Pick(random, 0, 30) == 0 && grid == 0 ? "zin" : StrCat("z", grid);
    body +=
        StrCat("%q", made, " = QuantizeLinear(%", from, ", %s", grid, ", %", zero, ")", axis, "\n");
    const std::string q = StrCat("q", made);
    add(StrCat("DequantizeLinear(%", q, ", %s", grid, ", %", zero, ")", axis));
    if (Pick(random, 0, 15) == 0)
      add(StrCat("DequantizeLinear(%", q, ", %s", grid, ", %", zero, ")", axis));
  };
  const auto grid = [&] {
    return Pick(random, 0, 11) == 0 ? Pick(random, 0, 8) : Pick(random, 0, 4);
  };
  if (Pick(random, 0, 4) == 0) add("DequantizeLinear(%i, %s2, %z2)");
  const int steps = Pick(random, 3, 9);
  for (int step = 0; step < steps; ++step) {
    const std::string a = any();
    switch (Pick(random, 0, 45)) {
      case 0:
        add(StrCat("Relu(%", a, ")"));
        break;
      case 1:
        add(StrCat("Sigmoid(%", a, ")"));
        break;
      case 2:
        add(StrCat("Add(%", a, ", %", any(), ")"));
        break;
      case 3:
        add(StrCat("Mul(%", a, ", %", any(), ")"));
        break;
      case 4:
        add(StrCat("Sub(%", a, ", %", any(), ")"));
        break;
      case 5:
        add(StrCat("MaxPool(%", a, ") {kernel_shape = [1, 1]}"));
        break;
      case 6:
        add(StrCat("Transpose(%", a, ") {perm = [0, 1, 3, 2]}"));
        break;
      case 7:
        add(StrCat("Clip(%", a, ", %low, %high)"));
        break;
      case 8:
        add(StrCat("Identity(%", a, ")"));
        break;
      case 9:
        add(StrCat("Div(%", a, ", %two)"));
        break;
      case 10:
        body += StrCat("%w", made, " = DequantizeLinear(%w, %ws, %wz)\n");
        add(StrCat("Conv(%", a, ", %w", made, ")"));
        break;
      case 11: {
        const std::string b = any();
        body += StrCat("%c", made, " = Concat(%", a, ", %", b, ") {axis = 1}\n");
        if (Pick(random, 0, 1) == 0) {
          const int g = grid() % 6;
          body += StrCat("%cq", made, " = QuantizeLinear(%c", made, ", %s", g, ", %z", g, ")\n");
          body += StrCat("%cd", made, " = DequantizeLinear(%cq", made, ", %s", g, ", %z", g, ")\n");
          add(StrCat("Slice(%cd", made, ", %st, %en, %ax)"));
        } else {
          add(StrCat("Slice(%c", made, ", %st, %en, %ax)"));
        }
        break;
      }
      case 12:
        add(StrCat("AveragePool(%", a, ") {kernel_shape = [1, 1]}"));
        break;
      case 13:
        add(StrCat("LeakyRelu(%", a, ") {alpha = 0.5}"));
        break;
      case 14:
        add(StrCat("Min(%", a, ", %", any(), ")"));
        break;
      case 15: {
        body += StrCat("%k", made, " = DequantizeLinear(%kq, %s1, %z1)\n");
        add(StrCat("Add(%", a, ", %k", made, ")"));
        break;
      }
      case 16:
        add(StrCat("Softmax(%", a, ")"));
        break;
      case 17:
        body += StrCat("%m", made, " = DequantizeLinear(%mq, %ws, %wz)\n");
        add(StrCat("MatMul(%", a, ", %m", made, ")"));
        break;
      case 18:
        add(StrCat("MatMul(%", a, ", %", any(), ")"));
        break;
      case 19:
        add("Cast(%i) {to = 1}");
        break;
      case 20: {
        const std::string k = StrCat("k", made);
        const int g = grid() % 6;
        body += StrCat("%", k, " = DequantizeLinear(%kq, %s1, %z1)\n");
        body += StrCat("%", k, "q = QuantizeLinear(%", k, ", %s", g, ", %z", g, ")\n");
        body += StrCat("%", k, "d = DequantizeLinear(%", k, "q, %s", g, ", %z", g, ")\n");
        add(StrCat("Mul(%", a, ", %", k, Pick(random, 0, 1) ? "d)" : ")"));
        break;
      }
      case 21: {
        const std::string n = StrCat("n", made);
        body += StrCat("%", n, " = QuantizeLinear(%", a, ", %s8, %z8)\n");
        body += StrCat("%", n, "c = Clip(%", n, ", %minus, %plus)\n");
        add(StrCat("DequantizeLinear(%", n, "c, %s8, %z8)"));
        break;
      }
      case 22:
        body += StrCat("%f", made, " = Flatten(%", a, ")\n");
        add(StrCat("Reshape(%f", made, ", %shape)"));
        break;
      case 23:
        body += StrCat("%p", made, " = Pad(%", a, ", %pads)\n");
        add(StrCat("Slice(%p", made, ", %st, %en, %ax2)"));
        break;
      case 24: {
        const std::string n = StrCat("b", made);
        body += StrCat("%", n, "w = DequantizeLinear(%w, %ws, %wz)\n");
        body += StrCat("%", n, "b = DequantizeLinear(%ib, %s", Pick(random, 0, 4), ")\n");
        add(StrCat("Conv(%", a, ", %", n, "w, %", n, "b)"));
        break;
      }
      case 26:
        pair(a, 8);
        break;
      case 25:
        add(StrCat("Conv(%", a, ", %fw, %fb)"));
        break;
      default:
        pair(a, grid());
    }
  }
  if (Pick(random, 0, 3) != 0) pair(values.back(), grid());
  std::string outputs = StrCat("output %", values.back(), "\n");
  if (Pick(random, 0, 3) == 0 && values.size() > 3) {
    const std::string other = values[values.size() - 2];
    if (Pick(random, 0, 1) == 0) {
      body += StrCat("%yq = QuantizeLinear(%", other, ", %s0, %z0)\n");
      outputs += "output %yq\n";
    } else if (other != "x")
      outputs += StrCat("output %", other, "\n");
  }
  return File(body + outputs);
}

TEST(QdqFiles, Random) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    const std::string text = RandomFile(seed);
    const std::string message = Difference(text, Feeds());
    EXPECT_EQ(message, "") << seed << "\n" << text;
  }
}

}  // namespace
}  // namespace requant
