// A tensor as rows of tokens along one of its axes: keys [batch, heads, tokens, width] are batch *
// heads rows.
#pragma once

#include <cstddef>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace requant {

struct TokenRows {
  size_t rows = 1;
  size_t tokens = 0;  // of each row
  size_t bytes = 0;   // of each token
  bool empty() const { return rows == 0 || tokens == 0 || bytes == 0; }
};

/// The rows along an axis of the shape. Elements must have whole bytes.
inline TokenRows RowsAlong(DType dtype, const Shape& shape, int axis) {
  TokenRows result;
  result.bytes = static_cast<size_t>(DTypeBits(dtype) / 8);
  for (int i = 0; i < static_cast<int>(shape.size()); ++i) {
    const auto size = static_cast<size_t>(shape[static_cast<size_t>(i)]);
    if (i < axis) result.rows *= size;
    if (i == axis) result.tokens = size;
    if (i > axis) result.bytes *= size;
  }
  return result;
}

}  // namespace requant
