#pragma once
// The pack_weights, packed_size and workspace_size functions of the rows in table.cpp. Hosted C++.
#include <cstddef>

#include "kernels/matmul_nbits/table.h"

namespace requant::nbits {

size_t PackedSize(const MatMulNBitsWeights& weights);
void Pack(const MatMulNBitsWeights& weights, void* packed);
/// Writes the codes (part 0) or the scales (part 1) of packed weights, as the operator has them,
/// into zeros. Reads no pointers of `weights`; `k` must be whole blocks.
void Unpack(const MatMulNBitsWeights& weights, const void* packed, size_t part, void* to);
size_t NoWorkspace(const MatMulNBitsParams& params);
size_t F32Workspace(const MatMulNBitsParams& params);
size_t Q8Workspace(const MatMulNBitsParams& params);
size_t Q8ReferenceWorkspace(const MatMulNBitsParams& params);

}  // namespace requant::nbits
