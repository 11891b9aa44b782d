// How the references of broadcasting operators walk their tensors.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "tensor/tensor.h"

namespace requant {

inline constexpr size_t kMaxRowInputs = 3;

/// One innermost run of an output: `length` neighbouring elements from `output` on; input i starts
/// at input[i] and moves by step[i] (0 where it is stretched).
struct RowStep {
  int64_t output;
  int64_t length;
  std::array<int64_t, kMaxRowInputs> input;
  std::array<int64_t, kMaxRowInputs> step;
};

/// How to walk an output shape: neighbouring dimensions that every input walks alike are merged, so
/// that equal shapes are one run.
struct RowPlan {
  struct Axis {
    int64_t size;
    std::array<int64_t, kMaxRowInputs> step;
  };
  std::vector<Axis> axes;  // outermost first, at least one
  int64_t count;           // elements of the output
};

/// `inputs` (at most kMaxRowInputs) must broadcast to `out`.
RowPlan PlanRows(const Shape& out, std::initializer_list<const Shape*> inputs);

/// Calls `body(const RowStep&)` for every run, in the output's order.
template <typename Body>
void ForEachRow(const RowPlan& plan, Body&& body) {
  if (plan.count == 0) return;
  const RowPlan::Axis& inner = plan.axes.back();
  const size_t outer = plan.axes.size() - 1;
  std::vector<int64_t> index(outer, 0);
  RowStep row{0, inner.size, {}, inner.step};
  while (true) {
    body(static_cast<const RowStep&>(row));
    row.output += inner.size;
    size_t axis = outer;
    while (true) {
      if (axis == 0) return;
      const RowPlan::Axis& turning = plan.axes[--axis];
      const bool wraps = ++index[axis] == turning.size;
      for (size_t i = 0; i < kMaxRowInputs; ++i) {
        row.input[i] += wraps ? -(turning.size - 1) * turning.step[i] : turning.step[i];
      }
      if (!wraps) break;
      index[axis] = 0;
    }
  }
}

/// False for every integer.
template <typename T>
bool IsNaN(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

/// All elements converted as static_cast does, for the whole-byte dtypes; Tensor's own conversion
/// for the others.
std::vector<double> Doubles(const Tensor& tensor);

}  // namespace requant
