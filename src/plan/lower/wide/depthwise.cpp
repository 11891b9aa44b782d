// Lowers QLinearConv16 of one input channel to each output channel, on 16-bit codes: pairs of taps
// by i32x4.dot_i16x8. Others are divided into products of bytes (ops/quantized/wide_rewrite.cpp).
//
// Unsigned codes are read as x - 2^15, which moves the zero point alike. Padding has the code of
// the zero point, so that every window has the same sum of weights:
//   sum (x - z) w = sum x w - z sum w,  and -z sum w + bias is one number for each channel.
#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/archive.h"
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/convolution/window.h"
#include "plan/lower/elementwise/epilogue.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "plan/lower/wide/codes.h"
#include "plan/lower/wide/window.h"

namespace requant {
namespace {

class WideDepthwiseStep : public StepOf<StepKind::kWideDepthwise> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(geometry, is_signed, kind, to, padding, weights, bias, multipliers, floats, lo,
                   hi);
  }
  void Run(const RunContext& context) const override {
    const auto* input = context.Read<uint16_t>(inputs[0]);
    auto* out = context.Write<uint8_t>(outputs[0]);
    const auto channels = static_cast<size_t>(geometry.out_c);
    const size_t pairs = Pairs();
    const size_t pixel_bytes = channels * (floats ? 4 : wide::BytesOf(kind));
    std::vector<const uint16_t*> tail(2 * pairs);
    std::vector<uint16_t> copy(2 * pairs * 8);
    wide::ForEachPixel(geometry, input, padding.data(),
                       [&](size_t pixel, const uint16_t* const* taps, size_t) {
                         uint8_t* to_pixel = out + pixel * pixel_bytes;
                         size_t c = 0;
                         for (; c + 8 <= channels; c += 8) Block(taps, c, c, 8, to_pixel);
                         if (c == channels) return;
                         // The last channels of an image may be the last of the memory.
                         const size_t taps_count = TapCount();
                         for (size_t t = 0; t < taps_count; ++t) {
                           uint16_t* to_tap = copy.data() + 8 * t;
                           std::copy_n(taps[t] + c, channels - c, to_tap);
                           tail[t] = to_tap;
                         }
                         Block(tail.data(), 0, c, channels - c, to_pixel);
                       });
  }

  size_t TapCount() const {
    return static_cast<size_t>(geometry.kernel_h) * static_cast<size_t>(geometry.kernel_w);
  }
  size_t Pairs() const { return (TapCount() + 1) / 2; }

  ConvGeometry geometry;
  bool is_signed = true;
  wide::Kind kind = wide::Kind::kInt16;
  WideOutput to;
  std::vector<uint16_t> padding;  // codes of the zero point, for all channels
  std::vector<int16_t> weights;   // [block of 8 channels][pair of taps][8][2]
  std::vector<int32_t> bias;      // for all channels, padded as the weights
  std::vector<double> multipliers;
  bool floats = false;
  float lo = 0, hi = 0;

 private:
  /// Computes `count` channels from `c` on; the data of channel c lies at taps[i][at].
  void Block(const uint16_t* const* taps, size_t at, size_t c, size_t count,
             uint8_t* to_pixel) const {
    const v128_t flip = wasm_i16x8_splat(is_signed ? 0 : INT16_MIN);
    const size_t taps_count = TapCount(), pairs = Pairs();
    const int16_t* w = weights.data() + c / 8 * pairs * 16;
    v128_t low = wasm_v128_load(bias.data() + c), high = wasm_v128_load(bias.data() + c + 4);
    for (size_t pair = 0; pair < pairs; ++pair, w += 16) {
      const size_t second = 2 * pair + 1 < taps_count ? 2 * pair + 1 : 2 * pair;
      const v128_t a = wasm_v128_xor(wasm_v128_load(taps[2 * pair] + at), flip);
      const v128_t b = wasm_v128_xor(wasm_v128_load(taps[second] + at), flip);
      const v128_t first = wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
      const v128_t last = wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
      low = wasm_i32x4_add(low, wasm_i32x4_dot_i16x8(first, wasm_v128_load(w)));
      high = wasm_i32x4_add(high, wasm_i32x4_dot_i16x8(last, wasm_v128_load(w + 8)));
    }
    const double* by = multipliers.data() + c;
    const wide::Four x =
        wide::ToDoubles(low) * wide::Four{wasm_v128_load(by), wasm_v128_load(by + 2)};
    const wide::Four y =
        wide::ToDoubles(high) * wide::Four{wasm_v128_load(by + 4), wasm_v128_load(by + 6)};
    if (!floats) {
      const wide::Rounder round(to);
      wide::Store(to_pixel + c * wide::BytesOf(kind), kind, count, {round(x), round(y)});
      return;
    }
    alignas(16) float values[8];
    for (const auto& [part, place] : {std::pair{x, values}, std::pair{y, values + 4}}) {
      const v128_t real = wasm_i32x4_shuffle(wasm_f32x4_demote_f64x2_zero(part.low),
                                             wasm_f32x4_demote_f64x2_zero(part.high), 0, 1, 4, 5);
      wasm_v128_store(place, wasm_f32x4_pmin(wasm_f32x4_pmax(real, wasm_f32x4_splat(lo)),
                                             wasm_f32x4_splat(hi)));
    }
    std::copy_n(values, count, reinterpret_cast<float*>(to_pixel) + c);
  }
};

}  // namespace

