#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/journal.h"
#include "plan/plan.h"
#include "plan/unheeded_forces.h"
#include "tensor/lean_bytes.h"

namespace requant {

/// The codes that an 8-bit value of the graph can hold, both ends included.
struct CodeRange {
  int32_t lo = -128, hi = 255;
  bool operator==(const CodeRange&) const = default;
};
/// The range of all codes of an 8-bit type.
CodeRange CodesOf(DType dtype);
/// The smallest range that contains both.
CodeRange Join(CodeRange a, CodeRange b);

/// Lean constants (Tensor::Lean) for PlanBuilder::PackLean.
template <typename Weights>
struct LeanParts {
  std::span<const Tensor* const> constants;
  /// Points weights at the bytes of the constants.
  void (*point)(Weights& weights, const Tensor* bytes) = nullptr;
  /// Writes the bytes of constant `part` from their packed form into zeros. It must not follow
  /// pointers in `weights`. nullptr where the row's form cannot be unpacked.
  void (*unpack)(const Weights& weights, const void* packed, size_t part, void* to) = nullptr;
};

/// Weights in the form of a row, as the source of the bytes of lean constants.
template <typename Weights>
class PackedSource : public LeanBytes::Source {
 public:
  using Unpack = void (*)(const Weights& weights, const void* packed, size_t part, void* to);
  PackedSource(const Weights& weights, SharedWeights packed, Unpack unpack)
      : weights_(weights), packed_(std::move(packed)), unpack_(unpack) {}
  void Restore(size_t part, void* to) const override {
    unpack_(weights_, packed_->data(), part, to);
  }

 private:
  Weights weights_;
  SharedWeights packed_;
  Unpack unpack_;
};

/// The state that the lowering of operators shares: the slots of values, in the layouts that were
/// asked for, and the list of steps. The builder inserts layout conversions, once per value.
class PlanBuilder {
 public:
  /// Throws kInvalidArgument for a forced kernel that does not exist. With a journal, which must be
  /// empty and outlive the builder, nodes can be lowered again, and the graph keeps its constants.
  PlanBuilder(Plan& plan, const PlanOptions& options, PlanJournal* journal = nullptr);

  const Graph& graph() const { return *plan_.graph; }
  const PlanOptions& options() const { return options_; }

  /// The slot of a dynamic value or constant in that layout; converts it, once, when necessary.
  int In(const Value* value, Layout layout = Layout::kPlain);
  /// The slot of a value that grows, for steps that know its rows lie apart; -1 for other values.
  int Growing(const Value* value) const;
  /// Makes `present` the memory of the input `past`, whose rows have room for new tokens along
  /// `axis`, and returns its slot; the node that is planned writes them. Returns -1 and does
  /// nothing where this is no pair of PlanOptions::state, or something else reads `past`.
  int Grow(const Value* past, const Value* present, int axis);
  /// Whether the value is an input or a constant, or a step planned so far computes it.
  bool Has(const Value* value) const {
    const auto found = places_.find(value);
    return value->is_constant() || (found != places_.end() && (Exists(found->second.slots[0]) ||
                                                               Exists(found->second.slots[1])));
  }
  /// The layout in which the value exists already; channels-last is preferred.
  Layout LayoutOf(const Value* value) const;
  /// Makes an arena slot for a value that the next step computes.
  int Out(const Value* value, Layout layout = Layout::kPlain);
  /// Declares that the value has the same bytes as `slot` (Reshape, Identity, ...).
  void Alias(const Value* value, int slot, Layout layout = Layout::kPlain);
  /// Makes the step that computes `slot` write it to bytes [offset, ...) of `whole`'s memory, its
  /// pixels `stride` elements apart (0: dense). Returns false and does nothing when the step cannot
  /// or the slot is used in another way too. The caller must know that no later step reads the
  /// slot.
  bool WriteInto(int slot, int whole, size_t offset, size_t stride);
  /// The codes that an 8-bit value can hold: those of its type, unless the step that computes it
  /// leaves some out. A value from outside the graph may hold any.
  CodeRange RangeOf(const Value* value) const;
  /// Declares that the value has no code outside `range`; the lowering that computes it says so.
  void SetRange(const Value* value, CodeRange range);
  /// Declares that the output's codes are among the input's. Ignores values that are not 8 bits
  /// wide.
  void KeepRange(const Value* input, const Value* output);
  /// Makes a slot of scratch memory for one step.
  int Workspace(size_t bytes);
  const Slot& slot(int index) const { return plan_.slots[static_cast<size_t>(index)]; }

