// Quantizes sixteen floats at a time. True division and one rounding make every result equal the
// scalar row's.
#include "kernels/bytes_simd.h"
#include "kernels/quantize/kernel.h"

namespace requant {
namespace {

RQ_INLINE v128_t Splat(float value) { return wasm_f32x4_splat(value); }

/// The parameters for four lanes.
struct Lanes {
  v128_t scale, least, most, zero;  // zero as int32
};

RQ_INLINE Lanes MakeLanes(v128_t scale, v128_t zero, int32_t lo, int32_t hi) {
  return {scale, wasm_f32x4_convert_i32x4(wasm_i32x4_sub(wasm_i32x4_splat(lo), zero)),
          wasm_f32x4_convert_i32x4(wasm_i32x4_sub(wasm_i32x4_splat(hi), zero)), zero};
}

/// Quantizes four floats to int32 in [lo, hi]. NaN becomes 0 steps; the clamp before rounding keeps
/// RoundToInt in range.
RQ_INLINE v128_t Quantize4(v128_t x, const Lanes& lanes) {
  v128_t steps = wasm_f32x4_div(x, lanes.scale);
  steps = wasm_v128_and(steps, wasm_f32x4_eq(steps, steps));
  steps = simd::ClampF32(steps, lanes.least, lanes.most);
  return wasm_i32x4_add(simd::RoundToInt(steps), lanes.zero);
}

/// Narrows sixteen int32 in [-128, 255] to their low bytes, whatever the sign.
RQ_INLINE v128_t LowBytes(v128_t a, v128_t b, v128_t c, v128_t d) {
  const v128_t mask = wasm_i16x8_splat(0xff);
  const v128_t low = wasm_v128_and(wasm_i16x8_narrow_i32x4(a, b), mask);
  const v128_t high = wasm_v128_and(wasm_i16x8_narrow_i32x4(c, d), mask);
  return wasm_u8x16_narrow_i16x8(low, high);
}

/// Gives the same parameters for all elements.
struct PerTensor {
  Lanes lanes;
  inline __attribute__((always_inline)) Lanes At(size_t, size_t) const { return lanes; }
};

/// Gives parameters for each element of a row.
struct PerChannel {
  const float* scales;
  const int32_t* zeros;
  int32_t lo, hi;
  inline __attribute__((always_inline)) Lanes At(size_t c, size_t n) const {
    // A partial load leaves scale 0 in unused lanes, whose quotients are never stored.
    const v128_t scale = simd::LoadPartial(scales + c, static_cast<int32_t>(n));
    const v128_t zero = zeros != nullptr ? simd::LoadPartial(zeros + c, static_cast<int32_t>(n))
                                         : wasm_i32x4_splat(0);
    return MakeLanes(scale, zero, lo, hi);
  }
};

template <typename Source>
RQ_INLINE void QuantizeRows(const QuantizeParams* p, const Source& source) {
  const size_t n = p->cols;
  for (size_t r = 0; r < p->rows; ++r) {
    const float* in = p->in + r * p->in_row_stride;
    uint8_t* out = static_cast<uint8_t*>(p->out) + r * p->out_row_stride;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
      const v128_t a = Quantize4(wasm_v128_load(in + i), source.At(i, 4));
      const v128_t b = Quantize4(wasm_v128_load(in + i + 4), source.At(i + 4, 4));
      const v128_t c = Quantize4(wasm_v128_load(in + i + 8), source.At(i + 8, 4));
      const v128_t d = Quantize4(wasm_v128_load(in + i + 12), source.At(i + 12, 4));
      wasm_v128_store(out + i, LowBytes(a, b, c, d));
    }
    for (; i < n; i += 4) {
      const size_t left = n - i < 4 ? n - i : 4;
      const v128_t x = simd::LoadPartial(in + i, static_cast<int32_t>(left));
      const v128_t q = Quantize4(x, source.At(i, left));
      simd::StorePartialBytes(out + i, LowBytes(q, q, q, q), static_cast<int32_t>(left));
    }
  }
}

/// Eight bytes, as two vectors of four int32.
struct Pair {
  v128_t low, high;
};
RQ_INLINE Pair Widen(v128_t bytes, bool is_signed) {
  const v128_t wide =
      is_signed ? wasm_i16x8_extend_low_i8x16(bytes) : wasm_u16x8_extend_low_u8x16(bytes);
  return {wasm_i32x4_extend_low_i16x8(wide), wasm_i32x4_extend_high_i16x8(wide)};
}

RQ_INLINE v128_t Dequantize4(v128_t q, v128_t scale, v128_t zero) {
  return wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_i32x4_sub(q, zero)), scale);
}

