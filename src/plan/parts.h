#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace requant {

/// One member of a kernel's parameter block that differs from part to part.
struct PartField {
  enum class Kind : size_t {  // as wide as the other members, so that a saved plan has no padding
    kNone,
    kBegin,      ///< int32: the part's first unit
    kEnd,        ///< int32: one past the part's last unit
    kCount,      ///< size_t: the number of the part's units
    kPointer,    ///< a pointer moved by `bytes` for every unit before the part
    kWorkspace,  ///< a pointer moved by `bytes` for every part before this one
  };
  Kind kind = Kind::kNone;
  size_t offset = 0;  // offset in the parameter block
  size_t bytes = 0;
};

/// How a step's units (rows, pixels, elements) are divided among threads: in whole tiles, and
/// always in the same way for the same number of threads. Division does not change how a unit is
/// computed, so the results are the same bits.
struct Parts {
  int kernel = -1;  // index in KernelEntries
  int count = 1;    // 1: the step is not divided
  int64_t total = 0;
  int64_t tile = 1;
  std::array<PartField, 5> fields{};

  /// The first unit of a part; `total` for part == count.
  int64_t Begin(int part) const {
    if (part == count) return total;
    return (total * part / count + tile / 2) / tile * tile;
  }
};

}  // namespace requant
