#include "plan/lower/table.h"

#include <algorithm>

#include "ops/matrix/products.h"
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/elementwise/qelementwise.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

/// `fits` of rows whose code is among the extended operators while their operator is not.
bool Any(const Node&) { return true; }

constexpr LowerRow kRows[] = {
#define LOWER(op, domain, function, ...) {op, domain, function, __VA_ARGS__},
#include "plan/lower/lowerings.inc"
#undef LOWER
};

}  // namespace

QAddNarrow (*const kMakeQAddNarrow)(const QAddMultipliers&, QAddRange, QAddRange, int32_t, int32_t,
                                    int32_t) = MakeQAddNarrow;
NarrowChannels (*const kAddNarrowRequantize)(PreparedRequantize&,
                                             const std::vector<int64_t>&) = AddNarrowRequantize;

std::span<const LowerRow> LowerTable() { return kRows; }

LowerFunction VolumeLowering(const Graph& graph) {
  const auto& nodes = graph.nodes();
  const auto is_volume = [](const auto& node) {
    return node->attributes.Ints("kernel_shape").size() == 3;
  };
  return std::any_of(nodes.begin(), nodes.end(), is_volume) ? LowerVolume : nullptr;
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
