// Reduces sixteen lanes at a time: along the elements where they are adjacent, else along as many
// columns.
#include "base/simd.h"
#include "kernels/reduce/kernel.h"

namespace requant {
namespace {

constexpr size_t kLanes = 16;

RQ_INLINE v128_t FirstLanes(v128_t x, int32_t n) {
  const v128_t lane = wasm_i32x4_make(0, 1, 2, 3);
  return wasm_v128_and(x, wasm_i32x4_lt(lane, wasm_i32x4_splat(n)));
}

/// Sums x, |x| or x^2: x is masked, then multiplied by x or 1. `root`: where the result is the
/// root.
struct Sum {
  v128_t mask, squares, root, one, factor;

  [[gnu::always_inline]] explicit Sum(const ReduceF32Params* p)
      : mask(wasm_i32x4_splat(p->op == ReduceF32Op::kL1 ? 0x7fffffff : -1)),
        squares(wasm_i32x4_splat(
            p->op == ReduceF32Op::kSumSquare || p->op == ReduceF32Op::kL2 ? -1 : 0)),
        root(wasm_i32x4_splat(p->op == ReduceF32Op::kL2 ? -1 : 0)),
        one(wasm_f32x4_splat(1.0f)),
        factor(wasm_f32x4_splat(p->factor)) {}

  [[gnu::always_inline]] v128_t Start() const { return wasm_f32x4_splat(0.0f); }
  [[gnu::always_inline]] v128_t Take(v128_t sum, v128_t x) const {
    const v128_t times = wasm_v128_bitselect(x, one, squares);
    return wasm_f32x4_add(sum, wasm_f32x4_mul(wasm_v128_and(x, mask), times));
  }
  [[gnu::always_inline]] v128_t TakeFirst(v128_t sum, v128_t x, int32_t n) const {
    return Take(sum, FirstLanes(x, n));
  }
  [[gnu::always_inline]] v128_t Join(v128_t a, v128_t b) const { return wasm_f32x4_add(a, b); }
  [[gnu::always_inline]] v128_t Result(v128_t sum) const {
    const v128_t scaled = wasm_f32x4_mul(sum, factor);
    return wasm_v128_bitselect(wasm_f32x4_sqrt(scaled), scaled, root);
  }
};

/// Finds the largest x, or the largest -x.
struct Extreme {
  v128_t sign;

  [[gnu::always_inline]] explicit Extreme(const ReduceF32Params* p)
      : sign(wasm_i32x4_splat(p->op == ReduceF32Op::kMin ? INT32_MIN : 0)) {}

  [[gnu::always_inline]] v128_t Start() const { return wasm_f32x4_splat(-__builtin_inff()); }
  [[gnu::always_inline]] v128_t Take(v128_t best, v128_t x) const {
    return wasm_f32x4_max(best, wasm_v128_xor(x, sign));
  }
  [[gnu::always_inline]] v128_t TakeFirst(v128_t best, v128_t x, int32_t n) const {
    const v128_t in = FirstLanes(wasm_i32x4_splat(-1), n);
    return wasm_v128_bitselect(Take(best, x), best, in);
  }
  [[gnu::always_inline]] v128_t Join(v128_t a, v128_t b) const { return wasm_f32x4_max(a, b); }
  [[gnu::always_inline]] v128_t Result(v128_t best) const {
    return wasm_f32x4_add(wasm_v128_xor(best, sign), wasm_f32x4_splat(0.0f));
  }
};

/// Reduces one row to all lanes, so that every lane has the result. (Four variables instead of an
/// array, since kernels have no stack in memory.)
template <typename Op>
RQ_INLINE v128_t Row(const Op& op, const float* from, size_t count) {
  v128_t a = op.Start();
  v128_t b = a, c = a, d = a;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    a = op.Take(a, wasm_v128_load(from + i));
    b = op.Take(b, wasm_v128_load(from + i + 4));
    c = op.Take(c, wasm_v128_load(from + i + 8));
    d = op.Take(d, wasm_v128_load(from + i + 12));
  }
  for (; i < count; i += 4) {
    const int32_t left = static_cast<int32_t>(count - i < 4 ? count - i : 4);
    a = op.TakeFirst(a, simd::LoadPartial(from + i, left), left);
  }
  v128_t all = op.Join(op.Join(a, c), op.Join(b, d));
  all = op.Join(all, wasm_i32x4_shuffle(all, all, 2, 3, 0, 1));
  return op.Join(all, wasm_i32x4_shuffle(all, all, 1, 0, 3, 2));
}

template <typename Op>
RQ_INLINE void Columns(const Op& op, const float* from, float* out, size_t count, size_t inner) {
  size_t i = 0;
  for (; i + kLanes <= inner; i += kLanes) {
    v128_t a = op.Start();
    v128_t b = a, c = a, d = a;
    const float* at = from + i;
    for (size_t row = 0; row < count; ++row, at += inner) {
      a = op.Take(a, wasm_v128_load(at));
      b = op.Take(b, wasm_v128_load(at + 4));
      c = op.Take(c, wasm_v128_load(at + 8));
      d = op.Take(d, wasm_v128_load(at + 12));
    }
    wasm_v128_store(out + i, op.Result(a));
    wasm_v128_store(out + i + 4, op.Result(b));
    wasm_v128_store(out + i + 8, op.Result(c));
    wasm_v128_store(out + i + 12, op.Result(d));
  }
  for (; i < inner; i += 4) {
    const int32_t left = static_cast<int32_t>(inner - i < 4 ? inner - i : 4);
    v128_t a = op.Start();
    const float* at = from + i;
    for (size_t row = 0; row < count; ++row, at += inner) {
      a = op.Take(a, simd::LoadPartial(at, left));
    }
    simd::StorePartial(out + i, op.Result(a), left);
  }
}

template <typename Op>
RQ_INLINE void Run(const ReduceF32Params* p) {
  const Op op(p);
  for (size_t o = 0; o < p->outer; ++o) {
    const float* from = p->in + o * p->count * p->inner;
    float* out = p->out + o * p->inner;
    if (p->inner == 1) {
      simd::StorePartial(out, op.Result(Row(op, from, p->count)), 1);
    } else {
      Columns(op, from, out, p->count, p->inner);
    }
  }
}

}  // namespace
}  // namespace requant

using namespace requant;

void rq_reduce_f32(const ReduceF32Params* p) {
  if (p->op == ReduceF32Op::kMax || p->op == ReduceF32Op::kMin) {
    Run<Extreme>(p);
  } else {
    Run<Sum>(p);
  }
}
