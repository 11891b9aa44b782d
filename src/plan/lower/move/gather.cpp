// Lowers Gather to copies of blocks: an embedding looks up whole rows of its table.
#include <cstring>

#include "base/error.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

/// out[o, i] = data[o, indices[i]], in blocks of `bytes`.
class GatherStep : public StepOf<StepKind::kGather> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(outer, size, count, bytes); }
  void Run(const RunContext& context) const override {
    try {
      if (context.slot(inputs[1]).dtype == DType::kInt64) {
        Copy(context, context.Read<int64_t>(inputs[1]));
      } else {
        Copy(context, context.Read<int32_t>(inputs[1]));
      }
    } catch (Error& error) {
      error.AddNode(name);
      throw;
    }
  }

  int64_t outer = 0, size = 0, count = 0;
  size_t bytes = 0;

 private:
  template <typename Index>
  void Copy(const RunContext& context, const Index* indices) const {
    const auto* data = context.Read<uint8_t>(inputs[0]);
    auto* out = context.Write<uint8_t>(outputs[0]);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t index = o * size + ResolveIndex(indices[i], size, "Gather");
        std::memcpy(out, data + static_cast<size_t>(index) * bytes, bytes);
        out += bytes;
      }
    }
  }
};

}  // namespace

bool LowerGather(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Value* y = node.outputs[0];
  const Shape shape = x->type.StaticShape();
  const size_t bits = DTypeBits(x->type.dtype);
  if (bits < 8 || NumElements(y->type.StaticShape()) == 0) return false;
  const auto axis = static_cast<ptrdiff_t>(
      NormalizeAxis(node.attributes.Int("axis", 0), static_cast<int64_t>(shape.size())));
  const int data = builder.In(x);
  const int indices = builder.In(node.inputs[1]);
  auto& step = builder.Add<GatherStep>(node, "copy", {data, indices}, {builder.Out(y)});
  step.outer = NumElements(Shape(shape.begin(), shape.begin() + axis));
  step.size = shape[static_cast<size_t>(axis)];
  step.count = NumElements(node.inputs[1]->type.StaticShape());
  step.bytes =
      static_cast<size_t>(NumElements(Shape(shape.begin() + axis + 1, shape.end()))) * bits / 8;
  builder.KeepRange(x, y);
  return true;
}

RQ_STEP(Gather, GatherStep)

}  // namespace requant
