// Finds the scale and the zero point of a block of weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace requant {

/// Stands for weights (code - zero) * scale.
struct BlockGrid {
  float scale = 1;
  uint8_t zero = 0;
};

/// Searches the grid of least squared error with codes from 0 to 2^bits - 1, 2 <= bits <= 8, among
/// ranges that hold all weights of a block and smaller ones. The zero point of a symmetric grid is
/// 2^(bits - 1). All builds find the same grids.
class BlockSearch {
 public:
  BlockSearch(int bits, bool symmetric) : bits_(bits), symmetric_(symmetric) {}

  /// The grid of `weights`, whose number is a multiple of 8: zeros, which have no error on any
  /// grid, fill up a block. The squared error of each counts `power` times, once if that is empty.
  /// Zeros alone, or a weight that is not finite, give the scale 1.
  BlockGrid Find(std::span<const float> weights, std::span<const float> power);

 private:
  float ErrorOf(std::span<const float> power, double scale, double low, double high) const;
  BlockGrid FindSymmetric(std::span<const float> power, float largest) const;
  BlockGrid FindAffine(std::span<const float> power, float low, float high, float largest) const;

  int bits_;
  bool symmetric_;
  std::vector<float> unit_;  // the weights by their largest magnitude: no square overflows
};

/// Writes the nearest code of each weight; halves go to the even multiple of the scale, and a NaN
/// gets the code 0. The number of weights is a multiple of 4.
void RoundToGrid(std::span<const float> weights, const BlockGrid& grid, int bits, uint8_t* codes);

}  // namespace requant
