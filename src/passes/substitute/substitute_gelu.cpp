// SubstituteGelu
// Before: Gelu(x)
// After:  x * Sigmoid(1.702 x), as one operator
// Conditions: those of all substitutions (patterns.h).
// Formula: x / 2 * (1 + erf(x / sqrt 2)) becomes x / (1 + exp(-1.702 x))
//   (Hendrycks & Gimpel, "Gaussian error linear units", 2016)
// Bound: |difference| <= 0.021.
#include "passes/match/patterns.h"
#include "passes/pass.h"

namespace requant {
namespace {

constexpr PatternRule kRules[] = {
    {"Gelu(x)", "@QuickGelu(x)", 1},
    {"@Gelu(x)", "@QuickGelu(x)", 1},
};

}  // namespace

bool SubstituteGelu(Graph& graph, PassContext&) { return RewriteByPatterns(graph, kRules); }

}  // namespace requant
