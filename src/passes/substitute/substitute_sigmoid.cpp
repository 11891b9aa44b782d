// SubstituteSigmoid
// Before: Sigmoid(x), x * Sigmoid(x) (SiLU)
// After:  HardSigmoid(x, 1/6, 1/2), HardSwish(x) (before opset 14 x * HardSigmoid(x))
// Conditions: those of all substitutions (patterns.h).
// Formula: 1 / (1 + exp(-x)) becomes max(0, min(1, x / 6 + 1/2)), SiLU x times that.
// Bound: |difference| <= 0.07 for Sigmoid (near |x| = 1.5 and 3), 0.143 for SiLU (at |x| = 3).
#include "passes/match/patterns.h"
#include "passes/pass.h"

namespace requant {
namespace {

constexpr PatternRule kRules[] = {
    {"Sigmoid(x)", "HardSigmoid(x)", 1},
    {"@Silu(x)", "HardSwish(x)", 14},
    {"@Silu(x)", "Mul(x,HardSigmoid(x))", 1},
};

}  // namespace

bool SubstituteSigmoid(Graph& graph, PassContext&) { return RewriteByPatterns(graph, kRules); }

}  // namespace requant
