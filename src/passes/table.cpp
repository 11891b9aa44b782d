#include "passes/pass.h"

namespace requant {
namespace {

// The bounds: float32 has 2^-24 = 6e-8; a folded weight is rounded once more, and its layer sums up
// a few dozen of them.
constexpr double kExact = 0;
constexpr double kRounds = 4e-6;

using enum PassRole;

constexpr Pass kPasses[] = {
#define PASS(name, role, bound, may_apply, summary) {#name, summary, bound, role, name, may_apply},
#include "passes/passes.inc"
#undef PASS
};

}  // namespace

std::span<const Pass> PassTable() { return kPasses; }

}  // namespace requant
