// The walks of broadcasting operators' references over their tensors.
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

/// One innermost run of an output: `length` neighboring elements from `output` on. Input i starts
/// at input[i] and moves by step[i] (0 where it is stretched).
struct RowStep {
  int64_t output;
  int64_t length;
  std::array<int64_t, kMaxRowInputs> input;
  std::array<int64_t, kMaxRowInputs> step;
};

/// How to walk an output shape. Neighboring dimensions that every input walks alike are merged, so
/// that equal shapes are one run.
struct RowPlan {
  struct Axis {
    int64_t size;
    std::array<int64_t, kMaxRowInputs> step;
  };
  std::vector<Axis> axes;  // outermost first, at least one
  int64_t count;           // elements of the output
};

/// The plan for an output; `inputs` (at most kMaxRowInputs) must broadcast to `out`.
RowPlan PlanRows(const Shape& out, std::initializer_list<const Shape*> inputs);

/// Calls `body(const RowStep&)` for every run, in the output's order. The walk is compiled once for
/// all the dozens of bodies.
void WalkRows(const RowPlan& plan, void (*body)(void* self, const RowStep& row), void* self);

template <typename Body>
void ForEachRow(const RowPlan& plan, Body&& body) {
  WalkRows(
      plan,
      [](void* self, const RowStep& row) {
        (*static_cast<std::remove_reference_t<Body>*>(self))(row);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
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

/// All elements as doubles: converted by static_cast for whole-byte dtypes, by Tensor for the
/// others.
std::vector<double> Doubles(const Tensor& tensor);

}  // namespace requant
