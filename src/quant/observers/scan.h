#pragma once

#include <span>

namespace requant {

/// What one walk over values tells.
struct Scan {
  float low = 0, high = 0;  // of finite values; 0 for none
  bool finite = true;       // neither NaN nor infinity
};

Scan ScanValues(std::span<const float> values);

}  // namespace requant
