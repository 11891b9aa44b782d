#include "plan/pack_activations.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/bitserial/lookup_output.h"
#include "kernels/bitserial/nibbles.h"
#include "kernels/bitserial/pack.h"
#include "kernels/bitserial/planes.h"
#include "kernels/bitserial/popcount.h"
#include "kernels/dwconv/can_compare.h"
#include "kernels/variant/missing.h"
#include "numeric/few_bits.h"
#include "plan/lower/convolution/window_step.h"
#include "plan/lower/elementwise/qbinary_step.h"
#include "plan/lower/reduction/pool_step.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

ConvQ8Step* AsConv(Step& step) {
  return step.kind() == StepKind::kConvQ8 ? static_cast<ConvQ8Step*>(&step) : nullptr;
}
DepthwiseQ8Step* AsDepthwise(Step& step) {
  return step.kind() == StepKind::kDepthwiseQ8 ? static_cast<DepthwiseQ8Step*>(&step) : nullptr;
}
PoolStep<MaxPoolQ8Params>* AsMaxPool(Step& step) {
  return step.kind() == StepKind::kMaxPoolQ8 ? static_cast<PoolStep<MaxPoolQ8Params>*>(&step)
                                             : nullptr;
}
QBinaryStep<QAddParams>* AsAdd(Step& step) {
  return step.kind() == StepKind::kQAdd ? static_cast<QBinaryStep<QAddParams>*>(&step) : nullptr;
}

/// Whether the step's kernel reads or writes nibbles; of convolutions those for few bits do.
template <typename Params>
bool KnowsNibbles(const WindowStep<Params>& step) {
  const auto rows = KernelsOf(step.params);
  return std::any_of(rows.begin(), rows.end(), [&](const auto& row) {
    return step.kernel == row.name && IsLowBits(row.missing);
  });
}

bool IsBlocked(int32_t channels, int32_t groups, int32_t stride, int32_t block) {
  return channels == stride && channels / groups % block == 0;
}

bool IsPlainAdd(const QAddParams& p) {
  return p.rows == 1 && p.a_step == 1 && p.b_step == 1 && p.cols % kNibbleBlock == 0;
}

bool HasResidual(const ConvQ8Step& step) { return step.inputs.size() > 1; }

CodeRange RangeOf(const QAddParams& addition) { return {addition.lo, addition.hi}; }
CodeRange RangeOf(const RequantizeParams& requantize) { return {requantize.lo, requantize.hi}; }
CodeRange RangeOf(const MaxPoolQ8Params& pool) { return {pool.lo, pool.hi}; }

/// The codes that the step computes.
CodeRange CodesOfStep(Step& step) {
  if (const auto* pool = AsMaxPool(step)) return RangeOf(pool->params);
  if (const DepthwiseQ8Step* depthwise = AsDepthwise(step)) {
    return RangeOf(depthwise->requantize.Params());
  }
  const ConvQ8Step* conv = AsConv(step);
  if (conv == nullptr) return RangeOf(AsAdd(step)->params);
  return HasResidual(*conv) ? RangeOf(conv->params.addition) : RangeOf(conv->requantize.Params());
}

bool CanWrite(Step& step) {
  if (const ConvQ8Step* conv = AsConv(step)) {
    const ConvGeometry& g = conv->params.geometry;
    if (!KnowsNibbles(*conv) || !IsBlocked(g.out_c, g.groups, g.output_stride, kNibbleBlock)) {
      return false;
    }
  } else if (const DepthwiseQ8Step* depthwise = AsDepthwise(step)) {
    const ConvGeometry& g = depthwise->params.geometry;
    if (!KnowsNibbles(*depthwise) || !IsBlocked(g.out_c, 1, g.output_stride, kNibbleBlock)) {
      return false;
    }
  } else if (const QBinaryStep<QAddParams>* add = AsAdd(step); !add || !IsPlainAdd(add->params)) {
    return false;
  }
  const CodeRange codes = CodesOfStep(step);
  return codes.hi - codes.lo <= kFewBitsRange;
}

