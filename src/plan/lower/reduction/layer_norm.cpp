// Lowers LayerNormalization and RMSNormalization (also SimplifiedLayerNormalization) over the last
// axes.
#include "kernels/layer_norm/table.h"
#include "plan/lower/kernel_step.h"
#include "plan/lower/parts.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

class LayerNormStep
    : public KernelStep<StepKind::kLayerNorm, LayerNormF32Kernels, LayerNormF32Params> {
 public:
  void Run(const RunContext& context) const override {
    LayerNormF32Params call = params;
    call.in = context.Read<float>(inputs[0]);
    call.out = context.Write<float>(outputs[0]);
    call.scale = context.Read<float>(inputs[1]);
    call.bias = inputs.size() > 2 ? context.Read<float>(inputs[2]) : nullptr;
    RunParts(context, parts, run, call);
  }
};

}  // namespace

bool LowerLayerNormalization(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Shape shape = x->type.StaticShape();
  const auto rank = static_cast<int64_t>(shape.size());
  if (x->type.dtype != DType::kFloat32 || node.output(1) || node.output(2) || rank == 0 ||
      NumElements(shape) == 0) {
    return false;
  }
  int64_t axis = node.attributes.Int("axis", -1);
  if (axis < 0) axis += rank;
  int64_t cols = 1;
  for (int64_t i = axis; i < rank; ++i) cols *= shape[static_cast<size_t>(i)];
  // Scale and bias must have one row's elements; stretched ones are left to the reference.
  for (size_t slot = 1; slot < 3; ++slot) {
    const Value* parameter = node.input(slot);
    if (parameter && NumElements(parameter->type.StaticShape()) != cols) return false;
  }
  const LayerNormF32Kernel& kernel = builder.Choose("layer_norm_f32", LayerNormF32Kernels());
  std::vector<int> inputs{builder.In(x), builder.In(node.inputs[1])};
  if (node.input(2)) inputs.push_back(builder.In(node.inputs[2]));
  const int output = builder.Out(node.outputs[0]);
  auto& step = builder.Add<LayerNormStep>(node, kernel.name, inputs, {output});
  step.run = kernel.run;
  step.may_overwrite = true;
  step.params.rows = static_cast<size_t>(NumElements(shape) / cols);
  step.params.cols = static_cast<size_t>(cols);
  step.params.epsilon = node.attributes.Float("epsilon", 1e-5F);
  step.params.center = node.Is(Op::kLayerNormalization) ? 1 : 0;
  const size_t row_bytes = step.params.cols * sizeof(float);
  Divide(builder, step, KernelEntryOf(kernel.run), static_cast<int64_t>(step.params.rows), 1,
         NumElements(shape) * 2, kElementsPerPart,  // the kernel makes two passes over the input
         {{PartField::Kind::kCount, offsetof(LayerNormF32Params, rows), 0},
          {PartField::Kind::kPointer, offsetof(LayerNormF32Params, in), row_bytes},
          {PartField::Kind::kPointer, offsetof(LayerNormF32Params, out), row_bytes}});
  return true;
}

RQ_STEP(LayerNorm, LayerNormStep)

}  // namespace requant
