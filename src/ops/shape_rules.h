// The output shapes of convolutions, matrix products and pools, and their geometry for concrete
// shapes. Float operators share them with their integer forms (QLinearConv, QLinearMatMul, ...).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/infer_util.h"

namespace requant {

/// The output of a convolution of x [N, C, spatial...] with weight [M, C/group, kernel...] and bias
/// [M] (either may be nullptr: unknown or absent), over one to three spatial dimensions. Throws
/// kShapeMismatch or kInvalidModel.
SymbolicShape ConvOutputShape(const AttributeMap& attributes, const SymbolicShape& x,
                              const SymbolicShape* weight, const SymbolicShape* bias);
/// The window of a convolution with concrete weights.
Window ConvWindow(const AttributeMap& attributes, const Shape& weight);

/// The output of ONNX's MatMul (numpy.matmul): batch dimensions broadcast; a 1-D operand is a row
/// or a column whose extra dimension is removed again.
SymbolicShape MatMulOutputShape(const SymbolicShape& a, const SymbolicShape& b);

/// The output of a Gemm of 2-D a and b, transposed as the attributes say; c (may be nullptr) must
/// broadcast to [M, N].
SymbolicShape GemmOutputShape(const AttributeMap& attributes, const SymbolicShape& a,
                              const SymbolicShape& b, const SymbolicShape* c);

/// The output of a pool of x [N, C, spatial...] with the window of the attributes (kernel_shape is
/// required).
SymbolicShape PoolOutputShape(const AttributeMap& attributes, const SymbolicShape& x);
Window PoolWindow(const AttributeMap& attributes);
/// The output of a global pool: [N, C, 1...].
SymbolicShape GlobalPoolOutputShape(const SymbolicShape& x);

/// A window operation on concrete sizes, in three spatial dimensions (missing ones are 1, in
/// front).
struct Geometry {
  std::array<int64_t, 3> input, output, kernel, stride, dilation, pad_begin, pad_end;
  int64_t input_size() const { return input[0] * input[1] * input[2]; }
  int64_t output_size() const { return output[0] * output[1] * output[2]; }
  int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }
};
/// `x` is the whole input shape [N, C, spatial...].
Geometry PlaceGeometry(const Window& window, const Shape& x);

/// The outputs [first, last) whose tap, `offset` = tap * dilation - pad_begin elements after
/// output * stride, lies inside an input of `input` elements.
struct Range {
  int64_t first, last;
};
Range InsideOutputs(int64_t input, int64_t output, int64_t stride, int64_t offset);

}  // namespace requant
