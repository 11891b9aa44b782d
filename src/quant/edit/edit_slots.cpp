#include "quant/edit/edit_slots.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/config/settings.h"
#include "quant/edit/remake.h"
#include "quant/grid/affine.h"
#include "quant/grid/codes.h"
#include "quant/grid/weight_matrix.h"
#include "quant/recover/choose_float/switch_off.h"

namespace requant {
namespace {

constexpr const char* kAgain = "quantize the model again";

std::string Indexed(bool is_output, int slot) {
  return StrCat(is_output ? "outputs[" : "inputs[", slot, "]");
}

/// The policy of such a text, its names in any order; nullopt for other texts.
std::optional<QuantizationPolicy> ParsePolicy(std::string_view text) {
  QuantizationPolicy policy = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('|'), text.size());
    QuantizationPolicy bit = 1;
    while (bit <= kPowerOf2 && PolicyToString(bit) != text.substr(0, end)) bit <<= 1;
    if (bit > kPowerOf2) return std::nullopt;
    policy |= bit;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return policy;
}

[[noreturn]] void Refuse(const SlotEdit& edit, const char* field, const std::string& why,
                         const std::string& hint) {
  Fail(ErrorCode::kInvalidQuantization,
       StrCat(edit.is_output ? "output " : "input ", edit.slot, " of '", edit.node,
              "' cannot be changed: ", why),
       {.node = edit.node,
        .value = StrCat(Indexed(edit.is_output, edit.slot), *field ? "." : "", field),
        .hint = hint});
}

class Editor {
 public:
  explicit Editor(QuantizedModel& model)
      : graph_(model.float_graph), record_(model.record), before_(model.record) {}

  std::set<int> Run(std::span<const SlotEdit> edits) {
    std::vector<std::pair<const SlotEdit*, int>> followers;
    for (const SlotEdit& edit : edits) {
      const int index = Find(edit);
      const int root = record_.RootIndex(index);
      if (edit.state) {
        leaving_[edit.node].insert({edit.is_output, edit.slot});
        CheckState(edit, record_.configs[static_cast<size_t>(index)].state);
      }
      if (root == index) {
        Change(edit, record_.configs[static_cast<size_t>(index)]);
        changed_.insert(index);
      } else {
        followers.emplace_back(&edit, root);
      }
    }
    for (const auto& [edit, root] : followers)
      CheckFollows(*edit, record_.configs[static_cast<size_t>(root)]);
    for (const auto& [name, slots] : leaving_) Leave(name, slots);
    return changed_;
  }
  const QuantizationRecord& before() const { return before_; }

