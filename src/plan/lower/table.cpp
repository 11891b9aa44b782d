#include "plan/lower/table.h"

#include <algorithm>

#include "ops/matrix/products.h"
#include "ops/quantized/wide.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

constexpr LowerRow kRows[] = {
#define LOWER(op, domain, function) {op, domain, function, false, nullptr},
#define LOWER_LATE(op, domain, function, fits) {op, domain, function, true, fits},
#include "plan/lower/lowerings.inc"
#undef LOWER
#undef LOWER_LATE
};

}  // namespace

std::span<const LowerRow> LowerTable() { return kRows; }

bool IsWideData(const Node& node) { return IsWide(node.inputs[0]->type.dtype); }
bool IsWideResult(const Node& node) { return IsWide(node.outputs[0]->type.dtype); }

bool IsWideProduct(const Node& node) {
  const auto& readers = node.outputs[0]->consumers;
  return readers.size() == 1 && readers[0]->op_type == "CombineSums16";
}

bool HasVolumes(const Graph& graph) {
  const auto& nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const auto& node) {
    return node->attributes.Ints("kernel_shape").size() == 3;
  });
}

std::unique_ptr<Step> NewStep(StepKind kind) {
  constexpr std::unique_ptr<Step> (*kMakers[])() = {
#define STEP(name, late) New##name##Step,
#include "plan/lower/steps.inc"
#undef STEP
  };
  return kMakers[static_cast<size_t>(kind)]();
}

}  // namespace requant
