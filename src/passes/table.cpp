#include "ops/products.h"
#include "passes/pass.h"

namespace requant {
namespace {

// The order of passes: types come first, since most rewrites need ranks; then constants, so that
// rewrites see weights and shapes; spellings are unified before they are matched.
//
// The bounds: float32 has 2^-24 = 6e-8; a folded weight is rounded once more, and its layer sums up
// a few dozen of them.
constexpr double kExact = 0;
constexpr double kRounds = 4e-6;

constexpr PassRole kDefault = PassRole::kDefault;
constexpr PassRole kByName = PassRole::kByName;

constexpr Pass kPasses[] = {
    {"InferType", "shape and dtype of every value, with symbolic dimensions", kExact, kDefault,
     InferType},
    {"LazyGradientInit", "tensors of one element again and again become that element", kExact,
     kByName, LazyGradientInit},
    {"FoldConstant", "evaluates everything known ahead of time, shape arithmetic included", kExact,
     kDefault, FoldConstant},
    {"InlineControlFlow",
     "the branch taken where a condition is known; operators that stand for several", kExact,
     kDefault, InlineControlFlow, HasBodies},
    {"DynamicToStatic", "computed shapes, axes, sizes and bounds become constants", kExact,
     kDefault, DynamicToStatic},
    {"SubstituteSigmoid", "Sigmoid becomes HardSigmoid, SiLU HardSwish", 0.143, kByName,
     SubstituteSigmoid},
    {"SubstituteGelu", "Gelu becomes x * Sigmoid(1.702 x)", 0.021, kByName, SubstituteGelu},
    {"SubstituteGeluByTanh", "Gelu becomes its form with tanh", 4.8e-4, kByName,
     SubstituteGeluByTanh},
    {"SubstituteSiluByRelu6", "x * Sigmoid(x) becomes Relu6: for networks that are trained anew", 1,
     kByName, SubstituteSiluByRelu6},
    {"CanonicalizeOps", "several spellings of one thing made one", kRounds, kDefault,
     CanonicalizeOps},
    {"SimplifyInference",
     "BatchNormalization folded into weights, other normalizations made of simple operators",
     kRounds, kDefault, SimplifyInference},
    {"SimplifyExpr", "reshapes, transposes, casts, pads and neutral operands that do nothing",
     kExact, kDefault, SimplifyExpr},
    {"PackBlockedWeights",
     "products with 4-bit weights that have a scale for every block become MatMulNBits", kRounds,
     kByName, PackBlockedWeights, HasBlockedWeights},
    {"RewriteEinsum", "Einsum by Transpose, ReduceSum, Mul and MatMul", kRounds, kDefault,
     RewriteEinsum, HasEinsum},
    {"FuseNormalization", "normalizations written out in parts become one operator", kRounds,
     kDefault, FuseNormalization, HasNormalizationParts},
    {"FuseAttention", "attention written out becomes one operator", kRounds, kDefault,
     FuseAttention, HasComputedProducts},
    {"FastMath", "exp, tanh, sigmoid, erf, gelu and softmax by fast approximations", 1.1e-4,
     kByName, FastMath},
    {"FlattenAtrousConv", "convolutions of every b-th pixel become dilated ones", kExact, kDefault,
     FlattenAtrousConv, HasAtrousTrick},
    {"MoveQdq", "8-bit numbers, not floats, go through operators that only move them", kExact,
     kByName, MoveQdq},
    {"ConvertLayout", "transposes moved behind what does not mind them, until they cancel", kExact,
     kByName, ConvertLayout},
    {"FoldScaleAxis", "per-channel constants moved into the weights of neighbouring layers",
     kRounds, kDefault, FoldScaleAxis},
    {"CombineParallelConv2D", "convolutions of one value merged into a wide one", kExact, kByName,
     CombineParallelConv2D},
    {"CombineParallelDense", "dense layers of one value merged into a wide one", kExact, kByName,
     CombineParallelDense},
    {"CombineParallelBatchMatmul", "products with one left operand merged into a wide one", kExact,
     kByName, CombineParallelBatchMatmul},
    {"EliminateCommonSubexpr", "equal operators with equal inputs become one", kExact, kDefault,
     EliminateCommonSubexpr},
    {"DeadCodeElimination", "drops what no output needs", kExact, kDefault, DeadCodeElimination},
    {"FuseOps", "operators that could run as one, by the rules of the operator table", kExact,
     PassRole::kAnnotation, FuseOps},
};

}  // namespace

std::span<const Pass> PassTable() { return kPasses; }

}  // namespace requant
