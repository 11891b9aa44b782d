// Pools blocks of sixteen channels, where there are as many. Registers accumulate all taps of a
// block, so every input element is loaded once and nothing is spilled.
#include "kernels/bytes_simd.h"
#include "kernels/pool/kernel.h"
#include "kernels/pool/window.h"

namespace requant {
namespace {

/// A window's taps inside the image, as offsets in elements.
struct Taps {
  size_t first, step_y, step_x;
  int32_t lines, columns;
};

RQ_INLINE Taps MakeTaps(const ConvGeometry& g, const pool::Window& w) {
  const size_t pixel = static_cast<size_t>(g.input_stride);
  return {pool::FirstTap(g, w), pixel * g.in_w * g.dilation_h, pixel * g.dilation_w,
          w.y.end - w.y.begin, w.x.end - w.x.begin};
}

// --- float32 ---------------------------------------------------------------------------------

/// Pools kVectors x 4 channels or, with kPartial, `n` (1..3) channels of one vector.
template <int kVectors, bool kPartial>
RQ_INLINE void MaxF32Block(const float* in, const Taps& taps, float* out, int32_t n) {
  v128_t most[kVectors];
  v128_t nan[kVectors];
  const bool is_empty = taps.lines <= 0 || taps.columns <= 0;
  const v128_t least = wasm_f32x4_splat(is_empty ? -__FLT_MAX__ : -__builtin_inff());
  RQ_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    most[v] = least;
    nan[v] = wasm_i32x4_splat(0);
  }
  for (int32_t y = 0; y < taps.lines; ++y) {
    const float* at = in + static_cast<size_t>(y) * taps.step_y;
    for (int32_t x = 0; x < taps.columns; ++x, at += taps.step_x) {
      RQ_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const v128_t value = kPartial ? simd::LoadPartial(at, n) : wasm_v128_load(at + 4 * v);
        // pmax keeps `most` when the value is NaN. The mask remembers that: all ones is a NaN
        // itself.
        most[v] = wasm_f32x4_pmax(most[v], value);
        nan[v] = wasm_v128_or(nan[v], wasm_f32x4_ne(value, value));
      }
    }
  }
  RQ_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const v128_t result = wasm_v128_or(most[v], nan[v]);
    if (kPartial) {
      simd::StorePartial(out, result, n);
    } else {
      wasm_v128_store(out + 4 * v, result);
    }
  }
}

struct Mean {
  v128_t count, lo, hi;
  bool empty;
};

template <int kVectors, bool kPartial>
RQ_INLINE void AvgF32Block(const float* in, const Taps& taps, float* out, int32_t n,
                           const Mean& mean) {
  v128_t sum[kVectors];
  RQ_UNROLL
  for (int v = 0; v < kVectors; ++v) sum[v] = wasm_f32x4_splat(0.0f);
  for (int32_t y = 0; y < taps.lines; ++y) {
    const float* at = in + static_cast<size_t>(y) * taps.step_y;
    v128_t line[kVectors];
    RQ_UNROLL
    for (int v = 0; v < kVectors; ++v) line[v] = wasm_f32x4_splat(0.0f);
    for (int32_t x = 0; x < taps.columns; ++x, at += taps.step_x) {
      RQ_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const v128_t value = kPartial ? simd::LoadPartial(at, n) : wasm_v128_load(at + 4 * v);
        line[v] = wasm_f32x4_add(line[v], value);
      }
    }
    RQ_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[v] = wasm_f32x4_add(sum[v], line[v]);
  }
  RQ_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    v128_t result = mean.empty ? wasm_f32x4_splat(0.0f) : wasm_f32x4_div(sum[v], mean.count);
    result = simd::ClampF32(result, mean.lo, mean.hi);
    if (kPartial) {
      simd::StorePartial(out, result, n);
    } else {
      wasm_v128_store(out + 4 * v, result);
    }
  }
}

// --- 8 bits ----------------------------------------------------------------------------------

template <bool kSigned>
RQ_INLINE v128_t MaxBytes(v128_t a, v128_t b) {
  return kSigned ? wasm_i8x16_max(a, b) : wasm_u8x16_max(a, b);
}
template <bool kSigned>
RQ_INLINE v128_t MinBytes(v128_t a, v128_t b) {
  return kSigned ? wasm_i8x16_min(a, b) : wasm_u8x16_min(a, b);
}

