// Lowers QuantizeLinear and DequantizeLinear of 16-bit codes with one scale.
#include "plan/archive.h"
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/elementwise/epilogue.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "plan/lower/wide/codes.h"

namespace requant {
namespace {

/// The definition is numeric/affine.h: QuantizeLinear divides and rounds in float32.
class WideQuantizeStep : public StepOf<StepKind::kWideQuantize> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(count, scale, kind, to); }
  void Run(const RunContext& context) const override {
    const auto* from = context.Read<float>(inputs[0]);
    auto* out = context.Write<uint8_t>(outputs[0]);
    const size_t bytes = wide::BytesOf(kind);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
      wide::Store(out + i * bytes, kind, 8,
                  {Codes(wasm_v128_load(from + i)), Codes(wasm_v128_load(from + i + 4))});
    }
    if (i == count) return;
    alignas(16) float rest[8] = {};
    __builtin_memcpy(rest, from + i, (count - i) * sizeof(float));
    wide::Store(out + i * bytes, kind, count - i,
                {Codes(wasm_v128_load(rest)), Codes(wasm_v128_load(rest + 4))});
  }
  size_t count = 0;
  float scale = 1;
  wide::Kind kind = wide::Kind::kInt16;
  WideOutput to;

 private:
  RQ_MEMBER v128_t Codes(v128_t x) const {
    // A NaN becomes 0. The bounds are integers of at most 17 bits, so that a clamp before rounding
    // is one behind it, and 1.5 * 2^23 leaves the nearest integer, ties to even, in the low bits.
    const v128_t lo = wasm_f32x4_splat(static_cast<float>(to.lo - to.zero_point));
    const v128_t hi = wasm_f32x4_splat(static_cast<float>(to.hi - to.zero_point));
    const v128_t magic = wasm_f32x4_splat(12582912.0F);
    const v128_t real = wasm_f32x4_div(x, wasm_f32x4_splat(scale));
    const v128_t number = wasm_v128_and(real, wasm_f32x4_eq(real, real));
    const v128_t inside = wasm_f32x4_pmin(wasm_f32x4_pmax(number, lo), hi);
    const v128_t rounded = wasm_i32x4_sub(wasm_f32x4_add(inside, magic), magic);
    return wasm_i32x4_add(rounded, wasm_i32x4_splat(to.zero_point));
  }
};

class WideDequantizeStep : public StepOf<StepKind::kWideDequantize> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(count, scale, kind, zero_point); }
  void Run(const RunContext& context) const override {
    const auto* from = context.Read<uint8_t>(inputs[0]);
    auto* out = context.Write<float>(outputs[0]);
    const v128_t zero = wasm_i32x4_splat(zero_point), by = wasm_f32x4_splat(scale);
    const auto real = [&](v128_t codes) {
      return wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_i32x4_sub(codes, zero)), by);
    };
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
      const wide::Eight codes = wide::Load(from + i * wide::BytesOf(kind), kind, 8);
      wasm_v128_store(out + i, real(codes.low));
      wasm_v128_store(out + i + 4, real(codes.high));
    }
    if (i == count) return;
    const wide::Eight codes = wide::Load(from + i * wide::BytesOf(kind), kind, count - i);
    alignas(16) float rest[8];
    wasm_v128_store(rest, real(codes.low));
    wasm_v128_store(rest + 4, real(codes.high));
    __builtin_memcpy(out + i, rest, (count - i) * sizeof(float));
  }
  size_t count = 0;
  float scale = 1;
  wide::Kind kind = wide::Kind::kInt16;
  int32_t zero_point = 0;
};

}  // namespace

bool LowerWideQuantize(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const auto quant = ReadQuant(node, 1, 2);
  if (!quant || quant->scales.size() != 1 || x->type.dtype != DType::kFloat32) return false;
  const Layout layout = builder.LayoutOf(x);
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  const int input = builder.In(x, layout);
  const int output = builder.Out(epilogue.output, layout);
  auto& step = builder.Add<WideQuantizeStep>(node, "wide_quantize", {input}, {output});
  const DType dtype = node.outputs[0]->type.dtype;
  step.op = epilogue.op;
  step.count = static_cast<size_t>(NumElements(x->type.StaticShape()));
  step.scale = quant->scales[0];
  step.kind = wide::KindOf(dtype);
  step.to = wide::Clamped(quant->zero_points[0], dtype, epilogue.clamp.lo, epilogue.clamp.hi);
  return true;
}

bool LowerWideDequantize(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const auto quant = ReadQuant(node, 1, 2, ScaleRule::kPositiveOrZero);
  if (!quant || quant->scales.size() != 1 || node.outputs[0]->type.dtype != DType::kFloat32) {
    return false;
  }
  const Layout layout = builder.LayoutOf(x);
  const int input = builder.In(x, layout);
  const int output = builder.Out(node.outputs[0], layout);
  auto& step = builder.Add<WideDequantizeStep>(node, "wide_dequantize", {input}, {output});
  step.count = static_cast<size_t>(NumElements(x->type.StaticShape()));
  step.scale = quant->scales[0];
  step.kind = wide::KindOf(x->type.dtype);
  step.zero_point = quant->zero_points[0];
  return true;
}

RQ_STEP(WideQuantize, WideQuantizeStep)
RQ_STEP(WideDequantize, WideDequantizeStep)

}  // namespace requant
