#include "quant/sim/fast_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/simd.h"
#include "ops/shape_rules.h"
#include "quant/sim/elements.h"

namespace requant {
namespace {

bool AreFloats(const std::vector<const Tensor*>& inputs, size_t count) {
  return inputs.size() == count &&
         std::all_of(inputs.begin(), inputs.end(), [](const Tensor* input) {
           return input && input->dtype() == DType::kFloat32;
         });
}

/// The outputs along one dimension for which a tap of a window lies inside of the input, and the
/// positions that it reads.
struct TapLine {
  Range outputs;
  int64_t offset;  // output o reads position o * stride + offset
};

TapLine TapAt(const Geometry& g, size_t axis, int64_t tap) {
  const int64_t offset = tap * g.dilation[axis] - g.pad_begin[axis];
  return {InsideOutputs(g.input[axis], g.output[axis], g.stride[axis], offset), offset};
}

/// Replaces each output by the larger of itself and the element that a tap reads; NaN wins.
void TakeLarger(const float* from, int64_t stride, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = from[i * stride];
    to[i] = value <= to[i] || to[i] != to[i] ? to[i] : value;
  }
}

/// Computes a MaxPool tap by tap, for a line of outputs each.
void MaxPoolPlane(const Geometry& g, const float* x, float* y) {
  std::fill(y, y + g.output_size(), std::numeric_limits<float>::lowest());
  for (int64_t kd = 0; kd < g.kernel[0]; ++kd) {
    const TapLine plane = TapAt(g, 0, kd);
    for (int64_t kh = 0; kh < g.kernel[1]; ++kh) {
      const TapLine line = TapAt(g, 1, kh);
      for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
        const TapLine column = TapAt(g, 2, kw);
        const auto [first, last] = column.outputs;
        for (int64_t d = plane.outputs.first; d < plane.outputs.last; ++d) {
          for (int64_t h = line.outputs.first; h < line.outputs.last; ++h) {
            const int64_t from =
                ((d * g.stride[0] + plane.offset) * g.input[1] + h * g.stride[1] + line.offset) *
                    g.input[2] +
                first * g.stride[2] + column.offset;
            const int64_t to = (d * g.output[1] + h) * g.output[2] + first;
            TakeLarger(x + from, g.stride[2], y + to, last - first);
          }
        }
      }
    }
  }
}

Tensor MaxPool(const Node& node, const Tensor& x) {
  const ValueType type{x.dtype(), PoolOutputShape(node.attributes, ToSymbolic(x.shape()))};
  Tensor out(x.dtype(), type.StaticShape());
  if (out.count() == 0) return out;
  const Geometry g = PlaceGeometry(PoolWindow(node.attributes), x.shape());
  for (int64_t plane = 0; plane < x.dim(0) * x.dim(1); ++plane) {
    MaxPoolPlane(g, x.data<float>() + plane * g.input_size(),
                 out.data<float>() + plane * g.output_size());
  }
  return out;
}

constexpr int64_t kTileRows = 2, kTileColumns = 8;

/// Computes a tile of c[m, n] = a[m, k] * b[k, n] with the sums of the reference: in double, in the
/// order of k. `a` and `c` point at its first row, `b` and `c` at its first column.
void FullTile(int64_t n, int64_t k, const float* a, const float* b, float* c) {
  constexpr int64_t kPairs = kTileColumns / 2;
  v128_t sums[kTileRows][kPairs];
  RQ_UNROLL
  for (int64_t i = 0; i < kTileRows * kPairs; ++i) {
    sums[i / kPairs][i % kPairs] = wasm_f64x2_splat(0);
  }
  for (int64_t i = 0; i < k; ++i) {
    v128_t line[kPairs];
    RQ_UNROLL
    for (int64_t j = 0; j < kPairs; ++j) {
      line[j] = wasm_f64x2_promote_low_f32x4(wasm_v128_load64_zero(b + i * n + 2 * j));
    }
    RQ_UNROLL
    for (int64_t r = 0; r < kTileRows; ++r) {
      const v128_t factor = wasm_f64x2_splat(static_cast<double>(a[r * k + i]));
      RQ_UNROLL
      for (int64_t j = 0; j < kPairs; ++j) {
        sums[r][j] = wasm_f64x2_add(sums[r][j], wasm_f64x2_mul(factor, line[j]));
      }
    }
  }
  RQ_UNROLL
  for (int64_t r = 0; r < kTileRows; ++r) {
    RQ_UNROLL
    for (int64_t j = 0; j < kPairs; ++j) {
      wasm_v128_store64_lane(c + r * n + 2 * j, wasm_f32x4_demote_f64x2_zero(sums[r][j]), 0);
    }
  }
}

