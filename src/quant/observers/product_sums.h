// Exact sums of integer vectors and of their products with each other, x and x x^T, whatever the
// order of the vectors and their division among shards.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quant/observers/state_bytes.h"

namespace requant {

class ProductSums {
 public:
  /// Vectors come for `groups` groups at once, each [k]; with `products` false only squares are
  /// summed.
  ProductSums(int64_t groups, int64_t k, bool products);

  /// Adds up to four vectors of all groups, [groups * k][4], in which missing ones are zeros. Each
  /// element is divided by the unit, a power of two (`per_unit` is its inverse), and rounded to an
  /// integer. A vector with an element beyond 2^21 is left out, since its products would not be
  /// exact. Overwrites `quad`.
  void Add(std::span<float> quad, int count, float per_unit);
  void Add(const ProductSums& other);
  void Fields(StateBytes& state);

  int64_t count() const { return count_; }
  double Sum(int64_t group, int64_t i) const;
  double Square(int64_t group, int64_t i) const;
  /// The sum of x_i x_j; only with products.
  double Product(int64_t group, int64_t i, int64_t j) const;

 private:
  void AddLarge(std::span<const float> quad, size_t lane);
  size_t TileAt(size_t row_panel, size_t column_panel) const;
  size_t TilesOfGroup() const;
  void Settle() const;
  void SettleGroup(size_t group, size_t first, size_t pairs) const;

  size_t groups_ = 0, k_ = 0;
  size_t panels_ = 0;    // panels of four elements each
  size_t capacity_ = 0;  // pairs of vectors that may wait
  bool products_ = false;
  int64_t count_ = 0;
  // Waiting vectors are not added yet; reading a sum adds them first.
  mutable size_t waiting_ = 0;          // pairs of waiting vectors
  mutable float largest_ = 0;           // largest magnitude of their elements
  mutable std::vector<int16_t> block_;  // [groups][panels][capacity][4 elements][2 vectors]
  mutable std::vector<double> sums_;    // [groups][panels][4]
  mutable std::vector<double> tiles_;   // [groups][row panel <= column panel][4][4], or as sums_
};

}  // namespace requant