bool CanRead(Step& step, int slot) {
  if (const ConvQ8Step* conv = AsConv(step)) {
    const ConvGeometry& g = conv->params.geometry;
    const bool input =
        conv->inputs[0] != slot || IsBlocked(g.in_c, g.groups, g.input_stride, kNibbleBlock);
    const bool residual = !HasResidual(*conv) || conv->inputs[1] != slot ||
                          IsBlocked(g.out_c, g.groups, conv->params.residual_stride, kNibbleBlock);
    return KnowsNibbles(*conv) && input && residual;
  }
  if (const DepthwiseQ8Step* depthwise = AsDepthwise(step)) {
    const ConvGeometry& g = depthwise->params.geometry;
    return KnowsNibbles(*depthwise) && IsBlocked(g.in_c, 1, g.input_stride, kNibbleBlock);
  }
  const QBinaryStep<QAddParams>* add = AsAdd(step);
  return add != nullptr && IsPlainAdd(add->params);
}

int32_t PlanesOf(CodeRange codes) {
  const auto range = static_cast<uint32_t>(codes.hi - codes.lo);
  return range == 0 ? 1 : std::bit_width(range);
}

/// Whether the convolution adds bits to bits: its own result, the residual and the sums all have
/// two codes.
bool AddsBits(const ConvQ8Step& conv) {
  if (!HasResidual(conv) || conv.run != rq_conv_q8_lookup) return false;
  ConvQ8Params p = conv.params;
  p.requantize = conv.requantize.Params();
  p.residual = &p;  // only its presence matters
  const QAddRange& residual = bitserial::ResidualRange(&p);
  return p.addition.hi - p.addition.lo == 1 && residual.hi - residual.lo == 1 &&
         bitserial::LookupCompares(p);
}

bool CanWritePlanes(Step& step) {
  if (const auto* pool = AsMaxPool(step)) {
    const ConvGeometry& g = pool->params.geometry;
    return IsBlocked(g.out_c, 1, g.output_stride, kPlaneBlock);
  }
  if (const DepthwiseQ8Step* depthwise = AsDepthwise(step)) {
    DwConvQ8Params p = depthwise->params;
    p.requantize = depthwise->requantize.Params();
    return KnowsNibbles(*depthwise) && dwconv::CanCompare(&p) &&
           IsBlocked(p.geometry.out_c, 1, p.geometry.output_stride, kPlaneBlock);
  }
  const ConvQ8Step* conv = AsConv(step);
  if (conv == nullptr || (HasResidual(*conv) && !AddsBits(*conv))) return false;
  const ConvGeometry& g = conv->params.geometry;
  return KnowsNibbles(*conv) && IsBlocked(g.out_c, g.groups, g.output_stride, kPlaneBlock);
}

/// Whether the kernel reads planes of exactly these codes as its input: its padding may be another
/// code.
bool TakesPlanes(const ConvQ8Step& conv, CodeRange codes) {
  if (conv.run == rq_conv_q8_lookup) {
    const auto& header = *static_cast<const bitserial::LookupHeader*>(conv.params.weights);
    return header.input_lo == codes.lo && header.input_range == 1 && PlanesOf(codes) == 1;
  }
  if (conv.run != rq_conv_q8_popcount && conv.run != rq_conv_q8_carry_save) return false;
  const auto& header = *static_cast<const bitserial::PopcountHeader*>(conv.params.weights);
  return header.input_lo == codes.lo && header.input_planes == PlanesOf(codes);
}

/// Whether the kernel adds a plane of exactly these codes as its residual.
bool AddsPlanes(const ConvQ8Step& conv, CodeRange codes) {
  const ConvQ8Params& p = conv.params;
  const ConvGeometry& g = p.geometry;
  const int32_t least = bitserial::ResidualRange(&p).lo + bitserial::ResidualZero(&p);
  return least == codes.lo && PlanesOf(codes) == 1 && AddsBits(conv) &&
         IsBlocked(g.out_c, g.groups, p.residual_stride, kPlaneBlock);
}

bool CanReadPlanes(Step& step, int slot, CodeRange codes) {
  const ConvQ8Step* conv = AsConv(step);
  if (conv == nullptr) return false;
  const ConvGeometry& g = conv->params.geometry;
  const bool input =
      conv->inputs[0] != slot ||
      (IsBlocked(g.in_c, g.groups, g.input_stride, kPlaneBlock) && TakesPlanes(*conv, codes));
  const bool residual = !HasResidual(*conv) || conv->inputs[1] != slot || AddsPlanes(*conv, codes);
  return input && residual;
}

