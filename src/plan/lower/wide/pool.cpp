// Lowers QLinearAveragePool16, QLinearGlobalAveragePool16 and MaxPool16.
#include <algorithm>

#include "ops/pooling/pool_windows.h"
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

class WidePoolStep : public StepOf<StepKind::kWidePool> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(geometry, maximum, from, kind, to, zero_point, multipliers, divisors);
  }
  void Run(const RunContext& context) const override {
    const auto* input = context.Read<uint16_t>(inputs[0]);
    auto* out = context.Write<uint8_t>(outputs[0]);
    const auto channels = static_cast<size_t>(geometry.out_c);
    const size_t pixel_bytes = channels * wide::BytesOf(kind);
    const size_t image = static_cast<size_t>(geometry.out_h) * static_cast<size_t>(geometry.out_w);
    auto* taps = context.Write<const uint16_t*>(workspace);
    wide::ForEachPixel(geometry, input, taps, [&](size_t pixel, size_t inside) {
      uint8_t* to_pixel = out + pixel * pixel_bytes;
      const double by =
          maximum
              ? 0
              : multipliers[divisors.empty() ? 0 : static_cast<size_t>(divisors[pixel % image])];
      for (size_t c = 0; c < channels; c += 8) {
        const size_t count = std::min<size_t>(8, channels - c);
        uint8_t* place = to_pixel + c * wide::BytesOf(kind);
        if (maximum) {
          Maximum(taps, inside, c, count, place);
        } else {
          Average(taps, inside, c, count, by, place);
        }
      }
    });
  }
  ConvGeometry geometry;
  bool maximum = false;
  wide::Kind from = wide::Kind::kInt16, kind = wide::Kind::kInt16;
  WideOutput to;
  int32_t zero_point = 0;           // of the input
  std::vector<double> multipliers;  // by divisor, from 0 on; one for a global pool
  std::vector<int32_t> divisors;    // of each window; empty for a global pool

 private:
  void Average(const uint16_t* const* taps, size_t inside, size_t c, size_t count, double by,
               uint8_t* place) const {
    const v128_t zero = wasm_i32x4_splat(-zero_point * static_cast<int32_t>(inside));
    wide::Eight sums{zero, zero};
    for (size_t t = 0; t < inside; ++t) {
      const wide::Eight x = wide::Load(
          static_cast<const uint8_t*>(static_cast<const void*>(taps[t] + c)), from, count);
      sums.low = wasm_i32x4_add(sums.low, x.low);
      sums.high = wasm_i32x4_add(sums.high, x.high);
    }
    const v128_t all = wasm_f64x2_splat(by);
    const wide::Rounder round(to);
    wide::Store(place, kind, count,
                {round(wide::ToDoubles(sums.low) * wide::Four{all, all}),
                 round(wide::ToDoubles(sums.high) * wide::Four{all, all})});
  }
  void Maximum(const uint16_t* const* taps, size_t inside, size_t c, size_t count,
               uint8_t* place) const {
    const v128_t least = wasm_i32x4_splat(INT32_MIN);
    wide::Eight best{least, least};
    for (size_t t = 0; t < inside; ++t) {
      const wide::Eight x = wide::Load(
          static_cast<const uint8_t*>(static_cast<const void*>(taps[t] + c)), from, count);
      best.low = wasm_i32x4_max(best.low, x.low);
      best.high = wasm_i32x4_max(best.high, x.high);
    }
    const v128_t lo = wasm_i32x4_splat(to.lo), hi = wasm_i32x4_splat(to.hi);
    wide::Store(place, kind, count,
                {wasm_i32x4_min(wasm_i32x4_max(best.low, lo), hi),
                 wasm_i32x4_min(wasm_i32x4_max(best.high, lo), hi)});
  }
};

}  // namespace

bool LowerWidePool(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  if (!IsWide(x->type.dtype) || node.output(1)) return false;
  const Shape input = x->type.StaticShape();
  const bool maximum = node.op_type.ends_with("MaxPool16");
  const bool global = node.op_type.find("Global") != std::string::npos;
  if (global && input.size() > 4) return false;
  const std::vector<int64_t> kernel_shape = node.attributes.Ints("kernel_shape");
  if (!global && kernel_shape.size() + 2 != input.size()) return false;
  const auto geometry =
      global ? GlobalGeometry(input)
             : GeometryOf(node, input, node.outputs[0]->type.StaticShape(), kernel_shape);
  const auto qx = maximum ? std::nullopt : ReadQuant(node, 1, 2);
  const auto qy = maximum ? std::nullopt : ReadQuant(node, 3, 4);
  if (!geometry || (!maximum && (!qx || !qy || qx->scales.size() != 1 || qy->scales.size() != 1))) {
    return false;
  }
  const int64_t taps = int64_t{geometry->kernel_h} * geometry->kernel_w;
  // The sums of so many 17-bit numbers fit int32.
  if (taps > 1 << 14) return false;
  const int slot = builder.In(x, Layout::kChannelsLast);
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  const int output = builder.Out(epilogue.output, Layout::kChannelsLast);
  auto& step = builder.Add<WidePoolStep>(node, "wide_pool", {slot}, {output});
  const DType dtype = node.outputs[0]->type.dtype;
  step.op = epilogue.op;
  step.workspace = builder.Workspace(static_cast<size_t>(taps) * sizeof(const uint16_t*));
  step.geometry = *geometry;
  step.maximum = maximum;
  step.from = wide::KindOf(x->type.dtype);
  step.kind = wide::KindOf(dtype);
  step.to =
      wide::Clamped(maximum ? 0 : qy->zero_points[0], dtype, epilogue.clamp.lo, epilogue.clamp.hi);
  if (IsByte(dtype)) builder.SetRange(epilogue.output, {step.to.lo, step.to.hi});
  if (maximum) return true;
  step.zero_point = qx->zero_points[0];
  const auto multiplier = [&](int64_t count) {
    return WideAverageMultiplier(qx->scales[0], qy->scales[0], std::max<int64_t>(count, 1));
  };
  if (global) {
    step.multipliers = {multiplier(taps)};
    return true;
  }
  for (int64_t count = 0; count <= taps; ++count) step.multipliers.push_back(multiplier(count));
  const bool include_pad = node.attributes.Int("count_include_pad", 0) != 0;
  const Geometry g = PlaceGeometry(PoolWindow(node.attributes), input);
  ForEachWindow(g, [&](const auto& inside, const auto& start, int64_t) {
    step.divisors.push_back(static_cast<int32_t>(AverageDivisor(g, inside, start, include_pad)));
  });
  return true;
}

RQ_STEP(WidePool, WidePoolStep)

}  // namespace requant
