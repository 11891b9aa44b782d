#pragma once

#include <cstdint>
#include <initializer_list>

namespace requant {

/// The generator splitmix64: the distributions of <random> differ between libraries.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// A random integer in [first, last].
  int64_t In(int64_t first, int64_t last) {
    return first + static_cast<int64_t>(Next() % static_cast<uint64_t>(last - first + 1));
  }
  bool Chance(int percent) { return In(1, 100) <= percent; }
  /// A random multiple of 2^-10 in [-1, 1).
  float Unit() { return static_cast<float>(In(-1024, 1023)) / 1024; }
  template <typename T>
  T Of(std::initializer_list<T> items) {
    return items.begin()[In(0, static_cast<int64_t>(items.size()) - 1)];
  }

 private:
  uint64_t state_;
};

}  // namespace requant
