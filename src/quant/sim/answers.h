// How many answers of a classifier noise leaves as they are. Counting those that change needs
// thousands of samples; how far the second class is behind tells as much on some.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace requant {

class AnswerOdds {
 public:
  /// scores: [rows, classes], float32, what the float network gives; others are left out.
  void Add(const Tensor& scores);
  bool empty() const { return gaps_.empty(); }
  /// 0..100: of 100 rows, in how many the largest score stays the largest, when independent normal
  /// noise of that variance is added to every score.
  double Kept(double variance) const;

 private:
  std::vector<std::vector<double>> gaps_;  // by row: what the next classes are behind the first
};

}  // namespace requant
