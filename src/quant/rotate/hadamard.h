// Block-diagonal Hadamard rotations of rows of numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace requant {

/// The largest power of two that divides k (at least 1) and is at most `most`.
int64_t RotationSize(int64_t k, int64_t most);

/// The orthogonal matrix diag(Q, Q, ...) with Q = D H / sqrt(size), where H is Sylvester's Hadamard
/// matrix and D a diagonal of fixed signs (QuaRot, arXiv 2404.00456; QuIP#, arXiv 2402.04396).
/// Without the signs equal numbers would become a single large one.
class HadamardRotation {
 public:
  /// `size` is a power of two, at least 2.
  explicit HadamardRotation(int64_t size);

  int64_t size() const { return static_cast<int64_t>(signs_.size()); }
  /// Overwrites the row x of `count` numbers, a multiple of size(), with x diag(Q, Q, ...).
  void Apply(double* x, size_t count) const;
  /// Q, float32 [size, size].
  Tensor Matrix() const;

 private:
  std::vector<double> signs_;  // of D / sqrt(size)
};

}  // namespace requant
