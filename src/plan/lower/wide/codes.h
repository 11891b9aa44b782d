// Vectors of codes of 8 or 16 bits, and the normative rounding of numeric/wide.h for eight of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/simd.h"
#include "numeric/wide.h"
#include "ops/quantized/wide.h"

namespace requant::wide {

/// The types of codes, as steps store them.
enum class Kind : int32_t { kUint8, kInt8, kUint16, kInt16 };

inline Kind KindOf(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return Kind::kUint8;
    case DType::kInt8:
      return Kind::kInt8;
    case DType::kUint16:
      return Kind::kUint16;
    default:
      return Kind::kInt16;
  }
}
inline size_t BytesOf(Kind kind) { return kind == Kind::kUint8 || kind == Kind::kInt8 ? 1 : 2; }

/// Eight int32.
struct Eight {
  v128_t low, high;
};

/// Loads eight codes as int32. `count` is 8, or less at the end of a tensor.
RQ_INLINE Eight Load(const uint8_t* from, Kind kind, size_t count) {
  alignas(16) uint8_t rest[16] = {};
  const size_t bytes = BytesOf(kind);
  if (count < 8) {
    __builtin_memcpy(rest, from, count * bytes);
    from = rest;
  }
  v128_t codes;
  switch (kind) {
    case Kind::kUint8:
      codes = wasm_u16x8_load8x8(from);
      break;
    case Kind::kInt8:
      codes = wasm_i16x8_load8x8(from);
      break;
    case Kind::kUint16:
      codes = wasm_v128_load(from);
      return {wasm_u32x4_extend_low_u16x8(codes), wasm_u32x4_extend_high_u16x8(codes)};
    default:
      codes = wasm_v128_load(from);
  }
  return {wasm_i32x4_extend_low_i16x8(codes), wasm_i32x4_extend_high_i16x8(codes)};
}

/// Stores eight int32, which are codes of that kind.
RQ_INLINE void Store(uint8_t* to, Kind kind, size_t count, Eight codes) {
  v128_t packed = kind == Kind::kUint16 ? wasm_u16x8_narrow_i32x4(codes.low, codes.high)
                                        : wasm_i16x8_narrow_i32x4(codes.low, codes.high);
  if (kind == Kind::kUint8) packed = wasm_u8x16_narrow_i16x8(packed, packed);
  if (kind == Kind::kInt8) packed = wasm_i8x16_narrow_i16x8(packed, packed);
  const size_t bytes = BytesOf(kind);
  if (count >= 8 && bytes == 2) {
    wasm_v128_store(to, packed);
  } else if (count >= 8) {
    wasm_v128_store64_lane(to, packed, 0);
  } else {
    alignas(16) uint8_t rest[16];
    wasm_v128_store(rest, packed);
    __builtin_memcpy(to, rest, count * bytes);
  }
}

/// Four float64 of int32 lanes.
struct Four {
  v128_t low, high;
};
RQ_INLINE Four ToDoubles(v128_t x) {
  return {wasm_f64x2_convert_low_i32x4(x),
          wasm_f64x2_convert_low_i32x4(wasm_i32x4_shuffle(x, x, 2, 3, 2, 3))};
}
RQ_INLINE Four operator*(Four a, Four b) {
  return {wasm_f64x2_mul(a.low, b.low), wasm_f64x2_mul(a.high, b.high)};
}
RQ_INLINE Four operator+(Four a, Four b) {
  return {wasm_f64x2_add(a.low, b.low), wasm_f64x2_add(a.high, b.high)};
}

/// The nearest integers of four float64 below 2^31, ties to even: a float64 within 2^51 that 1.5 *
/// 2^52 is added to has its nearest integer in the low 32 bits.
RQ_INLINE v128_t Nearest(Four values) {
  const v128_t magic = wasm_f64x2_splat(6755399441055744.0);
  return wasm_i32x4_shuffle(wasm_f64x2_add(values.low, magic), wasm_f64x2_add(values.high, magic),
                            0, 2, 4, 6);
}

/// RoundWide of four numbers: with integer bounds a clamp before rounding is one behind it.
class Rounder {
 public:
  explicit Rounder(const WideOutput& to)
      : lo_(wasm_f64x2_splat(static_cast<double>(to.lo - to.zero_point))),
        hi_(wasm_f64x2_splat(static_cast<double>(to.hi - to.zero_point))),
        zero_(wasm_i32x4_splat(to.zero_point)) {}
  RQ_MEMBER v128_t operator()(Four values) const {
    const Four clamped{wasm_f64x2_pmin(wasm_f64x2_pmax(values.low, lo_), hi_),
                       wasm_f64x2_pmin(wasm_f64x2_pmax(values.high, lo_), hi_)};
    return wasm_i32x4_add(Nearest(clamped), zero_);
  }

 private:
  v128_t lo_, hi_, zero_;
};

/// RoundWide of eight numbers below 2^29, to codes of 16 bits, signed or not, or to the codes of
/// eight bits among those. They are clamped as int16, to which narrowing saturates.
class SmallRounder {
 public:
  SmallRounder(const WideOutput& to, bool is_unsigned)
      : zero_(wasm_i32x4_splat(to.zero_point)),
        lo_(wasm_i16x8_splat(static_cast<int16_t>(to.lo))),
        hi_(wasm_i16x8_splat(static_cast<int16_t>(to.hi))),
        is_unsigned_(is_unsigned) {}
  RQ_MEMBER v128_t operator()(Four low, Four high) const {
    const v128_t a = wasm_i32x4_add(Nearest(low), zero_);
    const v128_t b = wasm_i32x4_add(Nearest(high), zero_);
    return is_unsigned_ ? wasm_u16x8_min(wasm_u16x8_max(wasm_u16x8_narrow_i32x4(a, b), lo_), hi_)
                        : wasm_i16x8_min(wasm_i16x8_max(wasm_i16x8_narrow_i32x4(a, b), lo_), hi_);
  }

 private:
  v128_t zero_, lo_, hi_;
  bool is_unsigned_;
};
/// The largest magnitude of numbers that SmallRounder takes.
inline constexpr double kSmall = 1 << 29;

/// The clamp of an output, cut by an epilogue's bounds.
inline WideOutput Clamped(int32_t zero_point, DType dtype, double lo, double hi) {
  const double least = CodeMin(dtype), most = CodeMax(dtype);
  const auto bound = [&](double value) {
    return static_cast<int32_t>(value < least ? least : value > most ? most : value);
  };
  return {zero_point, bound(lo), bound(hi)};
}

}  // namespace requant::wide
