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

/// cap * tanh(score / cap) + mask
inline void CapScores(float* scores, int64_t count, int64_t keys, float softcap, const float* mask,
                      int64_t mask_stride) {
  const float inverse = 1 / softcap;
  BinaryF32Params call{};
  call.a = scores;
  call.b = &inverse;
  call.out = scores;
  call.rows = static_cast<size_t>(count);
  call.cols = call.out_row_stride = call.a_row_stride = static_cast<size_t>(keys);
  call.a_step = 1;
  call.lo = -std::numeric_limits<float>::infinity();
  call.hi = std::numeric_limits<float>::infinity();
  BinaryRow(BinaryF32Op::kMul)(&call);
  UnaryF32Params tanh{};
  tanh.in = tanh.out = scores;
  tanh.n = call.rows * call.cols;
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
