#include "ops/attention/attention_head.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace requant {
namespace {

/// sums[0, count) += factor * values. The compiler makes vectors of it
/// (bindings/cmake/wasm.cmake).
void AddTimes(double factor, const float* values, int64_t count, double* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += factor * static_cast<double>(values[i]);
}

}  // namespace

AttentionHead::AttentionHead(const AttentionForm& form)
    : form_(form),
      keys_(static_cast<size_t>(form.keys * form.width)),
      scores_(static_cast<size_t>(form.keys)),
      sums_(static_cast<size_t>(form.value_width)) {}

void AttentionHead::SetKeys(const float* keys) {
  float* to = keys_.data();
  for (int64_t j = 0; j < form_.keys; ++j) {
    for (int64_t c = 0; c < form_.width; ++c) to[c * form_.keys + j] = keys[j * form_.width + c];
  }
}

void AttentionHead::Show(int64_t stage, float* out) {
  shown_ = stage;
  shown_at_ = out;
}

void AttentionHead::Copy(int64_t stage, int64_t query) {
  if (stage != shown_) return;
  float* to = shown_at_ + query * form_.keys;
  for (const double score : scores_) *to++ = static_cast<float>(score);
}

/// Makes the scores of a query its softmax.
void AttentionHead::Normalize() {
  double largest = sink_ ? double{*sink_} : -std::numeric_limits<double>::infinity();
  for (const double score : scores_) largest = std::max(largest, score);
  double sum = sink_ ? std::exp(double{*sink_} - largest) : 0;
  // For a query that sees nothing, the formula's softmax is NaN but the operators' weights are 0.
  constexpr double kUnseen = -std::numeric_limits<double>::infinity();
  const auto is_unseen = [](double score) { return score == kUnseen; };
  if (largest == kUnseen && std::all_of(scores_.begin(), scores_.end(), is_unseen)) {
    std::fill(scores_.begin(), scores_.end(), 0.0);
    return;
  }
  for (double& score : scores_) sum += score = std::exp(score - largest);
  for (double& score : scores_) score /= sum;
}

void AttentionHead::Evaluate(const float* queries, float* y) {
  for (int64_t i = 0; i < form_.queries; ++i) {
    std::fill(scores_.begin(), scores_.end(), 0.0);
    const float* query = queries + i * form_.width;
    for (int64_t c = 0; c < form_.width; ++c) {
      AddTimes(double{query[c]}, keys_.data() + c * form_.keys, form_.keys, scores_.data());
    }
    for (double& score : scores_) score *= double{form_.scale};
    Copy(0, i);
    if (form_.softcap > 0) {
      for (double& score : scores_) score = form_.softcap * std::tanh(score / form_.softcap);
    }
    Copy(1, i);
    if (mask_) {
      const float* mask = mask_ + i * form_.keys;
      for (double& score : scores_) score += double{*mask++};
    }
    Copy(2, i);
    Normalize();
    Copy(3, i);
    std::fill(sums_.begin(), sums_.end(), 0.0);
    for (int64_t j = 0; j < form_.keys; ++j) {
      AddTimes(scores_[static_cast<size_t>(j)], values_ + j * form_.value_width, form_.value_width,
               sums_.data());
    }
    float* to = y + i * form_.y.token;
    for (const double sum : sums_) *to++ = static_cast<float>(sum);
  }
}

}  // namespace requant
