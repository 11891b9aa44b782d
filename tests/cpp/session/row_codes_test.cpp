// Products of rows that become codes while a model runs: FuseRowCodes finds them in every spelling
// that is one, and the steps give the bits of the operators that they replace.
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "ir/text.h"
#include "passes/runner.h"
#include "session/session.h"
#include "support/random_text.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

using testing::Dims;
using testing::Numbers;
using testing::Pick;

constexpr const char* kKernels[] = {
    "", "conv_q8_scalar", "conv_q8_vector", "conv_q8_lines", "conv_q8_dot7", "conv_q8_dot8"};

/// How a model spells out its rows' codes and their products.
struct Spelling {
  std::vector<int> rows = {5};  // the dimensions in front of the last one
  int width = 37;
  std::vector<int> columns = {24};  // of each product
  int opset = 18;
  bool clips = false;      // Clip and Relu in place of Min and Max
  bool swapped = false;    // the operands of commutative operators
  bool by_one = false;     // DequantizeLinear in place of Cast
  bool one_scale = false;  // one scale for all columns
  bool bias = true;
  bool zeros = true;        // zero points are subtracted
  std::string behind = {};  // "", "Relu", "Add"
};

class Writer {
 public:
  Writer(const Spelling& how, std::mt19937& random) : how_(how), random_(random) {}

  std::string Text() {
    std::vector<int> all = how_.rows;
    all.push_back(how_.width);
    text_ = StrCat("graph \"\" opset ", how_.opset, "\ninput %x: float32", Dims(all), "\n");
    Line("const %one: float32[] = {1}");
    Line("const %none: uint8[] = {0}");
    Line("const %zero: float32[] = {0}");
    Line("const %share: float32[] = {0.00392156862745}");  // 1 / 255
    Line("const %least: float32[] = {1e-30}");
    Line("const %axis: int64[1] = {-1}");
    const std::string along = how_.opset < 18 ? "(%x) {axes = [-1]}" : "(%x, %axis)";
    Line(StrCat("%mn = ReduceMin", along));
    Line(StrCat("%mx = ReduceMax", along));
    if (how_.clips) {
      Line("%lo = Clip(%mn, _, %zero)");
      Line("%hi = Relu(%mx)");
    } else {
      Binary("lo", "Min", "mn", "zero");
      Binary("hi", "Max", "mx", "zero");
    }
    Line("%range = Sub(%hi, %lo)");
    Binary("step", "Mul", "range", "share");
    if (how_.clips) {
      Line("%s = Clip(%step, %least)");
    } else {
      Binary("s", "Max", "step", "least");
    }
    Line("%below = Div(%lo, %s)");
    Line("%above = Neg(%below)");
    Line("%z = QuantizeLinear(%above, %one, %none)");
    Line(how_.by_one ? "%zf = DequantizeLinear(%z, %one)" : "%zf = Cast(%z) {to = 1}");
    Line("%steps = Div(%x, %s)");
    Line("%whole = Round(%steps)");
    Binary("moved", "Add", "whole", "zf");
    Line("%q = QuantizeLinear(%moved, %one, %none)");
    for (size_t i = 0; i < how_.columns.size(); ++i) Product(StrCat(i), how_.columns[i]);
    return text_;
  }

 private:
  void Line(const std::string& line) { text_ += line + "\n"; }
  void Binary(const std::string& y, const char* op, const std::string& a, const std::string& b) {
    Line(StrCat("%", y, " = ", op, "(%", how_.swapped ? b : a, ", %", how_.swapped ? a : b, ")"));
  }
  void Product(const std::string& i, int columns) {
    std::vector<int> weights, sums(static_cast<size_t>(columns));
    std::string list, totals;
    for (int k = 0; k < how_.width * columns; ++k) {
      const int weight =
          Pick(random_, 0, 9) == 0 ? (Pick(random_, 0, 1) ? 127 : -128) : Pick(random_, -127, 127);
      list += StrCat(k ? ", " : "", weight);
      sums[static_cast<size_t>(k % columns)] += weight;
    }
    for (int n = 0; n < columns; ++n) {
      totals += StrCat(n ? ", " : "", sums[static_cast<size_t>(n)]);
    }
    Line(StrCat("const %w", i, ": int8", Dims({how_.width, columns}), " = {", list, "}"));
    Line(StrCat("const %sums", i, ": int32", Dims({columns}), " = {", totals, "}"));
    const int scales = how_.one_scale ? 1 : columns;
    Line(StrCat("const %t", i, ": float32", Dims({scales}), " = ", Fractions(scales)));
    Line(StrCat("const %b", i, ": float32", Dims({columns}), " = ", Fractions(columns)));
    Line(StrCat("%a", i, " = MatMulInteger(%q, %w", i, ")"));
    std::string last = "a" + i;
    if (how_.zeros) {
      Line(StrCat("%zi", i, " = Cast(%z) {to = 6}"));
      Binary("less" + i, "Mul", "zi" + i, "sums" + i);
      Line(StrCat("%d", i, " = Sub(%a", i, ", %less", i, ")"));
      last = "d" + i;
    }
    Line(StrCat("%f", i, " = Cast(%", last, ") {to = 1}"));
    Binary("g" + i, "Mul", "f" + i, "t" + i);
    Binary("h" + i, "Mul", "g" + i, "s");
    last = "h" + i;
    if (how_.bias) {
      Binary("y" + i, "Add", last, "b" + i);
      last = "y" + i;
    }
    if (how_.behind == "Relu") {
      Line(StrCat("%e", i, " = Relu(%", last, ")"));
      last = "e" + i;
    } else if (how_.behind == "Add") {
      std::vector<int> shape = how_.rows;
      shape.push_back(columns);
      Line(StrCat("input %r", i, ": float32", Dims(shape)));
      Binary("e" + i, "Add", last, "r" + i);
      last = "e" + i;
    }
    Line(StrCat("output %", last));
  }
  std::string Fractions(int count) {
    std::string list = "{";
    for (int i = 0; i < count; ++i) {
      list += StrCat(i ? ", " : "", Pick(random_, 0, 1) ? "" : "-", Pick(random_, 1, 90), ".375");
    }
    return list + "}";
  }

