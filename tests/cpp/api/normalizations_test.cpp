// Decomposed normalizations, through the optimizer, the quantizer and the planner.
#include <gtest/gtest.h>

#include <cstdlib>

#include "api/requant.h"
#include "passes/runner.h"
#include "quant/graph/normalization_spellings.h"
#include "quant/graph/prepare.h"

namespace requant {
namespace {

/// Whether a normalization operator computes the same: not with an epsilon outside of the root or a
/// bound above 0, and none exists along the batch.
bool IsOperator(const Spelling& s) {
  if (s.layout == Spelling::kBatch) return false;
  if (s.epsilon == Spelling::kNone) return true;
  return s.epsilon == Spelling::kInside && s.moment != Spelling::kNorm;
}

bool IsNormal(const Node& node) {
  return node.Is("LayerNormalization") || node.Is("SimplifiedLayerNormalization");
}

double LargestError(const Graph& wanted, const Graph& got) {
  double error = 0;
  double largest = 1;
  for (uint32_t seed = 1; seed < 4; ++seed) {
    const TensorMap feeds = UnevenFeeds(wanted, seed);
    const std::vector<Tensor> a = Interpret(wanted, feeds);
    const std::vector<Tensor> b = Interpret(got, feeds);
    for (int64_t i = 0; i < a[0].count(); ++i) {
      error = std::fmax(error, std::fabs(a[0].AsDouble(i) - b[0].AsDouble(i)));
      largest = std::fmax(largest, std::fabs(a[0].AsDouble(i)));
    }
  }
  return error / largest;
}

TEST(Normalizations, EverySpellingOfTheOperatorBecomesIt) {
  const std::vector<Spelling> spellings =
      Spellings(std::getenv("REQUANT_LONG") != nullptr ? 23 : 151);
  int fused = 0;
  for (const Spelling& spelling : spellings) {
    const Graph graph = FloatModel(SpellingWriter(spelling).Write()).Release();
    Graph optimized = graph.Clone();
    RunPasses(optimized);
    int normal = 0;
    int parts = 0;
    for (const auto& node : optimized.nodes()) {
      normal += IsNormal(*node);
      parts += node->op_type.starts_with("Reduce") || node->Is("Sqrt") || node->Is("Pow") ||
               node->Is("GlobalAveragePool") || node->Is("Div") || node->Is("Reciprocal");
    }
    EXPECT_EQ(normal, IsOperator(spelling) ? 1 : 0) << spelling.Name();
    if (normal > 0) {
      EXPECT_EQ(parts, 0) << spelling.Name();
    }
    // For a difference of moments, the operator's variance is the more exact one.
    const double bound = spelling.moment == Spelling::kDifference ? 1e-3 : 4e-6;
    EXPECT_LT(LargestError(graph, optimized), bound) << spelling.Name();
    fused += normal;
  }
  EXPECT_GT(fused, 20);
}

}  // namespace
}  // namespace requant
