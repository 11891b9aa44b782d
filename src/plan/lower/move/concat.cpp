// Lowers Concat and QLinearConcat. An input whose own step can write straight into its part of the
// output is not copied.
#include <cstring>
#include <numeric>

#include "kernels/layout/table.h"
#include "kernels/lut/table.h"
#include "ops/infer_util.h"
#include "plan/lower/elementwise/lut.h"
#include "plan/lower/move/physical.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

/// The output as `rows` rows of `total` bytes, of which input i has bytes[i].
struct ConcatRows {
  Layout layout = Layout::kPlain;
  size_t rows = 1;
  bool innermost = true;  // whether an input's row is one of its pixels
  std::vector<size_t> bytes;
  size_t total = 0;
};

std::optional<ConcatRows> RowsOf(const PlanBuilder& builder, const Node& node,
                                 const std::vector<const Value*>& inputs, int64_t axis) {
  const Value* y = node.outputs[0];
  const Shape out = y->type.StaticShape();
  const auto rank = static_cast<int64_t>(out.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || DTypeBits(y->type.dtype) < 8) return std::nullopt;
  ConcatRows concat;
  for (const Value* input : inputs) {
    if (!input->is_constant() && builder.LayoutOf(input) == Layout::kChannelsLast) {
      concat.layout = Layout::kChannelsLast;
    }
  }
  // The physical axes before the concatenated one make up the rows.
  size_t inner = static_cast<size_t>(DTypeBits(y->type.dtype) / 8);
  bool before = true;
  for (const size_t physical : PhysicalOrder(out.size(), concat.layout)) {
    if (static_cast<int64_t>(physical) == axis) {
      before = false;
    } else {
      (before ? concat.rows : inner) *= static_cast<size_t>(out[physical]);
    }
  }
  concat.innermost = static_cast<int64_t>(PhysicalOrder(out.size(), concat.layout).back()) == axis;
  for (const Value* input : inputs) {
    concat.bytes.push_back(
        inner * static_cast<size_t>(input->type.StaticShape()[static_cast<size_t>(axis)]));
  }
  concat.total = std::accumulate(concat.bytes.begin(), concat.bytes.end(), size_t{0});
  return concat;
}

/// Copies rows to their part of the output, through a table when there is one.
class ConcatStep : public StepOf<StepKind::kConcat> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(rows, total, parts, look_up_kernel);
    archive.Kernel(CopyRowsKernels(), kernel, copy);
    archive.Kernel(LutKernels(), look_up_kernel, look_up);
  }
  struct Part {
    size_t bytes = 0;   // bytes of one row
    size_t offset = 0;  // offset in the output's rows
    bool mapped = false;
    ByteTable table{};
  };

  void Run(const RunContext& context) const override {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Part& part = parts[i];
      auto* out = context.Write<uint8_t>(outputs[0]) + part.offset;
      if (part.mapped) {
        const LutParams call{context.Read<uint8_t>(inputs[i]),
                             out,
                             part.table.data(),
                             rows,
                             part.bytes,
                             part.bytes,
                             total};
        look_up(&call);
      } else {
        const CopyRowsParams call{
            context.Read(inputs[i]), out, rows, part.bytes, part.bytes, total};
        copy(&call);
      }
    }
  }
  size_t rows = 0;
  size_t total = 0;
  std::vector<Part> parts;  // one for each input
  void (*copy)(const CopyRowsParams*) = nullptr;
  void (*look_up)(const LutParams*) = nullptr;
  std::string look_up_kernel;
};

bool IsIdentity(const ByteTable& table) {
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i] != i) return false;
  }
  return true;
}

