#pragma once
// The only file that names an instruction set.
//
// Kernels, the quantizer's sums (quant/observers/product_sums, quant/sim/fast_ops), Cast and the
// ranges of DynamicQuantizeLinear (plan/lower) use the wasm_* intrinsics of <wasm_simd128.h>; a
// native build gets the same names from SIMDe. Instructions that wasm has only as "relaxed SIMD"
// have a wrapper here, with an exact emulation where the instruction is missing, so integer results
// never depend on the variant. Only MulAddF32<true> may differ (one rounding or two).
//
// Rules for a vector.cpp of kernels (the build checks the linked module): no libc, no static or
// global data, no exceptions, and no local array unless every index is a constant after unrolling
// (it must live in registers, since a stack in memory would overwrite the core's memory). Tables
// come in by pointer.
#include <stddef.h>
#include <stdint.h>

#if defined(__wasm__)
#include <wasm_simd128.h>
#else
#ifndef SIMDE_ENABLE_NATIVE_ALIASES
#define SIMDE_ENABLE_NATIVE_ALIASES
#endif
#include <simde/wasm/simd128.h>
// wasm multiplies modulo 2^32. SIMDe multiplies signed numbers where the machine has no SSE4.1, and
// their overflow is undefined in C++.
#undef wasm_i32x4_mul
static inline v128_t wasm_i32x4_mul(v128_t a, v128_t b) {
  typedef uint32_t U32x4 __attribute__((vector_size(16)));
  return (v128_t)((U32x4)a * (U32x4)b);
}
#endif

#define RQ_INLINE static inline __attribute__((always_inline))
/// Inlines a member function that is not static, as RQ_INLINE does for others.
#define RQ_MEMBER inline __attribute__((always_inline))

// Stand before a loop: RQ_UNROLL before one with a constant trip count whose body indexes a local
// array of vectors, RQ_ROLLED before one whose code is to stay small.
#if defined(__clang__)
#define RQ_UNROLL _Pragma("clang loop unroll(full)")
#define RQ_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define RQ_UNROLL _Pragma("GCC unroll 32")
#define RQ_ROLLED
#endif

