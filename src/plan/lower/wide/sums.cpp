// Lowers SplitBytes and CombineSums16, between which the kernels of 8 bits compute sums of products
// (ops/quantized/wide_rewrite.cpp).
#include <limits>

#include "plan/archive.h"
#include "plan/lower/elementwise/epilogue.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "plan/lower/wide/codes.h"

namespace requant {
namespace {

class SplitBytesStep : public StepOf<StepKind::kSplitBytes> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(count); }
  void Run(const RunContext& context) const override {
    const auto* from = context.Read<uint8_t>(inputs[0]);
    auto* high = context.Write<uint8_t>(outputs[0]);
    auto* low = context.Write<uint8_t>(outputs[1]);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
      const v128_t a = wasm_v128_load(from + 2 * i), b = wasm_v128_load(from + 2 * i + 16);
      wasm_v128_store(low + i, wasm_i8x16_shuffle(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22,
                                                  24, 26, 28, 30));
      wasm_v128_store(high + i, wasm_i8x16_shuffle(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23,
                                                   25, 27, 29, 31));
    }
    for (; i < count; ++i) {
      low[i] = from[2 * i];
      high[i] = from[2 * i + 1];
    }
  }
  size_t count = 0;
};

/// One row has all channels of a pixel.
class CombineSumsStep : public StepOf<StepKind::kCombineSums> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(rows, channels, splits, fits, floats, kind, to, lo, hi, multipliers, bias);
  }
  void Run(const RunContext& context) const override {
    if (fits) {
      Loop<true>(context);
    } else {
      Loop<false>(context);
    }
  }

  size_t rows = 0, channels = 0;
  bool splits = false;  // whether there are sums of high bytes
  bool fits = false;    // whether 256 * high + low + bias fits int32
  bool floats = false;
  wide::Kind kind = wide::Kind::kInt16;
  WideOutput to;
  float lo = 0, hi = 0;  // bounds of floats
  // A multiple of four of both.
  std::vector<double> multipliers;
  std::vector<int32_t> bias;

 private:
  RQ_MEMBER static v128_t LoadSums(const int32_t* from, size_t count) {
    if (count == 4) return wasm_v128_load(from);
    if (count == 0) return wasm_i32x4_splat(0);
    return simd::LoadPartial(from, static_cast<int32_t>(count));
  }

  /// The exact sums of four channels, times their multipliers.
  template <bool kFits>
  RQ_MEMBER wide::Four Products(const int32_t* high, const int32_t* low, size_t c,
                                size_t count) const {
    const v128_t l = LoadSums(low, count);
    const v128_t h = high ? LoadSums(high, count) : wasm_i32x4_splat(0);
    const v128_t b = wasm_v128_load(bias.data() + c);
    const wide::Four by = {wasm_v128_load(multipliers.data() + c),
                           wasm_v128_load(multipliers.data() + c + 2)};
    if constexpr (kFits) {
      const v128_t sum = wasm_i32x4_add(wasm_i32x4_add(wasm_i32x4_shl(h, 8), l), b);
      return wide::ToDoubles(sum) * by;
    }
    const v128_t unit = wasm_f64x2_splat(256);
    return (wide::ToDoubles(h) * wide::Four{unit, unit} + wide::ToDoubles(l) + wide::ToDoubles(b)) *
           by;
  }

  template <bool kFits>
  void Loop(const RunContext& context) const {
    const int32_t* high = splits ? context.Read<int32_t>(inputs[0]) : nullptr;
    const auto* low = context.Read<int32_t>(inputs.back());
    auto* out = context.Write<uint8_t>(outputs[0]);
    const wide::Rounder round(to);
    const size_t bytes = floats ? 4 : wide::BytesOf(kind);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t c = 0; c < channels; c += 8) {
        const size_t count = channels - c < 8 ? channels - c : 8;
        const size_t first = count < 4 ? count : 4;
        const wide::Four a = Products<kFits>(high, low, c, first);
        wide::Four b = a;
        if (count > 4) {
          b = Products<kFits>(high ? high + 4 : nullptr, low + 4, c + 4, count - 4);
        }
        if (floats) {
          auto* to_float = reinterpret_cast<float*>(out);
          StoreFloats(to_float, a, first);
          if (count > 4) StoreFloats(to_float + 4, b, count - 4);
        } else {
          wide::Store(out, kind, count, {round(a), round(b)});
        }
        low += count;
        if (high) high += count;
        out += count * bytes;
      }
    }
  }

  void StoreFloats(float* to_float, wide::Four values, size_t count) const {
    v128_t x = wasm_i32x4_shuffle(wasm_f32x4_demote_f64x2_zero(values.low),
                                  wasm_f32x4_demote_f64x2_zero(values.high), 0, 1, 4, 5);
    x = wasm_f32x4_pmin(wasm_f32x4_pmax(x, wasm_f32x4_splat(lo)), wasm_f32x4_splat(hi));
    simd::StorePartial(to_float, x, static_cast<int32_t>(count));
  }
};

