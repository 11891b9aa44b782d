#include "plan/saved/save.h"

#include <algorithm>

#include "base/checked_math.h"
#include "ir/extract.h"
#include "onnx/read.h"
#include "onnx/write.h"
#include "plan/archive.h"
#include "plan/lower/parts.h"
#include "plan/lower/steps.h"
#include "tensor/text.h"

namespace requant {
namespace {

/// A graph of the nodes that steps evaluate by their reference, with the constants they read.
Graph ReferenceNodes(const Plan& plan) {
  std::vector<const Node*> nodes;
  std::vector<const Value*> outputs;
  for (const auto& step : plan.steps) {
    if (step->kind() != StepKind::kReference) continue;
    nodes.push_back(plan.graph->FindNode(step->name));
    for (const Value* value : nodes.back()->outputs) {
      if (value) outputs.push_back(value);
    }
  }
  return Extract(*plan.graph, nodes, outputs);
}

void SlotFields(PlanArchive& archive, Slot& slot) {
  archive.Fields(slot.name, slot.dtype, slot.shape, slot.layout, slot.home, slot.bytes, slot.packed,
                 slot.planes, slot.root, slot.within, slot.offset, slot.input, slot.first_step,
                 slot.last_step);
  if (IsText(slot.dtype)) {
    Fail(ErrorCode::kUnsupported, "strings cannot be saved",
         {.value = slot.name, .hint = "plan the model's file again"});
  }
  archive.Blob(slot.constant);
}

void StepFields(PlanArchive& archive, std::unique_ptr<Step>& step) {
  StepKind kind = archive.reading() ? StepKind{} : step->kind();
  archive.Fields(kind);
  if (archive.reading()) {
    // Where the header does not announce extended operators, they may not be loaded.
    const bool known = IsStepKind(kind) && (archive.operators || !IsLate(kind));
    if (!known) DamagedPlan("a step is of no known kind");
    step = NewStep(kind);
  }
  archive.Fields(step->name, step->op, step->kernel, step->tuning, step->inputs, step->outputs,
                 step->workspace, step->may_overwrite, step->macs, step->parts);
  step->Fields(archive);
}

void PlanFields(PlanArchive& archive, Plan& plan, Graph& graph) {
  InterfaceFields(archive, graph);
  archive.Fields(plan.arena_bytes, plan.arena_lower_bound, plan.packed_bytes, plan.used_memory,
                 plan.outputs);
  const bool reading = archive.reading();
  const uint32_t slots = archive.Count(plan.slots.size(), 1);
  if (reading) plan.slots.resize(slots);
  for (Slot& slot : plan.slots) SlotFields(archive, slot);
  const uint32_t steps = archive.Count(plan.steps.size(), 1);
  if (reading) plan.steps.resize(steps);
  for (auto& step : plan.steps) StepFields(archive, step);
  // a plan that was altered may have another number
  if (reading) plan.used_memory.resize(plan.steps.size());
}

/// Checks that the slots that a run reads and writes exist. What the steps keep for their kernels
/// is trusted (save.h).
void CheckPlan(const Plan& plan, const Graph& graph) {
  const auto check = [](bool right) {
    if (!right) DamagedPlan("its parts do not fit together");
  };
  const auto in_range = [](int index, size_t count) {
    return index >= 0 && static_cast<size_t>(index) < count;
  };
  for (const Value* input : graph.inputs()) check(input->type.IsStatic());
  const size_t slots = plan.slots.size();
  for (size_t i = 0; i < slots; ++i) {
    const Slot& slot = plan.slots[i];
    check(in_range(slot.root, slots) && static_cast<size_t>(slot.layout) <= 1);
    for (const int64_t dim : slot.shape) check(dim >= 0);
    const size_t bytes = DTypeBytes(slot.dtype, static_cast<size_t>(NumElements(slot.shape)));
    const size_t bits = slot.packed ? 4 : slot.planes == 0 ? 8 : slot.planes;
    check(bits <= 8 && slot.bytes == CheckedMul(bytes, bits) / 8);
    const Slot& root = plan.slots[static_cast<size_t>(slot.root)];
    check(root.root == slot.root && CheckedAdd(slot.within, slot.bytes) <= root.bytes);
    if (static_cast<size_t>(slot.root) != i) continue;
    switch (slot.home) {
      case Slot::Home::kArena:
        check(slot.first_step < 0 || (slot.offset % AlignedBuffer::kAlignment == 0 &&
                                      CheckedAdd(slot.offset, slot.bytes) <= plan.arena_bytes));
        break;
      case Slot::Home::kInput:
        check(in_range(slot.input, graph.inputs().size()) &&
              graph.inputs()[static_cast<size_t>(slot.input)]->type.StaticShape() == slot.shape);
        break;
      case Slot::Home::kConstant:
        check(slot.constant != nullptr);
        break;
      default:
        check(false);
    }
  }
  check(plan.outputs.size() == graph.outputs().size());
  for (const int slot : plan.outputs) check(in_range(slot, slots));
  for (const auto& step : plan.steps) {
    check(!step->outputs.empty());
    for (const int slot : step->inputs) check(in_range(slot, slots));
    for (const int slot : step->outputs) check(in_range(slot, slots));
    check(step->workspace == -1 || in_range(step->workspace, slots));
    const Parts& parts = step->parts;
    check(parts.count >= 1 && parts.count <= kMaxThreads);
    if (parts.count == 1) continue;
    check(in_range(parts.kernel, KernelEntries().size()) && parts.tile > 0 &&
          parts.total >= parts.tile * parts.count);
    for (const PartField& field : parts.fields) {
      check(field.offset <= kMaxParamsBytes - sizeof(size_t));
    }
  }
}

bool NeedsOperators(const Plan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(),
                     [](const auto& step) { return IsLate(step->kind()); });
}

}  // namespace

