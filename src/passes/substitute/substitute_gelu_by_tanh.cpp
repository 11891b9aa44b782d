// SubstituteGeluByTanh
// Before: Gelu(x)
// After:  FastGelu(x) of com.microsoft
// Conditions: those of all substitutions (patterns.h).
// Formula: x / 2 * (1 + erf(x / sqrt 2)) becomes
//   x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (Hendrycks & Gimpel, 2016)
// Bound: |difference| <= 4.8e-4.
#include "passes/match/patterns.h"
#include "passes/pass.h"

namespace requant {
namespace {

constexpr PatternRule kRules[] = {
    {"Gelu(x)", "@FastGelu(x)", 1},
    {"@Gelu(x)", "@FastGelu(x)", 1},
};

}  // namespace

bool SubstituteGeluByTanh(Graph& graph, PassContext&) { return RewriteByPatterns(graph, kRules); }

}  // namespace requant
