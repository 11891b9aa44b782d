// Second moments of a product's input over all rows of all samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace requant {

class InputProducts {
 public:
  explicit InputProducts(int64_t k);

  /// Adds rows of k numbers each, in order: sums depend on it in their last bits.
  void Add(const float* rows, int64_t count);
  /// Makes the sums those of inputs whose channels are multiplied by these factors.
  void Scale(const std::vector<double>& factors);
  /// Makes the sums those of inputs of which every run of `size` numbers, which divides k, is
  /// mapped by a linear function; it overwrites a run.
  void Map(size_t size, const std::function<void(double*)>& map);
  /// Adds the sums of other rows.
  void Add(const InputProducts& other);

  int64_t k() const { return k_; }
  int64_t count() const { return count_; }
  /// Whether all sums are finite.
  bool finite() const;
  /// E[x_i x_j].
  double Moment(int64_t i, int64_t j) const;
  std::vector<double> Diagonal() const;
  /// E[|x_i|]; of inputs before Map().
  std::vector<double> Magnitudes() const;
  /// E[(e x)^2] of a row e of k numbers.
  double Power(const std::vector<double>& e) const;
  /// The bytes of the sums of k numbers.
  static int64_t BytesOf(int64_t k) { return 4 * k * (k + 1); }

 private:
  int64_t k_, count_ = 0;
  std::vector<double> sums_;        // rows of the lower triangle, one behind the other
  std::vector<double> magnitudes_;  // sums of |x|
  std::vector<double> rows_;        // [4][k]
};

}  // namespace requant
