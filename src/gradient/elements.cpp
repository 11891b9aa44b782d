// Functions of single elements of a batch, forward and backward, and rounding to a grid.
#include "base/simd.h"
#include "gradient/drawn.h"
#include "gradient/gemm.h"
#include "gradient/kernel.h"

namespace requant::gradient {
namespace {

/// Adding 1.5 * 2^23 and subtracting it rounds floats below 2^22 half to even.
constexpr float kMagic = 12582912.0F;

/// Calls vector(sample, i) for four elements at a time, and single(sample, i) for the others.
template <typename Vector, typename Single>
RQ_INLINE void ForElements(const ElementParams& p, const Vector& vector, const Single& single) {
  for (Size at = static_cast<Size>(p.begin); at < static_cast<Size>(p.end); ++at) {
    const ElementSample& sample = p.samples[at];
    const Size count = static_cast<Size>(sample.count);
    Size i = 0;
    for (; i + 4 <= count; i += 4) wasm_v128_store(sample.y + i, vector(sample, i));
    for (; i < count; ++i) sample.y[i] = single(sample, i);
  }
}

RQ_INLINE v128_t Load(const float* from, Size i) { return wasm_v128_load(from + i); }
constexpr float kLargest = __FLT_MAX__;
/// `x` where it is finite, else 0.
RQ_INLINE v128_t Finite(v128_t x) {
  return wasm_v128_and(x, wasm_f32x4_le(wasm_f32x4_abs(x), wasm_f32x4_splat(kLargest)));
}
RQ_INLINE float Finite(float x) { return x >= -kLargest && x <= kLargest ? x : 0; }
RQ_INLINE float Clamp(float x, float low, float high) {
  const float above = x < low ? low : x;
  return high < above ? high : above;
}

/// All ones or 0 for each of four elements, by the bits of Drawn().
RQ_INLINE v128_t DrawnFour(uint32_t mix, v128_t i) {
  v128_t x = wasm_i32x4_add(wasm_i32x4_splat(static_cast<int32_t>(mix)),
                            wasm_i32x4_mul(i, wasm_i32x4_splat(static_cast<int32_t>(2654435761U))));
  x = wasm_v128_xor(x, wasm_u32x4_shr(x, 15));
  x = wasm_i32x4_mul(x, wasm_i32x4_splat(static_cast<int32_t>(2246822519U)));
  return wasm_i32x4_shr(x, 31);
}

/// The gradient of one sample's rounding (see kernel.h). Values that round to a code count as
/// inside, as in PyTorch: the range itself may end behind the last code.
template <bool kDrops>
RQ_INLINE double GradientOfGrid(const ElementParams& p, const ElementSample& s) {
  const v128_t scales = wasm_f32x4_splat(p.scale), magic = wasm_f32x4_splat(kMagic);
  const v128_t low = wasm_f32x4_splat(p.low), high = wasm_f32x4_splat(p.high);
  const v128_t least = wasm_f32x4_splat(p.low - 0.5F), most = wasm_f32x4_splat(p.high + 0.5F);
  v128_t even = wasm_f64x2_splat(0), odd = even;
  v128_t index = wasm_i32x4_make(0, 1, 2, 3);
  const Size count = static_cast<Size>(s.count);
  Size i = 0;
  for (; i + 4 <= count; i += 4) {
    const v128_t v = wasm_f32x4_div(Load(s.a, i), scales), gradient = Load(s.b, i);
    v128_t inside = wasm_v128_and(wasm_f32x4_ge(v, least), wasm_f32x4_le(v, most));
    v128_t dropped = inside;
    if constexpr (kDrops) {
      dropped = DrawnFour(p.mix, index);
      index = wasm_i32x4_add(index, wasm_i32x4_splat(4));
    }
    const v128_t q = wasm_f32x4_sub(wasm_f32x4_add(simd::ClampF32(v, low, high), magic), magic);
    v128_t step = wasm_f32x4_mul(wasm_v128_bitselect(wasm_f32x4_sub(q, v), q, inside), gradient);
    if constexpr (kDrops) step = wasm_v128_andnot(step, dropped);
    even = wasm_f64x2_add(even, wasm_f64x2_promote_low_f32x4(step));
    odd = wasm_f64x2_add(odd,
                         wasm_f64x2_promote_low_f32x4(wasm_i32x4_shuffle(step, step, 2, 3, 2, 3)));
    if constexpr (kDrops) inside = wasm_v128_or(inside, dropped);
    wasm_v128_store(s.y + i, wasm_v128_and(gradient, inside));
  }
  const v128_t two = wasm_f64x2_add(even, odd);
  double sum = wasm_f64x2_extract_lane(two, 0) + wasm_f64x2_extract_lane(two, 1);
  for (; i < count; ++i) {
    const float v = s.a[i] / p.scale, gradient = s.b[i];
    const bool inside = v >= p.low - 0.5F && v <= p.high + 0.5F;
    const bool dropped = kDrops && Drawn(p.mix, static_cast<uint32_t>(i)) >> 31 != 0;
    const float q = (Clamp(v, p.low, p.high) + kMagic) - kMagic;
    if (!dropped) sum += static_cast<double>((inside ? q - v : q) * gradient);
    s.y[i] = dropped || inside ? gradient : 0;
  }
  return sum;
}

template <bool kDrops>
RQ_INLINE void GradientsOfGrid(const ElementParams& p) {
  for (Size at = static_cast<Size>(p.begin); at < static_cast<Size>(p.end); ++at) {
    p.samples[at].sum = GradientOfGrid<kDrops>(p, p.samples[at]);
  }
}

RQ_INLINE void Clip(const ElementParams& p) {
  const v128_t low = wasm_f32x4_splat(p.low), high = wasm_f32x4_splat(p.high);
  ForElements(
      p, [=](const ElementSample& s, Size i) { return simd::ClampF32(Load(s.a, i), low, high); },
      [&p](const ElementSample& s, Size i) { return Clamp(s.a[i], p.low, p.high); });
}

RQ_INLINE void AddElements(const ElementParams& p) {
  ForElements(
      p, [](const ElementSample& s, Size i) { return wasm_f32x4_add(Load(s.a, i), Load(s.b, i)); },
      [](const ElementSample& s, Size i) { return s.a[i] + s.b[i]; });
}

RQ_INLINE void TakeFinite(const ElementParams& p) {
  ForElements(
      p, [](const ElementSample& s, Size i) { return Finite(Load(s.a, i)); },
      [](const ElementSample& s, Size i) { return Finite(s.a[i]); });
}

RQ_INLINE void ClipGradient(const ElementParams& p) {
  ForElements(
      p,
      [](const ElementSample& s, Size i) {
        return wasm_v128_and(Finite(Load(s.c, i)), wasm_f32x4_eq(Load(s.a, i), Load(s.b, i)));
      },
      [](const ElementSample& s, Size i) { return s.a[i] == s.b[i] ? Finite(s.c[i]) : 0; });
}

RQ_INLINE void ReluGradient(const ElementParams& p) {
  const v128_t zero = wasm_f32x4_splat(0);
  ForElements(
      p,
      [=](const ElementSample& s, Size i) {
        return wasm_v128_and(Finite(Load(s.b, i)), wasm_f32x4_gt(Load(s.a, i), zero));
      },
      [](const ElementSample& s, Size i) { return s.a[i] > 0 ? Finite(s.b[i]) : 0; });
}

RQ_INLINE void RoundToGrid(const ElementParams& p) {
  const v128_t scale = wasm_f32x4_splat(p.scale), magic = wasm_f32x4_splat(kMagic);
  const v128_t low = wasm_f32x4_splat(p.low), high = wasm_f32x4_splat(p.high);
  ForElements(
      p,
      [=](const ElementSample& s, Size i) {
        const v128_t v = simd::ClampF32(wasm_f32x4_div(Load(s.a, i), scale), low, high);
        return wasm_f32x4_mul(wasm_f32x4_sub(wasm_f32x4_add(v, magic), magic), scale);
      },
      [&p](const ElementSample& s, Size i) {
        return ((Clamp(s.a[i] / p.scale, p.low, p.high) + kMagic) - kMagic) * p.scale;
      });
}

RQ_INLINE void GridGradient(const ElementParams& p) {
  if (p.drops != 0) return GradientsOfGrid<true>(p);
  GradientsOfGrid<false>(p);
}

}  // namespace

extern "C" void rq_elements(const ElementParams* p) {
  switch (p->function) {
    case ElementFunction::kAdd:
      return AddElements(*p);
    case ElementFunction::kClip:
      return Clip(*p);
    case ElementFunction::kFinite:
      return TakeFinite(*p);
    case ElementFunction::kClipGradient:
      return ClipGradient(*p);
    case ElementFunction::kReluGradient:
      return ReluGradient(*p);
    case ElementFunction::kRoundToGrid:
      return RoundToGrid(*p);
    case ElementFunction::kGridGradient:
      return GridGradient(*p);
  }
}

}  // namespace requant::gradient
