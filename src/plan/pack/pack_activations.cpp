#include "plan/pack/pack_activations.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/bitserial/nibbles.h"
#include "plan/pack/packable.h"
#include "plan/pack/planes.h"

namespace requant {
namespace {

bool IsPlainAdd(const QAddParams& p) {
  return p.rows == 1 && p.a_step == 1 && p.b_step == 1 && p.cols % kNibbleBlock == 0;
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

int64_t ChannelsOf(const Slot& slot) {
  return slot.shape.empty()                     ? 1
         : slot.layout == Layout::kChannelsLast ? slot.shape[1]
                                                : slot.shape.back();
}

/// Has convolutions and products that read a transposed view of a value, which lies in memory as
/// the value does, read the value itself: they know their own shape.
void ReadPastViews(Plan& plan) {
  std::vector<uint8_t> is_view(plan.slots.size());
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    const Slot& root = plan.slots[static_cast<size_t>(slot.root)];
    is_view[i] = slot.root != static_cast<int>(i) && slot.within == 0 &&
                 root.home == Slot::Home::kArena && slot.dtype == root.dtype &&
                 slot.bytes == root.bytes && ChannelsOf(slot) == ChannelsOf(root);
  }
  const auto keep = [&](int slot) { is_view[static_cast<size_t>(slot)] = 0; };
  for (const int slot : plan.outputs) keep(slot);
  for (const auto& step : plan.steps) {
    for (const int slot : step->outputs) keep(slot);
    if (AsProduct(*step) != nullptr) continue;
    for (const int slot : step->inputs) keep(slot);
  }
  for (const auto& step : plan.steps) {
    for (int& slot : step->inputs) {
      if (is_view[static_cast<size_t>(slot)] != 0) {
        slot = plan.slots[static_cast<size_t>(slot)].root;
      }
    }
  }
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
  const auto touch = [&](int slot) {
    const int root = plan.slots[static_cast<size_t>(slot)].root;
    if (root != slot) use(root).own = false;
  };
  for (const int slot : plan.outputs) {
    touch(slot);
    use(slot).own = false;
  }
  for (const auto& step : plan.steps) {
    for (const int slot : step->outputs) {
      touch(slot);
      use(slot).writer = step.get();
    }
    for (const int slot : step->inputs) {
      touch(slot);
      use(slot).readers.push_back(step.get());
    }
  }
  return uses;
}

/// Everything that reads a value as planes: steps that read the value itself, and those that read
/// it through a lookup which leaves the planes as they are.
struct PlaneReaders {
  bool all = true;             // whether every reader of the value is among them
  std::vector<Step*> lookups;  // disappear
  std::vector<Step*> behind;   // read what these lookups make
  std::vector<int> spread;     // for each step behind: the spread of what it reads
};

class Packer {
 public:
  Packer(Plan& plan, const PlanOptions& options)
      : plan_(plan),
        options_(options),
        uses_(UsesOf(plan)),
        base_(plan.slots.size()),
        spread_(plan.slots.size()) {}

  void Run() {
    for (size_t i = 0; i < uses_.size(); ++i) Pack(static_cast<int>(i));
    std::erase_if(plan_.steps, [&](const auto& step) {
      return std::count(skipped_.begin(), skipped_.end(), step.get()) != 0;
    });
    for (auto& step : plan_.steps) Set(step);
  }

 private:
  Use& UseOf(int slot) { return uses_[static_cast<size_t>(slot)]; }
  Slot& SlotOf(int slot) { return plan_.slots[static_cast<size_t>(slot)]; }
  int32_t BaseOf(int slot) const { return base_[static_cast<size_t>(slot)]; }

  /// The lookup that computes what the step reads, or null.
  Step* LookupBefore(const Step& step) {
    if (step.inputs.empty()) return nullptr;
    Step* writer = UseOf(step.inputs[0]).writer;
    return writer != nullptr && AsLut(*writer) != nullptr ? writer : nullptr;
  }

  /// Adds the steps that read `slot`, of these codes, through a lookup. Returns whether all can.
  bool AddBehind(Step& lookup, int slot, CodeRange codes, PlaneReaders& readers) {
    const int made = lookup.outputs[0];
    const Use& use = UseOf(made);
    const PlaneCodes looked_up = LookedUp(lookup, codes);
    if (looked_up.range.hi < looked_up.range.lo || !use.own || use.readers.empty() ||
        SlotOf(made).planes != 0) {
      return false;
    }
    for (Step* step : use.readers) {
      const auto reads = [&](int input) { return input == slot || input == made; };
      if (!CanReadPlanes(*step, made, looked_up) || step->inputs[0] != made ||
          std::count_if(step->inputs.begin(), step->inputs.end(), reads) != 1) {
        return false;
      }
      readers.behind.push_back(step);
      readers.spread.push_back(looked_up.spread);
    }
    readers.lookups.push_back(&lookup);
    return true;
  }

  PlaneReaders ReadersOf(int slot, PlaneCodes codes) {
    PlaneReaders readers;
    for (Step* step : UseOf(slot).readers) {
      const bool reads =
          AsLut(*step) != nullptr && codes.spread == 0
              ? AddBehind(*step, slot, codes.range, readers)
              : CanReadPlanes(*step, slot, codes) && !Mixes(plan_, *step, slot, true);
      if (!reads) readers.all = false;
    }
    return readers;
  }