/// Whether storing `slot` as planes (or else two codes to a byte) would mix both forms in a step
/// that adds it as a residual, or computes it by adding one: no kernel handles both.
bool Mixes(const Plan& plan, Step& step, int slot, bool as_planes) {
  const ConvQ8Step* conv = AsConv(step);
  if (conv == nullptr || !HasResidual(*conv)) return false;
  const bool computes = conv->outputs[0] == slot;
  if (!computes && conv->inputs[1] != slot) return false;
  const Slot& other =
      plan.slots[static_cast<size_t>(computes ? conv->inputs[1] : conv->outputs[0])];
  return as_planes ? other.packed : other.planes != 0;
}

/// The step of an addition with some of its tensors packed.
std::unique_ptr<Step> PackedAdd(Plan& plan, QBinaryStep<QAddParams>& add) {
  auto step = std::make_unique<QBinaryStep<QAddNibblesParams>>();
  const auto packed = [&](int slot) { return plan.slots[static_cast<size_t>(slot)].packed; };
  QAddNibblesParams& p = step->params;
  p.add = add.params;
  p.blocks = add.params.cols / kNibbleBlock;
  p.a_packed = packed(add.inputs[0]) ? 1 : 0;
  p.b_packed = packed(add.inputs[1]) ? 1 : 0;
  p.out_packed = packed(add.outputs[0]) ? 1 : 0;
  p.is_float = std::string_view(add.kernel).find("float") != std::string_view::npos ? 1 : 0;
  step->run = rq_qadd_nibbles;
  step->name = add.name;
  step->op = add.op;
  step->kernel = QAddNibblesKernels()[0].name;
  step->inputs = add.inputs;
  step->outputs = add.outputs;
  step->macs = add.macs;
  step->may_overwrite = add.may_overwrite && p.a_packed == p.out_packed;
  const auto bytes = [](int32_t is_packed) {
    return static_cast<size_t>(kNibbleBlock / (is_packed != 0 ? 2 : 1));
  };
  using enum PartField::Kind;
  Parts& parts = step->parts;
  parts = add.parts;
  if (parts.count > 1) {
    parts.kernel = KernelEntryOf(rq_qadd_nibbles);
    parts.total = static_cast<int64_t>(p.blocks);
    parts.tile = kNibbleChunk / kNibbleBlock;
    parts.fields = {{{kCount, offsetof(QAddNibblesParams, blocks), 0},
                     {kPointer, offsetof(QAddNibblesParams, a), bytes(p.a_packed)},
                     {kPointer, offsetof(QAddNibblesParams, b), bytes(p.b_packed)},
                     {kPointer, offsetof(QAddNibblesParams, out), bytes(p.out_packed)},
                     {kWorkspace, offsetof(QAddNibblesParams, workspace), kNibbleAddWorkspace}}};
  }
  Slot scratch;
  scratch.name = "workspace";
  scratch.dtype = DType::kUint8;
  scratch.bytes = kNibbleAddWorkspace * static_cast<size_t>(parts.count);
  scratch.shape = {static_cast<int64_t>(scratch.bytes)};
  scratch.root = static_cast<int>(plan.slots.size());
  step->workspace = scratch.root;
  plan.slots.push_back(std::move(scratch));
  return step;
}

/// Facts about a slot before anything is packed.
struct Use {
  bool own = false;  // whether it is bytes in memory that nothing else uses
  Step* writer = nullptr;
  std::vector<Step*> readers;
};

std::vector<Use> UsesOf(const Plan& plan) {
  std::vector<Use> uses(plan.slots.size());
  const auto use = [&](int slot) -> Use& { return uses[static_cast<size_t>(slot)]; };
  for (size_t i = 0; i < uses.size(); ++i) {
    const Slot& slot = plan.slots[i];
    uses[i].own =
        slot.home == Slot::Home::kArena && slot.root == static_cast<int>(i) && IsByte(slot.dtype);
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    if (plan.slots[i].root != static_cast<int>(i)) use(plan.slots[i].root).own = false;
  }
  for (const int slot : plan.outputs) use(slot).own = false;
  for (const auto& step : plan.steps) {
    for (const int slot : step->outputs) use(slot).writer = step.get();
    for (const int slot : step->inputs) use(slot).readers.push_back(step.get());
  }
  return uses;
}

}  // namespace

