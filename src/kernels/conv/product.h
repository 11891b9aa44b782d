#pragma once
// Rows of a panel times one block of weights: the inner loops of the 8-bit kernels whose
// accumulators live in memory. Freestanding.
//
// A register tile needs more registers than engines leave (V8 keeps one of 16 for itself and spills
// addresses and accumulators when loops are unrolled). So here the weights of four steps of k stay
// in eight registers and pass over all rows; the accumulators of a row are loaded, take eight dot
// products, and are stored. Measured against the 6 x 8 tile on x86-64: i16 pairs 100 against 89
// GOPS, bytes with AVX-VNNI 254 against 243. For few rows a tile remains: the weights are then the
// traffic.
//
// Op: In, Weight (element types), kGroup (elements of k in one step), Load(const Weight*) (the
// step's weights of four channels) and Dot(weights, splatted inputs, accumulators).
#include "kernels/conv/blocking.h"
#include "kernels/simd.h"

namespace requant::conv {

/// Pairs of int16 inputs by weights of either width: exact on every machine.
template <typename Int>
struct PairsOp {
  using In = int16_t;
  using Weight = Int;
  static constexpr int kGroup = 2;
  RQ_INLINE v128_t Load(const int8_t* w) { return wasm_i16x8_load8x8(w); }
  RQ_INLINE v128_t Load(const int16_t* w) { return wasm_v128_load(w); }
  RQ_INLINE v128_t Dot(v128_t w, v128_t x, v128_t acc) {
    return wasm_i32x4_add(acc, wasm_i32x4_dot_i16x8(x, w));
  }
};

/// Adds kSteps steps to the accumulators of `count` rows; `from`, which may be `out`, holds those
/// that are there already, from_step int32 from row to row.
template <typename Op, int kSteps>
static __attribute__((noinline)) void Pass(const typename Op::In* a, ptrdiff_t lda,
                                           const typename Op::Weight* w, const int32_t* from,
                                           ptrdiff_t from_step, int32_t count, int32_t* out) {
  v128_t w0[kSteps], w1[kSteps];
  RQ_UNROLL for (int u = 0; u < kSteps; ++u) {
    w0[u] = Op::Load(w + u * kChannelBlock * Op::kGroup);
    w1[u] = Op::Load(w + (u * kChannelBlock + 4) * Op::kGroup);
  }
  for (; count > 0; --count, a += lda, from += from_step, out += kChannelBlock) {
    v128_t acc0 = wasm_v128_load(from), acc1 = wasm_v128_load(from + 4);
    RQ_UNROLL for (int u = 0; u < kSteps; ++u) {
      const v128_t x = wasm_v128_load32_splat(a + u * Op::kGroup);
      acc0 = Op::Dot(w0[u], x, acc0);
      acc1 = Op::Dot(w1[u], x, acc1);
    }
    wasm_v128_store(out, acc0);
    wasm_v128_store(out + 4, acc1);
  }
}

/// kRows rows over all steps, with kSplit partial sums each so that a dot product need not wait for
/// the one before.
template <typename Op, int kRows, int kSplit>
static __attribute__((noinline)) void Tile(const typename Op::In* a, ptrdiff_t lda,
                                           const typename Op::Weight* w, int32_t steps,
                                           const int32_t* from, ptrdiff_t from_step, int32_t* out) {
  constexpr int kStep = kChannelBlock * Op::kGroup;
  v128_t acc0[kSplit * kRows], acc1[kSplit * kRows];
  RQ_UNROLL for (int i = 0; i < kSplit * kRows; ++i) {
    acc0[i] = i < kRows ? wasm_v128_load(from + i * from_step) : wasm_i32x4_splat(0);
    acc1[i] = i < kRows ? wasm_v128_load(from + i * from_step + 4) : wasm_i32x4_splat(0);
  }
  for (; steps >= kSplit; steps -= kSplit, a += kSplit * Op::kGroup, w += kSplit * kStep) {
    RQ_UNROLL for (int u = 0; u < kSplit; ++u) {
      const v128_t w0 = Op::Load(w + u * kStep), w1 = Op::Load(w + u * kStep + kStep / 2);
      RQ_UNROLL for (int i = 0; i < kRows; ++i) {
        const v128_t x = wasm_v128_load32_splat(a + i * lda + u * Op::kGroup);
        acc0[u * kRows + i] = Op::Dot(w0, x, acc0[u * kRows + i]);
        acc1[u * kRows + i] = Op::Dot(w1, x, acc1[u * kRows + i]);
      }
    }
  }
  for (; steps > 0; --steps, a += Op::kGroup, w += kStep) {
    const v128_t w0 = Op::Load(w), w1 = Op::Load(w + kStep / 2);
    RQ_UNROLL for (int i = 0; i < kRows; ++i) {
      const v128_t x = wasm_v128_load32_splat(a + i * lda);
      acc0[i] = Op::Dot(w0, x, acc0[i]);
      acc1[i] = Op::Dot(w1, x, acc1[i]);
    }
  }
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    RQ_UNROLL for (int u = 1; u < kSplit; ++u) {
      acc0[i] = wasm_i32x4_add(acc0[i], acc0[u * kRows + i]);
      acc1[i] = wasm_i32x4_add(acc1[i], acc1[u * kRows + i]);
    }
    wasm_v128_store(out + i * kChannelBlock, acc0[i]);
    wasm_v128_store(out + i * kChannelBlock + 4, acc1[i]);
  }
}

/// out[count][8] = from + the products of `count` rows, lda elements apart, with one block. `from`
/// as in Pass.
template <typename Op>
RQ_INLINE void Product(const typename Op::In* a, ptrdiff_t lda, const typename Op::Weight* w,
                       int32_t steps, const int32_t* from, ptrdiff_t from_step, int32_t count,
                       int32_t* out) {
  constexpr int kStep = kChannelBlock * Op::kGroup;
  if (count < kFewRows) {
    for (; count >= 4; count -= 4, a += 4 * lda, out += 4 * kChannelBlock) {
      Tile<Op, 4, 1>(a, lda, w, steps, from, from_step, out);
      from += 4 * from_step;
    }
    for (; count >= 1; --count, a += lda, from += from_step, out += kChannelBlock) {
      Tile<Op, 1, 4>(a, lda, w, steps, from, from_step, out);
    }
    return;
  }
  for (; steps >= 4; steps -= 4, a += 4 * Op::kGroup, w += 4 * kStep) {
    Pass<Op, 4>(a, lda, w, from, from_step, count, out);
    from = out;
    from_step = kChannelBlock;
  }
  // Not two and one: each pass costs a load and a store of all accumulators.
  if (steps == 3) {
    Pass<Op, 3>(a, lda, w, from, from_step, count, out);
  } else if (steps == 2) {
    Pass<Op, 2>(a, lda, w, from, from_step, count, out);
  } else if (steps == 1) {
    Pass<Op, 1>(a, lda, w, from, from_step, count, out);
  }
}

}  // namespace requant::conv
