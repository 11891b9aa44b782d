// Lowers Cast of int32 to float32, as behind the accumulators of dynamically quantized networks and
// of layers that write floats, of bytes to float32, as at inputs of images and behind tables of
// embeddings, and Cast between float32 and floats of 16 bits.
#include "base/simd.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "tensor/half.h"

namespace requant {
namespace {

class CastStep : public StepOf<StepKind::kCast> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(count, from_type, to_type); }
  void Run(const RunContext& context) const override {
    if (IsHalf(from_type)) {
      return HalvesToFloats(from_type, context.Read<uint16_t>(inputs[0]), count,
                            context.Write<float>(outputs[0]));
    }
    if (IsHalf(to_type)) {
      return FloatsToHalves(to_type, context.Read<float>(inputs[0]), count,
                            context.Write<uint16_t>(outputs[0]));
    }
    auto* to = context.Write<float>(outputs[0]);
    if (from_type != DType::kInt32) {
      return WidenBytes(context.Read<uint8_t>(inputs[0]), from_type == DType::kInt8 ? 0x80 : 0, to);
    }
    const auto* from = context.Read<int32_t>(inputs[0]);
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
      wasm_v128_store(to + i, wasm_f32x4_convert_i32x4(wasm_v128_load(from + i)));
    }
    for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
  }
  size_t count = 0;
  DType from_type = DType::kInt32, to_type = DType::kFloat32;

 private:
  /// `flip` is 0 for codes without a sign; with 0x80, code ^ flip is an int8 plus 128.
  void WidenBytes(const uint8_t* from, int32_t flip, float* to) const {
    const v128_t flips = wasm_i8x16_splat(static_cast<int8_t>(flip));
    const v128_t shift = wasm_i32x4_splat(flip);
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
      const v128_t bytes = wasm_v128_xor(wasm_v128_load32_zero(from + i), flips);
      const v128_t numbers = wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(bytes));
      wasm_v128_store(to + i, wasm_f32x4_convert_i32x4(wasm_i32x4_sub(numbers, shift)));
    }
    for (; i < count; ++i) to[i] = static_cast<float>((from[i] ^ flip) - flip);
  }
};

}  // namespace

bool LowerCast(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const DType from = x->type.dtype, to = node.outputs[0]->type.dtype;
  const bool bytes = from == DType::kUint8 || from == DType::kInt8 || from == DType::kBool;
  const bool known = to == DType::kFloat32 ? from == DType::kInt32 || bytes || IsHalf(from)
                                           : from == DType::kFloat32 && IsHalf(to);
  if (!known) return false;
  const Layout layout = builder.LayoutOf(x);
  const int input = builder.In(x, layout);
  const int output = builder.Out(node.outputs[0], layout);
  auto& step = builder.Add<CastStep>(node, "simd128", {input}, {output});
  step.from_type = from;
  step.to_type = to;
  step.count = static_cast<size_t>(NumElements(x->type.StaticShape()));
  return true;
}

RQ_STEP(Cast, CastStep)

}  // namespace requant
