// Writes the sums of convolutions that are not requantized, in one pass instead of one for each of
// the operators behind them.
#include "base/simd.h"
#include "kernels/conv/blocking.h"
#include "kernels/conv/kernel.h"

using requant::conv::kChannelBlock;
namespace simd = requant::simd;

namespace {

/// Whether only scales of rows and channels, and a residual, make floats of whole blocks of sums.
RQ_INLINE bool AreScaled(const requant::ConvQ8Params* p, int32_t channels) {
  const requant::FloatSums& to = p->sums;
  return p->output_type == requant::ConvQ8Output::kFloat32 && channels == kChannelBlock &&
         to.row_scale && !to.row_zero && !to.bias && to.lo == -__builtin_inff() &&
         to.hi == __builtin_inff();
}

/// Writes whole blocks of sums times the scales of rows and channels, plus the residual.
RQ_INLINE void WriteScaled(const requant::ConvQ8Params* p, const int32_t* acc, int32_t row,
                           int32_t count, int32_t channel) {
  const requant::FloatSums& to = p->sums;
  const v128_t scale0 = wasm_v128_load(to.scale + channel);
  const v128_t scale1 = wasm_v128_load(to.scale + channel + 4);
  const float* residual = to.residual;
  if (residual) residual += static_cast<ptrdiff_t>(row) * to.residual_stride + channel;
  float* out = static_cast<float*>(p->output) +
               static_cast<ptrdiff_t>(row) * p->geometry.output_stride + channel;
  for (int32_t r = 0; r < count; ++r, acc += kChannelBlock, out += p->geometry.output_stride) {
    const v128_t row_scale = wasm_v128_load32_splat(to.row_scale + row + r);
    v128_t x0 = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_v128_load(acc)), scale0);
    v128_t x1 = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_v128_load(acc + 4)), scale1);
    x0 = wasm_f32x4_mul(x0, row_scale);
    x1 = wasm_f32x4_mul(x1, row_scale);
    if (residual) {
      x0 = wasm_f32x4_add(x0, wasm_v128_load(residual));
      x1 = wasm_f32x4_add(x1, wasm_v128_load(residual + 4));
      residual += to.residual_stride;
    }
    wasm_v128_store(out, x0);
    wasm_v128_store(out + 4, x1);
  }
}

}  // namespace

void rq_conv_write_sums(const requant::ConvQ8Params* p, const int32_t* acc, int32_t row,
                        int32_t count, int32_t channel, int32_t channels) {
  if (AreScaled(p, channels)) return WriteScaled(p, acc, row, count, channel);
  const requant::FloatSums& to = p->sums;
  const bool is_float = p->output_type == requant::ConvQ8Output::kFloat32;
  const v128_t lo = wasm_f32x4_splat(to.lo), hi = wasm_f32x4_splat(to.hi);
  for (int32_t r = 0; r < count; ++r, acc += kChannelBlock) {
    const ptrdiff_t at = row + r;
    int32_t* out = static_cast<int32_t*>(p->output) + at * p->geometry.output_stride + channel;
    const v128_t zero = wasm_i32x4_splat(to.row_zero ? to.row_zero[at] : 0);
    const v128_t row_scale = wasm_f32x4_splat(to.row_scale ? to.row_scale[at] : 1);
    for (int32_t c = 0; c < channels; c += 4) {
      v128_t sum = wasm_v128_load(acc + c);
      if (is_float) {
        if (to.row_zero) {
          const v128_t columns = wasm_v128_load(to.column_sum + channel + c);
          sum = wasm_i32x4_sub(sum, wasm_i32x4_mul(zero, columns));
        }
        sum = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum), wasm_v128_load(to.scale + channel + c));
        if (to.row_scale) sum = wasm_f32x4_mul(sum, row_scale);
        if (to.bias) sum = wasm_f32x4_add(sum, wasm_v128_load(to.bias + channel + c));
        if (to.residual) {
          const float* residual = to.residual + at * to.residual_stride + channel + c;
          sum = wasm_f32x4_add(sum, simd::LoadPartial(residual, channels - c));
        }
        // pmin(a, b) is b < a ? b : a, so a NaN stays.
        sum = wasm_f32x4_pmin(wasm_f32x4_pmax(sum, lo), hi);
      }
      simd::StorePartial(out + c, sum, channels - c);
    }
  }
}
