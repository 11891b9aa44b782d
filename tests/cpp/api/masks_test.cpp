// Attentions with masks of many forms, through the optimizer and the quantizer.
#include <gtest/gtest.h>

#include <cstdlib>

#include "passes/runner.h"
#include "quant/graph/mask_networks.h"
#include "quant/graph/prepare.h"

namespace requant {
namespace {

/// Some attentions are fused and some are not; in both cases the scores keep their scale.
/// Quantizing the layers alone gives 34 dB.
TEST(MasksOptimized, EveryMaskLeavesTheScoresTheirScale) {
  int fused = 0;
  int parts = 0;
  for (const Masking& masking : Maskings(std::getenv("REQUANT_LONG") != nullptr ? 31 : 61)) {
    const Graph graph = FloatModel(MaskedNetwork(masking).Write()).Release();
    Graph optimized = graph.Clone();
    RunPasses(optimized);
    const auto feeds = [&masking](const Graph& of, uint32_t seed) {
      return MaskFeeds(masking, of, seed);
    };
    const QuantizedModel model = QuantizeOn(optimized, {}, feeds, 48);
    EXPECT_GT(SnrOn(graph, LowerToInteger(model).graph(), feeds), 33) << masking.Name();
    const bool attention = CountOps(optimized, "MultiHeadAttention") > 0;
    fused += attention;
    parts += !attention;
  }
  EXPECT_GT(fused, 5);
  EXPECT_GT(parts, 5);
}

}  // namespace
}  // namespace requant