  /// Has steps read planes of `slot` instead of what lookups would make of it.
  void Skip(int slot, const PlaneReaders& readers) {
    Use& use = UseOf(slot);
    for (Step* lookup : readers.lookups) {
      skipped_.push_back(lookup);
      UseOf(lookup->outputs[0]) = {};
      std::erase(use.readers, lookup);
      if (readers.lookups.size() == 1 && use.readers.empty()) use.writer->op += "+" + lookup->op;
    }
    for (size_t i = 0; i < readers.behind.size(); ++i) {
      Step& step = *readers.behind[i];
      step.inputs[0] = slot;
      AsProduct(step)->params.input_spread = readers.spread[i];
      use.readers.push_back(&step);
    }
  }

  void Pack(int at) {
    const Use& use = UseOf(at);
    if (!use.own || use.writer == nullptr || use.readers.empty()) return;
    Slot& slot = SlotOf(at);
    const auto tuned = options_.tuned.find(use.writer->tuning);
    const Tuned::Output wanted =
        tuned == options_.tuned.end() ? Tuned::Output::kUsual : tuned->second.output;
    if (wanted == Tuned::Output::kBytes) return;
    if (!MayPack(*use.writer)) return;
    const PlaneCodes codes = PlaneCodesOf(*use.writer, LookupBefore(*use.writer));
    if (CanWritePlanes(*use.writer, codes) && !Mixes(plan_, *use.writer, at, true)) {
      const PlaneReaders readers = ReadersOf(at, codes);
      if (readers.all) {
        slot.planes = static_cast<uint8_t>(PlanesOf(codes));
        slot.bytes = slot.bytes / 8 * slot.planes;
        spread_[static_cast<size_t>(at)] = codes.spread;
        Skip(at, readers);
        return;
      }
    }
    const auto reads_packed = [&](Step* step) {
      return CanRead(*step, at) && !Mixes(plan_, *step, at, false);
    };
    const bool compact = options_.compact || wanted == Tuned::Output::kPacked;
    if (compact && CanWrite(*use.writer) && !Mixes(plan_, *use.writer, at, false) &&
        std::all_of(use.readers.begin(), use.readers.end(), reads_packed)) {
      slot.packed = true;
      slot.bytes /= 2;
      base_[static_cast<size_t>(at)] = codes.range.lo;
    }
  }

  /// Whether some form of packing knows the step.
  static bool MayPack(Step& step) {
    return AsConv(step) != nullptr || AsDepthwise(step) != nullptr || AsMaxPool(step) != nullptr ||
           AsAdd(step) != nullptr || AsLut(step) != nullptr;
  }

  /// Tells the step how its operands and its result lie.
  void Set(std::unique_ptr<Step>& step) {
    const auto packed = [&](int slot) { return SlotOf(slot).packed; };
    const auto spread = [&](int slot) { return spread_[static_cast<size_t>(slot)]; };
    if (ConvQ8Step* conv = AsConv(*step)) {
      conv->params.input_packed = packed(conv->inputs[0]) ? 1 : 0;
      conv->params.input_base = BaseOf(conv->inputs[0]);
      conv->params.output_packed = packed(conv->outputs[0]) ? 1 : 0;
      if (HasResidual(*conv)) {
        conv->params.residual_packed = packed(conv->inputs[1]) ? 1 : 0;
        conv->params.residual_base = BaseOf(conv->inputs[1]);
        conv->params.residual_planes = SlotOf(conv->inputs[1]).planes;
      }
      conv->params.input_planes = SlotOf(conv->inputs[0]).planes;
      conv->params.output_planes = SlotOf(conv->outputs[0]).planes;
      if (spread(conv->inputs[0]) != 0) conv->params.input_spread = 1;
    } else if (ConvQ8Step* product = AsProduct(*step)) {
      product->params.input_planes = SlotOf(product->inputs[0]).planes;
      if (spread(product->inputs[0]) != 0) product->params.input_spread = 1;
    } else if (DepthwiseQ8Step* depthwise = AsDepthwise(*step)) {
      depthwise->params.input_packed = packed(depthwise->inputs[0]) ? 1 : 0;
      depthwise->params.input_base = BaseOf(depthwise->inputs[0]);
      depthwise->params.output_packed = packed(depthwise->outputs[0]) ? 1 : 0;
      depthwise->params.output_planes = SlotOf(depthwise->outputs[0]).planes;
    } else if (auto* pool = AsMaxPool(*step)) {
      pool->params.output_planes = SlotOf(pool->outputs[0]).planes;
      pool->params.output_spread = spread(pool->outputs[0]);
    } else if (AsLut(*step) != nullptr) {
      if (SlotOf(step->outputs[0]).planes != 0) step = BitLookup(*step);
    } else if (QBinaryStep<QAddParams>* add = AsAdd(*step)) {
      const std::vector<int> slots = {add->inputs[0], add->inputs[1], add->outputs[0]};
      if (std::none_of(slots.begin(), slots.end(), packed)) return;
      auto replaced = PackedAdd(plan_, *add);
      auto& params = static_cast<QBinaryStep<QAddNibblesParams>&>(*replaced).params;
      params.a_base = BaseOf(slots[0]);
      params.b_base = BaseOf(slots[1]);
      step = std::move(replaced);
    }
  }

  Plan& plan_;
  const PlanOptions& options_;
  std::vector<Use> uses_;
  std::vector<int32_t> base_;         // by slot: the least code, where it is two codes to a byte
  std::vector<int32_t> spread_;       // by slot: the spread for all that read its planes
  std::vector<const Step*> skipped_;  // lookups that nothing reads any more
};

}  // namespace

void PackActivations(Plan& plan, const PlanOptions& options) {
  ReadPastViews(plan);
  Packer(plan, options).Run();
  // Nothing reads or writes the views of a value that is packed now.
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    Slot& slot = plan.slots[i];
    const Slot& root = plan.slots[static_cast<size_t>(slot.root)];
    if (root.packed || root.planes != 0) slot.root = static_cast<int>(i);
  }
}

}  // namespace requant
