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

// The parameters' types differ, so a kernel is called through a function of the common type.
#define ENTRY(kernel, Params)                                                                      \
  {                                                                                                \
#kernel,                                                                                       \
        [](const void* params) { kernel(static_cast<const Params*>(params)); }, reinterpret_cast < \
                                                                                    void (*)()>    \
                                                                                    (kernel)       \
  }

std::span<const KernelEntry> KernelEntries() {
  static const KernelEntry kEntries[] = {
      ENTRY(rq_conv_f32, ConvF32Params),
      ENTRY(rq_conv_f32_lines, ConvF32Params),
      ENTRY(rq_conv_q8, ConvQ8Params),
      ENTRY(rq_conv_q8_lines, ConvQ8Params),
      ENTRY(rq_conv_q8_dot7, ConvQ8Params),
      ENTRY(rq_conv_q8_dot7_lines, ConvQ8Params),
      ENTRY(rq_conv_q8_narrow, ConvQ8Params),
      ENTRY(rq_conv_q8_winograd_pairs, ConvQ8Params),
      ENTRY(rq_conv_q8_winograd_narrow, ConvQ8Params),
      ENTRY(rq_conv_q8_dot8, ConvQ8Params),
      ENTRY(rq_conv_q8_dot8_lines, ConvQ8Params),
      ENTRY(rq_conv_q8_lookup, ConvQ8Params),
      ENTRY(rq_conv_q8_popcount, ConvQ8Params),
      ENTRY(rq_conv_q8_carry_save, ConvQ8Params),
      ENTRY(rq_dwconv_f32, DwConvF32Params),
      ENTRY(rq_dwconv_q8, DwConvQ8Params),
      ENTRY(rq_dwconv_q8_narrow, DwConvQ8Params),
      ENTRY(rq_dwconv_q8_dot8, DwConvQ8Params),
      ENTRY(rq_maxpool_f32, MaxPoolF32Params),
      ENTRY(rq_maxpool_q8, MaxPoolQ8Params),
      ENTRY(rq_avgpool_f32, AvgPoolF32Params),
      ENTRY(rq_avgpool_q8_fixed, AvgPoolQ8Params),
      ENTRY(rq_avgpool_q8_float, AvgPoolQ8Params),
      ENTRY(rq_add_f32, BinaryF32Params),
      ENTRY(rq_sub_f32, BinaryF32Params),
      ENTRY(rq_mul_f32, BinaryF32Params),
      ENTRY(rq_div_f32, BinaryF32Params),
      ENTRY(rq_clamp_f32, UnaryF32Params),
      ENTRY(rq_leaky_relu_f32, UnaryF32Params),
      ENTRY(rq_hard_sigmoid_f32, UnaryF32Params),
      ENTRY(rq_hard_swish_f32, UnaryF32Params),
      ENTRY(rq_abs_f32, UnaryF32Params),
      ENTRY(rq_neg_f32, UnaryF32Params),
      ENTRY(rq_sqrt_f32, UnaryF32Params),
      ENTRY(rq_sigmoid_f32, UnaryF32Params),
      ENTRY(rq_tanh_f32, UnaryF32Params),
      ENTRY(rq_erf_f32, UnaryF32Params),
      ENTRY(rq_gelu_f32, UnaryF32Params),
      ENTRY(rq_gelu_tanh_f32, UnaryF32Params),
      ENTRY(rq_quick_gelu_f32, UnaryF32Params),
      ENTRY(rq_fast_exp_f32, UnaryF32Params),
      ENTRY(rq_fast_tanh_f32, UnaryF32Params),
      ENTRY(rq_fast_sigmoid_f32, UnaryF32Params),
      ENTRY(rq_fast_erf_f32, UnaryF32Params),
      ENTRY(rq_fast_gelu_f32, UnaryF32Params),
      ENTRY(rq_qadd_fixed, QAddParams),
      ENTRY(rq_qadd_float, QAddParams),
      ENTRY(rq_qadd_nibbles, QAddNibblesParams),
      ENTRY(rq_qmul_fixed, QMulParams),
      ENTRY(rq_qmul_float, QMulParams),
      ENTRY(rq_lut, LutParams),
      ENTRY(rq_quantize, QuantizeParams),
      ENTRY(rq_quantize_planes, QuantizePlanesParams),
      ENTRY(rq_dequantize, DequantizeParams),
      ENTRY(rq_softmax_f32, SoftmaxF32Params),
      ENTRY(rq_fast_softmax_f32, SoftmaxF32Params),
      ENTRY(rq_log_softmax_f32, SoftmaxF32Params),
      ENTRY(rq_layer_norm_f32, LayerNormF32Params),
      ENTRY(rq_reduce_f32, ReduceF32Params),
      ENTRY(rq_matmul_nbits_f32, MatMulNBitsParams),
      ENTRY(rq_matmul_nbits_q8, MatMulNBitsParams),
      ENTRY(rq_matmul_nbits_dot8, MatMulNBitsParams),
      ENTRY(rq_resize_linear_f32, ResizeLinearF32Params),
      ENTRY(rq_transpose_x8, TransposeParams),
      ENTRY(rq_transpose_x32, TransposeParams),
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