  const Spelling& how_;
  std::mt19937& random_;
  std::string text_;
};

/// Numbers of which some rows are all zeros, all of one sign, very large or very small.
TensorMap FeedsOf(const Graph& graph, std::mt19937& random) {
  TensorMap feeds;
  for (const Value* input : graph.inputs()) {
    Tensor tensor(DType::kFloat32, input->type.StaticShape());
    const int64_t width = tensor.shape().back();
    for (int64_t row = 0; row < tensor.count() / width; ++row) {
      const int kind = Pick(random, 0, 6);
      const float size = kind == 1 ? 1e30F : kind == 2 ? 1e-36F : 3.0F;
      for (int64_t i = 0; i < width; ++i) {
        float x = static_cast<float>(Pick(random, -9999, 9999)) / 9999 * size;
        if (kind == 3) x = std::fabs(x);
        if (kind == 4) x = -std::fabs(x);
        if (kind == 5) x = 0;
        tensor.data<float>()[row * width + i] = x;
      }
    }
    feeds[input->name] = std::move(tensor);
  }
  return feeds;
}

Graph Fused(const Graph& graph) {
  Graph fused = graph.Clone();
  PipelineOptions options;
  options.only = {"InferType", "FuseRowCodes"};
  RunPasses(fused, options);
  return fused;
}

std::vector<std::string> OperatorsOf(const Graph& graph) {
  std::vector<std::string> operators;
  for (const auto& node : graph.nodes()) operators.push_back(node->op_type);
  return operators;
}

/// Whether two tensors have the same bits but for NaNs, of which only the place counts.
bool SameNumbers(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return false;
  for (int64_t i = 0; i < a.count(); ++i) {
    const float x = a.data<float>()[i], y = b.data<float>()[i];
    if (!(std::isnan(x) && std::isnan(y)) && x != y) return false;
  }
  return true;
}

void Check(const Spelling& how, int seed, const char* kernel = "") {
  std::mt19937 random(static_cast<uint32_t>(seed));
  const std::string text = Writer(how, random).Text();
  SCOPED_TRACE(text.substr(0, 2000));
  const Graph graph(ParseGraph(text));
  const TensorMap feeds = FeedsOf(graph, random);
  const std::vector<Tensor> wanted = Interpret(graph, feeds);
  const Graph fused = Fused(graph);
  std::vector<std::string> operators = {"DynamicQuantizeRows"};
  for (size_t i = 0; i < how.columns.size(); ++i) {
    operators.emplace_back("MatMulIntegerRows");
    if (!how.behind.empty()) operators.push_back(how.behind);
  }
  EXPECT_EQ(OperatorsOf(fused), operators);
  testing::ThreadRunner threads(3);
  for (const bool divided : {false, true}) {
    SessionOptions options;
    if (divided) options.runner = &threads;
    if (*kernel) options.plan.force_kernels = {{"conv_q8", kernel}};
    Session session(fused, options);
    const std::vector<Tensor> got = session.Run(feeds);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].SameBits(wanted[i])) << i;
    for (const auto& step : session.plan()->steps) {
      EXPECT_NE(std::string(step->kernel), "reference") << step->op;
    }
    EXPECT_EQ(session.plan()->steps.size(), 1 + how.columns.size());
    const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
    const std::vector<Tensor> again = Session({saved, *saved}, options).Run(feeds);
    for (size_t i = 0; i < again.size(); ++i) EXPECT_TRUE(again[i].SameBits(wanted[i])) << i;
  }
  const std::vector<Tensor> references = Interpret(fused, feeds);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(references[i].SameBits(wanted[i])) << i;
}

