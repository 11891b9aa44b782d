#pragma once
// The tables of kernels that move elements. Of the rows of one element size the last is the best.
#include <cstdint>
#include <span>

#include "kernels/layout/kernel.h"

namespace requant {

struct TransposeKernel {
  const char* name;      ///< unique among the rows
  const char* isa;       ///< "scalar" or "simd128"
  int32_t element_size;  ///< bytes: 1 or 4
  void (*run)(const TransposeParams* params);
};
struct CopyRowsKernel {
  const char* name;
  const char* isa;
  void (*run)(const CopyRowsParams* params);
};

std::span<const TransposeKernel> TransposeKernels();
std::span<const CopyRowsKernel> CopyRowsKernels();

/// Copies with any strides. It first merges dimensions that are contiguous on both sides, so that a
/// plain copy stays one memcpy. There is only a scalar form, since memory limits its speed.
void StridedCopy(const StridedCopyParams* p);

}  // namespace requant
