#pragma once
// Sizes of the workspaces of the rows (table.cpp). Hosted C++.
#include <cstddef>

#include "kernels/matmul_nbits/kernel.h"

namespace requant::nbits {

size_t NoWorkspace(const MatMulNBitsParams& params);
size_t F32Workspace(const MatMulNBitsParams& params);
size_t Q8Workspace(const MatMulNBitsParams& params);
size_t Q8ReferenceWorkspace(const MatMulNBitsParams& params);

}  // namespace requant::nbits
