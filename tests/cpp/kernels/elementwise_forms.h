// The memory layouts of an elementwise kernel's operands, for its tests.
#pragma once

#include <cstddef>

#include "kernels/random_data.h"

namespace requant::testing {

/// A way in which the operands of a run broadcast.
struct Form {
  const char* name;
  int a_step, b_step;
  bool a_repeats, b_repeats;  // row stride 0
};
constexpr Form kForms[] = {
    {"equal", 1, 1, false, false},
    {"scalar b", 1, 0, false, true},
    {"scalar a", 0, 1, true, false},
    {"channels last b", 1, 1, false, true},
    {"channels last a", 1, 1, true, false},
    {"channels first b", 1, 0, false, false},
    {"channels first a", 0, 1, false, false},
    {"two scalars", 0, 0, false, true},
};

template <typename Params>
struct Run {
  size_t a_size, b_size, out_size;
  Params params;
};

/// A run with gaps in its strides and sizes 1..70.
template <typename Params>
Run<Params> MakeRun(Random& random, const Form& form) {
  Run<Params> run{};
  Params& p = run.params;
  p.rows = static_cast<size_t>(random.Int(1, 5));
  p.cols = static_cast<size_t>(random.Int(1, 70));
  p.a_step = form.a_step;
  p.b_step = form.b_step;
  const auto stride = [&](int step, bool repeats) -> size_t {
    if (repeats) return 0;
    return (step ? p.cols : 1) + static_cast<size_t>(random.Int(0, 3));
  };
  p.a_row_stride = stride(form.a_step, form.a_repeats);
  p.b_row_stride = stride(form.b_step, form.b_repeats);
  p.out_row_stride = p.cols + static_cast<size_t>(random.Int(0, 3));
  // Buffers have exactly the size that the run touches, so that the sanitizer sees any read beyond.
  run.a_size = (p.rows - 1) * p.a_row_stride + (form.a_step ? p.cols : 1);
  run.b_size = (p.rows - 1) * p.b_row_stride + (form.b_step ? p.cols : 1);
  run.out_size = p.rows * p.out_row_stride + 16;
  return run;
}

}  // namespace requant::testing
