// Moves whole elements without knowing what they mean: nearly every data movement operator picks
// indices along each axis or permutes the axes.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace requant {

/// The bytes of one element. Throws kUnsupported for types of less than 8 bits.
size_t ElementBytes(DType dtype);

/// Row-major strides in elements.
Shape RowMajorStrides(const Shape& shape);

/// The index into a dimension of `dim` elements; negative ones count from the end. Throws
/// kInvalidArgument, naming the operator, for one outside of [-dim, dim).
int64_t ResolveIndex(int64_t index, int64_t dim, const char* op);

/// start, start + step, ... (count entries).
std::vector<int64_t> Sequence(int64_t count, int64_t start = 0, int64_t step = 1);

/// out[i, j, ...] = input[indices[0][i], indices[1][j], ...]. There is one list for each axis of
/// the input, whose length is the output's dimension. Entries lie in [0, dim) or are -1, which
/// stands for the element at `fill` (zeros when nullptr). Any dtype of whole bytes.
Tensor SelectByAxis(const Tensor& input, const std::vector<std::vector<int64_t>>& indices,
                    const void* fill = nullptr);
/// Does the same into `out`, which has the output's dtype and shape, for entries without -1.
void SelectInto(const Tensor& input, const std::vector<std::vector<int64_t>>& indices, Tensor& out);

/// Does what numpy.transpose does. `perm` must be a permutation.
Tensor Permute(const Tensor& input, const std::vector<int64_t>& perm);

}  // namespace requant