bool LowerWideConv(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Tensor* weights = node.constant(3);
  const Tensor* bias = node.constant(8);
  const auto qx = ReadQuant(node, 1, 2);
  const auto qw = ReadWeightQuant(node);
  const bool quantized = node.input(6) != nullptr;
  const auto qy = quantized ? ReadQuant(node, 6, 7) : qx;
  if (weights == nullptr || !IsByte(weights->dtype()) || !IsWide(x->type.dtype) || !qx || !qw ||
      !qy || (node.input(8) && !bias) || qx->scales.size() != 1 || qy->scales.size() != 1) {
    return false;
  }
  const Shape& shape = weights->shape();
  const auto geometry = GeometryOf(node, x->type.StaticShape(), node.outputs[0]->type.StaticShape(),
                                   Shape(shape.begin() + 2, shape.end()));
  if (!geometry || !IsDepthwise(*geometry)) return false;
  const auto per_channel = Expand(*qw, geometry->out_c);
  if (!per_channel) return false;
  const bool is_signed = x->type.dtype == DType::kInt16;
  const int64_t zero = int64_t{qx->zero_points[0]} - (is_signed ? 0 : 32768);
  const auto channels = static_cast<size_t>(geometry->out_c);
  const auto taps =
      static_cast<size_t>(geometry->kernel_h) * static_cast<size_t>(geometry->kernel_w);
  const size_t pairs = (taps + 1) / 2, padded = (channels + 7) / 8 * 8;
  std::vector<int16_t> packed(padded * pairs * 2, 0);
  std::vector<int32_t> addends(padded, 0);
  std::vector<double> multipliers(padded, 0);
  for (size_t c = 0; c < channels; ++c) {
    int64_t sum = 0, magnitude = 0;
    for (size_t t = 0; t < taps; ++t) {
      const int64_t w =
          weights->AsInt64(static_cast<int64_t>(c * taps + t)) - per_channel->zero_points[c];
      sum += w;
      magnitude += std::abs(w);
      packed[(c / 8 * pairs + t / 2) * 16 + c % 8 * 2 + t % 2] = static_cast<int16_t>(w);
    }
    const int64_t addend =
        (bias ? bias->AsInt64(bias->count() == 1 ? 0 : static_cast<int64_t>(c)) : 0) - zero * sum;
    // Every sum of some of the products fits int32.
    if (magnitude * 32768 + std::abs(addend) > std::numeric_limits<int32_t>::max()) return false;
    addends[c] = static_cast<int32_t>(addend);
    multipliers[c] =
        WideMultiplier(qx->scales[0], per_channel->scales[c], quantized ? qy->scales[0] : 1);
  }
  const int input = builder.In(x, Layout::kChannelsLast);
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  const int output = builder.Out(epilogue.output, Layout::kChannelsLast);
  auto& step = builder.Add<WideDepthwiseStep>(node, "wide_depthwise", {input}, {output});
  step.op = epilogue.op;
  step.geometry = *geometry;
  step.is_signed = is_signed;
  step.floats = !quantized;
  step.lo = static_cast<float>(epilogue.clamp.lo);
  step.hi = static_cast<float>(epilogue.clamp.hi);
  const DType dtype = node.outputs[0]->type.dtype;
  if (quantized) {
    step.kind = wide::KindOf(dtype);
    step.to = wide::Clamped(qy->zero_points[0], dtype, epilogue.clamp.lo, epilogue.clamp.hi);
    if (IsByte(dtype)) builder.SetRange(epilogue.output, {step.to.lo, step.to.hi});
  }
  step.padding.assign(padded, static_cast<uint16_t>(qx->zero_points[0]));
  step.weights = std::move(packed);
  step.bias = std::move(addends);
  step.multipliers = std::move(multipliers);
  step.macs = int64_t{ConvRows(*geometry)} * geometry->out_c * static_cast<int64_t>(taps);
  return true;
}

RQ_STEP(WideDepthwise, WideDepthwiseStep)

}  // namespace requant