template <bool kSigned, bool kPerChannel>
RQ_INLINE void DequantizeRows(const DequantizeParams* p) {
  const size_t n = p->cols;
  const v128_t scale = Splat(p->scale);
  const v128_t zero = wasm_i32x4_splat(p->zero);
  const float* scales = p->scales;
  const int32_t* zeros = p->zeros;
  for (size_t r = 0; r < p->rows; ++r) {
    const uint8_t* in = static_cast<const uint8_t*>(p->in) + r * p->in_row_stride;
    float* out = p->out + r * p->out_row_stride;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
      const Pair q = Widen(wasm_v128_load64_zero(in + i), kSigned);
      if (kPerChannel) {
        const v128_t none = wasm_i32x4_splat(0);
        const v128_t z0 = zeros != nullptr ? wasm_v128_load(zeros + i) : none;
        const v128_t z1 = zeros != nullptr ? wasm_v128_load(zeros + i + 4) : none;
        wasm_v128_store(out + i, Dequantize4(q.low, wasm_v128_load(scales + i), z0));
        wasm_v128_store(out + i + 4, Dequantize4(q.high, wasm_v128_load(scales + i + 4), z1));
      } else {
        wasm_v128_store(out + i, Dequantize4(q.low, scale, zero));
        wasm_v128_store(out + i + 4, Dequantize4(q.high, scale, zero));
      }
    }
    for (; i < n; ++i) {
      const int32_t q = kSigned ? static_cast<int8_t>(in[i]) : in[i];
      const int32_t z = kPerChannel ? (zeros != nullptr ? zeros[i] : 0) : p->zero;
      out[i] = static_cast<float>(q - z) * (kPerChannel ? scales[i] : p->scale);
    }
  }
}

/// Quantizes sixteen pixels of one plane to bytes.
RQ_INLINE v128_t Plane16(const float* in, const Lanes& lanes) {
  return LowBytes(Quantize4(wasm_v128_load(in), lanes), Quantize4(wasm_v128_load(in + 4), lanes),
                  Quantize4(wasm_v128_load(in + 8), lanes),
                  Quantize4(wasm_v128_load(in + 12), lanes));
}

RQ_INLINE void StorePixel(uint8_t* out, int32_t word, size_t channels) {
  const uint32_t bits = static_cast<uint32_t>(word);
  out[0] = static_cast<uint8_t>(bits);
  if (channels > 1) out[1] = static_cast<uint8_t>(bits >> 8);
  if (channels > 2) out[2] = static_cast<uint8_t>(bits >> 16);
  if (channels > 3) out[3] = static_cast<uint8_t>(bits >> 24);
}

