#include "numeric/row_codes.h"

namespace requant {

Tensor ColumnSums(const Tensor& weights) {
  const int64_t columns = weights.dim(1);
  Tensor sums(DType::kInt32, {columns});
  auto* const to = static_cast<uint32_t*>(sums.raw());
  const auto* bytes = static_cast<const uint8_t*>(weights.raw());
  const uint32_t flip = weights.dtype() == DType::kInt8 ? 0x80 : 0;  // (code ^ 128) - 128
  for (int64_t rows = weights.dim(0); rows > 0; --rows, bytes += columns) {
    for (int64_t column = 0; column < columns; ++column) {
      to[column] += (bytes[column] ^ flip) - flip;
    }
  }
  return sums;
}

}  // namespace requant