/// The maxima of sixteen channels or, with kPartial, of n (1..8) channels.
template <bool kSigned, bool kPartial>
RQ_INLINE v128_t MaxQ8Block(const uint8_t* in, const Taps& taps, int32_t n, v128_t lo, v128_t hi) {
  v128_t most = wasm_i8x16_splat(kSigned ? -128 : 0);
  for (int32_t y = 0; y < taps.lines; ++y) {
    const uint8_t* at = in + static_cast<size_t>(y) * taps.step_y;
    for (int32_t x = 0; x < taps.columns; ++x, at += taps.step_x) {
      const v128_t value =
          kPartial ? simd::LoadPartialBytes(at, static_cast<size_t>(n)) : wasm_v128_load(at);
      most = MaxBytes<kSigned>(most, value);
    }
  }
  return MinBytes<kSigned>(MaxBytes<kSigned>(most, lo), hi);
}

/// Stores two bytes of each bit plane, `step` bytes apart, from codes less the least one.
RQ_INLINE void StorePlanes(v128_t codes, int32_t planes, ptrdiff_t step, uint8_t* out) {
  for (int32_t plane = 0; plane < planes; ++plane, out += step) {
    const v128_t bit = wasm_v128_and(codes, wasm_i8x16_splat(static_cast<int8_t>(1 << plane)));
    const uint32_t none = wasm_i8x16_bitmask(wasm_i8x16_eq(bit, wasm_i8x16_splat(0)));
    const auto bits = static_cast<uint16_t>(~none);
    __builtin_memcpy(out, &bits, 2);
  }
}

template <bool kSigned>
RQ_INLINE void MaxQ8(const MaxPoolQ8Params* p) {
  const ConvGeometry g = p->geometry;
  const v128_t lo = wasm_i8x16_splat(static_cast<int8_t>(p->lo));
  const v128_t hi = wasm_i8x16_splat(static_cast<int8_t>(p->hi));
  const int32_t planes = p->output_planes;
  pool::Walker walker(g, 0, 0, p->row_begin);
  for (int32_t row = p->row_begin; row < p->row_end; ++row) {
    const Taps taps = MakeTaps(g, walker.Next(g));
    const uint8_t* in = static_cast<const uint8_t*>(p->input) + taps.first;
    uint8_t* out = static_cast<uint8_t*>(p->output) + static_cast<size_t>(row) * g.output_stride;
    int32_t c = 0;
    if (planes != 0) {
      uint8_t* first =
          static_cast<uint8_t*>(p->output) + static_cast<size_t>(row) * (g.in_c / 8) * planes;
      for (; c < g.in_c; c += 16) {
        const v128_t codes = MaxQ8Block<kSigned, false>(in + c, taps, 16, lo, hi);
        if (planes == 1) {
          const auto bits = static_cast<uint16_t>(wasm_i8x16_bitmask(wasm_i8x16_eq(codes, hi)));
          __builtin_memcpy(first + c / 8, &bits, 2);
        } else {
          const v128_t bits =
              wasm_u8x16_shr(wasm_i8x16_sub(codes, lo), static_cast<uint32_t>(p->output_spread));
          StorePlanes(bits, planes, g.in_c / 8, first + c / 8);
        }
      }
      continue;
    }
    for (; c + 16 <= g.in_c; c += 16) {
      const v128_t most = MaxQ8Block<kSigned, false>(in + c, taps, 16, lo, hi);
      wasm_v128_store(out + c, most);
    }
    for (; c < g.in_c; c += 8) {
      const int32_t n = g.in_c - c < 8 ? g.in_c - c : 8;
      const v128_t most = MaxQ8Block<kSigned, true>(in + c, taps, n, lo, hi);
      simd::StorePartialBytes(out + c, most, n);
    }
  }
}

/// Constants of an average's epilogue, in fixed point or float as kFloat says.
struct Requantizer {
  v128_t least, most;    // float: clamp bounds without the zero point
  v128_t zero, lo, hi;   // coded, in i16, i8 and i8
  v128_t in_flip, flip;  // bytes
  v128_t scale;          // float
  FixedMultiplier multiplier;
  bool in_range;  // fixed: results fit int32
};

RQ_INLINE v128_t RequantizeScalar4(v128_t acc, FixedMultiplier m) {
  const v128_t first = wasm_i32x4_splat(RequantizeUpward(wasm_i32x4_extract_lane(acc, 0), m));
  const v128_t second =
      wasm_i32x4_replace_lane(first, 1, RequantizeUpward(wasm_i32x4_extract_lane(acc, 1), m));
  const v128_t third =
      wasm_i32x4_replace_lane(second, 2, RequantizeUpward(wasm_i32x4_extract_lane(acc, 2), m));
  return wasm_i32x4_replace_lane(third, 3, RequantizeUpward(wasm_i32x4_extract_lane(acc, 3), m));
}

