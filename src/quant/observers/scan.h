#pragma once

#include <span>

namespace requant {

/// Result of one walk over values.
struct Scan {
  float low = 0, high = 0;  // least and greatest finite value; 0 if there is none
  bool finite = true;       // neither NaN nor infinity occurs
};

Scan ScanValues(std::span<const float> values);

}  // namespace requant
