#pragma once
// i32x4.relaxed_dot_i8x16_i7x16_add_s as processors may compute it; one struct for each form.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/simd.h"

namespace requant::dot8_forms {

/// Computes the instruction lane by lane; Lane(w, x, acc) gets four bytes of each operand.
template <typename Lane>
struct ByLanes {
  static v128_t Add(v128_t w, v128_t x, v128_t acc) {
    int8_t weights[16];
    uint8_t inputs[16];
    int32_t sums[4];
    wasm_v128_store(weights, w);
    wasm_v128_store(inputs, x);
    wasm_v128_store(sums, acc);
    for (int i = 0; i < 4; ++i) sums[i] = Lane::Sum(weights + 4 * i, inputs + 4 * i, sums[i]);
    return wasm_v128_load(sums);
  }
};

inline int32_t Wrap(int64_t x) { return static_cast<int32_t>(static_cast<uint32_t>(x)); }

struct UnsignedLane {  // VPDPBUSD
  static int32_t Sum(const int8_t* w, const uint8_t* x, int64_t acc) {
    for (int i = 0; i < 4; ++i) acc += w[i] * x[i];
    return Wrap(acc);
  }
};
struct SignedLane {  // SDOT, VPDPBSSD
  static int32_t Sum(const int8_t* w, const uint8_t* x, int64_t acc) {
    for (int i = 0; i < 4; ++i) acc += w[i] * static_cast<int8_t>(x[i]);
    return Wrap(acc);
  }
};
struct SaturatingPairsLane {  // PMADDUBSW, PMADDWD by ones, PADDD
  static int32_t Sum(const int8_t* w, const uint8_t* x, int64_t acc) {
    for (int i = 0; i < 4; i += 2)
      acc += std::clamp(w[i] * x[i] + w[i + 1] * x[i + 1], -32768, 32767);
    return Wrap(acc);
  }
};
struct SaturatingSumLane {  // VPDPBUSDS
  static int32_t Sum(const int8_t* w, const uint8_t* x, int64_t acc) {
    for (int i = 0; i < 4; ++i) acc += w[i] * x[i];
    return static_cast<int32_t>(std::clamp<int64_t>(acc, std::numeric_limits<int32_t>::min(),
                                                    std::numeric_limits<int32_t>::max()));
  }
};
struct WrappingPairsLane {  // signed bytes, pairs that wrap at 16 bits: SMULL, SMULL2, ADDP
  static int32_t Sum(const int8_t* w, const uint8_t* x, int64_t acc) {
    for (int i = 0; i < 4; i += 2) {
      acc += static_cast<int16_t>(w[i] * static_cast<int8_t>(x[i]) +
                                  w[i + 1] * static_cast<int8_t>(x[i + 1]));
    }
    return Wrap(acc);
  }
};
struct SaturatingSignedPairsLane {
  static int32_t Sum(const int8_t* w, const uint8_t* x, int64_t acc) {
    for (int i = 0; i < 4; i += 2) {
      acc += std::clamp(w[i] * static_cast<int8_t>(x[i]) + w[i + 1] * static_cast<int8_t>(x[i + 1]),
                        -32768, 32767);
    }
    return Wrap(acc);
  }
};
struct SevenBitsLane {  // the top bit of the second operand is ignored
  static int32_t Sum(const int8_t* w, const uint8_t* x, int64_t acc) {
    for (int i = 0; i < 4; ++i) acc += w[i] * (x[i] & 127);
    return Wrap(acc);
  }
};

using Unsigned = ByLanes<UnsignedLane>;
using Signed = ByLanes<SignedLane>;
using WrappingPairs = ByLanes<WrappingPairsLane>;

/// Correct in the low half, saturating in the high half.
struct HalfSaturating {
  static v128_t Add(v128_t w, v128_t x, v128_t acc) {
    return wasm_i8x16_shuffle(Unsigned::Add(w, x, acc),
                              ByLanes<SaturatingPairsLane>::Add(w, x, acc), 0, 1, 2, 3, 4, 5, 6, 7,
                              24, 25, 26, 27, 28, 29, 30, 31);
  }
};

}  // namespace requant::dot8_forms
