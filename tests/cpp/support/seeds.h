// How many random cases a test makes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>

namespace requant::testing {

/// The seeds [first, end).
struct Seeds {
  uint64_t first = 0, end = 0;
  uint64_t count() const { return end - first; }
};

/// Days since 1970 (UTC), or REQUANT_DAY, which repeats what CI tested on another day.
inline uint64_t Today() {
  if (const char* day = std::getenv("REQUANT_DAY")) return std::strtoull(day, nullptr, 10);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::hours>(now).count()) / 24;
}

/// The first `quick` seeds; with REQUANT_LONG=1 the first `full` ones, of which CI takes another
/// sixth every day, and never fewer than `quick`.
inline Seeds SeedsOf(uint64_t quick, uint64_t full) {
  if (std::getenv("REQUANT_LONG") == nullptr) return {0, quick};
  if (std::getenv("CI") == nullptr) return {0, full};
  const uint64_t share = Today() % 6, first = full * share / 6;
  return {first, std::max(first + quick, full * (share + 1) / 6)};
}

}  // namespace requant::testing