/// Computes c[m, n] = a[m, k] * b[k, n] with the sums of the reference.
void MultiplyInDouble(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c) {
  const int64_t full_rows = m - m % kTileRows, full_columns = n - n % kTileColumns;
  for (int64_t row = 0; row < full_rows; row += kTileRows) {
    for (int64_t column = 0; column < full_columns; column += kTileColumns) {
      FullTile(n, k, a + row * k, b + column, c + row * n + column);
    }
  }
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = row < full_rows ? full_columns : 0; column < n; ++column) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        sum += static_cast<double>(a[row * k + i]) * static_cast<double>(b[i * n + column]);
      }
      c[row * n + column] = static_cast<float>(sum);
    }
  }
}

/// Whether both are stacks of as many matrices, whose product is one.
bool AreStacks(const Tensor& a, const Tensor& b) {
  const int64_t rank = a.rank();
  return rank >= 2 && b.rank() == rank && a.dim(rank - 1) == b.dim(rank - 2) &&
         std::equal(a.shape().begin(), a.shape().end() - 2, b.shape().begin());
}

Tensor MatMul(const Tensor& a, const Tensor& b) {
  const int64_t rank = a.rank(), m = a.dim(rank - 2), k = a.dim(rank - 1), n = b.dim(rank - 1);
  Shape shape = a.shape();
  shape.back() = n;
  Tensor out(DType::kFloat32, std::move(shape));
  const int64_t matrices = m * n > 0 ? out.count() / (m * n) : 0;
  for (int64_t i = 0; i < matrices; ++i) {
    MultiplyInDouble(m, n, k, a.data<float>() + i * m * k, b.data<float>() + i * k * n,
                     out.data<float>() + i * m * n);
  }
  return out;
}

/// Whether a Softmax works along the last axis in any opset.
bool IsAlongRows(const Node& node, const Tensor& x) {
  if (!node.attributes.Has("axis")) return x.rank() == 2;
  const int64_t axis = node.attributes.Int("axis", -1);
  return x.rank() > 0 && (axis == -1 || axis == x.rank() - 1);
}

Tensor Softmax(const Tensor& x) {
  Tensor out(DType::kFloat32, x.shape());
  const int64_t length = x.shape().back();
  std::vector<double> terms(static_cast<size_t>(length));
  const float* from = x.data<float>();
  auto* to = out.data<float>();
  for (int64_t at = 0; at < x.count(); at += length, from += length, to += length) {
    double largest = static_cast<double>(from[0]);
    for (int64_t i = 1; i < length; ++i) {
      largest = std::max(largest, static_cast<double>(from[i]));
    }
    double sum = 0;
    double* term = terms.data();
    for (int64_t i = 0; i < length; ++i) {
      sum += term[i] = std::exp(static_cast<double>(from[i]) - largest);
    }
    for (int64_t i = 0; i < length; ++i) to[i] = static_cast<float>(term[i] / sum);
  }
  return out;
}

}  // namespace

std::optional<Tensor> EvaluateFast(const Node& node, const std::vector<const Tensor*>& inputs) {
  if (auto made = EvaluateElements(nullptr, node, std::span(&inputs, 1))) {
    return std::move((*made)[0]);
  }
  if (node.Is(Op::kMatMul) && AreFloats(inputs, 2) && AreStacks(*inputs[0], *inputs[1])) {
    return MatMul(*inputs[0], *inputs[1]);
  }
  if (node.Is(Op::kSoftmax) && AreFloats(inputs, 1) && IsAlongRows(node, *inputs[0])) {
    return Softmax(*inputs[0]);
  }
  if (node.Is(Op::kMaxPool) && AreFloats(inputs, 1) && node.outputs.size() == 1) {
    return MaxPool(node, *inputs[0]);
  }
  return std::nullopt;
}

}  // namespace requant
