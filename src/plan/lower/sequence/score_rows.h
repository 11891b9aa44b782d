// Elementwise kernels on the scores of attention.
#pragma once

#include <limits>
#include <string_view>

#include "kernels/elementwise/table.h"
#include "kernels/softmax/table.h"

namespace requant {

inline auto SoftmaxRow() -> void (*)(const SoftmaxF32Params*) {
  void (*best)(const SoftmaxF32Params*) = nullptr;
  for (const SoftmaxF32Kernel& row : SoftmaxF32Kernels()) {
    if (row.op == SoftmaxOp::kSoftmax) best = row.run;
  }
  return best;
}

inline auto BinaryRow(BinaryF32Op op) -> void (*)(const BinaryF32Params*) {
  void (*best)(const BinaryF32Params*) = nullptr;
  for (const BinaryF32Kernel& row : BinaryF32Kernels()) {
    if (row.op == op) best = row.run;
  }
  return best;
}

/// The scores of `count` queries for `keys` keys, in rows of `columns` floats.
struct ScoreRows {
  float* scores;
  int64_t count, keys, columns;
};

/// Makes the last column the score of a key without a value.
inline void SetSinks(const ScoreRows& rows, float sink) {
  for (int64_t i = 1; i <= rows.count; ++i) rows.scores[i * rows.columns - 1] = sink;
}

/// cap * tanh(score / cap) + mask
inline void CapScores(const ScoreRows& rows, float softcap, const float* mask,
                      int64_t mask_stride) {
  const float inverse = 1 / softcap;
  BinaryF32Params call{};
  call.a = rows.scores;
  call.b = &inverse;
  call.out = rows.scores;
  call.rows = static_cast<size_t>(rows.count);
  call.cols = static_cast<size_t>(rows.keys);
  call.out_row_stride = call.a_row_stride = static_cast<size_t>(rows.columns);
  call.a_step = 1;
  call.lo = -std::numeric_limits<float>::infinity();
  call.hi = std::numeric_limits<float>::infinity();
  BinaryRow(BinaryF32Op::kMul)(&call);
  UnaryF32Params tanh{};
  tanh.in = tanh.out = rows.scores;
  tanh.n = static_cast<size_t>(rows.count * rows.columns);
  for (const UnaryF32Kernel& row : UnaryF32Kernels()) {
    if (row.op == UnaryF32Op::kTanh && row.isa != std::string_view("scalar")) row.run(&tanh);
  }
  call.b = &softcap;
  BinaryRow(BinaryF32Op::kMul)(&call);
  if (mask == nullptr) return;
  call.b = mask;
  call.b_step = 1;
  call.b_row_stride = static_cast<size_t>(mask_stride);
  BinaryRow(BinaryF32Op::kAdd)(&call);
}

}  // namespace requant
