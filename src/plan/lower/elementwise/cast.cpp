// Lowers Cast of int32 to float32, as behind the accumulators of dynamically quantized networks and
// of layers that write floats.
#include "base/simd.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

class CastStep : public StepOf<StepKind::kCast> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(count); }
  void Run(const RunContext& context) const override {
    const auto* from = context.Read<int32_t>(inputs[0]);
    auto* to = context.Write<float>(outputs[0]);
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
      wasm_v128_store(to + i, wasm_f32x4_convert_i32x4(wasm_v128_load(from + i)));
    }
    for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
  }
  size_t count = 0;
};

}  // namespace

bool LowerCast(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  if (x->type.dtype != DType::kInt32 || node.outputs[0]->type.dtype != DType::kFloat32) {
    return false;
  }
  const Layout layout = builder.LayoutOf(x);
  const int input = builder.In(x, layout);
  const int output = builder.Out(node.outputs[0], layout);
  auto& step = builder.Add<CastStep>(node, "simd128", {input}, {output});
  step.count = static_cast<size_t>(NumElements(x->type.StaticShape()));
  return true;
}

RQ_STEP(Cast, CastStep)

}  // namespace requant
