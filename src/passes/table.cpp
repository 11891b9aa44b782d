#include "passes/pass.h"

namespace requant {
namespace {

// Types first: most rewrites need ranks. Constants next, so that the rewrites see weights and
// shapes. Spellings are unified before they are matched.
//
// Bounds: float32 has 2^-24 = 6e-8; a folded weight is rounded once more, and its layer sums up a
// few dozen of them.
constexpr double kExact = 0;
constexpr double kRounds = 4e-6;

constexpr Pass kPasses[] = {
    {"InferType", "shape and dtype of every value, with symbolic dimensions", kExact, false,
     InferType},
    {"FoldConstant", "evaluates everything known ahead of time, shape arithmetic included", kExact,
     false, FoldConstant},
    {"DynamicToStatic", "Reshape and Expand by computed shapes get constants", kExact, false,
     DynamicToStatic},
    {"SubstituteSigmoid", "Sigmoid becomes HardSigmoid, SiLU HardSwish", 0.07, true,
     SubstituteSigmoid},
    {"SubstituteGelu", "Gelu becomes x * Sigmoid(1.702 x)", 0.021, true, SubstituteGelu},
    {"CanonicalizeOps", "several spellings of one thing made one", kRounds, false, CanonicalizeOps},
    {"SimplifyInference", "Dropout and Identity removed, BatchNormalization folded into weights",
     kRounds, false, SimplifyInference},
    {"SimplifyExpr", "reshapes, transposes, casts, pads and neutral operands that do nothing",
     kExact, false, SimplifyExpr},
    {"ConvertLayout", "transposes moved behind what does not mind them, until they cancel", kExact,
     true, ConvertLayout},
    {"FoldScaleAxis", "per-channel constants moved into the weights of neighbouring layers",
     kRounds, false, FoldScaleAxis},
    {"CombineParallelConv2D", "convolutions of one value merged into a wide one", kExact, true,
     CombineParallelConv2D},
    {"CombineParallelDense", "dense layers of one value merged into a wide one", kExact, true,
     CombineParallelDense},
    {"CombineParallelBatchMatmul", "products with one left operand merged into a wide one", kExact,
     true, CombineParallelBatchMatmul},
    {"EliminateCommonSubexpr", "equal operators with equal inputs become one", kExact, false,
     EliminateCommonSubexpr},
    {"DeadCodeElimination", "drops what no output needs", kExact, false, DeadCodeElimination},
    {"FuseOps", "layers grouped with the residual addition and the activation that follow", kExact,
     false, FuseOps},
};

}  // namespace

std::span<const Pass> PassTable() { return kPasses; }

}  // namespace requant
