// Convolution on codes of few bits by counting bits, vector form (Cowan et al. 2020, "Automatic
// generation of high-performance quantized machine learning kernels", sec. 3; TVM's topi bitserial
// operators). One formula covers every combination of signs here.
//
// With x = code - input_lo = sum(2^i * x_i), w = offset + scale * sum(2^j * u_j), x_i and u_j bits,
//
//   sum((code - z) * w) = (input_lo - z) * sum(w) + offset * sum(x)
//                         + scale * sum_ij(2^(i + j) popcount(x_i & u_j))
//
// Unipolar weights have offset 0, bipolar ones offset -1 and scale 2. XNOR and the mixed form
// popcount(x & u) - popcount(x & ~u) compute the same sum with as many instructions. Padding has
// the code z.
//
// A word is 32 elements of k of one plane. A vector holds one word of each of four output channels,
// and an input's word goes to all lanes, so nothing is added across lanes until the end:
//
//             lane 0          lane 1          lane 2          lane 3
//   weights   word k, ch. 0   word k, ch. 1   word k, ch. 2   word k, ch. 3
//   input     word k          word k          word k          word k
//   and, popcount of bytes, add to the counts of each byte
//
// Counts are added in bytes for 31 words (31 * 8 < 256). In the carry-save form eight vectors at a
// time first go through bit adders, and only every eighth is counted.
#include "kernels/bitserial/nibbles_simd.h"
#include "kernels/bitserial/popcount.h"
#include "kernels/conv/gather/gather_bytes.h"

namespace requant {
namespace {

using bitserial::AddLanes;
using bitserial::kBlockWordBytes;
using bitserial::kWordBits;
using conv::kChannelBlock;
using conv::kEpilogueRows;

/// Words whose counts fit a byte.
constexpr int32_t kMostWords = 31;
constexpr int32_t kWordBytes = kWordBits / 8;

RQ_INLINE void AddShifted(v128_t counts, int32_t shift, int32_t* out) {
  wasm_v128_store(out, wasm_i32x4_add(wasm_v128_load(out),
                                      wasm_i32x4_shl(counts, static_cast<uint32_t>(shift))));
}

/// One plane of inputs and one of weights: rows are `lda` bytes apart and have `words` words.
struct Planes {
  const uint8_t* a;
  ptrdiff_t lda;
  const uint8_t* w;
  int32_t words, shift;
};

/// out[kRows][8] += counts << shift
template <int kRows>
__attribute__((noinline)) void CountTile(const uint8_t* a, ptrdiff_t lda, const uint8_t* w,
                                         int32_t words, int32_t shift, int32_t* out) {
  v128_t sum0[kRows], sum1[kRows];
  const uint8_t* rows[kRows];
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    sum0[i] = sum1[i] = wasm_i32x4_splat(0);
    rows[i] = a + i * lda;
  }
  while (words > 0) {
    const int32_t n = words < kMostWords ? words : kMostWords;
    words -= n;
    v128_t acc0[kRows], acc1[kRows];
    RQ_UNROLL for (int i = 0; i < kRows; ++i) acc0[i] = acc1[i] = wasm_i8x16_splat(0);
    for (int32_t k = 0; k < n * kWordBytes; k += kWordBytes, w += kBlockWordBytes) {
      const v128_t w0 = wasm_v128_load(w), w1 = wasm_v128_load(w + 16);
      RQ_UNROLL for (int i = 0; i < kRows; ++i) {
        const v128_t x = wasm_v128_load32_splat(rows[i] + k);
        acc0[i] = wasm_i8x16_add(acc0[i], wasm_i8x16_popcnt(wasm_v128_and(x, w0)));
        acc1[i] = wasm_i8x16_add(acc1[i], wasm_i8x16_popcnt(wasm_v128_and(x, w1)));
      }
    }
    RQ_UNROLL for (int i = 0; i < kRows; ++i) {
      sum0[i] = AddLanes(sum0[i], acc0[i]);
      sum1[i] = AddLanes(sum1[i], acc1[i]);
      rows[i] += n * kWordBytes;
    }
  }
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    AddShifted(sum0[i], shift, out + i * kChannelBlock);
    AddShifted(sum1[i], shift, out + i * kChannelBlock + 4);
  }
}

/// Adds two vectors of bits to `ones` and returns the carries.
RQ_INLINE v128_t Carry(v128_t& ones, v128_t a, v128_t b) {
  const v128_t half = wasm_v128_xor(ones, a);
  const v128_t carry = wasm_v128_or(wasm_v128_and(ones, a), wasm_v128_and(half, b));
  ones = wasm_v128_xor(half, b);
  return carry;
}

