#pragma once

#include <cstddef>
#include <vector>

#include "kernels/layout/kernel.h"
#include "plan/plan.h"

namespace requant {

/// The logical axes in the order in which memory holds them, outermost first.
std::vector<size_t> PhysicalOrder(size_t rank, Layout layout);
/// Stride in elements of every logical axis of a dense tensor.
std::vector<ptrdiff_t> PhysicalStrides(const Shape& shape, Layout layout);
/// The parameters that copy a dense tensor from one layout to another.
StridedCopyParams CopyBetween(DType dtype, const Shape& shape, Layout from, Layout to);

}  // namespace requant
