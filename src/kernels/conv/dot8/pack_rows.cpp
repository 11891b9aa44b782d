// Matrices that change at run time, for the kernels on whole bytes. They are packed in every run.
#include <algorithm>
#include <cstring>

#include "base/simd.h"
#include "kernels/conv/blocking.h"
#include "kernels/conv/pack.h"
#include "kernels/conv/pack_walk.h"

namespace requant::conv {
namespace {

/// Eight neighboring codes of a row as int8, of which only `lanes` are read; zeros for no row.
RQ_INLINE v128_t LoadCodes(const uint8_t* row, size_t lanes, v128_t flip) {
  if (row == nullptr) return wasm_i32x4_splat(0);
  if (lanes == kChannelBlock) return wasm_v128_xor(wasm_v128_load64_zero(row), flip);
  uint8_t codes[16] = {};
  std::memcpy(codes, row, lanes);
  return wasm_v128_xor(wasm_v128_load(codes), flip);
}

/// The sums of four neighboring int8 each.
RQ_INLINE v128_t SumsOfFour(v128_t codes) {
  return wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_extadd_pairwise_i8x16(codes));
}

}  // namespace

bool AreDynamicRows(const ConvQ8Weights& w) {
  const ConvWeightsLayout& l = w.layout;
  return w.dynamic && w.bias == nullptr && l.groups == 1 && l.kernel_h == 1 && l.kernel_w == 1 &&
         l.stride_o == 1;
}

bool AreDynamicColumns(const ConvQ8Weights& w) {
  const ConvWeightsLayout& l = w.layout;
  return w.dynamic && w.is_signed && w.bias == nullptr && w.zero_points == nullptr &&
         l.groups == 1 && l.kernel_h == 1 && l.kernel_w == 1 && l.stride_i == 1 &&
         l.in_c_per_group % kDot8Group == 0;
}

// A group of a channel is four neighboring codes, so that eight channels are eight loads.
void Dot8PackColumns(const ConvQ8Weights& w, void* packed) {
  const ConvWeightsLayout& l = w.layout;
  const auto depth = static_cast<size_t>(l.in_c_per_group);
  auto* out = static_cast<uint8_t*>(packed);
  for (int32_t first = 0; first < l.out_c; first += kChannelBlock) {
    const int32_t lanes = std::min(kChannelBlock, l.out_c - first);
    const auto* rows = static_cast<const uint8_t*>(w.data) + first * l.stride_o;
    std::memset(out, 0, 3 * kChannelBlock * 4);
    uint8_t* group = out + 3 * kChannelBlock * 4;
    // Lanes behind the last channel repeat it: their products are never stored.
    const auto row = [&](int32_t lane, size_t k) {
      return rows + std::min(lane, lanes - 1) * l.stride_o + k;
    };
    v128_t sums[2] = {wasm_i32x4_splat(0), wasm_i32x4_splat(0)};
    for (size_t k = 0; k < depth; k += kDot8Group) {
      for (int32_t half = 0; half < 2; ++half, group += 16) {
        v128_t codes = wasm_v128_load32_zero(row(4 * half, k));
        codes = wasm_v128_load32_lane(row(4 * half + 1, k), codes, 1);
        codes = wasm_v128_load32_lane(row(4 * half + 2, k), codes, 2);
        codes = wasm_v128_load32_lane(row(4 * half + 3, k), codes, 3);
        wasm_v128_store(group, codes);
        sums[half] = wasm_i32x4_add(sums[half], SumsOfFour(codes));
      }
    }
    wasm_v128_store(out + kChannelBlock * 4, sums[0]);
    wasm_v128_store(out + kChannelBlock * 4 + 16, sums[1]);
    out = group;
  }
}

// What is packed is the code itself, as int8, so that it takes no look at the codes: the middle of
// a channel is what its codes differ from the weights, which are the codes less their zero point.
void Dot8PackRows(const ConvQ8Weights& w, void* packed) {
  const ConvWeightsLayout& l = w.layout;
  const auto depth = static_cast<size_t>(l.in_c_per_group);
  const v128_t flip = wasm_i8x16_splat(w.is_signed ? 0 : -128);
  auto* out = static_cast<uint8_t*>(packed);
  for (int32_t first = 0; first < l.out_c; first += kChannelBlock) {
    const auto lanes = static_cast<size_t>(std::min(kChannelBlock, l.out_c - first));
    int32_t middles[kChannelBlock] = {};
    for (size_t lane = 0; lane < lanes; ++lane) {
      const int32_t zero = w.zero_points == nullptr ? 0 : w.zero_points[first + lane];
      middles[lane] = (w.is_signed ? 0 : 128) - zero;
    }
    std::memset(out, 0, kChannelBlock * 4);
    std::memcpy(out + 2 * kChannelBlock * 4, middles, sizeof middles);
    uint8_t* group = out + 3 * kChannelBlock * 4;
    v128_t low_sums = wasm_i32x4_splat(0), high_sums = low_sums;
    for (size_t k = 0; k < depth; k += kDot8Group, group += kChannelBlock * kDot8Group) {
      const auto row = [&](size_t i) -> const uint8_t* {
        if (k + i >= depth) return nullptr;
        return static_cast<const uint8_t*>(w.data) + static_cast<int64_t>(k + i) * l.stride_i +
               first;
      };
      const v128_t r0 = LoadCodes(row(0), lanes, flip), r1 = LoadCodes(row(1), lanes, flip);
      const v128_t r2 = LoadCodes(row(2), lanes, flip), r3 = LoadCodes(row(3), lanes, flip);
      const v128_t r01 = simd::InterleaveLowI8(r0, r1), r23 = simd::InterleaveLowI8(r2, r3);
      const v128_t low = wasm_i16x8_shuffle(r01, r23, 0, 8, 1, 9, 2, 10, 3, 11);
      const v128_t high = wasm_i16x8_shuffle(r01, r23, 4, 12, 5, 13, 6, 14, 7, 15);
      wasm_v128_store(group, low);
      wasm_v128_store(group + 16, high);
      low_sums = wasm_i32x4_add(low_sums, SumsOfFour(low));
      high_sums = wasm_i32x4_add(high_sums, SumsOfFour(high));
    }
    wasm_v128_store(out + kChannelBlock * 4, low_sums);
    wasm_v128_store(out + kChannelBlock * 4 + 16, high_sums);
    out = group;
  }
}

}  // namespace requant::conv