/// out[8] += counts << shift for one row, four channels at a time, with the carry-save adders of
/// Harley and Seal over eight words (Mula, Kurz, Lemire: Faster population counts using AVX2
/// instructions, 2018).
__attribute__((noinline)) void CarryTile(const uint8_t* a, const uint8_t* w, int32_t words,
                                         int32_t shift, int32_t* out) {
  const auto bits = [&](int i) __attribute__((always_inline)) {
    return wasm_v128_and(wasm_v128_load32_splat(a + i * kWordBytes),
                         wasm_v128_load(w + i * kBlockWordBytes));
  };
  v128_t ones = wasm_i8x16_splat(0), twos = ones, fours = ones, eights = ones;
  while (words >= 8) {
    v128_t counts = wasm_i8x16_splat(0);
    for (int32_t n = kMostWords; n > 0 && words >= 8; --n, words -= 8) {
      const v128_t t0 = Carry(ones, bits(0), bits(1)), t1 = Carry(ones, bits(2), bits(3));
      const v128_t f0 = Carry(twos, t0, t1);
      const v128_t t2 = Carry(ones, bits(4), bits(5)), t3 = Carry(ones, bits(6), bits(7));
      const v128_t f1 = Carry(twos, t2, t3);
      counts = wasm_i8x16_add(counts, wasm_i8x16_popcnt(Carry(fours, f0, f1)));
      a += 8 * kWordBytes, w += 8 * kBlockWordBytes;
    }
    eights = AddLanes(eights, counts);
  }
  v128_t rest = wasm_i8x16_popcnt(ones);
  for (; words > 0; --words, a += kWordBytes, w += kBlockWordBytes) {
    rest = wasm_i8x16_add(rest, wasm_i8x16_popcnt(bits(0)));
  }
  v128_t sum = AddLanes(wasm_i32x4_shl(eights, 3), rest);
  const v128_t more =
      wasm_i8x16_add(wasm_i8x16_popcnt(twos), wasm_i8x16_shl(wasm_i8x16_popcnt(fours), 1));
  sum = wasm_i32x4_add(sum, wasm_i32x4_shl(AddLanes(wasm_i32x4_splat(0), more), 1));
  AddShifted(sum, shift, out);
}

struct Count {
  RQ_INLINE void Rows(const Planes& p, int32_t count, int32_t* out) {
    const uint8_t* a = p.a;
    for (; count >= 4; count -= 4, a += 4 * p.lda, out += 4 * kChannelBlock) {
      CountTile<4>(a, p.lda, p.w, p.words, p.shift, out);
    }
    for (; count > 0; --count, a += p.lda, out += kChannelBlock) {
      CountTile<1>(a, p.lda, p.w, p.words, p.shift, out);
    }
  }
};

struct CarrySave {
  RQ_INLINE void Rows(const Planes& p, int32_t count, int32_t* out) {
    const uint8_t* a = p.a;
    for (; count > 0; --count, a += p.lda, out += kChannelBlock) {
      CarryTile(a, p.w, p.words, p.shift, out);
      CarryTile(a, p.w + 16, p.words, p.shift, out + 4);
    }
  }
};

/// Splits one row of codes into planes, whose words lie one after the other, and returns the sum of
/// the codes.
__attribute__((noinline)) int32_t PackBits(const uint8_t* codes, int32_t words, int32_t planes,
                                           uint8_t* bits) {
  v128_t sum = wasm_i32x4_splat(0);
  for (int32_t k = 0; k < words * 2; ++k, codes += 16, bits += 2) {
    v128_t x = wasm_v128_load(codes);
    sum = AddLanes(sum, x);
    // A bitmask takes the top bits, so the highest plane comes first.
    x = wasm_i8x16_shl(x, static_cast<uint32_t>(8 - planes));
    for (int32_t plane = planes - 1;; --plane) {
      const auto mask = static_cast<uint16_t>(wasm_i8x16_bitmask(x));
      __builtin_memcpy(bits + plane * words * kWordBytes, &mask, 2);
      if (plane == 0) break;
      x = wasm_i8x16_add(x, x);
    }
  }
  return bitserial::SumOfLanes(sum);
}

/// Whether any of `bytes` bytes, a multiple of 4, is not 0.
RQ_INLINE bool HasBits(const uint8_t* in, int32_t bytes) {
  uint32_t any = 0;
  for (int32_t i = 0; i < bytes; i += 4) {
    uint32_t word;
    __builtin_memcpy(&word, in + i, 4);
    any |= word;
  }
  return any != 0;
}

RQ_INLINE void Clear(int32_t count, int32_t* out) {
  for (int32_t r = 0; r < 2 * count; ++r, out += 4) wasm_v128_store(out, wasm_i32x4_splat(0));
}