/// Stores four pixels held as four bytes each, `channels` bytes of every one: adjacent pixels
/// together, pixels with wider strides one by one.
RQ_INLINE void StorePixels(uint8_t* out, v128_t pixels, size_t channels, size_t stride) {
  if (channels == 4 && stride == 4) {
    wasm_v128_store(out, pixels);
  } else if (channels == 3 && stride == 3) {
    const v128_t packed =
        wasm_i8x16_shuffle(pixels, pixels, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 0, 0, 0, 0);
    wasm_v128_store64_lane(out, packed, 0);
    wasm_v128_store32_lane(out + 8, packed, 2);
  } else if (channels == 2 && stride == 2) {
    const v128_t packed =
        wasm_i8x16_shuffle(pixels, pixels, 0, 1, 4, 5, 8, 9, 12, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    wasm_v128_store64_lane(out, packed, 0);
  } else {
    StorePixel(out, wasm_i32x4_extract_lane(pixels, 0), channels);
    StorePixel(out + stride, wasm_i32x4_extract_lane(pixels, 1), channels);
    StorePixel(out + 2 * stride, wasm_i32x4_extract_lane(pixels, 2), channels);
    StorePixel(out + 3 * stride, wasm_i32x4_extract_lane(pixels, 3), channels);
  }
}

}  // namespace
}  // namespace requant

using namespace requant;

void rq_quantize(const QuantizeParams* p) {
  if (p->scales != nullptr) {
    QuantizeRows(p, PerChannel{p->scales, p->zeros, p->lo, p->hi});
  } else {
    QuantizeRows(p, PerTensor{MakeLanes(Splat(p->scale), wasm_i32x4_splat(p->zero), p->lo, p->hi)});
  }
}

void rq_dequantize(const DequantizeParams* p) {
  if (p->in_signed) {
    if (p->scales != nullptr) {
      DequantizeRows<true, true>(p);
    } else {
      DequantizeRows<true, false>(p);
    }
  } else if (p->scales != nullptr) {
    DequantizeRows<false, true>(p);
  } else {
    DequantizeRows<false, false>(p);
  }
}

void rq_quantize_planes(const QuantizePlanesParams* p) {
  const Lanes lanes = MakeLanes(Splat(p->scale), wasm_i32x4_splat(p->zero), p->lo, p->hi);
  const size_t n = p->pixels;
  const size_t stride = p->out_pixel_stride;
  uint8_t* out = static_cast<uint8_t*>(p->out);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const float* in = p->in + i;
    uint8_t* to = out + i * stride;
    const v128_t c0 = Plane16(in, lanes);
    if (p->channels == 1 && stride == 1) {
      wasm_v128_store(to, c0);
      continue;
    }
    const v128_t none = wasm_i8x16_splat(0);
    const v128_t c1 = p->channels > 1 ? Plane16(in + p->in_plane_stride, lanes) : none;
    const v128_t c2 = p->channels > 2 ? Plane16(in + 2 * p->in_plane_stride, lanes) : none;
    const v128_t c3 = p->channels > 3 ? Plane16(in + 3 * p->in_plane_stride, lanes) : none;
    const v128_t c01_low = simd::InterleaveLowI8(c0, c1);
    const v128_t c01_high = simd::InterleaveHighI8(c0, c1);
    const v128_t c23_low = simd::InterleaveLowI8(c2, c3);
    const v128_t c23_high = simd::InterleaveHighI8(c2, c3);
    const size_t group = 4 * stride;
    StorePixels(to, wasm_i16x8_shuffle(c01_low, c23_low, 0, 8, 1, 9, 2, 10, 3, 11), p->channels,
                stride);
    StorePixels(to + group, wasm_i16x8_shuffle(c01_low, c23_low, 4, 12, 5, 13, 6, 14, 7, 15),
                p->channels, stride);
    StorePixels(to + 2 * group, wasm_i16x8_shuffle(c01_high, c23_high, 0, 8, 1, 9, 2, 10, 3, 11),
                p->channels, stride);
    StorePixels(to + 3 * group, wasm_i16x8_shuffle(c01_high, c23_high, 4, 12, 5, 13, 6, 14, 7, 15),
                p->channels, stride);
  }
  for (; i < n; ++i) {
    for (size_t c = 0; c < p->channels; ++c) {
      const v128_t x = wasm_v128_load32_zero(p->in + c * p->in_plane_stride + i);
      const v128_t q = Quantize4(x, lanes);
      out[i * stride + c] = static_cast<uint8_t>(wasm_i32x4_extract_lane(q, 0));
    }
  }
}