template <bool kFloat>
RQ_INLINE v128_t Requantize4(v128_t sum, const Requantizer& r) {
  if (kFloat) {
    const v128_t value = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum), r.scale);
    return simd::RoundToInt(simd::ClampF32(value, r.least, r.most));
  }
  if (!r.in_range) return RequantizeScalar4(sum, r.multiplier);
  return simd::RequantizeUpward4(sum, r.multiplier.multiplier, r.multiplier.shift);
}

/// The averages of sixteen channels or, with kPartial, of n (1..8) channels. Coded bytes are summed
/// in i16, which holds 255 of them (255 * 128 < 2^15), and moved to int32 before that is exceeded.
template <bool kFloat, bool kPartial>
RQ_INLINE void AvgQ8Block(const uint8_t* in, const Taps& taps, uint8_t* out, int32_t n,
                          v128_t zeros, const Requantizer& r) {
  const v128_t none = wasm_i32x4_splat(0);
  v128_t s0 = none, s1 = none, s2 = none, s3 = none;
  v128_t low = none, high = none;
  int32_t held = 0;
  for (int32_t y = 0; y < taps.lines; ++y) {
    const uint8_t* at = in + static_cast<size_t>(y) * taps.step_y;
    for (int32_t x = 0; x < taps.columns; ++x, at += taps.step_x) {
      const v128_t bytes = wasm_v128_xor(
          kPartial ? simd::LoadPartialBytes(at, static_cast<size_t>(n)) : wasm_v128_load(at),
          r.in_flip);
      low = wasm_i16x8_add(low, wasm_i16x8_extend_low_i8x16(bytes));
      if (!kPartial) high = wasm_i16x8_add(high, wasm_i16x8_extend_high_i8x16(bytes));
      if (++held == 255) {
        s0 = wasm_i32x4_add(s0, wasm_i32x4_extend_low_i16x8(low));
        s1 = wasm_i32x4_add(s1, wasm_i32x4_extend_high_i16x8(low));
        low = none;
        if (!kPartial) {
          s2 = wasm_i32x4_add(s2, wasm_i32x4_extend_low_i16x8(high));
          s3 = wasm_i32x4_add(s3, wasm_i32x4_extend_high_i16x8(high));
          high = none;
        }
        held = 0;
      }
    }
  }
  s0 = wasm_i32x4_sub(wasm_i32x4_add(s0, wasm_i32x4_extend_low_i16x8(low)), zeros);
  s1 = wasm_i32x4_sub(wasm_i32x4_add(s1, wasm_i32x4_extend_high_i16x8(low)), zeros);
  low = wasm_i16x8_narrow_i32x4(Requantize4<kFloat>(s0, r), Requantize4<kFloat>(s1, r));
  low = wasm_i16x8_add_sat(low, r.zero);
  if (!kPartial) {
    s2 = wasm_i32x4_sub(wasm_i32x4_add(s2, wasm_i32x4_extend_low_i16x8(high)), zeros);
    s3 = wasm_i32x4_sub(wasm_i32x4_add(s3, wasm_i32x4_extend_high_i16x8(high)), zeros);
    high = wasm_i16x8_narrow_i32x4(Requantize4<kFloat>(s2, r), Requantize4<kFloat>(s3, r));
    high = wasm_i16x8_add_sat(high, r.zero);
  }
  v128_t bytes = wasm_i8x16_narrow_i16x8(low, high);
  bytes = wasm_v128_xor(wasm_i8x16_min(wasm_i8x16_max(bytes, r.lo), r.hi), r.flip);
  if (kPartial) {
    simd::StorePartialBytes(out, bytes, n);
  } else {
    wasm_v128_store(out, bytes);
  }
}

/// Whether results fit int32. From a shift of 31 on |result| <= |sum|; below that the sum's own
/// bound decides.
RQ_INLINE bool ResultFits(int32_t shift, int32_t taps) {
  if (shift >= 31) return true;
  return ((int64_t{255} * taps) << (31 - shift)) < (int64_t{1} << 31);
}

