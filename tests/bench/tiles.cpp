// The inner loops of matrix products alone: R rows times N vectors of columns in registers,
// operands in the first-level cache, no packing, no epilogue. The best loop is the ceiling with
// which layers.mjs compares the kernels. Names: step_RxN.
#include "base/simd.h"

namespace {

using namespace requant;

struct F32 {  // one k per step
  static constexpr int kDepth = 1;
  RQ_INLINE v128_t Add(v128_t b, v128_t a, v128_t sum) { return simd::MulAddF32<true>(b, a, sum); }
};
struct I16 {  // int8 widened to int16: two k per step
  static constexpr int kDepth = 2;
  RQ_INLINE v128_t Add(v128_t b, v128_t a, v128_t sum) {
    return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(b, a));
  }
};
struct Dot7 {  // int8 times 7 bits: four k per step
  static constexpr int kDepth = 4;
  RQ_INLINE v128_t Add(v128_t b, v128_t a, v128_t sum) {
    return wasm_i32x4_add(sum, wasm_i32x4_extadd_pairwise_i16x8(simd::DotI8I7(a, b)));
  }
};
struct Narrow {  // int8 times 7 bits with many products added up in int16: four k per step
  static constexpr int kDepth = 4;
  RQ_INLINE v128_t Add(v128_t b, v128_t a, v128_t sum) {
    return wasm_i16x8_add(sum, simd::DotI8I7(b, a));
  }
};
struct Dot8 {  // int8 times 8 bits in one instruction, if the machine has it
  static constexpr int kDepth = 4;
  RQ_INLINE v128_t Add(v128_t b, v128_t a, v128_t sum) { return simd::Dot8::Add(b, a, sum); }
};

template <typename Step, int kRows, int kVectors>
RQ_INLINE void Tile(const char* a, const char* b, int k, char* out) {
  v128_t sums[kRows][kVectors];
  RQ_UNROLL for (int r = 0; r < kRows; ++r) {
    RQ_UNROLL for (int v = 0; v < kVectors; ++v) sums[r][v] = wasm_i32x4_splat(0);
  }
  for (int i = 0; i < k; i += Step::kDepth) {
    RQ_UNROLL for (int r = 0; r < kRows; ++r) {
      const v128_t x = wasm_v128_load32_splat(a + 4 * r);
      RQ_UNROLL for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = Step::Add(wasm_v128_load(b + 16 * v), x, sums[r][v]);
      }
    }
    a += 4 * kRows;
    b += 16 * kVectors;
  }
  RQ_UNROLL for (int r = 0; r < kRows; ++r) {
    RQ_UNROLL for (int v = 0; v < kVectors; ++v) {
      wasm_v128_store(out + 16 * (r * kVectors + v), sums[r][v]);
    }
  }
}

/// Narrow with inputs of eight bits: 2 * 128 * 15 per step fit int16 eight times; then the sums go
/// to int32 in memory, as registers have no room for both.
template <int kRows, int kVectors>
RQ_INLINE void WidenedTile(const char* a, const char* b, int k, char* out) {
  constexpr int kSteps = 8;
  for (int i = 0; i < 16 * kRows * kVectors; i += 16) wasm_v128_store(out + i, wasm_i32x4_splat(0));
  for (; k > 0; k -= kSteps * Narrow::kDepth) {
    v128_t sums[kRows][kVectors];
    RQ_UNROLL for (int r = 0; r < kRows; ++r) {
      RQ_UNROLL for (int v = 0; v < kVectors; ++v) sums[r][v] = wasm_i16x8_splat(0);
    }
    for (int step = 0; step < kSteps; ++step) {
      RQ_UNROLL for (int r = 0; r < kRows; ++r) {
        const v128_t x = wasm_v128_load32_splat(a + 4 * r);
        RQ_UNROLL for (int v = 0; v < kVectors; ++v) {
          sums[r][v] = Narrow::Add(wasm_v128_load(b + 16 * v), x, sums[r][v]);
        }
      }
      a += 4 * kRows;
      b += 16 * kVectors;
    }
    RQ_UNROLL for (int r = 0; r < kRows; ++r) {
      RQ_UNROLL for (int v = 0; v < kVectors; ++v) {
        char* to = out + 16 * (r * kVectors + v);
        wasm_v128_store(
            to, wasm_i32x4_add(wasm_v128_load(to), wasm_i32x4_extadd_pairwise_i16x8(sums[r][v])));
      }
    }
  }
}

}  // namespace

#define TILE(name, Step, rows, vectors)                                                           \
  extern "C" __attribute__((export_name(#name "_" #rows "x" #vectors))) void name##rows##vectors( \
      const char* a, const char* b, int k, char* out) {                                           \
    Tile<Step, rows, vectors>(a, b, k, out);                                                      \
  }
#define WIDENED(rows, vectors)                                                                 \
  extern "C"                                                                                   \
      __attribute__((export_name("widened_" #rows "x" #vectors))) void widened##rows##vectors( \
          const char* a, const char* b, int k, char* out) {                                    \
    WidenedTile<rows, vectors>(a, b, k, out);                                                  \
  }
// It wraps macros without semicolons in ever new ways.
// clang-format off
#define TILES(name, Step)                                                         \
  TILE(name, Step, 4, 2) TILE(name, Step, 5, 2) TILE(name, Step, 6, 2)            \
  TILE(name, Step, 3, 3) TILE(name, Step, 4, 3) TILE(name, Step, 2, 4)            \
  TILE(name, Step, 8, 1) TILE(name, Step, 4, 4)
// clang-format on

TILES(f32, F32)
TILES(i16, I16)
TILES(dot7, Dot7)
TILES(dot8, Dot8)
TILES(narrow, Narrow)
// clang-format off
WIDENED(4, 2) WIDENED(5, 2) WIDENED(6, 2) WIDENED(3, 3) WIDENED(4, 3) WIDENED(2, 4) WIDENED(8, 1) WIDENED(4, 4)
    // clang-format on