 private:
  /// The config of the slot. Throws if there is none, or none that can change.
  int Find(const SlotEdit& edit) const {
    const OperatorQuantization* op = record_.Find(edit.node);
    const std::vector<int> none;
    const std::vector<int>& slots = op == nullptr    ? none
                                    : edit.is_output ? op->outputs
                                                     : op->inputs;
    const auto at = static_cast<size_t>(edit.slot);
    if (edit.slot < 0 || at >= slots.size() || slots[at] < 0) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("there is no ", edit.is_output ? "output " : "input ", edit.slot, " of '",
                  edit.node, "'"),
           {.node = edit.node, .value = Indexed(edit.is_output, edit.slot)});
    }
    const QuantizationState state = record_.configs[static_cast<size_t>(slots[at])].state;
    if (state == QuantizationState::kPassive || state == QuantizationState::kPassiveBaked) {
      Refuse(edit, "", "its scale follows from those of other slots",
             "set the slots that hold data");
    }
    if (!IsQuantizing(state)) {
      Refuse(edit, "", StrCat("it is ", StateName(state), " and has no grid"), kAgain);
    }
    return slots[at];
  }

  static void CheckState(const SlotEdit& edit, QuantizationState from) {
    if (*edit.state == StateName(QuantizationState::kDequantized)) return;
    Refuse(edit, "state", StrCat("it cannot go from ", StateName(from), " to ", *edit.state),
           "set DEQUANTIZED");
  }

  bool HoldsWeights(const SlotEdit& edit) const {
    const Node* node = graph_.FindNode(edit.node);
    return !edit.is_output && node != nullptr &&
           WeightSlot(*node, record_.operators.at(edit.node).rule) == edit.slot;
  }

  void SetPolicy(const SlotEdit& edit, bool weights, TensorQuantizationConfig& config) const {
    const std::optional<QuantizationPolicy> policy = ParsePolicy(*edit.policy);
    if (!policy) {
      Refuse(edit, "policy", StrCat("there is no policy '", *edit.policy, "'"),
             "PER_TENSOR|LINEAR|ASYMMETRICAL is one");
    }
    CheckPolicy(*policy, StrCat("'", edit.node, "'"));
    const QuantizationPolicy changed = *policy ^ config.policy;
    if ((changed & kExponential) != 0 ||
        ((changed & kPerChannel) != 0 && (!weights || config.axis < 0))) {
      Refuse(edit, "policy", "it would need another calibration", kAgain);
    }
    config.policy = *policy;
  }

  void Change(const SlotEdit& edit, TensorQuantizationConfig& config) const {
    const bool ranged = edit.range_min || edit.range_max;
    if (!ranged && !edit.bits && !edit.quant_min && !edit.quant_max && !edit.rounding &&
        !edit.policy && !edit.scale && !edit.offset) {
      return;  // its state alone
    }
    const bool weights = HoldsWeights(edit);
    if (ranged && (weights || !edit.scale || !edit.scale->empty())) {
      Refuse(edit, "range", "a range has no effect beside a scale", "delete the scale");
    }
    const bool was_signed = StorageMin(config.dtype) < 0;
    if (edit.policy) SetPolicy(edit, weights, config);
    if (edit.bits) config.bits = *edit.bits;
    if (edit.quant_min) config.quant_min = *edit.quant_min;
    if (edit.quant_max) config.quant_max = *edit.quant_max;
    if (edit.rounding && !ParseName(*edit.rounding, &config.rounding)) {
      Refuse(edit, "rounding", StrCat("there is no rounding '", *edit.rounding, "'"),
             "use HALF_EVEN");
    }
    if (config.bits < 1 || config.bits > 32) {
      Refuse(edit, "bits", StrCat(config.bits, " bits are not possible"), "use 1 to 32 bits");
    }
    if (config.bipolar() && config.rounding != RoundingPolicy::kHalfEven) {
      Refuse(edit, "rounding", "symmetric integers of one bit are signs, which nothing rounds",
             "use HALF_EVEN");
    }
    const bool exponential = config.exponential();
    if (exponential && (edit.bits || edit.quant_min || edit.quant_max)) {
      Refuse(edit, edit.bits ? "bits" : "quantMin", "a small float has no codes to choose",
             "leave quantMin and quantMax out");
    }
    const int64_t half = int64_t{1} << (config.bits - 1);
    const bool stays_signed = was_signed && config.quant_max < half;
    config.dtype = CodeType(
        config.bits,
        config.symmetric() || config.quant_min < 0 || config.bits == 32 || stays_signed, weights);
    if (!exponential) {
      TensorQuantizationConfig codes = config;
      codes.formula = ScaleFormula::kOnnx;  // scales are given, or follow from these codes
      if (const std::optional<Refusal> why = WhyNoCodes(codes, weights)) {
        Refuse(edit, why->field, why->what, why->hint);
      }
    }
    if (edit.range_min) config.range_min = *edit.range_min;
    if (edit.range_max) config.range_max = *edit.range_max;
    if (!(config.range_min <= config.range_max)) {
      Refuse(edit, "range",
             StrCat("the range ", config.range_min, "..", config.range_max, " is none"),
             "give [least, greatest]");
    }
    ChangeScale(edit, weights, config);
  }

  void ChangeScale(const SlotEdit& edit, bool weights, TensorQuantizationConfig& config) const {
    const bool derive = edit.scale && edit.scale->empty();
    if (derive && edit.offset) {
      Refuse(edit, "offset", "a zero point needs its scale", "give a scale");
    }
    if (derive && weights) {
      config.scale.clear();  // RemakeIntegers() finds it
      config.offset.clear();
      config.observer = config.observer == kGiven ? "minmax" : config.observer;
      return;
    }
    if (derive && !(config.range_max > config.range_min)) {
      Refuse(edit, "scale", "it has no range", "give a scale");
    }
    if (derive) AffineOfActivation(config.range_min, config.range_max, config).PutInto(config);
    if (edit.scale && !derive) {
      config.scale = *edit.scale;
      const bool zeros = std::all_of(config.offset.begin(), config.offset.end(),
                                     [](int32_t offset) { return offset == 0; });
      if (zeros && !edit.offset) config.offset.assign(config.scale.size(), 0);
    }
    if (edit.offset) config.offset = *edit.offset;
    if ((edit.scale && !derive) || edit.offset) config.observer = kGiven;
    if (!config.bipolar()) config.threshold = 0;
    if (const std::optional<Refusal> why = WhyNoScales(config)) {
      Refuse(edit, why->field, why->what, why->hint);
    }
    if (config.bipolar() && config.offset[0] == 1) {
      if (weights) Refuse(edit, "zeroPoint", "the zero point 1 is not 0", "set 0");
      config.threshold = std::exchange(config.offset[0], 0);
    }
    const size_t channels = CountOfScales(edit, weights, config);
    if (config.scale.size() == channels) return;
    Refuse(edit, "scale", StrCat(config.scale.size(), " scales do not fit ", channels, " channels"),
           "give as many");
  }

  /// How many scales the slot has.
  size_t CountOfScales(const SlotEdit& edit, bool weights,
                       const TensorQuantizationConfig& config) const {
    if (!config.per_channel()) return 1;
    if (!weights) return before_.configs[static_cast<size_t>(Find(edit))].scale.size();
    const Node& node = *graph_.FindNode(edit.node);
    return static_cast<size_t>(ViewWeights(node, record_.operators.at(edit.node).rule).scales);
  }

  /// Throws unless the slot's decider has the values that the edit wants.
  void CheckFollows(const SlotEdit& edit, const TensorQuantizationConfig& root) const {
    const std::string decider =
        StrCat(root.is_output ? "output " : "input ", root.slot, " of '", root.node, "'");
    const auto demand = [&](bool same, const char* field) {
      if (same) return;
      Refuse(edit, field, StrCat("it is joined to ", decider, ", which decides for it"),
             StrCat("change that slot, or quantize with ", Indexed(edit.is_output, edit.slot),
                    " of '", edit.node, "' set apart"));
    };
    demand(!edit.policy || ParsePolicy(*edit.policy) == root.policy, "policy");
    demand(!edit.bits || *edit.bits == root.bits, "bits");
    demand(!edit.quant_min || *edit.quant_min == root.quant_min, "quantMin");
    demand(!edit.quant_max || *edit.quant_max == root.quant_max, "quantMax");
    demand(!edit.rounding || *edit.rounding == RoundingPolicyName(root.rounding), "rounding");
    demand(!edit.scale || *edit.scale == root.scale, "scale");
    demand(!edit.offset || *edit.offset == root.offset, "zeroPoint");
    demand(!edit.range_min || *edit.range_min == root.range_min, "range");
    demand(!edit.range_max || *edit.range_max == root.range_max, "range");
  }

  /// Makes these slots of an operator float.
  void Leave(const std::string& name, const std::set<std::pair<bool, int>>& slots) {
    const Node& node = *graph_.FindNode(name);
    const OperatorQuantization& op = record_.operators.at(name);
    const SlotEdit edit{
        .node = name, .is_output = slots.begin()->first, .slot = slots.begin()->second};
    if (!op.activation.empty() || !op.absorbed_by.empty() || !op.table.empty()) {
      Refuse(edit, "state", "one operator computes it together with what reads it", kAgain);
    }
    if (slots.size() == 1 && edit.is_output && HasFloatForm(node, op.rule)) {
      DequantizeResult(record_, name);
      return;
    }
    for (const bool is_output : {false, true}) {
      const std::vector<int>& all = is_output ? op.outputs : op.inputs;
      for (size_t slot = 0; slot < all.size(); ++slot) {
        if (all[slot] < 0) continue;
        const QuantizationState state = record_.configs[static_cast<size_t>(all[slot])].state;
        const bool follows =
            state == QuantizationState::kPassive || state == QuantizationState::kPassiveBaked;
        if (!IsQuantizing(state) || follows ||
            slots.contains({is_output, static_cast<int>(slot)})) {
          continue;
        }
        Refuse(
            edit, "state",
            StrCat("the operator keeps integers in ", Indexed(is_output, static_cast<int>(slot))),
            "set all slots DEQUANTIZED");
      }
    }
    Dequantize(record_, name, "an edit keeps it in float");
  }

  const Graph& graph_;
  QuantizationRecord& record_;
  const QuantizationRecord before_;
  std::map<std::string, std::set<std::pair<bool, int>>> leaving_;  // slots that become float
  std::set<int> changed_;
};

}  // namespace

void EditSlots(QuantizedModel& model, std::span<const SlotEdit> edits) {
  Editor editor(model);
  const std::set<int> changed = editor.Run(edits);
  RemakeIntegers(model, editor.before(), changed);
}

}  // namespace requant
