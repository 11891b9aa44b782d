// FastMath
// Before: Exp, Tanh, Sigmoid, Erf, Gelu, Softmax along the last axis
// After:  ai.requant::FastExp, FastTanh, FastSigmoid, FastErf, FastErfGelu, FastSoftmax
// Bound:  |difference| <= 1e-4 for tanh, 5e-5 for sigmoid, 2e-6 for erf and gelu; 4e-6 of the
//   result for exp (0 below e^-87.3, e^88.3 at most) and for the elements of a softmax.
//   numeric/fast_math.h has the formulas.
// Conditions: float32; Gelu without `approximate`. The pass is optional: it changes results, and
//   other engines do not have these operators. Quantized sessions read such functions from tables
//   of 256 entries and gain nothing.
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

struct Replacement {
  const char* op;
  const char* domain;
  const char* fast;
};
constexpr Replacement kReplacements[] = {
    {"Exp", "", "FastExp"},         {"Tanh", "", "FastTanh"},
    {"Sigmoid", "", "FastSigmoid"}, {"Erf", "", "FastErf"},
    {"Gelu", "", "FastErfGelu"},    {"Gelu", kMicrosoftDomain, "FastErfGelu"},
    {"Softmax", "", "FastSoftmax"}};

bool IsLastSoftmax(const Graph& graph, const Node& node) {
  const int64_t rank = RankOf(node.input(0));
  const int64_t axis = node.attributes.Int("axis", graph.opset() < 13 ? 1 : -1);
  return rank > 0 && (axis == -1 || axis == rank - 1);
}

bool Replace(Graph& graph, Node* node) {
  if (node->outputs.size() != 1 || !IsFloat32(node->output())) return false;
  for (const Replacement& row : kReplacements) {
    if (!node->Is(row.op, row.domain)) continue;
    if (node->Is(Op::kSoftmax) && !IsLastSoftmax(graph, *node)) return false;
    if (node->attributes.String("approximate", "none") != "none") return false;
    node->Retype(row.fast, kRequantDomain);
    node->attributes = {};
    graph.opsets.try_emplace(kRequantDomain, 1);
    return true;
  }
  return false;
}

}  // namespace

bool FastMath(Graph& graph, PassContext&) { return RewriteNodes(graph, Replace); }

}  // namespace requant
