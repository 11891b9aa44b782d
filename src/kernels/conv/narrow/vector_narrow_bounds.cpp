// How large sums of products of few bits can become.
#include "base/simd.h"
#include "kernels/conv/narrow/narrow_rows.h"

void rq_conv_narrow_bounds(const uint8_t* weights, int32_t steps, int32_t segment, int32_t input_lo,
                           int32_t input_hi, int32_t* bounds) {
  using namespace requant;
  // A lane's sum of products is extreme where positive weights meet one end of the inputs' range
  // and negative weights the other.
  const v128_t zero = wasm_i8x16_splat(0);
  const auto ends = [](int32_t even, int32_t odd) __attribute__((always_inline)) {
    return wasm_i32x4_splat(static_cast<int32_t>(static_cast<uint32_t>(odd) << 16) |
                            (even & 0xFFFF));
  };
  const v128_t low_first = ends(input_lo, input_hi), high_first = ends(input_hi, input_lo);
  v128_t least = zero, most = zero, full = zero;
  for (int32_t begin = 0; begin < steps; begin += segment) {
    const int32_t end = steps - begin < segment ? steps : begin + segment;
    RQ_UNROLL for (int half = 0; half < 2; ++half) {
      v128_t positive = zero, negative = zero;
      for (int32_t step = begin; step < end; ++step) {
        const v128_t w = wasm_v128_load(weights + step * 32 + half * 16);
        const v128_t more = wasm_i16x8_extadd_pairwise_i8x16(wasm_i8x16_max(w, zero));
        const v128_t less = wasm_i16x8_extadd_pairwise_i8x16(wasm_i8x16_min(w, zero));
        positive = wasm_i16x8_add_sat(positive, more);
        negative = wasm_i16x8_add_sat(negative, less);
      }
      full = wasm_v128_or(full, wasm_i16x8_eq(positive, wasm_i16x8_splat(INT16_MAX)));
      full = wasm_v128_or(full, wasm_i16x8_eq(negative, wasm_i16x8_splat(INT16_MIN)));
      const v128_t low = wasm_i16x8_shuffle(positive, negative, 0, 8, 1, 9, 2, 10, 3, 11);
      const v128_t high = wasm_i16x8_shuffle(positive, negative, 4, 12, 5, 13, 6, 14, 7, 15);
      least = wasm_i32x4_min(least, wasm_i32x4_dot_i16x8(low, low_first));
      least = wasm_i32x4_min(least, wasm_i32x4_dot_i16x8(high, low_first));
      most = wasm_i32x4_max(most, wasm_i32x4_dot_i16x8(low, high_first));
      most = wasm_i32x4_max(most, wasm_i32x4_dot_i16x8(high, high_first));
    }
  }
  const bool fits = !wasm_v128_any_true(full);
  wasm_v128_store(bounds, fits ? least : wasm_i32x4_splat(INT32_MIN));
  wasm_v128_store(bounds + 4, fits ? most : wasm_i32x4_splat(INT32_MAX));
}
