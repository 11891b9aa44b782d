#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "quant/graph/prepare.h"
#include "quant/model.h"
#include "quant/quantizer.h"

namespace requant {
namespace {

TEST(Opset, OldFormsAreRaised) {
  Builder b(9);
  Noise noise(8);
  Value* x = b.Input("x", {2, 3, 6, 6});
  Value* conv = b.Conv(x, "conv", {4, 3, 3, 3}, 1, noise);
  AttributeMap bounds;
  bounds.Set("min", 0.0f);
  bounds.Set("max", 6.0f);
  Value* clip = b.Op("Clip", {conv}, "clip", bounds);
  AttributeMap pads;
  pads.Set("pads", std::vector<int64_t>{0, 0, 1, 1, 0, 0, 1, 1});
  Value* padded = b.Op("Pad", {clip}, "padded", pads);
  AttributeMap slice;
  slice.Set("axes", std::vector<int64_t>{2, 3});
  slice.Set("starts", std::vector<int64_t>{1, 1});
  slice.Set("ends", std::vector<int64_t>{7, 7});
  Value* sliced = b.Op("Slice", {padded}, "sliced", slice);
  AttributeMap mode;
  mode.Set("mode", std::string("nearest"));
  Value* up = b.Op("Upsample", {sliced, b.Const("scales", Tensor::Vector<float>({1, 1, 2, 2}))},
                   "up", mode);
  Value* second = b.Conv(up, "second", {3, 4, 3, 3}, 1, noise);
  b.graph.AddOutput(b.Op("Softmax", {second}, "y"));  // over all of [3, 12, 12]
  const QuantizedModel model = QuantizeGraph(b.graph);
  EXPECT_EQ(model.float_graph.opset(), 13);
  EXPECT_LT(LargestDifference(b.graph, model.float_graph), 1e-6);
  const Graph integer = LowerToInteger(model).Release();
  VerifyGraph(integer);
  EXPECT_GT(Snr(b.graph, integer), 25);
  EXPECT_EQ(CountOps(integer, "QuantizeLinear"), 1);
}

/// The raised graph must have the same results.
void ExpectRaised(const std::string& text, const Shape& input, int wanted = 13) {
  SCOPED_TRACE(text);
  const Graph old = ParseGraph(text);
  Graph raised = old.Clone();
  RefreshTypes(raised);
  RaiseOpset(raised, wanted);
  RefreshTypes(raised);
  VerifyGraph(raised);
  EXPECT_EQ(raised.opset(), wanted);
  Noise noise(3);
  for (int round = 0; round < 4; ++round) {
    const Tensor x = noise.Make(input, 1, round % 2 == 0 ? 1 : -1);
    const std::vector<Tensor> expected = Interpret(old, {{"x", x}});
    const std::vector<Tensor> got = Interpret(raised, {{"x", x}});
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].shape(), expected[i].shape());
      for (int64_t at = 0; at < got[i].count(); ++at) {
        ASSERT_EQ(got[i].data<float>()[at], expected[i].data<float>()[at]);
      }
    }
  }
}

TEST(Opset, SoftmaxOverSeveralAxes) {
  for (const char* type : {"[2, 3, 4]", "[2, a, 4]", "[a, b, c]"}) {
    for (const char* axis : {"1", "-2", "0"}) {
      ExpectRaised(std::string("graph \"\" opset 11\ninput %x: float32") + type +
                       "\n%y = Softmax(%x) {axis = " + axis +
                       "}\n%z = LogSoftmax(%x) {axis = " + axis + "}\noutput %y\noutput %z\n",
                   {2, 3, 4});
    }
  }
}

TEST(Opset, BodiesOfControlFlow) {
  ExpectRaised(R"(graph "" opset 10
input %x: float32[2, 3, 4]
%all = ReduceSum(%x) {keepdims = 0}
const %zero: float32[] = {0.0}
%positive = Greater(%all, %zero)
%y = If(%positive, %x, %x) {then_branch = { graph "" opset 10
capture %a: float32[2, 3, 4]
%s = Softmax(%a) {axis = 1}
%z = Clip(%s) {min = 0.05, max = 0.2}
output %z
}, else_branch = { graph "" opset 10
capture %a: float32[2, 3, 4]
%s = ReduceSum(%a) {axes = [2], keepdims = 1}
output %s
}}
output %y
)",
               {2, 3, 4});
  ExpectRaised(R"(graph "" opset 11
input %x: float32[2, 3, 4]
const %three: int64[] = {3}
const %yes: bool[] = {1}
%y, %all = Loop(%three, %yes, %x, %x) {body = { graph "" opset 11
input %i: int64[]
input %go: bool[]
input %v: float32[9, 9, 9]
capture %a: float32[2, 3, 4]
%s = Softmax(%v) {axis = 1}
%sum = Add(%s, %a)
%p = Unsqueeze(%sum) {axes = [0]}
output %go
output %sum
output %p
}}
output %y
output %all
)",
               {2, 3, 4});
}

TEST(Opset, FormsOfOpset21) {
  for (const char* op : {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                         "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"}) {
    ExpectRaised(std::string("graph \"\" opset 13\ninput %x: float32[2, 4, 6]\n%y = ") + op +
                     "(%x) {axes = [1, -1], keepdims = 0}\n%z = " + op +
                     "(%x)\noutput %y\noutput %z\n",
                 {2, 4, 6}, 21);
  }
  ExpectRaised(
      "graph \"\" opset 11\ninput %x: float32[2, 4, 6]\n%a, %b = Split(%x) {axis = 2}\n"
      "%c, %d = Split(%x) {axis = 1, split = [1, 3]}\noutput %a\noutput %b\noutput %c\n"
      "output %d\n",
      {2, 4, 6}, 21);
  ExpectRaised(R"(graph "" opset 16
input %x: float32[1, 4, 6, 2]
const %image: float32[1, 1, 2, 3] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
%a = GridSample(%image, %x)
%b = GridSample(%image, %x) {mode = "bicubic"}
%c = GridSample(%image, %x) {mode = "nearest"}
output %a
output %b
output %c
)",
               {1, 4, 6, 2}, 21);
  ExpectRaised(R"(graph "" opset 17
input %x: float32[2, 4, 6, 1]
%a = DFT(%x)
%b = DFT(%x) {axis = 2, onesided = 1}
output %a
output %b
)",
               {2, 4, 6, 1}, 21);
  ExpectRaised(R"(graph "" opset 18
input %x: float32[2, 4, 6]
const %scale: float32[2] = {0.5, 2.0}
const %bias: float32[2] = {1.0, -1.0}
%y = GroupNormalization(%x, %scale, %bias) {num_groups = 2}
output %y
)",
               {2, 4, 6}, 21);
}

TEST(Opset, ScanOfOpset8IsRefused) {
  const Graph graph = ParseGraph(R"(graph "" opset 8
input %x: float32[1, 3, 4]
input %s: float32[1, 4]
%last, %all = Scan(_, %s, %x) {num_scan_inputs = 1, body = { graph "" opset 8
input %state: float32[4]
input %slice: float32[4]
%sum = Add(%state, %slice)
%copy = Identity(%sum)
output %sum
output %copy
}}
output %last
)");
  try {
    FloatModel{graph};
    ADD_FAILURE() << "raised";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("Scan"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace requant
