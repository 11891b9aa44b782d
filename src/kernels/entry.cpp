#include "kernels/entry.h"

#include "gradient/late_functions.h"
#include "kernels/attention_codes/late_functions.h"
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

/// Calls a kernel of the tools or of the extended operators.
template <const auto& kKernel>
struct LateCaller;
template <typename Params, const LateFunction<void(const Params*)>& kKernel>
struct LateCaller<kKernel> {
  static void Call(const void* params) { kKernel(static_cast<const Params*>(params)); }
};

}  // namespace

// clang-format off
#define ENTRY_SCALAR(kernel)
#define ENTRY_VECTOR(kernel) {#kernel, Caller<kernel>::Call, reinterpret_cast<void (*)()>(kernel)},
#define ENTRY_LATE(kernel) \
  {#kernel, LateCaller<kernel##_late>::Call, reinterpret_cast<void (*)()>(kernel)},
#define ENTRY_LOW_BITS(kernel) ENTRY_VECTOR(kernel)
#define ENTRY_ONE_THREAD(kernel)
#define ENTRY_AGAIN(kernel)
// clang-format on

std::span<const KernelEntry> KernelEntries() {
  static const KernelEntry kEntries[] = {
#define ROW(number, run, Params) {#run, LateCaller<gradient::number##Late>::Call, nullptr},
#include "gradient/kernels.inc"
#undef ROW
#define ROW(linkage, run, ...) ENTRY_##linkage(run)
#include "kernels/attention_codes/attention_codes.inc"
#include "kernels/conv/conv_f32.inc"
#include "kernels/conv/conv_q8.inc"
#include "kernels/dwconv/dwconv_f32.inc"
#include "kernels/dwconv/dwconv_q8.inc"
#include "kernels/elementwise/binary_f32.inc"
#include "kernels/elementwise/qadd.inc"
#include "kernels/elementwise/qadd_nibbles.inc"
#include "kernels/elementwise/qmul.inc"
#include "kernels/elementwise/unary_f32.inc"
#include "kernels/layer_norm/layer_norm_f32.inc"
#include "kernels/layout/copy_rows.inc"
#include "kernels/layout/transpose.inc"
#include "kernels/lut/lut.inc"
#include "kernels/lut/lut_bits.inc"
#include "kernels/matmul_nbits/matmul_nbits.inc"
#include "kernels/pool/avgpool_f32.inc"
#include "kernels/pool/avgpool_q8.inc"
#include "kernels/pool/maxpool_f32.inc"
#include "kernels/pool/maxpool_q8.inc"
#include "kernels/quantize/dequantize.inc"
#include "kernels/quantize/quantize.inc"
#include "kernels/quantize/quantize_planes.inc"
#include "kernels/reduce/reduce_f32.inc"
#include "kernels/resize/resize_linear_f32.inc"
#include "kernels/softmax/softmax_f32.inc"
  };
  return kEntries;
}
#undef ROW

int KernelEntryOf(void (*function)()) {
  int index = 0;
  for (const KernelEntry& entry : KernelEntries()) {
    if (entry.function == function) return index;
    ++index;
  }
  return -1;
}

}  // namespace requant