  /// Makes a value that only the lowering of one node uses: no node of the graph reads or computes
  /// it.
  Value* NewValue(const std::string& name, DType dtype, const Shape& shape);

  /// Appends a step, named after `node` and its operator.
  template <typename S>
  S& Add(const Node& node, const char* kernel, const std::vector<int>& inputs,
         const std::vector<int>& outputs) {
    auto step = std::make_unique<S>();
    S& made = *step;
    Append(std::move(step), node, kernel, inputs, outputs);
    return made;
  }
  /// Where a node is lowered again, the step that the next Add() replaces. Whatever follows from
  /// the node's constants and codes alone may be moved out of it. nullptr where there is none, and
  /// where constants change with shapes.
  Step* Former() const;
  /// The weights in the form of this row of a kernel table. They are packed unless another plan of
  /// the model did so, and live as long as the plan.
  template <typename Row, typename Weights>
  const uint8_t* Pack(const Row& row, const Weights& weights) {
    SharedWeights own;
    SharedWeights& packed = options_.packed ? Shared(PackingKey(weights), row.name, own) : own;
    if (!packed) {
      AlignedBuffer made(row.packed_size(weights));
      PackInto(row, weights, made.data());
      packed = HoldOnce(std::move(made));
    }
    return Hold(packed);
  }
  /// As Pack, of weights without pointers to the numbers of lean constants. Their bytes are read
  /// only if nobody has packed them yet, and dropped where plans of other shapes find the packed
  /// ones.
  template <typename Row, typename Weights>
  const uint8_t* PackLean(const Row& row, const Weights& weights, const LeanParts<Weights>& lean) {
    SharedWeights own;
    SharedWeights& packed = SharedLean(PackingKey(weights), row.name, lean.constants, own);
    if (!packed) {
      const std::vector<Tensor> bytes = BytesOf(lean.constants);
      Weights whole = weights;
      lean.point(whole, bytes.data());
      AlignedBuffer made(row.packed_size(whole));
      PackInto(row, whole, made.data());
      packed = HoldOnce(std::move(made));
      if (lean.unpack && &packed != &own) {
        Drop(lean.constants, std::make_shared<PackedSource<Weights>>(weights, packed, lean.unpack));
      }
    }
    return Hold(packed);
  }
  /// Allocates memory that lives as long as the plan, for numbers that a step reads.
  uint8_t* Packed(size_t bytes);

  /// Frees the constants that nothing reads any more once `node` is planned: steps have them packed
  /// or in plan.constants.
  void ReleaseConstants(const Node& node);
  /// Frees all remaining constants, once every node is planned.
  void ReleaseConstants();
  /// Keeps this node's constants in the graph, since its reference evaluates it.
  void Keep(const Node* node) { fates_[node->position].kept = true; }

  /// Names the node that is planned next, to which kernel choices are attributed. nullptr stands
  /// for the graph's outputs.
  void Begin(const Node* node);
  /// Ends the node that Begin() or BeginAgain() named.
  void End();
  /// Prepares to lower a node of the journal again, whose values have other shapes now. Whatever it
  /// makes takes the place of what it made before, which the caller has moved away. End() throws
  /// kInternal where it makes another number of slots or steps.
  void BeginAgain(size_t index);
  /// The kernels chosen from families of which one was forced.
  const KernelChoices& choices() const { return choices_; }

  /// Whether an earlier lowering computes the node as part of its own step.
  bool IsAbsorbed(const Node* node) const { return fates_[node->position].absorbed != nullptr; }
  void Absorb(const Node* node, const Node& by);
  /// Records in the graph which nodes run together (Node::group), once all are planned.
  void NoteGroups();
  /// The operator in the node's fusion group that alone reads the value it computes; nullptr when
  /// there is none, or fusion is off.
  const Node* Follower(const Node& node) const;