namespace requant::simd {

/// 0 for every count below 2^31, which neither compilers nor engines know: a constant of a loop
/// that has it added before the loop stays in a register or on the stack. A plain one is made anew
/// at every use (V8 on x86-64: up to three instructions).
RQ_INLINE int32_t UnknownZero(size_t count) {
  return static_cast<int32_t>(count >> (sizeof(size_t) * 8 - 1));
}
RQ_INLINE v128_t LoopConstant(int8_t x, size_t count) {
  return wasm_i8x16_splat(static_cast<int8_t>(x + UnknownZero(count)));
}
RQ_INLINE v128_t LoopConstant(v128_t x, size_t count) {
  return wasm_i8x16_add(x, wasm_i8x16_splat(static_cast<int8_t>(UnknownZero(count))));
}
RQ_INLINE v128_t LoopConstant(float x, size_t count) {
  return wasm_i32x4_splat(__builtin_bit_cast(int32_t, x) + UnknownZero(count));
}

/// x + x of bytes that do not overflow. Compilers would turn a plain addition into a shift and 3 x
/// into a product, and x86 has neither for bytes: they take four and twenty instructions.
RQ_INLINE v128_t TwiceI8(v128_t x) { return wasm_i8x16_add_sat(x, x); }
/// x + x of bytes modulo 256. (The average of x and x is x, which compilers do not know.)
RQ_INLINE v128_t TwiceModuloI8(v128_t x) { return wasm_i8x16_add(x, wasm_u8x16_avgr(x, x)); }

/// Whether MulAddF32<true> and MulAddF32<false> may differ in this variant.
#if defined(REQUANT_RELAXED) && defined(__wasm_relaxed_simd__)
inline constexpr bool kMayFuse = true;
#else
inline constexpr bool kMayFuse = false;
#endif

/// acc + a * b of four floats. With kFused it is rounded once in the relaxed variant where the CPU
/// can; without it is rounded twice everywhere.
template <bool kFused>
RQ_INLINE v128_t MulAddF32(v128_t a, v128_t b, v128_t acc) {
#if defined(REQUANT_RELAXED) && defined(__wasm_relaxed_simd__)
  if constexpr (kFused) return wasm_f32x4_relaxed_madd(a, b, acc);
#endif
  return wasm_f32x4_add(acc, wasm_f32x4_mul(a, b));
}

/// acc + a * b of two doubles whose product is exact, so that fused and unfused forms agree.
RQ_INLINE v128_t MulAddExactF64(v128_t a, v128_t b, v128_t acc) {
#if defined(REQUANT_RELAXED) && defined(__wasm_relaxed_simd__)
  return wasm_f64x2_relaxed_madd(a, b, acc);
#else
  return wasm_f64x2_add(acc, wasm_f64x2_mul(a, b));
#endif
}

/// Clamps x to [lo, hi] and lets a NaN in x through: pmax(x, lo) = x < lo ? lo : x.
RQ_INLINE v128_t ClampF32(v128_t x, v128_t lo, v128_t hi) {
  return wasm_f32x4_pmin(wasm_f32x4_pmax(x, lo), hi);
}

/// (a * b + 2^14) >> 15 of eight i16. b must not be -2^15, for which engines disagree.
RQ_INLINE v128_t MulQ15(v128_t a, v128_t b) {
#if defined(REQUANT_RELAXED) && defined(__wasm_relaxed_simd__)
  return wasm_i16x8_relaxed_q15mulr(a, b);
#else
  return wasm_i16x8_q15mulr_sat(a, b);
#endif
}

/// (v + 2^(shift-1)) >> shift of eight i16, for step = RoundingStepI16(shift), shift in 1..15.
/// Engines take four instructions for a shift by a variable.
RQ_INLINE v128_t RoundingStepI16(int32_t shift) {
  return wasm_i16x8_splat(static_cast<int16_t>(1 << (15 - shift)));
}
RQ_INLINE v128_t RoundingShiftI16(v128_t v, v128_t step) { return MulQ15(v, step); }

/// Interleaves the bytes of a and b: those of the lower and of the upper halves.
RQ_INLINE v128_t InterleaveLowI8(v128_t a, v128_t b) {
  return wasm_i8x16_shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
RQ_INLINE v128_t InterleaveHighI8(v128_t a, v128_t b) {
  return wasm_i8x16_shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/// a[2i]*b[2i] + a[2i+1]*b[2i+1] as eight i16, for signed bytes a and b in [0, 127] (outside of
/// that range engines disagree: see the relaxed SIMD proposal, i16x8.relaxed_dot_i8x16_i7x16_s). No
/// pair sum can saturate.
RQ_INLINE v128_t DotI8I7(v128_t a, v128_t b) {
#if defined(REQUANT_RELAXED) && defined(__wasm_relaxed_simd__)
  return wasm_i16x8_relaxed_dot_i8x16_i7x16(a, b);
#else
  const v128_t even = wasm_i16x8_mul(wasm_i16x8_shr(wasm_i16x8_shl(a, 8), 8),
                                     wasm_v128_and(b, wasm_i16x8_splat(127)));
  return wasm_i16x8_add(even, wasm_i16x8_mul(wasm_i16x8_shr(a, 8), wasm_i16x8_shr(b, 8)));
#endif
}

/// acc + the sums of four neighboring products as four i32; operands as in DotI8I7.
RQ_INLINE v128_t DotI8I7Add(v128_t a, v128_t b, v128_t acc) {
#if defined(REQUANT_RELAXED) && defined(__wasm_relaxed_simd__)
  return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a, b, acc);
#else
  return wasm_i32x4_add(acc, wasm_i32x4_extadd_pairwise_i16x8(DotI8I7(a, b)));
#endif
}

/// The sums of four neighboring products of signed w and x, unsigned or signed, as four i32. Exact
/// on every machine, but slow.
template <bool kUnsigned>
RQ_INLINE v128_t ExactDot8(v128_t w, v128_t x) {
  const v128_t xl = kUnsigned ? wasm_u16x8_extend_low_u8x16(x) : wasm_i16x8_extend_low_i8x16(x);
  const v128_t xh = kUnsigned ? wasm_u16x8_extend_high_u8x16(x) : wasm_i16x8_extend_high_i8x16(x);
  const v128_t low = wasm_i32x4_dot_i16x8(wasm_i16x8_extend_low_i8x16(w), xl);
  const v128_t high = wasm_i32x4_dot_i16x8(wasm_i16x8_extend_high_i8x16(w), xh);
  return wasm_i32x4_add(wasm_i32x4_shuffle(low, high, 0, 2, 4, 6),
                        wasm_i32x4_shuffle(low, high, 1, 3, 5, 7));
}

/// acc + the sums of four neighboring products of signed bytes w and bytes x as four i32, with all
/// eight bits: the meaning of i32x4.relaxed_dot_i8x16_i7x16_add_s on machines where rq_dot8() is
/// not 0 (VPDPBUSD with AVX-VNNI: x unsigned; SDOT on ARM, VPDPBSSD: x signed). Wrong on other
/// machines.
struct Dot8 {
#if defined(REQUANT_RELAXED) && defined(__wasm_relaxed_simd__)
  RQ_INLINE v128_t Add(v128_t w, v128_t x, v128_t acc) {
    return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(w, x, acc);
  }
#else
  RQ_INLINE v128_t Add(v128_t w, v128_t x, v128_t acc) {
    return wasm_i32x4_add(acc, ExactDot8<true>(w, x));
  }
#endif
};

/// table[index[i]] for sixteen bytes; every index must be below 16.
RQ_INLINE v128_t Lookup16(v128_t table, v128_t index) {
#if defined(REQUANT_RELAXED) && defined(__wasm_relaxed_simd__)
  return wasm_i8x16_relaxed_swizzle(table, index);
#else
  return wasm_i8x16_swizzle(table, index);
#endif
}

/// Converts floats to int32, truncating. Every lane must be a number within int32; then the relaxed
/// form, one instruction instead of about seven on x86, gives the same result.
RQ_INLINE v128_t TruncInRange(v128_t x) {
#if defined(REQUANT_RELAXED) && defined(__wasm_relaxed_simd__)
  return wasm_i32x4_relaxed_trunc_f32x4(x);
#else
  return wasm_i32x4_trunc_sat_f32x4(x);
#endif
}

/// Loads n (1..4) values of 32 bits; the other lanes are 0. Never reads past p[n - 1].
template <typename T>
RQ_INLINE v128_t LoadPartial(const T* p, int32_t n) {
  static_assert(sizeof(T) == 4);
  if (n >= 4) return wasm_v128_load(p);
  v128_t v = wasm_v128_load32_zero(p);
  if (n > 1) v = wasm_v128_load32_lane(p + 1, v, 1);
  if (n > 2) v = wasm_v128_load32_lane(p + 2, v, 2);
  return v;
}

/// Stores the first n (1..4) 32-bit values of v.
template <typename T>
RQ_INLINE void StorePartial(T* p, v128_t v, int32_t n) {
  static_assert(sizeof(T) == 4);
  if (n >= 4) {
    wasm_v128_store(p, v);
    return;
  }
  wasm_v128_store32_lane(p, v, 0);
  if (n > 1) wasm_v128_store32_lane(p + 1, v, 1);
  if (n > 2) wasm_v128_store32_lane(p + 2, v, 2);
}

/// Stores the first n (1..8) bytes of the low half of v.
RQ_INLINE void StorePartialBytes(void* out, v128_t v, int32_t n) {
  uint8_t* p = static_cast<uint8_t*>(out);
  uint64_t bits = static_cast<uint64_t>(wasm_i64x2_extract_lane(v, 0));
  if (n >= 8) {
    __builtin_memcpy(p, &bits, 8);
    return;
  }
  for (int32_t i = 0; i < n; ++i, bits >>= 8) p[i] = static_cast<uint8_t>(bits);
}

}  // namespace requant::simd
