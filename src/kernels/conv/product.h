#pragma once
// Multiplies rows of a panel by one block of weights: the inner loops of the 8-bit kernels whose
// accumulators live in memory. Freestanding.
//
// There are two ways, and an Op names the faster one (kPasses):
//
// - tile: 4 rows x 8 channels of accumulators stay in registers over all of k.
//
//              weights of a step:  [ w0: channels 0..3 ] [ w1: channels 4..7 ]
//   row 0   x of the step, splat:  [      acc0[0]      ] [      acc1[0]      ]
//   ...                            [        ...        ] [        ...        ]
//   row 3   x of the step, splat:  [      acc0[3]      ] [      acc1[3]      ]
//
//   Larger tiles, and this one unrolled over k, are slower, since engines leave fewer registers
//   than the processor has (V8 keeps one of 16 and spills addresses). GOPS of i16 pairs on Zen 4:
//   79, 6 x 8 unrolled 74, unrolled 67, passes 57.
// - passes: the weights of four steps of k stay in eight registers and pass over all rows.
//   Each row's accumulators are loaded, take eight dot products and are stored. Products of bytes
//   on Intel with AVX-VNNI: 254 GOPS, a tile of 6 x 8 243. Few rows still take a tile, because
//   loading weights then dominates.
//
// An Op has: In, Weight (element types), kGroup (elements of k in one step), kPasses, Load(const
// Weight*) (the step's weights of four channels) and Dot(weights, splatted inputs, accumulators).
#include "base/simd.h"
#include "kernels/conv/blocking.h"

namespace requant::conv {

/// Multiplies pairs of int16 inputs by weights of either width, exactly on every machine.
template <typename Int>
struct PairsOp {
  using In = int16_t;
  using Weight = Int;
  static constexpr int kGroup = 2;
  static constexpr bool kPasses = false;
  RQ_INLINE v128_t Load(const int8_t* w) { return wasm_i16x8_load8x8(w); }
  RQ_INLINE v128_t Load(const int16_t* w) { return wasm_v128_load(w); }
  RQ_INLINE v128_t Dot(v128_t w, v128_t x, v128_t acc) {
    return wasm_i32x4_add(acc, wasm_i32x4_dot_i16x8(x, w));
  }
};

/// Adds kSteps steps to the accumulators of `count` rows. `from`, which may be `out`, holds the
/// present accumulators, in rows from_step int32 apart.
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

/// Multiplies kRows rows over all steps.
template <typename Op, int kRows>
static __attribute__((noinline)) void Tile(const typename Op::In* a, ptrdiff_t lda,
                                           const typename Op::Weight* w, int32_t steps,
                                           const int32_t* from, ptrdiff_t from_step, int32_t* out) {
  constexpr int kStep = kChannelBlock * Op::kGroup;
  v128_t acc0[kRows], acc1[kRows];
  const typename Op::In* rows[kRows];
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    acc0[i] = wasm_v128_load(from + i * from_step);
    acc1[i] = wasm_v128_load(from + i * from_step + 4);
    rows[i] = a + i * lda;
  }
  for (; steps > 0; --steps, w += kStep) {
    const v128_t w0 = Op::Load(w), w1 = Op::Load(w + kStep / 2);
    RQ_UNROLL for (int i = 0; i < kRows; ++i) {
      const v128_t x = wasm_v128_load32_splat(rows[i]);
      acc0[i] = Op::Dot(w0, x, acc0[i]);
      acc1[i] = Op::Dot(w1, x, acc1[i]);
      rows[i] += Op::kGroup;
    }
  }
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    wasm_v128_store(out + i * kChannelBlock, acc0[i]);
    wasm_v128_store(out + i * kChannelBlock + 4, acc1[i]);
  }
}

