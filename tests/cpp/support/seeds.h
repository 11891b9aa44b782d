// How many random cases a test makes.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>

namespace requant::testing {

/// The seeds [first, end).
struct Seeds {
  uint64_t first = 0, end = 0;
  uint64_t count() const { return end - first; }
};

/// The first `quick` seeds; with REQUANT_LONG=1 the first `full` ones, of which CI takes another
/// sixth every day (UTC).
inline Seeds SeedsOf(uint64_t quick, uint64_t full) {
  if (std::getenv("REQUANT_LONG") == nullptr) return {0, quick};
  if (std::getenv("CI") == nullptr) return {0, full};
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto day =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::hours>(now).count()) / 24;
  return {full * (day % 6) / 6, full * (day % 6 + 1) / 6};
}

}  // namespace requant::testing
