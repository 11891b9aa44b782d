#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace requant {

/// One member of a kernel's parameter block that differs from part to part.
struct PartField {
  enum class Kind : size_t {  // as wide as the others: no padding in a saved plan
    kNone,
    kBegin,      ///< int32: first unit of the part
    kEnd,        ///< int32: one past its last
    kCount,      ///< size_t: how many
    kPointer,    ///< moved by `bytes` for every unit before the part
    kWorkspace,  ///< a pointer moved by `bytes` for every part before
  };
  Kind kind = Kind::kNone;
  size_t offset = 0;  // in the block
  size_t bytes = 0;
};

/// How a step's units (rows, pixels, elements) are divided among threads: always the same way for
/// the same number of threads, in whole tiles. Every unit is computed as without division, so the
/// results are the same bits.
struct Parts {
  int kernel = -1;  // index in KernelEntries
  int count = 1;    // 1: the step is not divided
  int64_t total = 0;
  int64_t tile = 1;
  std::array<PartField, 5> fields{};

  /// First unit of a part; total for part == count.
  int64_t Begin(int part) const {
    if (part == count) return total;
    return (total * part / count + tile / 2) / tile * tile;
  }
};

}  // namespace requant
