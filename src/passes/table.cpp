#include "passes/pass.h"

namespace requant {
namespace {

// Types first: most rewrites need ranks. Constants next, so that the rewrites see weights and
// shapes. Spellings are unified before they are matched.
constexpr Pass kPasses[] = {
    {"InferType", "shape and dtype of every value, with symbolic dimensions", InferType},
    {"FoldConstant", "evaluates everything known ahead of time, shape arithmetic included",
     FoldConstant},
    {"CanonicalizeOps", "several spellings of one thing made one", CanonicalizeOps},
    {"SimplifyInference", "Dropout and Identity removed, BatchNormalization folded into weights",
     SimplifyInference},
    {"SimplifyExpr", "reshapes, transposes, casts, pads and neutral operands that do nothing",
     SimplifyExpr},
    {"FoldScaleAxis", "per-channel constants moved into the weights of neighbouring layers",
     FoldScaleAxis},
    {"EliminateCommonSubexpr", "equal operators with equal inputs become one",
     EliminateCommonSubexpr},
    {"DeadCodeElimination", "drops what no output needs", DeadCodeElimination},
    {"FuseOps", "layers grouped with the residual addition and the activation that follow",
     FuseOps},
};

}  // namespace

std::span<const Pass> PassTable() { return kPasses; }

}  // namespace requant
