#pragma once
// Weights of 16 bits, packed as those of tile_f32.h are, and how they become floats. Freestanding.
//
//   HalvesHeader, then blocks of 8 channels: 8 biases (float32), K rows of 8 weights (16 bits)
//
// A float32 begins with sign and exponent as a half does. So a half that is shifted to its place is
// a float32 whose exponent has another bias, which a product with a power of two corrects:
//
//   sign-extended half    s ssssssss ssssssss seeeeemm mmmmmmmm
//   << 13, masked         s 000eeeee mmmmmmmm mm000000 00000000      * 2^112
//
// The numbers are exact. Packing scales them by a power of two as far up as they fit, so that
// subnormal halves, which cost processors a hundred cycles each, become normal ones.
#include <stddef.h>
#include <stdint.h>

#include "base/simd.h"
#include "kernels/conv/blocking.h"

namespace requant::conv {

/// The first bytes of the packed weights.
struct HalvesHeader {
  float factor;   ///< of the shifted numbers: 2^112 or less for float16, 1 for bfloat16
  int32_t shift;  ///< 13 or 16
  int32_t mask;   ///< of the shifted bits
  int32_t reserved;
};

/// Bytes of a block of weights.
inline ptrdiff_t HalvesBlockBytes(int32_t depth) {
  return static_cast<ptrdiff_t>(kChannelBlock) * (4 + 2 * static_cast<ptrdiff_t>(depth));
}

/// Rows of a panel: every panel widens all weights anew (NarrowPanelRows).
inline int32_t HalvesPanelRows(const ConvGeometry& g) { return PanelRows(g, Depth(g) * 4, 262144); }

/// Four weights from `from` on as floats.
RQ_INLINE v128_t LoadHalves(const uint16_t* from, const HalvesHeader& h) {
  const v128_t bits =
      wasm_v128_and(wasm_i32x4_shl(wasm_i32x4_load16x4(from), h.shift), wasm_i32x4_splat(h.mask));
  return wasm_f32x4_mul(bits, wasm_f32x4_splat(h.factor));
}

/// Writes a block as the floats of tile_f32.h.
RQ_INLINE void WidenBlock(const HalvesHeader& header, const void* block, int32_t depth, float* to) {
  const float* biases = static_cast<const float*>(block);
  wasm_v128_store(to, wasm_v128_load(biases));
  wasm_v128_store(to + 4, wasm_v128_load(biases + 4));
  const uint16_t* from = reinterpret_cast<const uint16_t*>(biases + kChannelBlock);
  to += kChannelBlock;
  for (int32_t k = 0; k < depth; ++k, from += kChannelBlock, to += kChannelBlock) {
    wasm_v128_store(to, LoadHalves(from, header));
    wasm_v128_store(to + 4, LoadHalves(from + 4, header));
  }
}

}  // namespace requant::conv
