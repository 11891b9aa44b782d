#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/error.h"
#include "base/str_cat.h"
#include "plan/lower/steps.h"
#include "plan/lower/table.h"

namespace requant {
namespace {

/// Operators that only move or leave out values of their first input.
constexpr const char* kMovers[] = {"Split",        "Gather", "DepthToSpace",
                                   "SpaceToDepth", "Expand", "Tile"};

class ReferenceStep : public StepOf<StepKind::kReference> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(requantize, slots);
    if (!archive.reading()) return;
    graph = archive.graph;
    node = graph->FindNode(name);
    if (node == nullptr || node->inputs.size() != slots.size()) {
      DamagedPlan("it lacks an operator");
    }
  }
  void Run(const RunContext& context) const override {
    std::vector<Tensor> tensors;
    tensors.reserve(slots.size());
    std::vector<const Tensor*> pointers;
    for (const int slot : slots) {
      if (slot < 0) {
        pointers.push_back(nullptr);
        continue;
      }
      const Slot& place = context.slot(slot);
      tensors.push_back(Tensor::Unowned(place.dtype, place.shape, context.Write(slot)));
      pointers.push_back(&tensors.back());
    }
    std::vector<Tensor> places(node->outputs.size());
    size_t next = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      if (node->outputs[i] == nullptr) continue;
      const int slot = outputs[next++];
      const Slot& place = context.slot(slot);
      places[i] = Tensor::Unowned(place.dtype, place.shape, context.Write(slot));
    }
    std::vector<Tensor> results =
        EvaluateNode(*graph, *node, pointers, requantize, nullptr, places);
    for (size_t i = 0; i < results.size(); ++i) {
      if (node->outputs[i] == nullptr) continue;
      const Tensor& result = results[i];
      Tensor& place = places[i];
      if (result.shape() != place.shape() || result.dtype() != place.dtype()) {
        // Inferred types are right, so the file must have declared this one.
        Fail(ErrorCode::kShapeMismatch,
             StrCat(op, " computed ", DTypeName(result.dtype()), ShapeToString(result.shape()),
                    " where the model says ", DTypeName(place.dtype()),
                    ShapeToString(place.shape())),
             {.node = name,
              .value = node->outputs[i]->name,
              .hint = "leave the shape open in the model where it depends on data"});
      }
      if (place.bytes() > 0 && result.raw() != place.raw()) {
        std::memcpy(place.raw(), result.raw(), place.bytes());
      }
    }
  }

  const Graph* graph = nullptr;
  const Node* node = nullptr;
  RequantizeMode requantize = RequantizeMode::kUpward;
  std::vector<int> slots;  // indexed by input slot of the node; -1 where left out
};

}  // namespace

void LowerByReference(PlanBuilder& builder, const Node& node) {
  // A function of single elements works in any layout.
  const bool elementwise = OpOf(builder.graph(), node).quant == QuantRule::kUnary &&
                           node.inputs.size() == 1 && node.outputs.size() == 1;
  const Layout layout = elementwise ? builder.LayoutOf(node.inputs[0]) : Layout::kPlain;
  std::vector<int> slots;
  std::vector<int> inputs;
  for (const Value* input : node.inputs) {
    slots.push_back(input ? builder.In(input, layout) : -1);
    if (input) inputs.push_back(slots.back());
  }
  std::vector<int> outputs;
  for (const Value* output : node.outputs) {
    if (output == nullptr) continue;
    outputs.push_back(builder.Out(output, layout));
    if (std::any_of(std::begin(kMovers), std::end(kMovers),
                    [&node](const char* op) { return node.Is(op); })) {
      builder.KeepRange(node.inputs[0], output);
    }
  }
  auto& step = builder.Add<ReferenceStep>(node, "reference", inputs, outputs);
  builder.Keep(&node);
  step.graph = &builder.graph();
  step.node = &node;
  step.requantize = builder.options().requantize;
  step.slots = std::move(slots);
}

RQ_STEP(Reference, ReferenceStep)

}  // namespace requant
