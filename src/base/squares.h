#pragma once
// An order of visits for matrices that are read along one dimension and written along the other.

#include <algorithm>
#include <cstdint>

namespace requant {

/// Calls `visit(row, column)` for all elements of a matrix, one square after another, so that
/// caches hold the lines of a square in both orders.
template <typename Visit>
void VisitInSquares(int64_t rows, int64_t columns, const Visit& visit) {
  constexpr int64_t kSide = 64;
  for (int64_t top = 0; top < rows; top += kSide) {
    const int64_t bottom = std::min(top + kSide, rows);
    for (int64_t left = 0; left < columns; left += kSide) {
      const int64_t right = std::min(left + kSide, columns);
      for (int64_t row = top; row < bottom; ++row) {
        for (int64_t column = left; column < right; ++column) visit(row, column);
      }
    }
  }
}

}  // namespace requant
