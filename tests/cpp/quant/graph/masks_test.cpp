// Masks that are added to scores.
#include "quant/graph/masks.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "ir/text.h"
#include "quant/assign/assign.h"
#include "quant/graph/mask_networks.h"
#include "quant/graph/prepare.h"
#include "quant/graph/soi.h"
#include "quant/graph/statistics.h"

namespace requant {
namespace {

/// The scores keep their scale, and hidden positions do not affect the answer: quantizing the
/// layers alone is hardly better.
TEST(Masks, EveryMaskLeavesTheScoresTheirScale) {
  const std::vector<Masking> maskings = Maskings(std::getenv("REQUANT_LONG") ? 23 : 59);
  EXPECT_GT(maskings.size(), 100U);
  for (const Masking& masking : maskings) {
    const Graph graph = FloatModel(MaskedNetwork(masking).Write()).Release();
    const auto feeds = [&masking](const Graph& of, uint32_t seed) {
      return MaskFeeds(masking, of, seed);
    };
    QuantizeOptions floats;
    for (const auto& node : graph.nodes()) {
      const bool layer = node->Is("MatMul") && node->constant(1);
      if (!layer) floats.by_name[node->name].quantize = false;
    }
    const QuantizedModel model = QuantizeOn(graph, {}, feeds, 48);
    const Graph layers = LowerToInteger(QuantizeOn(graph, floats, feeds, 48)).Release();
    const double wanted = SnrOn(graph, layers, feeds);
    const double integer = SnrOn(graph, LowerToInteger(model).graph(), feeds);
    const double qdq = SnrOn(graph, ToQdq(model), feeds);
    EXPECT_GT(integer, wanted - 1) << masking.Name();
    EXPECT_GT(qdq, wanted - 1) << masking.Name();
    EXPECT_GT(wanted, 30) << masking.Name();
  }
}

/// Hidden positions do not count for the ranges of integers after the mask, where they get the
/// lowest code.
TEST(Masks, IntegersBehindAMaskKeepTheirScale) {
  for (const char* value : {"-inf", "-3.40282347e+38", "-10000.0"}) {
    const Graph graph = FloatModel(ParseGraph(StrCat(R"(graph "" opset 13
input %x: float32[1, 2, 4, 4]
const %hidden: bool[1, 1, 4, 4] = {1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0}
const %least: float32[] = {)",
                                                     value, R"(}
const %half: float32[] = {0.5}
const %w: float32[3, 2, 1, 1] = {0.5, -1.0, 1.5, 0.25, -0.75, 1.0}
%a = Where(%hidden, %least, %x) "where"
%b = Mul(%a, %half)
%c = MaxPool(%b) {kernel_shape = [2, 2], strides = [2, 2]} "pool"
%y = Conv(%c, %w) "conv"
output %y
)")))
                            .Release();
    const QuantizedModel model = QuantizeOn(graph, {}, UnevenFeeds, 48);
    EXPECT_FALSE(model.record.operators.at("where").quantized);
    EXPECT_TRUE(model.record.operators.at("conv").quantized);
    EXPECT_GT(SnrOn(graph, LowerToInteger(model).graph(), UnevenFeeds), 35) << value;
    EXPECT_GT(SnrOn(graph, ToQdq(model), UnevenFeeds), 35) << value;
  }
}

std::string MasksOf(const std::string& text) {
  const Graph graph = FloatModel(ParseGraph(text)).Release();
  const std::set<const Value*> soi = ShapeOrIndexValues(graph);
  std::string names;
  for (const auto& node : graph.nodes()) {
    if (FindMasks(graph, soi, FindStatistics(graph, soi)).nodes.contains(node.get())) {
      names += node->name + " ";
    }
  }
  return names;
}

TEST(Masks, Forms) {
  const std::string head = R"(graph "" opset 14
input %x: float32[2, 4, 4]
input %z: float32[2, 4, 4]
input %m: float32[2, 1, 4]
const %mask: float32[4, 4] = {0, -10000, -10000, -10000, 0, 0, -10000, -10000, 0, 0, 0, -10000, 0, 0, 0, 0}
const %far: float32[4] = {-10000, -20000, -30000, -10000}
const %near: float32[4] = {-1, -2, 1, 2}
const %shift: float32[] = {-10000}
const %gap: float32[4] = {-5000, 1, 2, 3}
const %one: float32[] = {1}
)";
  struct Form {
    const char* name;
    const char* text;
    const char* found;
  };
  const Form forms[] = {
      {"a mask of the input, behind which only a softmax is", R"(%a = Add(%x, %m) "a"
%y = Softmax(%a) "y"
)",
       "a "},
      {"GPT-2's product and difference", R"(%b = Trilu(%mask, _) "b"
%a = Mul(%x, %b) "a"
%c = Sub(%a, %mask) "c"
%y = Softmax(%c) "y"
)",
       "c "},
      {"a mask that others read the sum of", R"(%a = Add(%mask, %x) "a"
%s = Softmax(%a) "s"
%t = Relu(%a) "t"
%y = Add(%s, %t) "y"
)",
       "a "},
      {"a residual that others read, too", R"(%a = Add(%x, %z) "a"
%s = Softmax(%a) "s"
%y = Add(%s, %a) "y"
)",
       ""},
      {"a bias", R"(%a = Add(%x, %near) "a"
%y = Relu(%a) "y"
)",
       ""},
      {"a shift", R"(%a = Add(%x, %shift) "a"
%y = Relu(%a) "y"
)",
       ""},
      {"shifts by channels", R"(%a = Add(%x, %far) "a"
%y = Relu(%a) "y"
)",
       ""},
      {"numbers that are neither near nor far", R"(%a = Add(%x, %gap) "a"
%y = Relu(%a) "y"
)",
       ""},
      {"a scale in front of a softmax", R"(%a = Mul(%x, %one) "a"
%y = Softmax(%a) "y"
)",
       ""},
      {"what a mean and a softmax read", R"(%a = Add(%x, %z) "a"
%b = Relu(%a) "b"
%y = Softmax(%b) "y"
)",
       ""},
  };
  for (const Form& form : forms) {
    std::string text = head + form.text + "output %y\n";
    EXPECT_EQ(MasksOf(text), form.found) << form.name;
  }
}

}  // namespace
}  // namespace requant
