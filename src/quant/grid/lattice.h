// Rounding weights as a lattice problem: what the recovery method `round_weights` and blocks of
// weights with calibration share.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace requant {

/// The sum of a[i] b[i], in four sums: a single one would wait for every addition. (The order of
/// floating-point additions is fixed, so no compiler may do this by itself.)
double Dot(const double* a, const double* b, size_t count);

/// Dot(a, b[n], count) for three b, the same bits, in one pass over a.
std::array<double, 3> Dots(const double* a, const std::array<const double*, 3>& b, size_t count);

/// Overwrites a symmetric positive definite k x k matrix A with the upper triangular R, A = R R^T.
/// Returns false if A is not positive definite.
bool UpperFactor(std::vector<double>& a, size_t k);

}  // namespace requant
