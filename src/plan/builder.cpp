#include "plan/builder.h"

#include <algorithm>
#include <utility>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "kernels/list.h"
#include "plan/lower/move/layout.h"

namespace requant {
namespace {

void CheckForcedKernels(const std::vector<ForcedKernel>& forced) {
  const std::vector<KernelInfo> known = ListKernels();
  for (const ForcedKernel& wanted : forced) {
    const auto found = std::find_if(known.begin(), known.end(), [&](const KernelInfo& row) {
      return wanted.family == row.family && wanted.kernel == row.name;
    });
    if (found != known.end() && found->missing != nullptr) {
      Fail(ErrorCode::kUnsupported, StrCat("kernel '", wanted.kernel, "' needs ", found->missing,
                                           "; this machine has none"));
    }
    if (found == known.end()) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("kernel family '", wanted.family, "' has no kernel '", wanted.kernel, "'"),
           {.hint = "engineInfo() lists the kernels"});
    }
  }
}

}  // namespace

ImageDims ImageOf(const Shape& shape) {
  ImageDims dims;
  if (shape.size() < 3 || shape.size() > 5) return dims;
  dims.batch = shape[0];
  dims.channels = shape[1];
  if (shape.size() >= 4) dims.height = shape[2];
  if (shape.size() == 5) dims.height *= shape[3];
  dims.width = shape.back();
  return dims;
}

bool LayoutsCoincide(const Shape& shape) {
  const ImageDims dims = ImageOf(shape);
  return dims.channels <= 1 || dims.height * dims.width <= 1;
}

PlanBuilder::PlanBuilder(Plan& plan, const PlanOptions& options, PlanJournal* journal)
    : plan_(plan), options_(options), journal_(journal) {
  CheckForcedKernels(options.force_kernels);
  graph().Renumber();
  fates_.resize(graph().nodes().size());
  int index = 0;
  for (const Value* input : graph().inputs()) {
    if (input->is_constant()) continue;
    const int slot = NewSlot(*input, Layout::kPlain);
    plan_.slots.back().home = Slot::Home::kInput;
    plan_.slots.back().input = index++;
    places_[input].slots[0] = slot;
  }
}

void PlanBuilder::Begin(const Node* node) {
  if (node) node_ = node;
  if (journal_ == nullptr) return;
  journal_->again = false;
  journal_->current = journal_->nodes.size();
  LoweredNode& made = journal_->nodes.emplace_back();
  made.node = node;
  made.first_slot = plan_.slots.size();
  made.first_step = plan_.steps.size();
}

void PlanBuilder::BeginAgain(size_t index) {
  LoweredNode& made = journal_->nodes[index];
  if (made.node) node_ = made.node;
  journal_->again = true;
  journal_->current = index;
  journal_->next_slot = made.first_slot;
  journal_->next_step = made.first_step;
  for (const auto& [value, layout] : made.places) {
    places_[value].slots[static_cast<size_t>(layout)] = -1;
  }
  for (const Node* node : made.absorbed) fates_[node->position].absorbed = nullptr;
  made.places.clear();
  made.absorbed.clear();
  made.packed.clear();
}

void PlanBuilder::End() {
  if (journal_ == nullptr) return;
  LoweredNode& made = *Current();
  if (!journal_->again) {
    made.slots_end = plan_.slots.size();
    made.steps_end = plan_.steps.size();
  } else if (journal_->next_slot != made.slots_end || journal_->next_step != made.steps_end) {
    OtherForm();
  }
  journal_->again = false;
}

void PlanBuilder::OtherForm() {
  Fail(ErrorCode::kInternal, "an operator needs other steps for these shapes");
}

int PlanBuilder::NewIndex() {
  size_t index = plan_.slots.size();
  if (journal_ && journal_->again) {
    index = journal_->next_slot++;
    if (index >= Current()->slots_end) OtherForm();
  } else {
    plan_.slots.emplace_back();
  }
  Slot slot;
  slot.root = static_cast<int>(index);
  plan_.slots[index] = std::move(slot);
  return static_cast<int>(index);
}

void PlanBuilder::SetPlace(const Value* value, Layout layout, int slot) {
  places_[value].slots[static_cast<size_t>(layout)] = slot;
  if (journal_) Current()->places.emplace_back(value, layout);
}

void PlanBuilder::Absorb(const Node* node, const Node& by) {
  fates_[node->position].absorbed = &by;
  if (journal_) Current()->absorbed.push_back(node);
}

Value* PlanBuilder::NewValue(const std::string& name, DType dtype, const Shape& shape) {
  if (journal_) Current()->once = true;
  return plan_.graph->AddValue(name, {dtype, ToSymbolic(shape)});
}

const Node* PlanBuilder::Follower(const Node& node) const {
  if (!options_.fuse || node.group.empty()) return nullptr;
  const Node* next = node.output() ? graph().SoleConsumer(node.output()) : nullptr;
  const bool fits = next && next->group == node.group && next->outputs.size() == 1 &&
                    next->output() && !IsAbsorbed(next);
  return fits ? next : nullptr;
}

