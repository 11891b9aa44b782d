// Lowers QLinearConv16 of one input channel to each output channel, on 16-bit codes, by the loops
// of the 8-bit kernel on pairs (kernels/dwconv/pairs.h). Others are divided into products of bytes
// (ops/quantized/wide_rewrite.cpp).
//
// Unsigned codes are read as x - 2^15, which moves the zero point alike. Padding has the code of
// the zero point, so that every window has the same sum of weights:
//   sum (x - z) w = sum x w - z sum w,  and -z sum w + bias is one number for each channel.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked_math.h"
#include "kernels/dwconv/pack.h"
#include "kernels/dwconv/pairs.h"
#include "kernels/dwconv/ring.h"
#include "plan/archive.h"
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/convolution/window.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "plan/lower/wide/combine.h"

namespace requant {
namespace {

/// Interleaves two codes of each of eight channels.
RQ_INLINE void StorePairs(v128_t a, v128_t b, int16_t* out) {
  wasm_v128_store(out, wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11));
  wasm_v128_store(out + 8, wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15));
}

class WideDepthwiseStep : public StepOf<StepKind::kWideDepthwise> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(params, is_signed, padding);
    archive.Blob(params.weights);
    combiner.Fields(archive);
  }
  void Run(const RunContext& context) const override {
    const ConvGeometry& g = params.geometry;
    const auto* input = context.Read<uint16_t>(inputs[0]);
    auto* out = context.Write<uint8_t>(outputs[0]);
    auto* low = outputs.size() > 1 ? context.Write<uint8_t>(outputs[1]) : nullptr;
    const int32_t slots = dwconv::OddPairs(g.kernel_h);
    const int32_t group = dwconv::ChannelGroup(g, slots);
    const ptrdiff_t slot_elements = static_cast<ptrdiff_t>(dwconv::PaddedWidth(g)) * group * 2;
    auto* acc = context.Write<int32_t>(workspace);
    auto* ring = reinterpret_cast<int16_t*>(acc + dwconv::kStripElements);
    const ptrdiff_t quad_bytes = dwconv::Q8QuadBytes(g.kernel_h, g.kernel_w);
    const auto* weights = static_cast<const uint8_t*>(params.weights);
    const size_t element = combiner.ElementBytes();
    dwconv::WalkRing<2>(
        &params, group, slots, acc,
        [&](int32_t image, int32_t row, int32_t step, int32_t channel, int32_t n, int32_t slot) {
          const uint16_t* first =
              input + static_cast<ptrdiff_t>(image) * g.in_h * g.in_w * g.input_stride + channel;
          Convert(first, row, row + step, n, group, ring + slot * slot_elements);
        },
        [&](int32_t channel, int32_t n, int32_t slot, int32_t odd, int32_t ox, int32_t count) {
          dwconv::MultiplyPairs(g, ring, slot_elements, slots, slot, odd, group, n,
                                weights + channel / dwconv::kQuad * quad_bytes, ox, count, acc);
        },
        [&](const dwconv::Results& results) {
          const size_t at = static_cast<size_t>(results.pixel) * combiner.channels;
          combiner.Run({nullptr, results.acc, static_cast<size_t>(results.group)},
                       static_cast<size_t>(results.count), static_cast<size_t>(results.c),
                       static_cast<size_t>(results.n), out + at * element,
                       low ? low + at : nullptr);
        });
  }

  DwConvQ8Params params;  // its geometry, rows and weights
  bool is_signed = true;
  int16_t padding = 0;  // the zero point as it is read
  wide::Combiner combiner;

 private:
  /// Writes one pair of input rows, n channels from `image` on, to `out`, `group` channels per
  /// column. Columns and rows outside of the image have the padding code.
  void Convert(const uint16_t* image, int32_t row_a, int32_t row_b, int32_t n, int32_t group,
               int16_t* out) const {
    const ConvGeometry& g = params.geometry;
    const int32_t width = dwconv::PaddedWidth(g);
    const ptrdiff_t column = 2 * static_cast<ptrdiff_t>(group);
    const ptrdiff_t line = static_cast<ptrdiff_t>(g.in_w) * g.input_stride;
    const bool has_a = row_a >= 0 && row_a < g.in_h, has_b = row_b >= 0 && row_b < g.in_h;
    int32_t first = std::min(g.pad_left, width), last = std::min(g.pad_left + g.in_w, width);
    if (!has_a && !has_b) first = last = width;
    const v128_t fill = wasm_i16x8_splat(padding);
    for (ptrdiff_t i = 0; i < first * column; i += 8) wasm_v128_store(out + i, fill);
    for (ptrdiff_t i = last * column; i < width * column; i += 8) wasm_v128_store(out + i, fill);
    if (first >= last) return;
    // A row outside of the image reads the other one instead.
    const uint16_t* a = image + (has_a ? row_a : row_b) * line;
    const uint16_t* b = image + (has_b ? row_b : row_a) * line;
    const int16_t flip = is_signed ? 0 : INT16_MIN;
    const v128_t flips = wasm_i16x8_splat(flip);
    const v128_t keep_a = wasm_i16x8_splat(has_a ? -1 : 0);
    const v128_t keep_b = wasm_i16x8_splat(has_b ? -1 : 0);
    out += first * column;
    for (int32_t x = first; x < last; ++x, a += g.input_stride, b += g.input_stride) {
      for (int32_t c = 0; c < n && n >= 8;) {
        c = std::min(c, n - 8);  // the last eight overlap those before
        const v128_t of_a = wasm_v128_xor(wasm_v128_load(a + c), flips);
        const v128_t of_b = wasm_v128_xor(wasm_v128_load(b + c), flips);
        StorePairs(wasm_v128_bitselect(of_a, fill, keep_a), wasm_v128_bitselect(of_b, fill, keep_b),
                   out + 2 * c);
        c += 8;
      }
      for (int32_t c = 0; c < n && n < 8; ++c) {
        out[2 * c] = has_a ? static_cast<int16_t>(a[c] ^ flip) : padding;
        out[2 * c + 1] = has_b ? static_cast<int16_t>(b[c] ^ flip) : padding;
      }
      out += column;
    }
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
  std::vector<int32_t> addends(channels, 0);
  std::vector<double> multipliers(channels, 0);
  int64_t bound = 0;
  for (size_t c = 0; c < channels; ++c) {
    int64_t sum = 0, magnitude = 0;
    for (size_t t = 0; t < taps; ++t) {
      const int64_t w =
          weights->AsInt64(static_cast<int64_t>(c * taps + t)) - per_channel->zero_points[c];
      sum += w;
      magnitude += std::abs(w);
    }
    const int64_t addend =
        (bias ? bias->AsInt64(bias->count() == 1 ? 0 : static_cast<int64_t>(c)) : 0) - zero * sum;
    // Every sum of some of the products fits int32.
    bound = std::max(bound, magnitude * 32768 + std::abs(addend));
    if (bound > std::numeric_limits<int32_t>::max()) return false;
    addends[c] = static_cast<int32_t>(addend);
    multipliers[c] =
        WideMultiplier(qx->scales[0], per_channel->scales[c], quantized ? qy->scales[0] : 1);
  }
  wide::Combiner combiner;
  combiner.channels = channels;
  combiner.floats = !quantized;
  combiner.to.zero_point = quantized ? qy->zero_points[0] : 0;
  // The loops begin with the addends, so that only the multipliers are left.
  combiner.Set(std::move(multipliers), {}, static_cast<double>(bound));
  const std::vector<int32_t> zero_points = NonZero(per_channel->zero_points);
  const int64_t window = static_cast<int64_t>(taps);
  const DwConvQ8Weights packing{
      {geometry->out_c, geometry->kernel_h, geometry->kernel_w, window, geometry->kernel_w, 1},
      weights->raw(),
      weights->dtype() == DType::kInt8,
      zero_points.empty() ? nullptr : zero_points.data(),
      addends.data()};
  uint8_t* packed = builder.Packed(dwconv::VectorQ8PackedSize(packing));
  dwconv::VectorQ8Pack(packing, packed);
  const int input = builder.In(x, Layout::kChannelsLast);
  const wide::CombinedOutput output =
      wide::TakeOutput(builder, node, node, Layout::kChannelsLast, combiner);
  auto& step = builder.Add<WideDepthwiseStep>(node, "wide_depthwise", {input}, output.slots);
  step.op = output.op;
  step.params.geometry = *geometry;
  step.params.row_end = ConvRows(*geometry);
  step.params.weights = packed;
  step.is_signed = is_signed;
  step.padding = static_cast<int16_t>(zero);
  step.combiner = std::move(combiner);
  step.workspace = builder.Workspace(dwconv::VectorQ8Workspace(*geometry));
  step.macs = int64_t{ConvRows(*geometry)} * geometry->out_c * window;
  return true;
}

RQ_STEP(WideDepthwise, WideDepthwiseStep)

}  // namespace requant
