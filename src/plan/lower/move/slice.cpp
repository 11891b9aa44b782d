// Lowers Slice, Split and constant Pad to strided copies in the layout of the input.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/layout/table.h"
#include "ops/infer_util.h"
#include "plan/lower/move/physical.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

/// Copies a box of the input to a box of the output; the rest of the output is filled with `fill`.
class BoxCopyStep : public StepOf<StepKind::kBoxCopy> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(params, in_offset, out_offset, filled, fill);
  }
  void Run(const RunContext& context) const override {
    auto* out = context.Write<uint8_t>(outputs[0]);
    if (filled) Fill(out, context.slot(outputs[0]).bytes);
    StridedCopyParams call = params;
    call.in = context.Read<uint8_t>(inputs[0]) + in_offset;
    call.out = out + out_offset;
    StridedCopy(&call);
  }
  StridedCopyParams params{};
  ptrdiff_t in_offset = 0, out_offset = 0;  // bytes
  bool filled = false;
  uint8_t fill[8] = {};  // bytes of one element

 private:
  void Fill(uint8_t* out, size_t bytes) const {
    // Each copy doubles the filled part, so that few copies are long instead of many short.
    size_t done = std::min(params.element_size, bytes);
    std::memcpy(out, fill, done);
    while (done < bytes) {
      const size_t more = std::min(done, bytes - done);
      std::memcpy(out + done, out, more);
      done += more;
    }
  }
};

struct Box {
  Shape size;
  std::vector<int64_t> in_start, in_step, out_start;
};

BoxCopyStep& AddBoxCopy(PlanBuilder& builder, const Node& node, const Value* y, const Box& box) {
  const Value* x = node.inputs[0];
  const Layout layout = builder.LayoutOf(x);
  const int input = builder.In(x, layout);
  const int output = builder.Out(y, layout);
  auto& step = builder.Add<BoxCopyStep>(node, "strided_copy", {input}, {output});
  const std::vector<ptrdiff_t> in = PhysicalStrides(x->type.StaticShape(), layout);
  const std::vector<ptrdiff_t> out = PhysicalStrides(y->type.StaticShape(), layout);
  const std::vector<size_t> order = PhysicalOrder(box.size.size(), layout);
  const auto element = static_cast<ptrdiff_t>(DTypeBits(x->type.dtype) / 8);
  step.params.element_size = static_cast<size_t>(element);
  step.params.rank = static_cast<int32_t>(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t axis = order[i];
    step.params.dims[i] = static_cast<size_t>(box.size[axis]);
    step.params.in_strides[i] = in[axis] * static_cast<ptrdiff_t>(box.in_step[axis]);
    step.params.out_strides[i] = out[axis];
    step.in_offset += in[axis] * static_cast<ptrdiff_t>(box.in_start[axis]) * element;
    step.out_offset += out[axis] * static_cast<ptrdiff_t>(box.out_start[axis]) * element;
  }
  return step;
}

bool Copyable(const Value* value) {
  return value->type.shape->size() <= kMaxCopyRank && DTypeBits(value->type.dtype) >= 8;
}

}  // namespace

bool LowerSlice(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Shape in = x->type.StaticShape();
  const Shape out = node.outputs[0]->type.StaticShape();
  if (!Copyable(x) || node.inputs.size() < 3 || NumElements(out) == 0) return false;
  for (size_t slot = 1; slot < node.inputs.size(); ++slot) {
    if (node.input(slot) && node.constant(slot) == nullptr) return false;
  }
  const std::vector<int64_t> starts = node.constant(1)->ToInts();
  std::vector<int64_t> axes;
  std::vector<int64_t> steps(starts.size(), 1);
  if (node.constant(3)) {
    axes = node.constant(3)->ToInts();
  } else {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (node.constant(4)) steps = node.constant(4)->ToInts();
  const auto rank = static_cast<int64_t>(in.size());
  Box box{out, Shape(in.size(), 0), Shape(in.size(), 1), Shape(in.size(), 0)};
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i] < 0 ? axes[i] + rank : axes[i]);
    const int64_t size = in[axis];
    // onnx docs/Operators.md, Slice: negative starts count from the end and are then clamped.
    const int64_t start = starts[i] < 0 ? starts[i] + size : starts[i];
    box.in_start[axis] = steps[i] > 0 ? std::clamp<int64_t>(start, 0, size)
                                      : std::clamp<int64_t>(start, 0, size - 1);
    // with a single output the step may be any number
    if (out[axis] > 1) box.in_step[axis] = steps[i];
  }
  AddBoxCopy(builder, node, node.outputs[0], box);
  builder.KeepRange(x, node.outputs[0]);
  return true;
}

bool LowerSplit(PlanBuilder& builder, const Node& node) {
  // Sizes that only a run knows may differ from those that the file declares.
  if (node.input(1) && node.constant(1) == nullptr) return false;
  const Value* x = node.inputs[0];
  const bool all = std::all_of(node.outputs.begin(), node.outputs.end(), [](const Value* y) {
    return y && NumElements(y->type.StaticShape()) > 0;
  });
  if (!all || !Copyable(x)) return false;
  const size_t rank = x->type.shape->size();
  const auto axis = static_cast<size_t>(
      NormalizeAxis(node.attributes.Int("axis", 0), static_cast<int64_t>(rank)));
  Box box{{}, Shape(rank, 0), Shape(rank, 1), Shape(rank, 0)};
  for (const Value* y : node.outputs) {
    box.size = y->type.StaticShape();
    AddBoxCopy(builder, node, y, box);
    builder.KeepRange(x, y);
    box.in_start[axis] += box.size[axis];
  }
  return true;
}

bool LowerPad(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Shape in = x->type.StaticShape();
  const Shape out = node.outputs[0]->type.StaticShape();
  if (!Copyable(x) || node.attributes.String("mode", "constant") != "constant" ||
      node.constant(1) == nullptr || node.input(3) || NumElements(in) == 0) {
    return false;
  }
  if (node.input(2) && (node.constant(2) == nullptr || node.constant(2)->count() != 1)) {
    return false;
  }
  const std::vector<int64_t> pads = node.constant(1)->ToInts();
  if (pads.size() != 2 * in.size()) return false;
  for (const int64_t pad : pads) {
    if (pad < 0) return false;
  }
  Box box{in, Shape(in.size(), 0), Shape(in.size(), 1),
          Shape(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(in.size()))};
  BoxCopyStep& step = AddBoxCopy(builder, node, node.outputs[0], box);
  step.filled = true;
  if (const Tensor* value = node.constant(2)) {
    std::memcpy(step.fill, value->raw(), std::min(sizeof step.fill, value->bytes()));
  }
  if (IsByte(x->type.dtype)) {
    const int32_t fill =
        x->type.dtype == DType::kInt8 ? static_cast<int8_t>(step.fill[0]) : step.fill[0];
    builder.SetRange(node.outputs[0], Join(builder.RangeOf(x), {fill, fill}));
  }
  return true;
}

RQ_STEP(BoxCopy, BoxCopyStep)

}  // namespace requant