  /// The record of tune() for a Step::tuning, or null.
  const Tuned* TunedFor(const std::string& tuning) const;
  bool IsForced(std::string_view family) const { return Forced(family) != nullptr; }
  /// Chooses a kernel row: the forced one of this family if it fits, else the one tuned for
  /// `tuning` (Step::tuning of the next step), else the last row that fits and is preferred (tables
  /// list rows from slow to fast).
  template <typename Row, typename Fits, typename IsPreferred>
  const Row& Choose(const char* family, std::span<const Row> rows, Fits fits,
                    IsPreferred is_preferred, const std::string& tuning) const {
    const std::string* forced = Forced(family);
    if (const Tuned* tuned = TunedFor(tuning); forced == nullptr && tuned) forced = &tuned->kernel;
    const Row* chosen = nullptr;
    for (const Row& row : rows) {
      if (!fits(row)) continue;
      if (forced && *forced == row.name) {
        chosen = &row;
        break;
      }
      if (is_preferred(row)) chosen = &row;
    }
    if (chosen == nullptr) NoKernel(family);
    NoteChoice(family, chosen->name);
    return *chosen;
  }
  template <typename Row, typename Fits>
  const Row& Choose(const char* family, std::span<const Row> rows, Fits fits,
                    const std::string& tuning = {}) const {
    return Choose(
        family, rows, fits, [](const Row&) { return true; }, tuning);
  }
  template <typename Row>
  const Row& Choose(const char* family, std::span<const Row> rows) const {
    return Choose(family, rows, [](const Row&) { return true; });
  }

 private:
  struct Places {
    int slots[2] = {-1, -1};  // indexed by Layout
    std::optional<CodeRange> range;
  };

  struct Fate {
    const Node* absorbed = nullptr;  // the node whose step includes this one
    bool kept = false;
  };

  template <typename Row, typename Weights>
  static void PackInto(const Row& row, const Weights& weights, uint8_t* packed) {
    if constexpr (requires { weights.half; }) {
      bool takes_halves = weights.half.data == nullptr;
      if constexpr (requires { row.takes_halves(); }) {
        takes_halves = takes_halves || row.takes_halves();
      }
      if (!takes_halves) {
        const AlignedBuffer floats = FloatsOf(weights.half);
        Weights wide = weights;
        wide.data = reinterpret_cast<const float*>(floats.data());
        row.pack_weights(wide, packed);
        return;
      }
    }
    row.pack_weights(weights, packed);
  }
  void Append(std::unique_ptr<Step> step, const Node& node, const char* kernel,
              const std::vector<int>& inputs, const std::vector<int>& outputs);
  [[noreturn]] static void NoKernel(const char* family);
  /// The model's entry for weights packed for `row`, or `own` where they are no constant of it.
  SharedWeights& Shared(PackingKey key, const char* row, SharedWeights& own) const;
  /// As Shared, also without packed constants of the model.
  SharedWeights& SharedLean(PackingKey key, const char* row,
                            std::span<const Tensor* const> constants, SharedWeights& own) const;
  static std::vector<Tensor> BytesOf(std::span<const Tensor* const> constants);
  static void Drop(std::span<const Tensor* const> constants,
                   const std::shared_ptr<const LeanBytes::Source>& source);
  uint8_t* Hold(const SharedWeights& packed);
  const std::string* Forced(std::string_view family) const;
  void NoteChoice(std::string_view family, const char* row) const;
  /// Whether a slot had been made when the present node was lowered for the first time.
  bool Exists(int slot) const {
    return slot >= 0 && (journal_ == nullptr || !journal_->again ||
                         static_cast<size_t>(slot) < journal_->next_slot);
  }
  /// The node that is being lowered, or nullptr without a journal.
  LoweredNode* Current() const { return journal_ ? &journal_->nodes[journal_->current] : nullptr; }
  [[noreturn]] static void OtherForm();
  /// Adds a slot, which owns its memory, and returns its index.
  int NewIndex();
  void SetPlace(const Value* value, Layout layout, int slot);
  int NewSlot(const Value& value, Layout layout);
  /// Copies a value that grows for a reader that knows nothing of its rows.
  int DenseCopy(const Value* value, int rows, Layout layout);
  int Convert(const Value* value, int from, Layout to);

  Plan& plan_;
  const PlanOptions& options_;
  PlanJournal* journal_;
  std::map<const Value*, Places> places_;
  std::vector<Fate> fates_;  // indexed by the nodes' positions
  const Node* node_ = nullptr;
  mutable KernelChoices choices_;  // of families of which a kernel is forced
};

/// A shape as [batch, channels, height, width], which layout conversions permute. Ranks 3 to 5
/// only; the planes of a volume are stacked vertically.
struct ImageDims {
  int64_t batch = 1, channels = 1, height = 1, width = 1;
};
ImageDims ImageOf(const Shape& shape);
/// Whether both layouts are the same bytes: one channel or one pixel, or a rank that has only one.
bool LayoutsCoincide(const Shape& shape);

}  // namespace requant
