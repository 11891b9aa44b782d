#include <cstring>

#include "kernels/layout/table.h"

namespace requant {
namespace {

template <typename T>
void Transpose(const TransposeParams* p) {
  for (size_t b = 0; b < p->batch; ++b) {
    const T* in = static_cast<const T*>(p->in) + b * p->in_batch_stride;
    T* out = static_cast<T*>(p->out) + b * p->out_batch_stride;
    for (size_t r = 0; r < p->rows; ++r) {
      for (size_t c = 0; c < p->cols; ++c) {
        out[c * p->out_row_stride + r] = in[r * p->in_row_stride + c];
      }
    }
  }
}

/// Drops dimensions of size one and joins an outer dimension with the next inner one wherever both
/// sides step from the end of one inner run to the next.
StridedCopyParams Normalize(const StridedCopyParams& p) {
  StridedCopyParams result = p;
  result.rank = 0;
  for (int i = 0; i < p.rank; ++i) {
    if (p.dims[i] == 1) continue;
    const int last = result.rank - 1;
    const ptrdiff_t extent = static_cast<ptrdiff_t>(p.dims[i]);
    if (last >= 0 && result.in_strides[last] == p.in_strides[i] * extent &&
        result.out_strides[last] == p.out_strides[i] * extent) {
      result.dims[last] *= p.dims[i];
      result.in_strides[last] = p.in_strides[i];
      result.out_strides[last] = p.out_strides[i];
      continue;
    }
    result.dims[result.rank] = p.dims[i];
    result.in_strides[result.rank] = p.in_strides[i];
    result.out_strides[result.rank] = p.out_strides[i];
    ++result.rank;
  }
  return result;
}

/// Copies the innermost dimension, of elements of kSize bytes (0: of `size` bytes).
template <size_t kSize>
void CopyRun(const char* in, char* out, size_t n, ptrdiff_t in_step, ptrdiff_t out_step,
             size_t size) {
  for (size_t i = 0; i < n; ++i) {
    std::memcpy(out, in, kSize == 0 ? size : kSize);
    in += in_step;
    out += out_step;
  }
}

void CopyDim(const StridedCopyParams& p, int dim, const char* in, char* out) {
  const ptrdiff_t size = static_cast<ptrdiff_t>(p.element_size);
  if (dim == p.rank) {
    std::memcpy(out, in, p.element_size);
    return;
  }
  const size_t n = p.dims[dim];
  const ptrdiff_t in_step = p.in_strides[dim] * size;
  const ptrdiff_t out_step = p.out_strides[dim] * size;
  if (dim + 1 < p.rank) {
    for (size_t i = 0; i < n; ++i) {
      CopyDim(p, dim + 1, in + static_cast<ptrdiff_t>(i) * in_step,
              out + static_cast<ptrdiff_t>(i) * out_step);
    }
  } else if (in_step == size && out_step == size) {
    std::memcpy(out, in, n * p.element_size);
  } else if (size == 1) {
    CopyRun<1>(in, out, n, in_step, out_step, 1);
  } else if (size == 2) {
    CopyRun<2>(in, out, n, in_step, out_step, 2);
  } else if (size == 4) {
    CopyRun<4>(in, out, n, in_step, out_step, 4);
  } else if (size == 8) {
    CopyRun<8>(in, out, n, in_step, out_step, 8);
  } else {
    CopyRun<0>(in, out, n, in_step, out_step, p.element_size);
  }
}

}  // namespace

void TransposeX8Reference(const TransposeParams* p) { Transpose<uint8_t>(p); }
void TransposeX32Reference(const TransposeParams* p) { Transpose<uint32_t>(p); }

void CopyRowsReference(const CopyRowsParams* p) {
  if (p->bytes == 0) return;  // memcpy does not allow a null pointer
  const char* in = static_cast<const char*>(p->in);
  char* out = static_cast<char*>(p->out);
  for (size_t r = 0; r < p->rows; ++r) {
    std::memcpy(out + r * p->out_row_stride, in + r * p->in_row_stride, p->bytes);
  }
}

void StridedCopy(const StridedCopyParams* p) {
  for (int i = 0; i < p->rank; ++i) {
    if (p->dims[i] == 0) return;
  }
  CopyDim(Normalize(*p), 0, static_cast<const char*>(p->in), static_cast<char*>(p->out));
}

}  // namespace requant
