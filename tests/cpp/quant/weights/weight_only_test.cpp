#include "quant/weights/weight_only.h"
#include "base/lcg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "quant/model.h"

namespace requant {
namespace {

/// MatMul, and Gemm in both orders; K is no multiple of the block.
Graph Products() {
  Builder b;
  Noise noise(2);
  Value* x = b.Input("x", {6, 70});
  Value* h =
      b.Op("Relu", {b.Op("MatMul", {x, b.Const("w1", noise.Make({70, 48}, 0.2f))}, "p")}, "h");
  AttributeMap transposed;
  transposed.Set("transB", int64_t{1});
  Value* y =
      b.Op("Gemm", {h, b.Const("w2", noise.Make({33, 48}, 0.2f)), b.Const("b2", noise.Make({33}))},
           "y", transposed);
  b.graph.AddOutput(b.Op("Gemm", {y, b.Const("w3", noise.Make({33, 9}, 0.2f))}, "z"));
  return std::move(b.graph);
}

TEST(WeightOnly, BlocksKeepTheFunction) {
  const Graph graph = Products();
  for (const int64_t block : {16, 32, 128}) {
    const Graph four = QuantizeWeightsOnly(graph, {.bits = 4, .block = block});
    const Graph eight = QuantizeWeightsOnly(graph, {.bits = 8, .block = block});
    VerifyGraph(four);
    EXPECT_EQ(CountOps(four, "DequantizeLinear"), 3);
    EXPECT_EQ(four.outputs()[0]->name, "z");
    EXPECT_GT(Snr(graph, four), 14) << block;
    EXPECT_GT(Snr(graph, eight), 38) << block;
  }
  EXPECT_GT(Snr(graph, QuantizeWeightsOnly(graph, {.block = 16})),
            Snr(graph, QuantizeWeightsOnly(graph, {.block = 128})));
  const Graph nbits = QuantizeWeightsOnly(graph, {.matmul_nbits = true});
  EXPECT_EQ(CountOps(nbits, "MatMulNBits"), 3);
  EXPECT_EQ(nbits.outputs()[0]->name, "z");
  EXPECT_THROW(QuantizeWeightsOnly(graph, {.bits = 5}), Error);
  EXPECT_THROW(QuantizeWeightsOnly(graph, {.block = 24}), Error);
}

TEST(Dynamic, KeepsTheFunction) {
  const Graph graph = Products();
  const Graph dynamic = QuantizeDynamically(graph);
  VerifyGraph(dynamic);
  EXPECT_EQ(CountOps(dynamic, "MatMulInteger"), 3);
  EXPECT_EQ(CountOps(dynamic, "MatMul") + CountOps(dynamic, "Gemm"), 0);
  EXPECT_EQ(dynamic.outputs()[0]->name, "z");
  EXPECT_GT(Snr(graph, dynamic), 35);
}

/// Pseudo-random numbers for a text, as many as the shape has elements.
std::string Numbers(uint32_t seed, const Shape& shape) {
  std::string out;
  Lcg random{seed * 2654435761U + 1};
  for (int64_t i = 0; i < NumElements(shape); ++i) {
    out +=
        StrCat(i > 0 ? ", " : "", (static_cast<double>(random.Next() >> 8) / (1 << 24) - 0.5) / 2);
  }
  return out;
}

/// Both branches share a weight of the outer graph; one has a weight of its own and a loop.
Graph Branches() {
  return ParseGraph(StrCat(R"(graph "" opset 17
input %x: float32[3, 32]
input %c: bool[]
const %shared: float32[32, 32] = {)",
                           Numbers(1, {32, 32}), R"(}
const %outer: float32[32, 32] = {)",
                           Numbers(2, {32, 32}), R"(}
const %bias: float32[32] = {)",
                           Numbers(5, {32}), R"(}
const %n: int64[] = {2}
const %go: bool[] = {1}
%h = MatMul(%x, %outer)
%y = If(%c, %h, %shared, %bias, %n, %go, %h, %shared) {then_branch = { graph "" opset 17
capture %a: float32[3, 32]
capture %s: float32[32, 32]
capture %b: float32[32]
capture %n: int64[]
capture %go: bool[]
const %own: float32[32, 32] = {)",
                           Numbers(3, {32, 32}), R"(}
%p = Gemm(%a, %s, %b) "first"
%q = MatMul(%p, %own) "second"
%r = Loop(%n, %go, %q, %s) {body = { graph "" opset 17
input %i: int64[]
input %k: bool[]
input %v: float32[3, 32]
capture %deep: float32[32, 32]
%t = MatMul(%v, %deep) "third"
%u = Tanh(%t)
%k2 = Identity(%k)
output %k2
output %u
}} "loop"
output %r
}, else_branch = { graph "" opset 17
capture %a: float32[3, 32]
capture %s: float32[32, 32]
%p = Gemm(%a, %s) {transB = 1} "fourth"
%q = MatMul(%p, %s) "fifth"
output %q
}} "if"
output %y
)"));
}

void CountIn(const Graph& graph, std::map<std::string, int>& counts) {
  for (const auto& node : graph.nodes()) {
    ++counts[node->op_type];
    for (const auto& [name, value] : node->attributes.entries()) {
      if (const auto* body = std::get_if<Subgraph>(&value)) CountIn(**body, counts);
    }
  }
}

int64_t BytesIn(const Graph& graph) {
  int64_t bytes = 0;
  for (const auto& value : graph.values()) bytes += static_cast<int64_t>(value->constant.bytes());
  for (const auto& node : graph.nodes()) {
    for (const auto& [name, value] : node->attributes.entries()) {
      if (const auto* body = std::get_if<Subgraph>(&value)) bytes += BytesIn(**body);
    }
  }
  return bytes;
}

void ExpectBranches(const Graph& quantized, double least_db, double most_bytes) {
  const Graph graph = Branches();
  VerifyGraph(quantized);
  EXPECT_LT(static_cast<double>(BytesIn(quantized)),
            most_bytes * static_cast<double>(BytesIn(graph)));
  for (const bool taken : {true, false}) {
    Tensor x(DType::kFloat32, {3, 32});
    for (int64_t i = 0; i < x.count(); ++i) {
      x.data<float>()[i] = static_cast<float>(std::cos(static_cast<double>(i))) / 8;
    }
    const TensorMap feeds{{"x", x}, {"c", Tensor::Scalar(taken)}};
    const Tensor wanted = Interpret(graph, feeds)[0];
    const Tensor got = Interpret(quantized, feeds)[0];
    double signal = 0, noise = 0;
    for (int64_t i = 0; i < got.count(); ++i) {
      signal += wanted.AsDouble(i) * wanted.AsDouble(i);
      noise += std::pow(got.AsDouble(i) - wanted.AsDouble(i), 2);
    }
    EXPECT_GT(10 * std::log10(signal / noise), least_db) << taken;
  }
}

TEST(WeightOnly, InBodies) {
  for (const bool nbits : {false, true}) {
    for (const int bits : {4, 8}) {
      FloatWeights left;
      const Graph quantized = QuantizeWeightsOnly(
          Branches(), {.bits = bits, .block = 16, .matmul_nbits = nbits}, &left);
      EXPECT_TRUE(left.layers.empty()) << left.Summary();
      EXPECT_EQ(left.total, 6U);
      std::map<std::string, int> counts;
      CountIn(quantized, counts);
      EXPECT_EQ(counts[nbits ? "MatMulNBits" : "DequantizeLinear"], 6);
      // The weight whose blocks are needed in a second order is stored twice, for any number of
      // readers.
      ExpectBranches(quantized, bits == 8 ? 30 : 8, bits == 8 ? 0.45 : 0.28);
    }
  }
}

TEST(Dynamic, InBodies) {
  FloatWeights left;
  const Graph quantized = QuantizeDynamically(Branches(), &left);
  EXPECT_TRUE(left.layers.empty()) << left.Summary();
  std::map<std::string, int> counts;
  CountIn(quantized, counts);
  EXPECT_EQ(counts["MatMulInteger"], 6);
  EXPECT_EQ(counts["MatMul"] + counts["Gemm"], 0);
  ExpectBranches(quantized, 25, 0.45);
}

TEST(WeightOnly, SaysWhatStaysFloat) {
  const Graph graph =
      ParseGraph(StrCat("graph \"\" opset 17\ninput %x: float32[1, 2, 8, 8]\ninput %i: int64[3]\n",
                        "const %k: float32[8, 2, 3, 3] = {", Numbers(1, {8, 2, 3, 3}),
                        "}\nconst %b: float32[1, 8, 8, 8] = {", Numbers(2, {8, 8, 8}),
                        "}\nconst %table: float32[40, 8] = {", Numbers(3, {40, 8}),
                        "}\nconst %left: float32[8, 8] = {", Numbers(4, {8, 8}), R"(}
%c = Conv(%x, %k) {pads = [1, 1, 1, 1]} "conv"
%p = MatMul(%c, %b) "batched"
%q = MatMul(%left, %p) "turned"
%e = Gather(%table, %i) "embedding"
output %q
output %e
)"));
  FloatWeights left;
  QuantizeWeightsOnly(graph, {}, &left);
  std::map<std::string, std::string> reasons;
  for (const auto& layer : left.layers) reasons[layer.name] = layer.reason;
  EXPECT_EQ(left.total, 4U);
  EXPECT_EQ(reasons["conv"], "Conv is no matrix product and no recurrent layer");
  EXPECT_EQ(reasons["batched"], "its weights have 4 dimensions");
  EXPECT_EQ(reasons["turned"], "its first operand is the constant");
  EXPECT_EQ(reasons["embedding"], "Gather is no matrix product and no recurrent layer");
  EXPECT_EQ(left.Summary().find("4 of 4 weights stay float: those of 'conv', as Conv is no"), 0U)
      << left.Summary();
}

}  // namespace
}  // namespace requant