/// The numbers of a constant for all channels, one or one for each, padded.
template <typename T, typename Read>
std::vector<T> PaddedNumbers(const Tensor* numbers, size_t channels, Read&& read) {
  std::vector<T> out(channels + 8, T{0});
  for (size_t c = 0; numbers && c < channels; ++c) {
    out[c] = read(numbers->count() == 1 ? 0 : static_cast<int64_t>(c));
  }
  return out;
}

}  // namespace

bool LowerSplitBytes(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  if (node.output(0) == nullptr || node.output(1) == nullptr || !IsWide(x->type.dtype)) {
    return false;
  }
  const Layout layout = builder.LayoutOf(x);
  const int input = builder.In(x, layout);
  const int high = builder.Out(node.outputs[0], layout);
  const int low = builder.Out(node.outputs[1], layout);
  auto& step = builder.Add<SplitBytesStep>(node, "split_bytes", {input}, {high, low});
  step.count = static_cast<size_t>(NumElements(x->type.StaticShape()));
  return true;
}

bool LowerCombineSums(PlanBuilder& builder, const Node& node) {
  const Value* low = node.inputs[0];
  const Value* high = node.input(2);
  const Tensor* multipliers = node.constant(1);
  const Tensor* bias = node.constant(3);
  const Tensor* zero = node.constant(4);
  const Shape shape = low->type.StaticShape();
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = node.attributes.Int("axis", 1);
  const bool last = axis == -1 || axis == rank - 1;
  if (multipliers == nullptr || (node.input(3) && !bias) || (node.input(4) && !zero) ||
      !(last || (axis == 1 && (rank == 3 || rank == 4))) || NumElements(shape) == 0) {
    return false;
  }
  const Layout layout = last ? Layout::kPlain : Layout::kChannelsLast;
  const auto channels = static_cast<size_t>(shape[static_cast<size_t>(last ? rank - 1 : 1)]);
  const int64_t count = static_cast<int64_t>(channels);
  if ((multipliers->count() != 1 && multipliers->count() != count) ||
      (bias && bias->count() != 1 && bias->count() != count)) {
    return false;
  }
  std::vector<int> inputs;
  if (high) inputs.push_back(builder.In(high, layout));
  inputs.push_back(builder.In(low, layout));
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  const int output = builder.Out(epilogue.output, layout);
  auto& step = builder.Add<CombineSumsStep>(node, "combine_sums", inputs, {output});
  step.op = epilogue.op;
  step.rows = static_cast<size_t>(NumElements(shape)) / channels;
  step.channels = channels;
  step.splits = high != nullptr;
  // The bound is that of the rewriter; without one nothing is known.
  step.fits = node.attributes.Int("bound", std::numeric_limits<int64_t>::max()) <=
              std::numeric_limits<int32_t>::max();
  step.floats = zero == nullptr;
  step.lo = static_cast<float>(epilogue.clamp.lo);
  step.hi = static_cast<float>(epilogue.clamp.hi);
  const DType dtype = node.outputs[0]->type.dtype;
  if (zero) {
    step.kind = wide::KindOf(dtype);
    step.to = wide::Clamped(static_cast<int32_t>(zero->AsInt64(0)), dtype, epilogue.clamp.lo,
                            epilogue.clamp.hi);
    if (IsByte(dtype)) builder.SetRange(epilogue.output, {step.to.lo, step.to.hi});
  }
  step.multipliers = PaddedNumbers<double>(multipliers, channels,
                                           [&](int64_t c) { return multipliers->AsDouble(c); });
  step.bias = PaddedNumbers<int32_t>(
      bias, channels, [&](int64_t c) { return static_cast<int32_t>(bias->AsInt64(c)); });
  return true;
}

RQ_STEP(SplitBytes, SplitBytesStep)
RQ_STEP(CombineSums, CombineSumsStep)

}  // namespace requant
