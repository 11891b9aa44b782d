#include "kernels/entry.h"

#include "kernels/conv/kernel.h"
#include "kernels/dwconv/kernel.h"
#include "kernels/elementwise/kernel.h"
#include "kernels/layer_norm/kernel.h"
#include "kernels/layout/kernel.h"
#include "kernels/lut/kernel.h"
#include "kernels/matmul_nbits/kernel.h"
#include "kernels/pool/kernel.h"
#include "kernels/quantize/kernel.h"
#include "kernels/reduce/kernel.h"
#include "kernels/resize/kernel.h"
#include "kernels/softmax/kernel.h"

namespace requant {
namespace {

/// Calls a kernel through a function type common to all, since the types of their parameters
/// differ.
template <auto kKernel>
struct Caller;
template <typename Params, void (*kKernel)(const Params*)>
struct Caller<kKernel> {
  static void Call(const void* params) { kKernel(static_cast<const Params*>(params)); }
};

}  // namespace

// clang-format off
#define ENTRY(kernel) {#kernel, Caller<kernel>::Call, reinterpret_cast<void (*)()>(kernel)}
// clang-format on

std::span<const KernelEntry> KernelEntries() {
  static const KernelEntry kEntries[] = {
      ENTRY(rq_conv_f32),
      ENTRY(rq_conv_f32_lines),
      ENTRY(rq_conv_q8),
      ENTRY(rq_conv_q8_lines),
      ENTRY(rq_conv_q8_dot7),
      ENTRY(rq_conv_q8_dot7_lines),
      ENTRY(rq_conv_q8_narrow),
      ENTRY(rq_conv_q8_winograd_pairs),
      ENTRY(rq_conv_q8_winograd_4x4_pairs),
      ENTRY(rq_conv_q8_winograd_strided_pairs),
      ENTRY(rq_conv_q8_winograd_narrow),
      ENTRY(rq_conv_q8_winograd_strided_narrow),
      ENTRY(rq_conv_q8_winograd_4x3_dot8),
      ENTRY(rq_conv_q8_dot8),
      ENTRY(rq_conv_q8_dot8_lines),
      ENTRY(rq_conv_q8_lookup),
      ENTRY(rq_conv_q8_popcount),
      ENTRY(rq_conv_q8_carry_save),
      ENTRY(rq_dwconv_f32),
      ENTRY(rq_dwconv_q8),
      ENTRY(rq_dwconv_q8_narrow),
      ENTRY(rq_dwconv_q8_dot8),
      ENTRY(rq_maxpool_f32),
      ENTRY(rq_maxpool_q8),
      ENTRY(rq_avgpool_f32),
      ENTRY(rq_avgpool_q8_fixed),
      ENTRY(rq_avgpool_q8_float),
      ENTRY(rq_add_f32),
      ENTRY(rq_sub_f32),
      ENTRY(rq_mul_f32),
      ENTRY(rq_div_f32),
      ENTRY(rq_max_f32),
      ENTRY(rq_min_f32),
      ENTRY(rq_prelu_f32),
      ENTRY(rq_compare_f32),
      ENTRY(rq_clamp_f32),
      ENTRY(rq_leaky_relu_f32),
      ENTRY(rq_hard_sigmoid_f32),
      ENTRY(rq_hard_swish_f32),
      ENTRY(rq_abs_f32),
      ENTRY(rq_neg_f32),
      ENTRY(rq_sqrt_f32),
      ENTRY(rq_sigmoid_f32),
      ENTRY(rq_tanh_f32),
      ENTRY(rq_erf_f32),
      ENTRY(rq_gelu_f32),
      ENTRY(rq_gelu_tanh_f32),
      ENTRY(rq_quick_gelu_f32),
      ENTRY(rq_fast_exp_f32),
      ENTRY(rq_fast_tanh_f32),
      ENTRY(rq_fast_sigmoid_f32),
      ENTRY(rq_fast_erf_f32),
      ENTRY(rq_fast_gelu_f32),
      ENTRY(rq_qadd_fixed),
      ENTRY(rq_qadd_float),
      ENTRY(rq_qadd_nibbles),
      ENTRY(rq_qmul_fixed),
      ENTRY(rq_qmul_float),
      ENTRY(rq_lut),
      ENTRY(rq_quantize),
      ENTRY(rq_quantize_planes),
      ENTRY(rq_dequantize),
      ENTRY(rq_softmax_f32),
      ENTRY(rq_fast_softmax_f32),
      ENTRY(rq_log_softmax_f32),
      ENTRY(rq_layer_norm_f32),
      ENTRY(rq_reduce_f32),
      ENTRY(rq_matmul_nbits_f32),
      ENTRY(rq_matmul_nbits_q8),
      ENTRY(rq_matmul_nbits_dot8),
      ENTRY(rq_resize_linear_f32),
      ENTRY(rq_transpose_x8),
      ENTRY(rq_transpose_x32),
  };
  return kEntries;
}
#undef ENTRY

int KernelEntryOf(void (*function)()) {
  int index = 0;
  for (const KernelEntry& entry : KernelEntries()) {
    if (entry.function == function) return index;
    ++index;
  }
  return -1;
}

}  // namespace requant