/// out[r][8] = bias + z * sum of weights + offset * sums[r] + scale * out[r][8]
__attribute__((noinline)) void Scale(const int32_t* bias, int32_t z, int32_t offset, int32_t scale,
                                     const int32_t* sums, int32_t count, int32_t* out) {
  const v128_t zero = wasm_i32x4_splat(z), factor = wasm_i32x4_splat(scale);
  v128_t base[2];
  RQ_UNROLL for (int i = 0; i < 2; ++i) {
    base[i] = wasm_i32x4_add(wasm_v128_load(bias + 4 * i),
                             wasm_i32x4_mul(zero, wasm_v128_load(bias + kChannelBlock + 4 * i)));
  }
  for (int32_t r = 0; r < count; ++r) {
    const v128_t term = wasm_i32x4_splat(offset * sums[r]);
    RQ_UNROLL for (int i = 0; i < 2; ++i, out += 4) {
      wasm_v128_store(out, wasm_i32x4_add(wasm_i32x4_mul(wasm_v128_load(out), factor),
                                          wasm_i32x4_add(base[i], term)));
    }
  }
}

template <typename Form>
RQ_INLINE void Convolve(const ConvQ8Params* p) {
  const ConvGeometry& g = p->geometry;
  const auto* header = static_cast<const bitserial::PopcountHeader*>(p->weights);
  const int32_t group_in = g.in_c / g.groups, group_out = g.out_c / g.groups;
  const int32_t blocks = (group_out + kChannelBlock - 1) / kChannelBlock;
  const int32_t words = bitserial::PopcountWords(g), row_bytes = words * kWordBytes;
  const int32_t planes = header->planes, input_planes = header->input_planes;
  const int32_t z = p->input_zero_point - header->input_lo;
  const int32_t beyond = (words * kWordBits - conv::Depth(g)) * z;
  const ptrdiff_t plane_bytes = static_cast<ptrdiff_t>(words) * kBlockWordBytes;
  const ptrdiff_t lda = static_cast<ptrdiff_t>(input_planes) * row_bytes;
  const bitserial::PopcountParts parts = bitserial::PopcountPartsOf(g);
  const int32_t panel_rows = bitserial::PopcountRows(g);
  uint8_t* at = static_cast<uint8_t*>(p->workspace);
  int32_t* acc = reinterpret_cast<int32_t*>(at);
  uint8_t* bytes = at += parts.acc;
  int32_t* sums = reinterpret_cast<int32_t*>(at += parts.bytes);
  uint8_t* bits = at + parts.sums;

  for (int32_t row = p->row_begin; row < p->row_end; row += panel_rows) {
    const int32_t count = p->row_end - row < panel_rows ? p->row_end - row : panel_rows;
    const uint8_t* block = reinterpret_cast<const uint8_t*>(header + 1);
    for (int32_t group = 0; group < g.groups; ++group) {
      // Only padding has bits in the lowest of spread planes.
      int32_t first_plane = p->input_spread;
      for (int32_t r = 0; r < count; ++r) {
        if (p->input_planes != 0) {
          sums[r] = rq_conv_gather_planes(p, group * group_in, row + r, z, bits + r * lda);
          if (first_plane != 0 && HasBits(bits + r * lda, row_bytes)) first_plane = 0;
          continue;
        }
        if (p->input_packed != 0) {
          rq_conv_gather_nibbles(p, group * group_in, row + r, 1, -header->input_lo, z, 0, bytes,
                                 words * kWordBits, nullptr);
        } else {
          rq_conv_gather_bytes(p, group * group_in, row + r, 1, -header->input_lo, z, bytes,
                               words * kWordBits);
        }
        sums[r] = PackBits(bytes, words, input_planes, bits + r * lda) - beyond;
      }
      for (int32_t b = 0; b < blocks; ++b) {
        const int32_t channel = b * kChannelBlock;
        const int32_t n = group_out - channel < kChannelBlock ? group_out - channel : kChannelBlock;
        const int32_t* bias = reinterpret_cast<const int32_t*>(block);
        block += 2 * kChannelBlock * 4;
        for (int32_t r = 0; r < count; r += kEpilogueRows) {
          const int32_t strip = count - r < kEpilogueRows ? count - r : kEpilogueRows;
          Clear(strip, acc);
          for (int32_t j = 0; j < planes; ++j) {
            for (int32_t i = first_plane; i < input_planes; ++i) {
              Form::Rows(
                  {bits + r * lda + i * row_bytes, lda, block + j * plane_bytes, words, i + j},
                  strip, acc);
            }
          }
          Scale(bias, -z, header->offset, header->scale, sums + r, strip, acc);
          bitserial::Finish(p, acc, row + r, strip, group * group_out + channel, n);
        }
        block += planes * plane_bytes;
      }
    }
    conv::AddResidual(p, row, count);
  }
}

}  // namespace
}  // namespace requant

void rq_conv_q8_popcount(const requant::ConvQ8Params* p) { requant::Convolve<requant::Count>(p); }

void rq_conv_q8_carry_save(const requant::ConvQ8Params* p) {
  requant::Convolve<requant::CarrySave>(p);
}
