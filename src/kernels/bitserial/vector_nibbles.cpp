// Kernels that read and write tensors of two codes to a byte (nibbles.h).
#include "kernels/bitserial/nibbles_simd.h"
#include "kernels/conv/gather/gather.h"
#include "kernels/conv/gather/gather_bytes.h"
#include "kernels/elementwise/kernel.h"
#include "kernels/requantize/kernel.h"

namespace requant {
namespace {

using bitserial::NibbleBytes;
using bitserial::PackCodes;
using bitserial::UnpackLow;

/// Unpacks n elements, a multiple of 8, and adds `add` to each.
RQ_INLINE void UnpackCodes(const uint8_t* in, ptrdiff_t n, v128_t add, uint8_t* out) {
  const v128_t mask = simd::LoopConstant(int8_t{15}, static_cast<size_t>(n));
  ptrdiff_t i = 0;
  for (; i + 32 <= n; i += 32, in += 16) {
    const v128_t v = wasm_v128_load(in);
    const v128_t low = wasm_i8x16_add(wasm_v128_and(v, mask), add);
    const v128_t high = wasm_i8x16_add(wasm_v128_and(wasm_u16x8_shr(v, 4), mask), add);
    wasm_v128_store(out + i, wasm_i32x4_shuffle(low, high, 0, 4, 1, 5));
    wasm_v128_store(out + i + 16, wasm_i32x4_shuffle(low, high, 2, 6, 3, 7));
  }
  for (; i < n; i += 8, in += 4) {
    const v128_t codes = wasm_i8x16_add(UnpackLow(wasm_v128_load32_zero(in)), add);
    wasm_v128_store64_lane(out + i, codes, 0);
  }
}

/// Turns packed codes into bytes for GatherRows. Runs are whole channels of a group.
struct FromNibbles {
  using In = uint8_t;
  using Out = uint8_t;
  static constexpr bool kPacked = true;
  int32_t zero_point;
  int32_t add;

  RQ_MEMBER void Copy(const uint8_t* in, int32_t n, uint8_t* out) const {
    UnpackCodes(in, n, wasm_i8x16_splat(static_cast<int8_t>(add)), out);
  }
  RQ_MEMBER void Fill(int32_t n, uint8_t* out) const {
    const v128_t zero = wasm_i8x16_splat(static_cast<int8_t>(zero_point));
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) wasm_v128_store(out + i, zero);
    for (; i < n; ++i) out[i] = static_cast<uint8_t>(zero_point);
  }
};

/// Adds the residual's channels to bytes[count][8] as p->addition says. Behind the bytes is room
/// for as many more.
RQ_INLINE void AddEight(const ConvQ8Params* p, uint8_t* bytes, int32_t row, int32_t count,
                        int32_t channel) {
  uint8_t* other = bytes + (count + 1) / 2 * 16;
  const auto* residual = static_cast<const uint8_t*>(p->residual);
  const v128_t base = wasm_i8x16_splat(static_cast<int8_t>(p->residual_base));
  for (int32_t r = 0; r < count; ++r) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(row + r) * p->residual_stride + channel;
    uint8_t* to = other + r * conv::kChannelBlock;
    if (p->residual_packed != 0) {
      UnpackCodes(residual + NibbleBytes(at), conv::kChannelBlock, base, to);
    } else {
      __builtin_memcpy(to, residual + at, conv::kChannelBlock);
    }
  }
  // This part of the block is scratch memory, as in rq_conv_add_residual.
  auto* add = const_cast<QAddParams*>(&p->addition);
  add->a = p->residual_first != 0 ? other : bytes;
  add->b = p->residual_first != 0 ? bytes : other;
  add->out = bytes;
  add->rows = 1;
  add->cols = static_cast<size_t>(count) * conv::kChannelBlock;
  if (p->addition_is_float != 0) {
    rq_qadd_float(add);
  } else {
    rq_qadd_fixed(add);
  }
}

}  // namespace
}  // namespace requant

void rq_conv_gather_nibbles(const requant::ConvQ8Params* p, int32_t first_channel, int32_t row,
                            int32_t count, int32_t add, int32_t zero_point, int32_t factor,
                            void* panel, ptrdiff_t stride, int32_t* terms) {
  using namespace requant;
  uint8_t* bytes = static_cast<uint8_t*>(panel);
  const FromNibbles op{zero_point, p->input_base + add};
  conv::GatherRows(p->geometry, static_cast<const uint8_t*>(p->input), first_channel, row, count,
                   op, bytes, stride);
  if (terms != nullptr) rq_conv_sum_rows(bytes, count, stride, stride, factor, terms);
}

