#include "quant/weight_only.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/verify.h"
#include "model.h"

namespace requant {
namespace {

/// MatMul, Gemm of both orders; K is no multiple of the block.
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

}  // namespace
}  // namespace requant
