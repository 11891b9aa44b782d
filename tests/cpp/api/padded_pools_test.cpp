// MaxPool with dilated windows that may contain nothing but padding: such a window gives the least
// float, that is, the lowest code of the output's grid, whatever passes do to the file.
#include <gtest/gtest.h>

#include <limits>

#include "api/requant.h"
#include "base/str_cat.h"

namespace requant {
namespace {

struct Pool {
  const char* shape;
  const char* attributes;
};

/// In these pools some windows of an output, or all, lie outside of the image.
constexpr Pool kPools[] = {
    {"1, 2, 4", "{kernel_shape = [2], pads = [1, 1], dilations = [5]}"},
    {"1, 2, 4", "{kernel_shape = [2], pads = [1, 2], dilations = [5]}"},
    {"1, 2, 4, 5", "{kernel_shape = [2, 2], pads = [1, 1, 1, 1], dilations = [5, 2]}"},
    {"1, 20, 4, 4", "{kernel_shape = [2, 2], pads = [1, 1, 1, 1], dilations = [5, 5]}"},
    {"1, 2, 3, 3, 4",
     "{kernel_shape = [2, 2, 2], pads = [1, 1, 1, 1, 1, 1], dilations = [4, 1, 1]}"},
    // In these pools none does.
    {"1, 2, 9", "{kernel_shape = [3], pads = [2, 2], dilations = [2]}"},
    {"1, 2, 6, 6", "{kernel_shape = [3, 3], pads = [1, 1, 1, 1], dilations = [2, 2]}"},
};

Tensor Below(const Value& input) {
  Tensor x(DType::kFloat32, input.type.StaticShape());
  for (int64_t i = 0; i < x.count(); ++i) {
    x.data<float>()[i] = -4 + 0.0625F * static_cast<float>(i * 37 % 101);
  }
  return x;
}

std::vector<Tensor> Runs(const std::string& text, const Tensor& x) {
  std::vector<Tensor> out = {Interpret(ParseGraph(text), {{"x", x}})[0]};
  for (const bool optimize : {false, true}) {
    for (const bool prepare : {false, true}) {
      Graph graph = ParseGraph(text);
      if (optimize) RunPasses(graph, {});
      Session session(prepare ? PrepareForRun(graph) : PreparedModel::AsIs(graph.Clone()), {});
      out.push_back(session.Run({{"x", x}})[0]);
    }
  }
  return out;
}

TEST(PaddedPools, OfFloats) {
  for (const Pool& pool : kPools) {
    const std::string text = StrCat("graph \"\" opset 17\ninput %x: float32[", pool.shape,
                                    "]\n%y = MaxPool(%x) ", pool.attributes, "\noutput %y\n");
    const std::vector<Tensor> runs = Runs(text, Below(*ParseGraph(text).inputs()[0]));
    for (const Tensor& y : runs) EXPECT_TRUE(y.SameBits(runs[0])) << text;
    const bool empty = runs[0].AsDouble(0) == double{std::numeric_limits<float>::lowest()};
    EXPECT_EQ(empty, pool.attributes[0] == '{' && &pool < kPools + 5) << text;
  }
}

TEST(PaddedPools, BetweenPairs) {
  for (const char* type : {"uint8", "int8"}) {
    for (const char* out : {"0.125", "0.0625", "0.03125"}) {
      for (const Pool& pool : kPools) {
        const std::string zero = type[0] == 'u' ? "128" : "0";
        const std::string text =
            StrCat("graph \"\" opset 17\ninput %x: float32[", pool.shape,
                   "]\nconst %s: float32[] = {0.0625}\nconst %t: float32[] = {", out,
                   "}\nconst %z: ", type, "[] = {", zero, "}\nconst %u: ", type, "[] = {",
                   type[0] == 'u' ? "120" : "-8",
                   "}\n%q = QuantizeLinear(%x, %s, %z)\n%r = DequantizeLinear(%q, %s, %z)\n%p = "
                   "MaxPool(%r) ",
                   pool.attributes,
                   "\n%w = QuantizeLinear(%p, %t, %u)\n%y = DequantizeLinear(%w, %t, "
                   "%u)\noutput %y\n");
        const std::vector<Tensor> runs = Runs(text, Below(*ParseGraph(text).inputs()[0]));
        for (const Tensor& y : runs) EXPECT_TRUE(y.SameBits(runs[0])) << text;
        if (&pool < kPools + 5) {
          EXPECT_EQ(runs[0].AsDouble(0), -120 * std::stod(out)) << text;
        }
      }
    }
  }
}

}  // namespace
}  // namespace requant