template <bool kFloat>
RQ_INLINE void AvgQ8(const AvgPoolQ8Params* p) {
  const ConvGeometry g = p->geometry;
  const int32_t in_zero = p->input_zero_point - simd::CodeOffset(p->in_signed);
  const int32_t out_offset = simd::CodeOffset(p->out_signed);
  Requantizer r;
  r.least = wasm_f32x4_splat(static_cast<float>(p->lo - p->output_zero_point));
  r.most = wasm_f32x4_splat(static_cast<float>(p->hi - p->output_zero_point));
  r.zero = wasm_i16x8_splat(static_cast<int16_t>(p->output_zero_point - out_offset));
  r.lo = wasm_i8x16_splat(static_cast<int8_t>(p->lo - out_offset));
  r.hi = wasm_i8x16_splat(static_cast<int8_t>(p->hi - out_offset));
  r.in_flip = simd::SplatByte(simd::FlipOf(p->in_signed));
  r.flip = simd::SplatByte(simd::FlipOf(p->out_signed));
  r.scale = wasm_f32x4_splat(0.0f);
  r.multiplier.multiplier = 0;
  r.multiplier.shift = 31;
  r.in_range = true;
  pool::Walker walker(g, p->count.pad_bottom, p->count.pad_right, p->row_begin);
  for (int32_t row = p->row_begin; row < p->row_end; ++row) {
    const pool::Window w = walker.Next(g);
    const Taps taps = MakeTaps(g, w);
    const int32_t inside = taps.lines * taps.columns;
    const int32_t count = pool::CountOf(w, p->count);
    if (kFloat) {
      const float divisor = p->output_scale * static_cast<float>(count);
      r.scale = wasm_f32x4_splat(count > 0 ? p->input_scale / divisor : 0.0f);
    } else {
      const int32_t entry = count - p->first_count;
      r.multiplier.multiplier = count > 0 ? p->multipliers[entry].multiplier : 0;
      r.multiplier.shift = count > 0 ? p->multipliers[entry].shift : 31;
      r.in_range = ResultFits(r.multiplier.shift, inside);
    }
    const v128_t zeros = wasm_i32x4_splat(inside * in_zero);
    const uint8_t* in = static_cast<const uint8_t*>(p->input) + taps.first;
    uint8_t* out = static_cast<uint8_t*>(p->output) + static_cast<size_t>(row) * g.output_stride;
    int32_t c = 0;
    for (; c + 16 <= g.in_c; c += 16) {
      AvgQ8Block<kFloat, false>(in + c, taps, out + c, 16, zeros, r);
    }
    for (; c < g.in_c; c += 8) {
      const int32_t n = g.in_c - c < 8 ? g.in_c - c : 8;
      AvgQ8Block<kFloat, true>(in + c, taps, out + c, n, zeros, r);
    }
  }
}

}  // namespace
}  // namespace requant

using namespace requant;

void rq_maxpool_f32(const MaxPoolF32Params* p) {
  const ConvGeometry g = p->geometry;
  pool::Walker walker(g, 0, 0, p->row_begin);
  for (int32_t row = p->row_begin; row < p->row_end; ++row) {
    const Taps taps = MakeTaps(g, walker.Next(g));
    const float* in = p->input + taps.first;
    float* out = p->output + static_cast<size_t>(row) * g.output_stride;
    int32_t c = 0;
    for (; c + 16 <= g.in_c; c += 16) MaxF32Block<4, false>(in + c, taps, out + c, 4);
    for (; c + 4 <= g.in_c; c += 4) MaxF32Block<1, false>(in + c, taps, out + c, 4);
    if (c < g.in_c) MaxF32Block<1, true>(in + c, taps, out + c, g.in_c - c);
  }
}

void rq_avgpool_f32(const AvgPoolF32Params* p) {
  const ConvGeometry g = p->geometry;
  Mean mean;
  mean.lo = wasm_f32x4_splat(p->lo);
  mean.hi = wasm_f32x4_splat(p->hi);
  pool::Walker walker(g, p->count.pad_bottom, p->count.pad_right, p->row_begin);
  for (int32_t row = p->row_begin; row < p->row_end; ++row) {
    const pool::Window w = walker.Next(g);
    const Taps taps = MakeTaps(g, w);
    const int32_t count = pool::CountOf(w, p->count);
    mean.count = wasm_f32x4_splat(static_cast<float>(count));
    mean.empty = count <= 0;
    const float* in = p->input + taps.first;
    float* out = p->output + static_cast<size_t>(row) * g.output_stride;
    int32_t c = 0;
    for (; c + 16 <= g.in_c; c += 16) AvgF32Block<4, false>(in + c, taps, out + c, 4, mean);
    for (; c + 4 <= g.in_c; c += 4) AvgF32Block<1, false>(in + c, taps, out + c, 4, mean);
    if (c < g.in_c) AvgF32Block<1, true>(in + c, taps, out + c, g.in_c - c, mean);
  }
}

void rq_maxpool_q8(const MaxPoolQ8Params* p) {
  if (p->is_signed) {
    MaxQ8<true>(p);
  } else {
    MaxQ8<false>(p);
  }
}

void rq_avgpool_q8_fixed(const AvgPoolQ8Params* p) { AvgQ8<false>(p); }
void rq_avgpool_q8_float(const AvgPoolQ8Params* p) { AvgQ8<true>(p); }