void rq_conv_finish_nibbles(const requant::ConvQ8Params* p, int32_t* acc, int32_t row,
                            int32_t count, int32_t channel) {
  using namespace requant;
  // The bytes overwrite the accumulators: none is written before it is read.
  uint8_t* bytes = reinterpret_cast<uint8_t*>(acc);
  rq_requantize_rows(acc, conv::kChannelBlock, count, channel, conv::kChannelBlock, &p->requantize,
                     bytes, conv::kChannelBlock, p->output_type == ConvQ8Output::kInt8);
  if (p->residual != nullptr) AddEight(p, bytes, row, count, channel);
  const int32_t stride = p->geometry.output_stride;
  uint8_t* out = static_cast<uint8_t*>(p->output);
  if (p->output_packed == 0) {
    out += static_cast<ptrdiff_t>(row) * stride + channel;
    for (int32_t r = 0; r < count; ++r, bytes += conv::kChannelBlock, out += stride) {
      __builtin_memcpy(out, bytes, conv::kChannelBlock);
    }
    return;
  }
  const ptrdiff_t step = NibbleBytes(stride);
  out += row * step + NibbleBytes(channel);
  const int32_t least = p->residual != nullptr ? p->addition.lo : p->requantize.lo;
  const v128_t base = wasm_i8x16_splat(static_cast<int8_t>(least));
  // Packs two rows at a time. Reading past the last row is allowed, since the accumulators are
  // longer than the bytes.
  for (int32_t r = 0; r < count; r += 2, bytes += 16, out += 2 * step) {
    const v128_t x = wasm_i8x16_sub(wasm_v128_load(bytes), base);
    const v128_t packed = wasm_v128_or(x, wasm_u64x2_shr(x, 28));
    wasm_v128_store32_lane(out, packed, 0);
    if (r + 1 < count) wasm_v128_store32_lane(out + step, packed, 2);
  }
}

void rq_qadd_nibbles(const requant::QAddNibblesParams* p) {
  using namespace requant;
  uint8_t* buffers = static_cast<uint8_t*>(p->workspace);
  QAddParams* call = reinterpret_cast<QAddParams*>(buffers + 3 * kNibbleChunk);
  *call = p->add;
  call->rows = 1;
  call->a_step = call->b_step = 1;
  const v128_t a_base = wasm_i8x16_splat(static_cast<int8_t>(p->a_base));
  const v128_t b_base = wasm_i8x16_splat(static_cast<int8_t>(p->b_base));
  const v128_t out_base = wasm_i8x16_splat(static_cast<int8_t>(p->add.lo));
  const uint8_t* a = static_cast<const uint8_t*>(p->a);
  const uint8_t* b = static_cast<const uint8_t*>(p->b);
  uint8_t* out = static_cast<uint8_t*>(p->out);
  ptrdiff_t left = static_cast<ptrdiff_t>(p->blocks) * kNibbleBlock;
  while (left > 0) {
    const ptrdiff_t n = left < kNibbleChunk ? left : kNibbleChunk;
    left -= n;
    call->cols = static_cast<size_t>(n);
    call->a = a;
    call->b = b;
    call->out = out;
    if (p->a_packed != 0) {
      UnpackCodes(a, n, a_base, buffers);
      call->a = buffers;
    }
    if (p->b_packed != 0) {
      UnpackCodes(b, n, b_base, buffers + kNibbleChunk);
      call->b = buffers + kNibbleChunk;
    }
    if (p->out_packed != 0) call->out = buffers + 2 * kNibbleChunk;
    if (p->is_float != 0) {
      rq_qadd_float(call);
    } else {
      rq_qadd_fixed(call);
    }
    if (p->out_packed != 0) PackCodes(buffers + 2 * kNibbleChunk, n, out_base, out);
    a += p->a_packed != 0 ? NibbleBytes(n) : n;
    b += p->b_packed != 0 ? NibbleBytes(n) : n;
    out += p->out_packed != 0 ? NibbleBytes(n) : n;
  }
}
