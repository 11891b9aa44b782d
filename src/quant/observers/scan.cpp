// Finds the range of values, in vectors: calibration reads every activation of every sample at
// least once.
#include "quant/observers/scan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/float4.h"

namespace requant {
namespace {

constexpr size_t kLanes = 4;
constexpr size_t kAtOnce = 4;  // independent vectors: none waits for another

}  // namespace

Scan ScanValues(std::span<const float> values) {
  if (values.empty()) return {};
  const float* at = values.data();
  const float* end = at + values.size();
  Scan scan{*at, *at, true};
  // The sum of x * 0 is 0 if all values are finite.
  float rest = 0;
  if (values.size() >= kLanes * kAtOnce) {
    Float4 low[kAtOnce], high[kAtOnce], zero[kAtOnce];
    for (size_t i = 0; i < kAtOnce; ++i) {
      low[i] = high[i] = Load4(at + i * kLanes);
      zero[i] = Float4{};
    }
    for (; end - at >= static_cast<std::ptrdiff_t>(kLanes * kAtOnce); at += kLanes * kAtOnce) {
      for (size_t i = 0; i < kAtOnce; ++i) {
        const Float4 x = Load4(at + i * kLanes);
        low[i] = x < low[i] ? x : low[i];
        high[i] = x > high[i] ? x : high[i];
        zero[i] += x * 0.0F;
      }
    }
    for (size_t i = 0; i < kAtOnce; ++i) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        scan.low = std::min(scan.low, low[i][lane]);
        scan.high = std::max(scan.high, high[i][lane]);
        rest += zero[i][lane];
      }
    }
  }
  for (; at != end; ++at) {
    scan.low = std::min(scan.low, *at);
    scan.high = std::max(scan.high, *at);
    rest += *at * 0.0F;
  }
  scan.finite = rest == 0;
  return scan;
}

}  // namespace requant