void PlanBuilder::NoteGroups() {
  const auto& nodes = graph().nodes();
  for (const auto& node : nodes) node->group.clear();
  for (const auto& node : nodes) {
    const Node* leader = fates_[node->position].absorbed;
    if (leader == nullptr) continue;
    node->group = leader->name;
    nodes[leader->position]->group = leader->name;
  }
}

int PlanBuilder::NewSlot(const Value& value, Layout layout) {
  const int index = NewIndex();
  Slot& slot = plan_.slots[static_cast<size_t>(index)];
  slot.name = value.name;
  slot.dtype = value.type.dtype;
  slot.shape = value.type.StaticShape();
  slot.layout = layout;
  slot.bytes = DTypeBytes(slot.dtype, static_cast<size_t>(NumElements(slot.shape)));
  return index;
}

int PlanBuilder::In(const Value* value, Layout layout) {
  if (const int rows = Growing(value); rows >= 0) return DenseCopy(value, rows, layout);
  const auto wanted = static_cast<size_t>(layout);
  const Places& places = places_[value];
  const int same = places.slots[wanted], other = places.slots[1 - wanted];
  if (Exists(same)) return same;
  if (Exists(other)) {
    const int made = Convert(value, other, layout);
    SetPlace(value, layout, made);
    return made;
  }
  if (!value->is_constant()) {
    Fail(ErrorCode::kInternal, StrCat("value '", value->name, "' is planned before its producer"));
  }
  const int index = NewSlot(*value, Layout::kPlain);
  Tensor& held = journal_ ? journal_->constants[index] : plan_.constants.emplace_back();
  held = value->constant;
  Slot& slot = plan_.slots[static_cast<size_t>(index)];
  slot.home = Slot::Home::kConstant;
  slot.constant = std::as_const(held).raw();
  SetPlace(value, Layout::kPlain, index);
  return layout == Layout::kPlain ? index : In(value, layout);
}

int PlanBuilder::Convert(const Value* value, int from, Layout to) {
  const int made = NewSlot(*value, to);
  if (LayoutsCoincide(slot(from).shape)) {
    plan_.slots[static_cast<size_t>(made)].root = slot(from).root;
  } else {
    AddLayoutStep(*this, *value, from, made, to);
  }
  return made;
}

Layout PlanBuilder::LayoutOf(const Value* value) const {
  const auto found = places_.find(value);
  const bool channels_last = found != places_.end() && Exists(found->second.slots[1]);
  return channels_last ? Layout::kChannelsLast : Layout::kPlain;
}

int PlanBuilder::Out(const Value* value, Layout layout) {
  const int made = NewSlot(*value, layout);
  SetPlace(value, layout, made);
  return made;
}

void PlanBuilder::Alias(const Value* value, int source, Layout layout) {
  const int made = Out(value, layout);
  plan_.slots[static_cast<size_t>(made)].root = slot(source).root;
}

bool PlanBuilder::WriteInto(int slot, int whole, size_t offset, size_t stride) {
  Slot& part = plan_.slots[static_cast<size_t>(slot)];
  const bool joined = journal_ && journal_->again && part.root == whole;  // from the last time
  if (part.home != Slot::Home::kArena || (part.root != slot && !joined)) return false;
  for (const Slot& other : plan_.slots) {
    if (other.root == slot && &other != &part) return false;
  }
  Step* producer = nullptr;
  for (const auto& step : plan_.steps) {
    const auto names = [slot](const std::vector<int>& list) {
      return std::find(list.begin(), list.end(), slot) != list.end();
    };
    if (names(step->inputs)) return false;
    if (names(step->outputs)) producer = step.get();
  }
  if (producer == nullptr || (stride != 0 && !producer->WriteWithStride(stride))) return false;
  producer->may_overwrite = false;
  part.root = whole;
  part.within = offset;
  if (journal_) journal_->joined_by[slot] = journal_->current;
  return true;
}

CodeRange CodesOf(DType dtype) {
  return dtype == DType::kInt8 ? CodeRange{-128, 127} : CodeRange{0, 255};
}

