#include "kernels/list.h"

#include "kernels/conv/table.h"
#include "kernels/dwconv/table.h"
#include "kernels/elementwise/table.h"
#include "kernels/layer_norm/table.h"
#include "kernels/layout/table.h"
#include "kernels/lut/table.h"
#include "kernels/matmul_nbits/table.h"
#include "kernels/pool/table.h"
#include "kernels/quantize/table.h"
#include "kernels/reduce/table.h"
#include "kernels/resize/table.h"
#include "kernels/softmax/table.h"
#include "kernels/variant/missing.h"

namespace requant {
namespace {

template <typename Rows>
void Append(std::vector<KernelInfo>& out, const char* family, const Rows& rows) {
  for (const auto& row : rows) {
    out.push_back({family, row.name, row.isa});
    if constexpr (requires { row.missing; }) {
      out.back().low_bits = IsLowBits(row.missing);
      out.back().missing = MissingForEver(row.missing);
    }
  }
}

}  // namespace

std::vector<KernelInfo> ListKernels() {
  std::vector<KernelInfo> out;
  Append(out, "conv_f32", ConvF32Kernels());
  Append(out, "conv_q8", ConvQ8Kernels());
  Append(out, "dwconv_f32", DwConvF32Kernels());
  Append(out, "dwconv_q8", DwConvQ8Kernels());
  Append(out, "binary_f32", BinaryF32Kernels());
  Append(out, "unary_f32", UnaryF32Kernels());
  Append(out, "qadd", QAddKernels());
  Append(out, "qmul", QMulKernels());
  Append(out, "qadd_nibbles", QAddNibblesKernels());
  Append(out, "lut", LutKernels());
  Append(out, "quantize", QuantizeKernels());
  Append(out, "quantize_planes", QuantizePlanesKernels());
  Append(out, "dequantize", DequantizeKernels());
  Append(out, "maxpool_f32", MaxPoolF32Kernels());
  Append(out, "maxpool_q8", MaxPoolQ8Kernels());
  Append(out, "avgpool_f32", AvgPoolF32Kernels());
  Append(out, "avgpool_q8", AvgPoolQ8Kernels());
  Append(out, "softmax_f32", SoftmaxF32Kernels());
  Append(out, "layer_norm_f32", LayerNormF32Kernels());
  Append(out, "reduce_f32", ReduceF32Kernels());
  Append(out, "matmul_nbits", MatMulNBitsKernels());
  Append(out, "resize_linear_f32", ResizeLinearF32Kernels());
  Append(out, "transpose", TransposeKernels());
  Append(out, "copy_rows", CopyRowsKernels());
  return out;
}

void (*AnyScalarKernel())() { return reinterpret_cast<void (*)()>(AddF32Reference); }

}  // namespace requant
