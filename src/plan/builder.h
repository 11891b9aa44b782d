#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"
#include "plan/unheeded_forces.h"

namespace requant {

/// The codes that an 8-bit value of the graph can hold, both ends included.
struct CodeRange {
  int32_t lo = -128, hi = 255;
  bool operator==(const CodeRange&) const = default;
};
/// All codes of an 8-bit type.
CodeRange CodesOf(DType dtype);
/// The least range that holds both.
CodeRange Join(CodeRange a, CodeRange b);

/// What the lowering of one operator works with: the slots of values, in the layout it asks for,
/// and the list of steps it appends to. Layout conversions are inserted here, once per value.
class PlanBuilder {
 public:
  /// Throws kInvalidArgument for a forced kernel that does not exist.
  PlanBuilder(Plan& plan, const PlanOptions& options);

  const Graph& graph() const { return *plan_.graph; }
  const PlanOptions& options() const { return options_; }

  /// The slot of a computed value or constant in that layout; converts (once) when needed.
  int In(const Value* value, Layout layout = Layout::kPlain);
  /// Whether a step planned so far computes the value (or it is an input or a constant).
  bool Has(const Value* value) const {
    const auto found = places_.find(value);
    return value->is_constant() ||
           (found != places_.end() && (found->second.slots[0] >= 0 || found->second.slots[1] >= 0));
  }
  /// The layout in which the value exists already, channels-last preferred.
  Layout LayoutOf(const Value* value) const;
  /// A new arena slot for a value that the step to come computes.
  int Out(const Value* value, Layout layout = Layout::kPlain);
  /// The value is the same bytes as `slot` (Reshape, Identity, ...).
  void Alias(const Value* value, int slot, Layout layout = Layout::kPlain);
  /// Makes the step that computes `slot` write it to bytes [offset, ...) of `whole`'s memory, its
  /// pixels `stride` elements apart (0: as dense as ever). False, and nothing done, when the step
  /// cannot or the slot is used in another way too; the caller knows that no later step reads it.
  bool WriteInto(int slot, int whole, size_t offset, size_t stride);
  /// The codes that an 8-bit value can hold: those of its type unless the step that computes it
  /// leaves some out. What comes from outside of the graph may hold any.
  CodeRange RangeOf(const Value* value) const;
  /// Said by the lowering of the step that computes the value: no code outside of `range` occurs.
  void SetRange(const Value* value, CodeRange range);
  /// The output's codes are among the input's. Nothing happens for values that are not 8 bits wide.
  void KeepRange(const Value* input, const Value* output);
  /// Scratch memory for one step.
  int Workspace(size_t bytes);
  const Slot& slot(int index) const { return plan_.slots[static_cast<size_t>(index)]; }

  /// A value for the lowering of one node: of the graph's own nodes none reads or computes it.
  Value* NewValue(const std::string& name, DType dtype, const Shape& shape) {
    return plan_.graph->AddValue(name, {dtype, ToSymbolic(shape)});
  }

  /// Appends a step. `node` gives name and operator.
  template <typename S>
  S& Add(const Node& node, const char* kernel, const std::vector<int>& inputs,
         const std::vector<int>& outputs) {
    auto step = std::make_unique<S>();
    S& made = *step;
    Append(std::move(step), node, kernel, inputs, outputs);
    return made;
  }
  /// Memory for packed weights, owned by the plan.
  uint8_t* Packed(size_t bytes);

  /// Gives the constants back that nothing reads any more now that `node` is planned: whatever runs
  /// has them packed, or in plan.constants.
  void ReleaseConstants(const Node& node);
  /// The same for all that is left, once every node is planned.
  void ReleaseConstants();
  /// The graph keeps this node's constants: it is evaluated by its reference.
  void Keep(const Node* node) { fates_[node->position].kept = true; }

  /// The node that is planned next: whose steps' choices are noted.
  void Begin(const Node& node) { node_ = &node; }
  /// What was chosen of the families that are forced.
  const KernelChoices& choices() const { return choices_; }

  /// A node that an earlier lowering has already computed as part of its own step.
  bool IsAbsorbed(const Node* node) const { return fates_[node->position].absorbed != nullptr; }
  void Absorb(const Node* node, const Node& by) { fates_[node->position].absorbed = &by; }
  /// Says in the graph which nodes run together, once all are planned (Node::group).
  void NoteGroups();
  /// The operator of the node's fusion group that alone reads the value it computes; nullptr when
  /// there is none, or fusing is off.
  const Node* Follower(const Node& node) const;

  /// What was tuned for a Step::tuning, or null.
  const Tuned* TunedFor(const std::string& tuning) const;
  bool IsForced(std::string_view family) const { return Forced(family) != nullptr; }
  /// The kernel row to use: the forced one of this family if it fits, else the one that was tuned
  /// for `tuning` (Step::tuning of the step to come), else the last row that fits and pays (rows
  /// are listed from plain to best).
  template <typename Row, typename Fits, typename Pays>
  const Row& Choose(const char* family, std::span<const Row> rows, Fits fits, Pays pays,
                    const std::string& tuning) const {
    const std::string* forced = Forced(family);
    if (const Tuned* tuned = TunedFor(tuning); forced == nullptr && tuned) forced = &tuned->kernel;
    const Row* chosen = nullptr;
    for (const Row& row : rows) {
      if (!fits(row)) continue;
      if (forced && *forced == row.name) {
        chosen = &row;
        break;
      }
      if (pays(row)) chosen = &row;
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
    int slots[2] = {-1, -1};  // by Layout
    std::optional<CodeRange> range;
  };

  struct Fate {
    const Node* absorbed = nullptr;  // the node whose step it is part of
    bool kept = false;
  };

  void Append(std::unique_ptr<Step> step, const Node& node, const char* kernel,
              const std::vector<int>& inputs, const std::vector<int>& outputs);
  [[noreturn]] static void NoKernel(const char* family);
  const std::string* Forced(std::string_view family) const;
  void NoteChoice(std::string_view family, const char* row) const;
  int NewSlot(const Value& value, Layout layout);
  int Convert(const Value* value, int from, Layout to);

  Plan& plan_;
  const PlanOptions& options_;
  std::map<const Value*, Places> places_;
  std::vector<Fate> fates_;  // of the nodes, by their positions
  const Node* node_ = nullptr;
  mutable KernelChoices choices_;  // of families that are forced
};

/// Shape seen as [batch, channels, spatial]: what a layout conversion permutes. Rank 3 to 5 only;
/// the planes of volumes are below each other.
struct ImageDims {
  int64_t batch = 1, channels = 1, height = 1, width = 1;
};
ImageDims ImageOf(const Shape& shape);
/// True when both layouts are the same bytes (one channel or one pixel), or the rank has only one.
bool LayoutsCoincide(const Shape& shape);

}  // namespace requant