/// Adds the step. `tables` has one entry for each input, or is empty when the bytes stay as they
/// are.
void AddConcat(PlanBuilder& builder, const Node& node, const std::vector<const Value*>& inputs,
               const ConcatRows& concat, const std::vector<ByteTable>& tables) {
  const Value* y = node.outputs[0];
  const int output = builder.Out(y, concat.layout);
  if (IsByte(y->type.dtype)) {
    std::optional<CodeRange> all;
    for (size_t i = 0; i < inputs.size(); ++i) {
      CodeRange codes = builder.RangeOf(inputs[i]);
      if (!tables.empty()) codes = CodesOfTable(codes, tables[i], y->type.dtype);
      all = all ? Join(*all, codes) : codes;
    }
    builder.SetRange(y, *all);
  }
  const size_t element = static_cast<size_t>(DTypeBits(node.outputs[0]->type.dtype) / 8);
  std::vector<int> slots;
  std::vector<ConcatStep::Part> parts;
  size_t offset = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ConcatStep::Part part{concat.bytes[i], offset, false, {}};
    offset += concat.bytes[i];
    if (!tables.empty() && !IsIdentity(tables[i])) {
      part.mapped = true;
      part.table = tables[i];
    }
    const int slot = builder.In(inputs[i], concat.layout);
    const bool placeable = !part.mapped && (concat.rows == 1 || concat.innermost) &&
                           builder.graph().SoleConsumer(inputs[i]) == &node;
    const size_t stride = concat.rows == 1 ? 0 : concat.total / element;
    if (placeable && builder.WriteInto(slot, output, part.offset, stride)) continue;
    slots.push_back(slot);
    parts.push_back(part);
  }
  if (slots.empty()) return;
  const CopyRowsKernel& copy = builder.Choose("copy_rows", CopyRowsKernels());
  auto& step = builder.Add<ConcatStep>(node, copy.name, slots, {output});
  step.rows = concat.rows;
  step.total = concat.total;
  step.parts = std::move(parts);
  step.copy = copy.run;
  const LutKernel& look_up = builder.Choose("lut", LutKernels());
  step.look_up = look_up.run;
  step.look_up_kernel = look_up.name;
}

}  // namespace

bool LowerConcat(PlanBuilder& builder, const Node& node) {
  const std::vector<const Value*> inputs(node.inputs.begin(), node.inputs.end());
  const auto concat = RowsOf(builder, node, inputs, node.attributes.Int("axis", 0));
  if (!concat) return false;
  AddConcat(builder, node, inputs, *concat, {});
  return true;
}

bool LowerQLinearConcat(PlanBuilder& builder, const Node& node) {
  // Inputs: Y scale, Y zero point, then a triple (X, scale, zero point) for each operand.
  std::vector<const Value*> inputs;
  for (size_t slot = 2; slot < node.inputs.size(); slot += 3) inputs.push_back(node.inputs[slot]);
  const int64_t axis = node.attributes.Int("axis", 1);
  const auto concat = RowsOf(builder, node, inputs, axis);
  if (!concat) return false;
  std::vector<ByteTable> tables;
  for (size_t i = 0; i < inputs.size(); ++i) {
    // The operator itself, applied to this input alone with all 256 values, gives the table.
    Shape shape(inputs[i]->type.StaticShape().size(), 1);
    shape[static_cast<size_t>(NormalizeAxis(axis, static_cast<int64_t>(shape.size())))] = 256;
    Tensor all(inputs[i]->type.dtype, std::move(shape));
    std::iota(static_cast<uint8_t*>(all.raw()), static_cast<uint8_t*>(all.raw()) + 256, uint8_t{0});
    const size_t slot = 2 + 3 * i;
    for (const size_t parameter : {size_t{0}, size_t{1}, slot + 1, slot + 2}) {
      if (node.input(parameter) && node.constant(parameter) == nullptr) return false;
    }
    const std::vector<const Tensor*> alone{node.constant(0), node.constant(1), &all,
                                           node.constant(slot + 1), node.constant(slot + 2)};
    const std::vector<Tensor> results =
        EvaluateNode(builder.graph(), node, alone, builder.options().requantize);
    std::memcpy(tables.emplace_back().data(), results[0].raw(), 256);
  }
  AddConcat(builder, node, inputs, *concat, tables);
  return true;
}

RQ_STEP(Concat, ConcatStep)

}  // namespace requant