std::vector<uint8_t> SavePlan(const Plan& plan, const Graph& graph) {
  const auto bytes_of = [](const void* data, size_t bytes) {
    return BlobRange(static_cast<const uint8_t*>(data), bytes);
  };
  std::vector<BlobRange> blobs;
  for (const SharedWeights& packed : plan.packed) {
    blobs.push_back(bytes_of(packed->data(), packed->size()));
  }
  for (const Tensor& tensor : plan.constants) {
    blobs.push_back(bytes_of(tensor.raw(), tensor.bytes()));
  }
  for (const auto& weights : plan.file_weights) blobs.push_back(weights);
  SavedWriter writer(blobs);
  Graph reference = ReferenceNodes(plan);
  std::vector<uint8_t> nodes;
  if (!reference.nodes().empty()) nodes = WriteOnnx(reference);
  writer.archive.Fields(nodes);
  // The archive takes references, but writing changes nothing.
  PlanFields(writer.archive, const_cast<Plan&>(plan), const_cast<Graph&>(graph));
  return writer.Finish(SavedKind::kPlan, plan.threads, NeedsOperators(plan));
}

LoadedPlan LoadPlan(SavedFile file) {
  auto plan = std::make_shared<Plan>();
  auto graph = std::make_shared<Graph>();
  plan->file = std::move(file.owner);
  plan->file_weights = std::move(file.blobs);
  const auto nodes = std::make_shared<std::vector<uint8_t>>();
  file.archive.Fields(*nodes);
  plan->graph = std::make_unique<Graph>();
  if (!nodes->empty()) *plan->graph = ReadOnnx({nodes, *nodes});
  file.archive.graph = plan->graph.get();
  PlanFields(file.archive, *plan, *graph);
  if (file.operators != NeedsOperators(*plan)) DamagedPlan("its header does not fit");
  plan->threads = file.threads;
  CheckPlan(*plan, *graph);
  return {std::move(plan), std::move(graph)};
}

}  // namespace requant
