// One head of the reference of attention, in double.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention/attention.h"

namespace requant {

class AttentionHead {
 public:
  explicit AttentionHead(const AttentionForm& form);

  /// [keys, width]; they are copied.
  void SetKeys(const float* keys);
  /// [keys, value_width]
  void SetValues(const float* values) { values_ = values; }
  /// [queries, keys], which is added to the scores; nullptr: none.
  void SetMask(const float* mask) { mask_ = mask; }
  /// The score of one more key without a value; nullptr: none.
  void SetSink(const float* sink) { sink_ = sink; }
  /// Copies a stage of the scores, [queries, keys]: 0 scores, 1 after softcap, 2 with the mask, 3
  /// softmax (qk_matmul_output_mode).
  void Show(int64_t stage, float* out);

  /// Computes the head's part of y from its queries, [queries, width].
  void Evaluate(const float* queries, float* y);

 private:
  void Copy(int64_t stage, int64_t query);
  void Normalize();

  const AttentionForm& form_;
  std::vector<float> keys_;  // [width, keys]
  const float* values_ = nullptr;
  const float* mask_ = nullptr;
  const float* sink_ = nullptr;
  int64_t shown_ = -1;
  float* shown_at_ = nullptr;
  std::vector<double> scores_;  // [keys], of the query that is evaluated
  std::vector<double> sums_;    // [value_width], its part of y
};

}  // namespace requant