TEST(RowCodes, RandomFormsAreTheWrittenOperators) {
  std::mt19937 random(5);
  for (int i = 0; i < 90; ++i) {
    Spelling how;
    how.rows.clear();
    for (int n = Pick(random, 1, 3); n > 0; --n) how.rows.push_back(Pick(random, 1, 7));
    how.width = Pick(random, 1, 90);
    how.columns.clear();
    for (int n = Pick(random, 1, 3); n > 0; --n) how.columns.push_back(Pick(random, 1, 50));
    how.opset = Pick(random, 0, 1) ? 18 : 13;
    how.clips = Pick(random, 0, 1) == 1;
    how.swapped = Pick(random, 0, 1) == 1;
    how.by_one = Pick(random, 0, 1) == 1;
    how.one_scale = Pick(random, 0, 1) == 1;
    how.bias = Pick(random, 0, 1) == 1;
    how.zeros = Pick(random, 0, 3) != 0;
    const char* const behind[] = {"", "", "Relu", "Add"};
    how.behind = behind[Pick(random, 0, 3)];
    Check(how, i, kKernels[static_cast<size_t>(i) % std::size(kKernels)]);
  }
}

TEST(RowCodes, LargeSumsStayExact) {
  Check({.rows = {3}, .width = 5000, .columns = {9}}, 1);
  Check({.rows = {70}, .width = 64, .columns = {130}}, 2);
}

TEST(RowCodes, NotANumberAndInfinityReachTheirRowOnly) {
  std::mt19937 random(3);
  const Graph graph(ParseGraph(Writer({.rows = {4}}, random).Text()));
  TensorMap feeds = FeedsOf(graph, random);
  float* x = feeds["x"].data<float>();
  for (int64_t i = 0; i < feeds["x"].count(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  x[36] = std::numeric_limits<float>::quiet_NaN();
  x[37 + 3] = std::numeric_limits<float>::infinity();
  x[74 + 36] = -std::numeric_limits<float>::infinity();
  const Tensor wanted = Interpret(graph, feeds)[0];
  for (const char* kernel : {"conv_q8_scalar", "conv_q8_vector"}) {
    SessionOptions options;
    options.plan.force_kernels = {{"conv_q8", kernel}};
    const Tensor got = Session(Fused(graph), options).Run(feeds)[0];
    EXPECT_TRUE(SameNumbers(got, wanted));
    for (int64_t i = 0; i < got.count(); ++i) {
      EXPECT_EQ(std::isnan(got.data<float>()[i]), i / got.shape().back() < 3) << i;
    }
  }
  EXPECT_TRUE(SameNumbers(Interpret(Fused(graph), feeds)[0], wanted));
}

/// The text with one line changed.
std::string With(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(RowCodes, OtherFormulasStay) {
  std::mt19937 random(8);
  const std::string text = Writer({.width = 2, .columns = {2}}, random).Text();
  const auto has = [](const std::string& changed, const char* op) {
    for (const std::string& name : OperatorsOf(Fused(ParseGraph(changed)))) {
      if (name == op) return true;
    }
    return false;
  };
  EXPECT_TRUE(has(text, "DynamicQuantizeRows"));
  const std::string rows[][2] = {
      {"%axis: int64[1] = {-1}", "%axis: int64[1] = {0}"},
      {"%mn = ReduceMin(%x, %axis)", "%mn = ReduceMax(%x, %axis)"},
      {"{1e-30}", "{1e-20}"},
      {"%one: float32[] = {1}", "%one: float32[] = {2}"},
      {"%none: uint8[] = {0}", "%none: uint8[] = {1}"},
      {"%steps = Div(%x, %s)", "%steps = Div(%x, %step)"},
  };
  for (const auto& [from, to] : rows) {
    EXPECT_FALSE(has(With(text, from, to), "DynamicQuantizeRows")) << to;
  }
  const std::string products[][2] = {
      {"%h0 = Mul(%g0, %s)", "%h0 = Mul(%g0, %share)"},
      {"%d0 = Sub(%a0, %less0)", "%d0 = Sub(%less0, %a0)"},
      {"%f0 = Cast(%d0) {to = 1}", "%f0 = Cast(%d0) {to = 1}\noutput %d0"},
  };
  EXPECT_TRUE(has(text, "MatMulIntegerRows"));
  for (const auto& [from, to] : products) {
    EXPECT_FALSE(has(With(text, from, to), "MatMulIntegerRows")) << to;
  }
  // Sums of other columns.
  const size_t at = text.find("%sums0: int32[2] = {") + 20;
  const size_t end = text.find(',', at);
  EXPECT_FALSE(has(text.substr(0, at) + "5" + text.substr(end), "MatMulIntegerRows"));
}

}  // namespace
}  // namespace requant