/// Multiplies one row over all steps by kBlocks blocks, whose weights are w_step and whose
/// accumulators are from_step int32 apart. Four partial sums keep a dot product from waiting for
/// the one before. Two blocks share the inputs' loads and are two streams to prefetch where weights
/// come from beyond the second-level cache: 15 instead of 11 GB/s (x86-64).
template <typename Op, int kBlocks = 1>
static __attribute__((noinline)) void SingleRow(const typename Op::In* a,
                                                const typename Op::Weight* w, ptrdiff_t w_step,
                                                int32_t steps, const int32_t* from,
                                                ptrdiff_t from_step, int32_t* out) {
  constexpr int kStep = kChannelBlock * Op::kGroup, kSplit = 4 / kBlocks;
  v128_t acc0[kBlocks][kSplit], acc1[kBlocks][kSplit];
  RQ_UNROLL for (int b = 0; b < kBlocks; ++b) {
    RQ_UNROLL for (int u = 0; u < kSplit; ++u) acc0[b][u] = acc1[b][u] = wasm_i32x4_splat(0);
    acc0[b][0] = wasm_v128_load(from + b * from_step);
    acc1[b][0] = wasm_v128_load(from + b * from_step + 4);
  }
  for (; steps >= kSplit; steps -= kSplit, a += kSplit * Op::kGroup, w += kSplit * kStep) {
    RQ_UNROLL for (int u = 0; u < kSplit; ++u) {
      const v128_t x = wasm_v128_load32_splat(a + u * Op::kGroup);
      RQ_UNROLL for (int b = 0; b < kBlocks; ++b) {
        const typename Op::Weight* at = w + b * w_step + u * kStep;
        acc0[b][u] = Op::Dot(Op::Load(at), x, acc0[b][u]);
        acc1[b][u] = Op::Dot(Op::Load(at + kStep / 2), x, acc1[b][u]);
      }
    }
  }
  for (; steps > 0; --steps, a += Op::kGroup, w += kStep) {
    const v128_t x = wasm_v128_load32_splat(a);
    RQ_UNROLL for (int b = 0; b < kBlocks; ++b) {
      acc0[b][0] = Op::Dot(Op::Load(w + b * w_step), x, acc0[b][0]);
      acc1[b][0] = Op::Dot(Op::Load(w + b * w_step + kStep / 2), x, acc1[b][0]);
    }
  }
  RQ_UNROLL for (int b = 0; b < kBlocks; ++b, out += kChannelBlock) {
    RQ_UNROLL for (int u = 1; u < kSplit; ++u) {
      acc0[b][0] = wasm_i32x4_add(acc0[b][0], acc0[b][u]);
      acc1[b][0] = wasm_i32x4_add(acc1[b][0], acc1[b][u]);
    }
    wasm_v128_store(out, acc0[b][0]);
    wasm_v128_store(out + 4, acc1[b][0]);
  }
}

/// out[count][8] = from + the products of `count` rows, lda elements apart, with one block. `from`
/// is as in Pass.
template <typename Op>
RQ_INLINE void Product(const typename Op::In* a, ptrdiff_t lda, const typename Op::Weight* w,
                       int32_t steps, const int32_t* from, ptrdiff_t from_step, int32_t count,
                       int32_t* out) {
  constexpr int kStep = kChannelBlock * Op::kGroup;
  if (!Op::kPasses || count < kFewRows) {
    for (; count >= 4; count -= 4, a += 4 * lda, out += 4 * kChannelBlock) {
      Tile<Op, 4>(a, lda, w, steps, from, from_step, out);
      from += 4 * from_step;
    }
    for (; count >= 1; --count, a += lda, from += from_step, out += kChannelBlock) {
      SingleRow<Op>(a, w, 0, steps, from, 0, out);
    }
    return;
  }
  for (; steps >= 4; steps -= 4, a += 4 * Op::kGroup, w += 4 * kStep) {
    Pass<Op, 4>(a, lda, w, from, from_step, count, out);
    from = out;
    from_step = kChannelBlock;
  }
  // Three steps take one pass, since each pass loads and stores all accumulators.
  if (steps == 3) {
    Pass<Op, 3>(a, lda, w, from, from_step, count, out);
  } else if (steps == 2) {
    Pass<Op, 2>(a, lda, w, from, from_step, count, out);
  } else if (steps == 1) {
    Pass<Op, 1>(a, lda, w, from, from_step, count, out);
  }
}

}  // namespace requant::conv
