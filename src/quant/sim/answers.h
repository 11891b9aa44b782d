// Estimates how many answers of a classifier survive noise. Counting changed answers would need
// thousands of samples; the margins of the first class tell as much on a few.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace requant {

class AnswerOdds {
 public:
  /// Adds the float network's scores, float32 [rows, classes]; other tensors are ignored.
  void Add(const Tensor& scores);
  bool empty() const { return gaps_.empty(); }
  /// 0..100: in how many of 100 rows the largest score stays the largest when independent normal
  /// noise of that variance is added to every score.
  double Kept(double variance) const;

 private:
  // for each row, how far the next classes are behind the first
  std::vector<std::vector<double>> gaps_;
};

}  // namespace requant
