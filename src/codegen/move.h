#pragma once

#include <cstdint>
#include <vector>

namespace requant {

/// One loop over elements that are `step` apart.
struct Axis {
  int64_t length, step;
};

/// The nest of loops, the outermost first, in which elements have these numbers one after another,
/// the first being numbers[0]; empty where there is none.
std::vector<Axis> AxesOf(const std::vector<int32_t>& numbers);

}  // namespace requant
