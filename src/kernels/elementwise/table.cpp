#include "kernels/elementwise/table.h"

#include "kernels/variant/missing.h"

namespace requant {
namespace {

constexpr BinaryF32Kernel kBinaryF32[] = {
    {"add_f32_scalar", BinaryF32Op::kAdd, "scalar", AddF32Reference},
    {"add_f32_simd128", BinaryF32Op::kAdd, "simd128", rq_add_f32},
    {"sub_f32_scalar", BinaryF32Op::kSub, "scalar", SubF32Reference},
    {"sub_f32_simd128", BinaryF32Op::kSub, "simd128", rq_sub_f32},
    {"mul_f32_scalar", BinaryF32Op::kMul, "scalar", MulF32Reference},
    {"mul_f32_simd128", BinaryF32Op::kMul, "simd128", rq_mul_f32},
    {"div_f32_scalar", BinaryF32Op::kDiv, "scalar", DivF32Reference},
    {"div_f32_simd128", BinaryF32Op::kDiv, "simd128", rq_div_f32},
    {"max_f32_scalar", BinaryF32Op::kMax, "scalar", MaxF32Reference},
    {"max_f32_simd128", BinaryF32Op::kMax, "simd128", rq_max_f32},
    {"min_f32_scalar", BinaryF32Op::kMin, "scalar", MinF32Reference},
    {"min_f32_simd128", BinaryF32Op::kMin, "simd128", rq_min_f32},
    {"prelu_f32_scalar", BinaryF32Op::kPRelu, "scalar", PReluF32Reference},
    {"prelu_f32_simd128", BinaryF32Op::kPRelu, "simd128", rq_prelu_f32},
    {"compare_f32_scalar", BinaryF32Op::kCompare, "scalar", CompareF32Reference},
    {"compare_f32_simd128", BinaryF32Op::kCompare, "simd128", rq_compare_f32},
};

constexpr UnaryF32Kernel kUnaryF32[] = {
    {"clamp_f32_scalar", UnaryF32Op::kClamp, "scalar", ClampF32Reference},
    {"clamp_f32_simd128", UnaryF32Op::kClamp, "simd128", rq_clamp_f32},
    {"leaky_relu_f32_scalar", UnaryF32Op::kLeakyRelu, "scalar", LeakyReluF32Reference},
    {"leaky_relu_f32_simd128", UnaryF32Op::kLeakyRelu, "simd128", rq_leaky_relu_f32},
    {"hard_sigmoid_f32_scalar", UnaryF32Op::kHardSigmoid, "scalar", HardSigmoidF32Reference},
    {"hard_sigmoid_f32_simd128", UnaryF32Op::kHardSigmoid, "simd128", rq_hard_sigmoid_f32},
    {"hard_swish_f32_scalar", UnaryF32Op::kHardSwish, "scalar", HardSwishF32Reference},
    {"hard_swish_f32_simd128", UnaryF32Op::kHardSwish, "simd128", rq_hard_swish_f32},
    {"abs_f32_scalar", UnaryF32Op::kAbs, "scalar", AbsF32Reference},
    {"abs_f32_simd128", UnaryF32Op::kAbs, "simd128", rq_abs_f32},
    {"neg_f32_scalar", UnaryF32Op::kNeg, "scalar", NegF32Reference},
    {"neg_f32_simd128", UnaryF32Op::kNeg, "simd128", rq_neg_f32},
    {"sqrt_f32_scalar", UnaryF32Op::kSqrt, "scalar", SqrtF32Reference},
    {"sqrt_f32_simd128", UnaryF32Op::kSqrt, "simd128", rq_sqrt_f32},
    {"sigmoid_f32_scalar", UnaryF32Op::kSigmoid, "scalar", SigmoidF32Reference},
    {"sigmoid_f32_simd128", UnaryF32Op::kSigmoid, "simd128", rq_sigmoid_f32},
    {"tanh_f32_scalar", UnaryF32Op::kTanh, "scalar", TanhF32Reference},
    {"tanh_f32_simd128", UnaryF32Op::kTanh, "simd128", rq_tanh_f32},
    {"erf_f32_scalar", UnaryF32Op::kErf, "scalar", ErfF32Reference},
    {"erf_f32_simd128", UnaryF32Op::kErf, "simd128", rq_erf_f32},
    {"gelu_f32_scalar", UnaryF32Op::kGelu, "scalar", GeluF32Reference},
    {"gelu_f32_simd128", UnaryF32Op::kGelu, "simd128", rq_gelu_f32},
    {"gelu_tanh_f32_scalar", UnaryF32Op::kGeluTanh, "scalar", GeluTanhF32Reference},
    {"gelu_tanh_f32_simd128", UnaryF32Op::kGeluTanh, "simd128", rq_gelu_tanh_f32},
    {"quick_gelu_f32_scalar", UnaryF32Op::kQuickGelu, "scalar", QuickGeluF32Reference},
    {"quick_gelu_f32_simd128", UnaryF32Op::kQuickGelu, "simd128", rq_quick_gelu_f32},
    {"fast_exp_f32_scalar", UnaryF32Op::kFastExp, "scalar", FastExpF32Reference},
    {"fast_exp_f32_simd128", UnaryF32Op::kFastExp, "simd128", rq_fast_exp_f32},
    {"fast_tanh_f32_scalar", UnaryF32Op::kFastTanh, "scalar", FastTanhF32Reference},
    {"fast_tanh_f32_simd128", UnaryF32Op::kFastTanh, "simd128", rq_fast_tanh_f32},
    {"fast_sigmoid_f32_scalar", UnaryF32Op::kFastSigmoid, "scalar", FastSigmoidF32Reference},
    {"fast_sigmoid_f32_simd128", UnaryF32Op::kFastSigmoid, "simd128", rq_fast_sigmoid_f32},
    {"fast_erf_f32_scalar", UnaryF32Op::kFastErf, "scalar", FastErfF32Reference},
    {"fast_erf_f32_simd128", UnaryF32Op::kFastErf, "simd128", rq_fast_erf_f32},
    {"fast_gelu_f32_scalar", UnaryF32Op::kFastGelu, "scalar", FastGeluF32Reference},
    {"fast_gelu_f32_simd128", UnaryF32Op::kFastGelu, "simd128", rq_fast_gelu_f32},
};

constexpr QAddKernel kQAdd[] = {
    {"qadd_fixed_scalar", QBinaryMode::kFixed, "scalar", QAddFixedReference},
    {"qadd_fixed_simd128", QBinaryMode::kFixed, "simd128", rq_qadd_fixed},
    {"qadd_float_scalar", QBinaryMode::kFloat, "scalar", QAddFloatReference},
    {"qadd_float_simd128", QBinaryMode::kFloat, "simd128", rq_qadd_float},
};

constexpr QMulKernel kQMul[] = {
    {"qmul_fixed_scalar", QBinaryMode::kFixed, "scalar", QMulFixedReference},
    {"qmul_fixed_simd128", QBinaryMode::kFixed, "simd128", rq_qmul_fixed},
    {"qmul_float_scalar", QBinaryMode::kFloat, "scalar", QMulFloatReference},
    {"qmul_float_simd128", QBinaryMode::kFloat, "simd128", rq_qmul_float},
};

constexpr QAddNibblesKernel kQAddNibbles[] = {
    {"qadd_nibbles", "simd128", MissingLowBits, rq_qadd_nibbles},
};

}  // namespace

std::span<const BinaryF32Kernel> BinaryF32Kernels() { return kBinaryF32; }
std::span<const UnaryF32Kernel> UnaryF32Kernels() { return kUnaryF32; }
std::span<const QAddKernel> QAddKernels() { return kQAdd; }
std::span<const QMulKernel> QMulKernels() { return kQMul; }
std::span<const QAddNibblesKernel> QAddNibblesKernels() { return kQAddNibbles; }

}  // namespace requant