CodeRange Join(CodeRange a, CodeRange b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

namespace {

/// The range of constant bytes, or `all` if they differ by 128 or more, since rows for few bits and
/// for 7 bits need less. Such bytes end the walk over what may be a table of many megabytes.
CodeRange RangeOfBytes(const Tensor& bytes, CodeRange all) {
  const auto* data = static_cast<const uint8_t*>(bytes.raw());
  const int32_t flip = bytes.dtype() == DType::kInt8 ? 0x80 : 0;  // signed bytes in their order
  int32_t lo = 255, hi = 0;
  for (int64_t i = 0, count = bytes.count(); i < count; ++i) {
    const int32_t code = data[i] ^ flip;
    lo = code < lo ? code : lo;
    hi = code > hi ? code : hi;
    if (hi - lo >= 128) return all;
  }
  return lo <= hi ? CodeRange{lo - flip, hi - flip} : all;
}

}  // namespace

CodeRange PlanBuilder::RangeOf(const Value* value) const {
  const CodeRange all = CodesOf(value->type.dtype);
  const auto found = places_.find(value);
  if (found != places_.end() && found->second.range) return *found->second.range;
  if (!value->is_constant() || !IsByte(value->type.dtype)) return all;
  return RangeOfBytes(value->constant, all);
}

void PlanBuilder::SetRange(const Value* value, CodeRange range) {
  const CodeRange all = CodesOf(value->type.dtype);
  places_[value].range = {std::clamp(range.lo, all.lo, all.hi),
                          std::clamp(range.hi, all.lo, all.hi)};
}

void PlanBuilder::KeepRange(const Value* input, const Value* output) {
  if (IsByte(output->type.dtype) && input->type.dtype == output->type.dtype) {
    SetRange(output, RangeOf(input));
  }
}

int PlanBuilder::Workspace(size_t bytes) {
  const int index = NewIndex();
  Slot& scratch = plan_.slots[static_cast<size_t>(index)];
  scratch.name = "workspace";
  scratch.dtype = DType::kUint8;
  scratch.shape = {static_cast<int64_t>(bytes)};
  scratch.bytes = bytes;
  return index;
}

SharedWeights& PlanBuilder::Shared(PackingKey key, const char* row, SharedWeights& own) const {
  key.text += row;
  SharedWeights* entry = options_.packed->Find(std::move(key));
  return entry ? *entry : own;
}

SharedWeights& PlanBuilder::SharedLean(PackingKey key, const char* row,
                                       std::span<const Tensor* const> constants,
                                       SharedWeights& own) const {
  for (const Tensor* constant : constants) key.Add(constant->lean());
  return options_.packed ? Shared(std::move(key), row, own) : own;
}

std::vector<Tensor> PlanBuilder::BytesOf(std::span<const Tensor* const> constants) {
  std::vector<Tensor> bytes;
  for (const Tensor* constant : constants) bytes.push_back(constant->lean()->Borrow());
  return bytes;
}

void PlanBuilder::Drop(std::span<const Tensor* const> constants,
                       const std::shared_ptr<const LeanBytes::Source>& source) {
  for (size_t i = 0; i < constants.size(); ++i) constants[i]->lean()->Drop(source, i);
}

uint8_t* PlanBuilder::Hold(const SharedWeights& packed) {
  if (journal_ && journal_->again) {
    Current()->packed.push_back(packed);
    return packed->data();
  }
  // Layers with equal weights share them.
  if (std::find(plan_.packed.begin(), plan_.packed.end(), packed) == plan_.packed.end()) {
    plan_.packed.push_back(packed);
    plan_.packed_bytes = CheckedAdd(plan_.packed_bytes, packed->size());
  }
  return packed->data();
}

uint8_t* PlanBuilder::Packed(size_t bytes) { return Hold(std::make_shared<AlignedBuffer>(bytes)); }

Step* PlanBuilder::Former() const {
  if (journal_ == nullptr || !journal_->again || Current()->fresh) return nullptr;
  const size_t next = journal_->next_step;
  return next < Current()->steps_end ? plan_.steps[next].get() : nullptr;
}

void PlanBuilder::Append(std::unique_ptr<Step> step, const Node& node, const char* kernel,
                         const std::vector<int>& inputs, const std::vector<int>& outputs) {
  step->name = node.name;
  step->op = node.op_type;
  step->kernel = kernel;
  step->inputs = inputs;
  step->outputs = outputs;
  if (journal_ && journal_->again) {
    if (journal_->next_step >= Current()->steps_end) OtherForm();
    plan_.steps[journal_->next_step++] = std::move(step);
  } else {
    plan_.steps.push_back(std::move(step));
  }
}

void PlanBuilder::ReleaseConstants(const Node& node) {
  if (journal_) return;
  if (fates_[node.position].kept) return;
  for (Value* input : node.inputs) {
    if (input && input->is_constant() && input->consumers.size() == 1 && !graph().IsOutput(input)) {
      input->constant = Tensor();
    }
  }
}

void PlanBuilder::ReleaseConstants() {
  if (journal_) return;
  for (const auto& value : graph().values()) {
    const auto is_kept = [this](const Node* node) { return fates_[node->position].kept; };
    if (std::none_of(value->consumers.begin(), value->consumers.end(), is_kept)) {
      value->constant = Tensor();
    }
  }
}

void PlanBuilder::NoKernel(const char* family) {
  Fail(ErrorCode::kInternal, StrCat("no kernel of family ", family, " fits"));
}

const Tuned* PlanBuilder::TunedFor(const std::string& tuning) const {
  const auto found = options_.tuned.find(tuning);
  return found == options_.tuned.end() ? nullptr : &found->second;
}

void PlanBuilder::NoteChoice(std::string_view family, const char* row) const {
  if (IsForced(family) && node_) choices_[std::string(family)][node_->name] = row;
}

const std::string* PlanBuilder::Forced(std::string_view family) const {
  for (const ForcedKernel& forced : options_.force_kernels) {
    if (forced.family == family) return &forced.kernel;
  }
  return nullptr;
}

}  // namespace requant
