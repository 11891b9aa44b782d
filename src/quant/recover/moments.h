// What accuracy recovery needs to know of a layer's inputs: mean and second moments of the patches
// that its weight rows are multiplied with, padding included.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "ops/op.h"
#include "quant/observers/state_bytes.h"
#include "quant/weights.h"

namespace requant {

class InputMoments {
 public:
  /// Second moments are kept as full matrices while k and the number of groups allow it, else only
  /// their diagonals.
  InputMoments(const Node& node, QuantRule rule);

  /// Adds a bounded number of patches of a sample (all of them, or pseudo-random ones: the same for
  /// the same seed, which is the sample's index), of the first samples and later of some of them.
  /// Throws kShapeMismatch for a tensor that the layer cannot take.
  void Observe(const Tensor& input, uint32_t seed);

  // Sums must not depend on their order, so that shards can be added: each sample's are rounded to
  // whole multiples of a unit, far below what matters, and doubles add whole numbers exactly.
  /// Sets the units by the first sample of all, without counting it.
  void Probe(const Tensor& input);
  void Merge(const InputMoments& later);
  void Fields(StateBytes& state);

  const WeightMatrix& view() const { return view_; }
  int64_t count() const { return count_; }
  bool full() const { return full_; }
  int64_t full_count() const { return full_count_; }
  /// E[x] over all patches, k numbers.
  std::vector<double> Mean(int64_t group) const;
  /// E[x^2] - E[x]^2, or E[x^2] when not centered.
  std::vector<double> Diagonal(int64_t group, bool centered) const;
  /// The k x k (co)variance or second moment matrix, row-major, symmetric; only when full().
  std::vector<double> Matrix(int64_t group, bool centered) const;

 private:
  void Gather(const Tensor& input, uint32_t seed);
  void GatherConv(const Tensor& input, uint32_t seed);
  void Accumulate(uint32_t sample);
  void SetUnits();

  const Node& node_;
  QuantRule rule_;
  WeightMatrix view_;
  bool full_ = false;
  int64_t per_sample_ = 64;
  int64_t full_limit_ = 0;
  int64_t count_ = 0;
  int64_t full_count_ = 0;
  std::vector<double> sum_, squares_;      // [groups][k] over all patches
  std::vector<double> full_sum_;           // [groups][k] over those in full_matrix_
  std::vector<double> full_matrix_;        // [groups][k][k], upper triangle
  double sum_unit_ = 0, square_unit_ = 0;  // 0: not known yet
  bool probing_ = false;
  std::vector<float> patches_;  // [patches][groups][k] of the current sample
};

}  // namespace requant
