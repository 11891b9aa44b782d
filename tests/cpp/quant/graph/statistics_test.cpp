// Decomposed normalizations.
#include "quant/graph/statistics.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "ir/text.h"
#include "quant/assign/assign.h"
#include "quant/graph/normalization_spellings.h"
#include "quant/graph/prepare.h"
#include "quant/graph/soi.h"

namespace requant {
namespace {

std::set<std::string> StatisticsOf(const std::string& text) {
  const Graph graph = FloatModel(ParseGraph(text)).Release();
  std::set<std::string> names;
  for (const Node* node : FindStatistics(graph, ShapeOrIndexValues(graph))) {
    names.insert(node->name);
  }
  return names;
}

/// In every form, quantizing loses no more than quantizing nothing but the layers.
TEST(Statistics, EverySpellingKeepsItsNormalizationInFloat) {
  const bool all = std::getenv("REQUANT_LONG") != nullptr;
  const std::vector<Spelling> spellings = Spellings(all ? 43 : 101);
  EXPECT_GT(spellings.size(), 200U);
  for (const Spelling& spelling : spellings) {
    const Graph graph = FloatModel(SpellingWriter(spelling).Write()).Release();
    QuantizeOptions floats;
    for (const auto& node : graph.nodes()) {
      if (node->name != "h_node" && node->name != "y_node" && !node->Is("Identity")) {
        floats.by_name[node->name].quantize = false;
      }
    }
    const double got =
        SnrOn(graph, LowerToInteger(QuantizeOn(graph, {}, UnevenFeeds)).graph(), UnevenFeeds);
    const double wanted =
        SnrOn(graph, LowerToInteger(QuantizeOn(graph, floats, UnevenFeeds)).graph(), UnevenFeeds);
    EXPECT_GT(got, wanted - 1) << spelling.Name();
    EXPECT_GT(wanted, 15) << spelling.Name();
  }
}

struct Form {
  const char* name;
  const char* text;
  const char* found;  // names of the operators, sorted
};

/// Forms that the spellings do not cover, and operators that are no normalization. An operator that
/// reads one of these operators and another value need not be found: its operands are not both
/// integers.
TEST(Statistics, Forms) {
  const std::string head = R"(graph "" opset 13
input %x: float32[2, 4, 6, 6]
input %z: float32[2, 4]
const %two: float32[] = {2.0}
const %half: float32[] = {0.5}
const %small: float32[] = {0.00001}
const %one: int64[1] = {1}
const %plane: int64[2] = {2, 3}
)";
  const Form forms[] = {
      {"F.normalize", R"(%n = ReduceL2(%x) {axes = [1]} "n"
%b = Clip(%n, %small) "b"
%s = Shape(%x) "s"
%e = Expand(%b, %s) "e"
%y = Div(%x, %e) "y"
)",
       "b e n y "},
      {"an InstanceNormalization of Keras", R"(%m = GlobalAveragePool(%x) "m"
%d = Sub(%x, %m) "d"
%q = Mul(%d, %d) "q"
%v = GlobalAveragePool(%q) "v"
%a = Add(%v, %small) "a"
%r = Sqrt(%a) "r"
%i = Reciprocal(%r) "i"
%t = Mul(%x, %i) "t"
%k = Mul(%m, %i) "k"
%y = Sub(%t, %k) "y"
)",
       "a d i m q r t v "},
      {"local response normalization of PyTorch", R"(%q = Mul(%x, %x) "q"
%u = Unsqueeze(%q, %one) "u"
%p = AveragePool(%u) {kernel_shape = [3, 1, 1], pads = [1, 0, 0, 1, 0, 0]} "p"
%s = Squeeze(%p, %one) "s"
%a = Add(%s, %half) "a"
%r = Pow(%a, %half) "r"
%y = Div(%x, %r) "y"
)",
       "a p q r s u y "},
      {"a softmax", R"(%m = ReduceMax(%x) {axes = [1]} "m"
%d = Sub(%x, %m) "d"
%e = Exp(%d) "e"
%s = ReduceSum(%e, %one) "s"
%y = Div(%e, %s) "y"
)",
       "d e m s y "},
      {"GRN of ConvNeXt", R"(%n = ReduceL2(%x) {axes = [2, 3]} "n"
%m = ReduceMean(%n) {axes = [1]} "m"
%a = Add(%m, %small) "a"
%d = Div(%n, %a) "d"
%t = Mul(%x, %d) "t"
%y = Add(%t, %x) "y"
)",
       "a d m n t "},
      {"pooling of standard deviations", R"(%m = ReduceMean(%x) {axes = [2, 3]} "m"
%d = Sub(%x, %m) "d"
%q = Pow(%d, %two) "q"
%v = ReduceMean(%q) {axes = [2, 3]} "v"
%y = Sqrt(%v) "y"
)",
       "d m q v y "},
      {"cosines", R"(const %c: float32[1, 4, 1, 1] = {1, 2, 3, 4}
%h = Relu(%x) "h"
%g = Mul(%x, %c) "g"
%t = Mul(%g, %h) "t"
%s = ReduceSum(%t, %one) "s"
%n = ReduceL2(%g) {axes = [1]} "n"
%k = ReduceL2(%h) {axes = [1]} "k"
%p = Mul(%n, %k) "p"
%y = Div(%s, %p) "y"
)",
       "k n p s t y "},
      {"a scale that another layer makes",
       R"(const %w: float32[4, 4] = {1, -2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}
%q = Mul(%x, %x) "q"
%v = ReduceMean(%q) {axes = [1]} "v"
%r = Sqrt(%v) "r"
%i = Reciprocal(%r) "i"
%f = MatMul(%z, %w) "f"
%u = Unsqueeze(%f, %plane) "u"
%k = Mul(%i, %u) "k"
%y = Mul(%x, %k) "y"
)",
       "q r v "},
      {"a gate", R"(%m = GlobalAveragePool(%x) "m"
%g = Sigmoid(%m) "g"
%y = Mul(%x, %g) "y"
)",
       ""},
      {"a gate that a layer makes",
       R"(const %w: float32[4, 4, 1, 1] = {1, -2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}
%m = GlobalAveragePool(%x) "m"
%c = Conv(%m, %w) "c"
%g = HardSigmoid(%c) "g"
%y = Mul(%x, %g) "y"
)",
       ""},
      {"a mean that is taken off", R"(%m = GlobalAveragePool(%x) "m"
%y = Sub(%x, %m) "y"
)",
       ""},
      {"a quotient without a reduction", R"(%a = Abs(%x) "a"
%b = Add(%a, %half) "b"
%y = Div(%x, %b) "y"
)",
       ""},
      {"a pool in front of a sigmoid written out", R"(%p = MaxPool(%x) {kernel_shape = [2, 2]} "p"
%n = Neg(%p) "n"
%e = Exp(%n) "e"
%a = Add(%e, %half) "a"
%y = Div(%p, %a) "y"
)",
       ""},
  };
  for (const Form& form : forms) {
    std::string found;
    for (const std::string& name : StatisticsOf(head + form.text + "output %y\n")) {
      found += name + " ";
    }
    EXPECT_EQ(found, form.found) << form.name;
  }
}

}  // namespace
}  // namespace requant
