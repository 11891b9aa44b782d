// The normalization of a batch's channels: sums of rows, and functions of every element of a row.
#include "base/simd.h"
#include "gradient/gemm.h"
#include "gradient/kernel.h"

namespace requant::gradient {
namespace {

constexpr Size kPart = 16;  // floats that a row's sums take at a time

/// Four vectors of sums, which do not wait for each other.
struct Sums {
  v128_t s0, s1, s2, s3;
  RQ_MEMBER Sums()
      : s0(wasm_f32x4_splat(0)),
        s1(wasm_f32x4_splat(0)),
        s2(wasm_f32x4_splat(0)),
        s3(wasm_f32x4_splat(0)) {}
  RQ_MEMBER float Total() const {
    const v128_t four = wasm_f32x4_add(wasm_f32x4_add(s0, s1), wasm_f32x4_add(s2, s3));
    return (wasm_f32x4_extract_lane(four, 0) + wasm_f32x4_extract_lane(four, 1)) +
           (wasm_f32x4_extract_lane(four, 2) + wasm_f32x4_extract_lane(four, 3));
  }
};

RQ_INLINE v128_t Add(v128_t a, v128_t b) { return wasm_f32x4_add(a, b); }
RQ_INLINE v128_t Sub(v128_t a, v128_t b) { return wasm_f32x4_sub(a, b); }
RQ_INLINE v128_t Mul(v128_t a, v128_t b) { return wasm_f32x4_mul(a, b); }

RQ_INLINE float SumOf(const float* x, Size count) {
  Sums sums;
  Size i = 0;
  for (; i + kPart <= count; i += kPart) {
    sums.s0 = Add(sums.s0, wasm_v128_load(x + i));
    sums.s1 = Add(sums.s1, wasm_v128_load(x + i + 4));
    sums.s2 = Add(sums.s2, wasm_v128_load(x + i + 8));
    sums.s3 = Add(sums.s3, wasm_v128_load(x + i + 12));
  }
  float sum = sums.Total();
  for (; i < count; ++i) sum += x[i];
  return sum;
}

RQ_INLINE v128_t SquareOf(const float* x, v128_t mean) {
  const v128_t difference = Sub(wasm_v128_load(x), mean);
  return Mul(difference, difference);
}

RQ_INLINE float SquaresOf(const float* x, Size count, float mean) {
  const v128_t middle = wasm_f32x4_splat(mean);
  Sums sums;
  Size i = 0;
  for (; i + kPart <= count; i += kPart) {
    sums.s0 = Add(sums.s0, SquareOf(x + i, middle));
    sums.s1 = Add(sums.s1, SquareOf(x + i + 4, middle));
    sums.s2 = Add(sums.s2, SquareOf(x + i + 8, middle));
    sums.s3 = Add(sums.s3, SquareOf(x + i + 12, middle));
  }
  float sum = sums.Total();
  for (; i < count; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

/// Writes the sum of dy and that of dy * (x - mean).
RQ_INLINE void ProductsOf(const float* x, const float* dy, Size count, float mean, float* sum,
                          float* product) {
  const v128_t middle = wasm_f32x4_splat(mean);
  Sums sums, products;
  Size i = 0;
  for (; i + kPart <= count; i += kPart) {
    const auto add = [&](Size at, v128_t& to, v128_t& product_to) {
      const v128_t gradient = wasm_v128_load(dy + at);
      to = Add(to, gradient);
      product_to = Add(product_to, Mul(gradient, Sub(wasm_v128_load(x + at), middle)));
    };
    add(i, sums.s0, products.s0);
    add(i + 4, sums.s1, products.s1);
    add(i + 8, sums.s2, products.s2);
    add(i + 12, sums.s3, products.s3);
  }
  *sum = sums.Total();
  *product = products.Total();
  for (; i < count; ++i) {
    *sum += dy[i];
    *product += dy[i] * (x[i] - mean);
  }
}

/// Calls each(sample, row, channel, offset of the row) for all rows of the samples in [begin, end).
template <typename Each>
RQ_INLINE void ForRows(const ChannelParams& p, const Each& each) {
  for (Size at = static_cast<Size>(p.begin); at < static_cast<Size>(p.end); ++at) {
    const ChannelSample& sample = p.samples[at];
    Size channel = 0;
    for (Size row = 0; row < static_cast<Size>(sample.rows); ++row) {
      each(sample, row, channel, row * static_cast<Size>(sample.inner));
      if (++channel == static_cast<Size>(p.channels)) channel = 0;
    }
  }
}

RQ_INLINE void Moments(const ChannelParams& p) {
  ForRows(p, [](const ChannelSample& s, Size row, Size, Size offset) {
    const Size count = static_cast<Size>(s.inner);
    const float sum = SumOf(s.x + offset, count);
    s.sums[row] = sum;
    s.products[row] = SquaresOf(s.x + offset, count, sum / static_cast<float>(count));
  });
}

RQ_INLINE void Products(const ChannelParams& p) {
  ForRows(p, [&p](const ChannelSample& s, Size row, Size channel, Size offset) {
    ProductsOf(s.x + offset, s.dy + offset, static_cast<Size>(s.inner), p.mean[channel],
               s.sums + row, s.products + row);
  });
}

RQ_INLINE void Outputs(const ChannelParams& p) {
  ForRows(p, [&p](const ChannelSample& s, Size, Size channel, Size offset) {
    const float mean = p.mean[channel], factor = p.factor[channel], shift = p.shift[channel];
    const v128_t means = wasm_f32x4_splat(mean), factors = wasm_f32x4_splat(factor);
    const v128_t shifts = wasm_f32x4_splat(shift);
    const float* x = s.x + offset;
    float* y = s.y + offset;
    const Size count = static_cast<Size>(s.inner);
    Size i = 0;
    for (; i + 4 <= count; i += 4) {
      wasm_v128_store(y + i, Add(Mul(Sub(wasm_v128_load(x + i), means), factors), shifts));
    }
    for (; i < count; ++i) y[i] = (x[i] - mean) * factor + shift;
  });
}

RQ_INLINE void Gradient(const ChannelParams& p) {
  ForRows(p, [&p](const ChannelSample& s, Size, Size channel, Size offset) {
    const float mean = p.mean[channel], factor = p.factor[channel], shift = p.shift[channel];
    const float slope = p.slope[channel];
    const v128_t means = wasm_f32x4_splat(mean), factors = wasm_f32x4_splat(factor);
    const v128_t shifts = wasm_f32x4_splat(shift), slopes = wasm_f32x4_splat(slope);
    const float *x = s.x + offset, *dy = s.dy + offset;
    float* y = s.y + offset;
    const Size count = static_cast<Size>(s.inner);
    Size i = 0;
    for (; i + 4 <= count; i += 4) {
      const v128_t off = Mul(Sub(wasm_v128_load(x + i), means), slopes);
      wasm_v128_store(y + i, Mul(factors, Sub(Sub(wasm_v128_load(dy + i), shifts), off)));
    }
    for (; i < count; ++i) y[i] = factor * (dy[i] - shift - (x[i] - mean) * slope);
  });
}

}  // namespace

extern "C" void rq_channels(const ChannelParams* p) {
  switch (p->function) {
    case ChannelFunction::kMoments:
      return Moments(*p);
    case ChannelFunction::kProducts:
      return Products(*p);
    case ChannelFunction::kOutputs:
      return Outputs(*p);
    case ChannelFunction::kGradient:
      return Gradient(*p);
  }
}

}  // namespace requant::gradient