void PackActivations(Plan& plan, const PlanOptions& options) {
  const std::vector<Use> uses = UsesOf(plan);
  std::vector<int32_t> base(uses.size(), 0);
  for (size_t i = 0; i < uses.size(); ++i) {
    const Use& use = uses[i];
    if (!use.own || use.writer == nullptr || use.readers.empty()) continue;
    Slot& slot = plan.slots[i];
    const auto tuned = options.tuned.find(use.writer->tuning);
    const Tuned::Output wanted =
        tuned == options.tuned.end() ? Tuned::Output::kUsual : tuned->second.output;
    if (wanted == Tuned::Output::kBytes) continue;
    const bool compact = options.compact || wanted == Tuned::Output::kPacked;
    const int at = static_cast<int>(i);
    const auto reads_planes = [&](Step* step) {
      return CanReadPlanes(*step, at, CodesOfStep(*use.writer)) && !Mixes(plan, *step, at, true);
    };
    const auto reads_packed = [&](Step* step) {
      return CanRead(*step, at) && !Mixes(plan, *step, at, false);
    };
    if (CanWritePlanes(*use.writer) && !Mixes(plan, *use.writer, at, true) &&
        std::all_of(use.readers.begin(), use.readers.end(), reads_planes)) {
      slot.planes = static_cast<uint8_t>(PlanesOf(CodesOfStep(*use.writer)));
      slot.bytes = slot.bytes / 8 * slot.planes;
    } else if (compact && CanWrite(*use.writer) && !Mixes(plan, *use.writer, at, false) &&
               std::all_of(use.readers.begin(), use.readers.end(), reads_packed)) {
      slot.packed = true;
      slot.bytes /= 2;
      base[i] = CodesOfStep(*use.writer).lo;
    }
  }
  for (auto& step : plan.steps) {
    const auto slot_of = [&](int slot) -> const Slot& {
      return plan.slots[static_cast<size_t>(slot)];
    };
    const auto packed = [&](int slot) { return slot_of(slot).packed; };
    const auto base_of = [&](int slot) { return base[static_cast<size_t>(slot)]; };
    if (ConvQ8Step* conv = AsConv(*step)) {
      conv->params.input_packed = packed(conv->inputs[0]) ? 1 : 0;
      conv->params.input_base = base_of(conv->inputs[0]);
      conv->params.output_packed = packed(conv->outputs[0]) ? 1 : 0;
      if (HasResidual(*conv)) {
        conv->params.residual_packed = packed(conv->inputs[1]) ? 1 : 0;
        conv->params.residual_base = base_of(conv->inputs[1]);
        conv->params.residual_planes = slot_of(conv->inputs[1]).planes;
      }
      conv->params.input_planes = slot_of(conv->inputs[0]).planes;
      conv->params.output_planes = slot_of(conv->outputs[0]).planes;
    } else if (DepthwiseQ8Step* depthwise = AsDepthwise(*step)) {
      depthwise->params.input_packed = packed(depthwise->inputs[0]) ? 1 : 0;
      depthwise->params.input_base = base_of(depthwise->inputs[0]);
      depthwise->params.output_packed = packed(depthwise->outputs[0]) ? 1 : 0;
      depthwise->params.output_planes = slot_of(depthwise->outputs[0]).planes;
    } else if (auto* pool = AsMaxPool(*step)) {
      pool->params.output_planes = slot_of(pool->outputs[0]).planes;
    } else if (QBinaryStep<QAddParams>* add = AsAdd(*step)) {
      const std::vector<int> slots = {add->inputs[0], add->inputs[1], add->outputs[0]};
      if (std::none_of(slots.begin(), slots.end(), packed)) continue;
      auto replaced = PackedAdd(plan, *add);
      auto& params = static_cast<QBinaryStep<QAddNibblesParams>&>(*replaced).params;
      params.a_base = base_of(slots[0]);
      params.b_base = base_of(slots[1]);
      step = std::move(replaced);
    }
  }
}

}  // namespace requant
