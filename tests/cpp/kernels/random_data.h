#pragma once
// Random operands for kernel tests, and outputs with guard bytes around the memory that a kernel
// may write.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace requant::testing {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  /// A uniform integer in [lo, hi].
  int Int(int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(engine_); }
  float Float(float lo, float hi) { return std::uniform_real_distribution<float>(lo, hi)(engine_); }
  /// Bytes with more extreme values than chance would give.
  std::vector<uint8_t> Bytes(size_t n) {
    static constexpr uint8_t kExtremes[] = {0, 1, 127, 128, 129, 254, 255};
    std::vector<uint8_t> bytes(n);
    for (uint8_t& byte : bytes) {
      byte = static_cast<uint8_t>(Int(0, 3) == 0 ? kExtremes[Int(0, 6)] : Int(0, 255));
    }
    return bytes;
  }
  std::vector<float> Floats(size_t n, float lo, float hi) {
    std::vector<float> values(n);
    for (float& value : values) value = Float(lo, hi);
    return values;
  }
  /// Floats with NaN, infinities, signed zeros and denormals among them.
  std::vector<float> WildFloats(size_t n) {
    using Limits = std::numeric_limits<float>;
    const float special[] = {
        Limits::quiet_NaN(),  Limits::infinity(), -Limits::infinity(), 0.0f, -0.0f,
        Limits::denorm_min(), Limits::max(),      Limits::lowest()};
    std::vector<float> values(n);
    for (float& value : values) value = Int(0, 7) == 0 ? special[Int(0, 7)] : Float(-10, 10);
    return values;
  }

 private:
  std::mt19937 engine_;
};

/// The bits of a float; all NaNs are equal, because payloads are not specified.
inline uint32_t BitsOf(float value) {
  if (value != value) return 0x7fc00000u;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline void ExpectSameBits(const std::vector<float>& expected, const std::vector<float>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(BitsOf(expected[i]), BitsOf(actual[i]))
        << "element " << i << ": " << expected[i] << " and " << actual[i];
  }
}

/// The content of an output buffer before the kernel runs: a difference shows a write.
inline constexpr uint8_t kCanary = 0xA5;
inline constexpr float kCanaryF32 = -12345.5f;

/// The distance in units in the last place of the float nearest to `expected`.
inline double UlpError(double expected, float actual) {
  const float nearest = static_cast<float>(expected);
  const float next = std::nextafter(std::fabs(nearest), std::numeric_limits<float>::infinity());
  const double ulp = static_cast<double>(next) - std::fabs(nearest);
  return std::fabs(static_cast<double>(actual) - expected) / ulp;
}

}  // namespace requant::testing
