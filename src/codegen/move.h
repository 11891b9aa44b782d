#pragma once

#include <cstdint>
#include <vector>

namespace requant {

/// One loop over elements that are `step` apart.
struct Axis {
  int64_t length, step;
};

/// The nest of loops, outermost first, that visits elements with these numbers in order, starting
/// at numbers[0]; empty if there is none.
std::vector<Axis> AxesOf(const std::vector<int32_t>& numbers);

}  // namespace requant
