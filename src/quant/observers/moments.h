// Statistics of a layer's inputs that accuracy recovery needs: mean and second moments of the
// patches that its weight rows multiply, padding included.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "ops/op.h"
#include "quant/grid/weight_matrix.h"
#include "quant/observers/product_sums.h"
#include "quant/observers/state_bytes.h"

namespace requant {

class InputMoments {
 public:
  /// Keeps second moments as full matrices while k and the number of groups allow it, else only
  /// their diagonals.
  InputMoments(const Node& node, QuantRule rule);

  /// Adds some patches of a sample, spread over all of its positions; `sample`, its index,
  /// determines which. Throws kShapeMismatch for a tensor that the layer cannot take.
  void Observe(const Tensor& input, uint32_t sample, bool channels_last = false);

  /// Sets the unit of sums by the very first sample, without counting it. Sums add whole multiples
  /// of the unit, so that they do not depend on their order and shards can be merged.
  void Probe(const Tensor& input);
  void Merge(const InputMoments& later);
  void Fields(StateBytes& state);
  /// Makes the moments those of inputs whose channels are multiplied by these factors.
  void ScaleChannels(std::vector<double> factors) { factors_ = std::move(factors); }

  const WeightMatrix& view() const { return view_; }
  int64_t count() const { return sums_.count(); }
  bool full() const { return full_; }
  /// E[x] over all patches: k numbers.
  std::vector<double> Mean(int64_t group) const;
  /// E[x^2] - E[x]^2, or E[x^2] when not centered.
  std::vector<double> Diagonal(int64_t group, bool centered) const;
  /// The k x k (co)variance or second moment matrix, row-major and symmetric; only if full().
  std::vector<double> Matrix(int64_t group, bool centered) const;

 private:
  void Gather(const Tensor& input, uint32_t sample);
  void GatherConv(const Tensor& input, uint32_t sample, bool channels_last);
  int64_t PatchesOf(uint32_t sample) const;
  struct Axis;
  std::vector<Axis> AxesOf(const Tensor& input) const;

  const Node& node_;
  QuantRule rule_;
  WeightMatrix view_;
  bool full_ = false;
  double unit_ = 0;  // a power of two; 0: not known yet
  double FactorOf(int64_t group, int64_t column) const;

  ProductSums sums_;
  std::vector<double> factors_;  // one for each channel; empty: all 1
  std::vector<float> quad_;      // [groups][k][4 patches]
};

}  // namespace requant
