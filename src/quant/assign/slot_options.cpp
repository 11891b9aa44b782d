#include "quant/assign/slot_options.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/grid/codes.h"
#include "quant/observers/observer.h"

namespace requant {
namespace {

class SlotOptions {
 public:
  SlotOptions(const Graph& graph, const QuantizeOptions& options, QuantizationRecord& record)
      : graph_(graph), options_(options), record_(record) {}

  void Run() {
    for (const auto& node : graph_.nodes()) {
      const auto by_name = options_.by_name.find(node->name);
      const auto by_type = options_.by_type.find(node->op_type);
      const bool named = by_name != options_.by_name.end();
      if (!named && by_type == options_.by_type.end()) continue;
      const OperatorSettings& settings = named ? by_name->second : by_type->second;
      const OperatorSettings* of_type =
          by_type == options_.by_type.end() ? nullptr : &by_type->second;
      for (const bool is_output : {false, true}) {
        const auto& slots = is_output ? settings.outputs : settings.inputs;
        for (const auto& [slot, own] : slots) {
          // Settings of a name start from those of its type, which not every operator has a slot
          // for.
          const bool inherited =
              of_type && (is_output ? of_type->outputs : of_type->inputs).contains(slot);
          Apply(*node, settings, {is_output, slot, named && !inherited}, own);
        }
      }
    }
  }

 private:
  struct Slot {
    bool is_output;
    int slot;
    bool named;
    std::string option() const { return StrCat(is_output ? "outputs[" : "inputs[", slot, "]"); }
    std::string of(const Node& node) const {
      return StrCat(is_output ? "output " : "input ", slot, " of '", node.name, "'");
    }
  };

  void Apply(const Node& node, const OperatorSettings& settings, const Slot& slot,
             const SlotSettings& own) {
    const OperatorQuantization& op = record_.operators.at(node.name);
    if (!op.quantized) return;  // NoteUnheededOptions() warns of it
    const std::vector<int>& configs = slot.is_output ? op.outputs : op.inputs;
    const auto at = static_cast<size_t>(slot.slot);
    const int index = slot.slot >= 0 && at < configs.size() ? configs[at] : -1;
    const auto refuse = [&](const std::string& why, const std::string& hint) {
      if (!slot.named) return;
      Fail(ErrorCode::kInvalidArgument, StrCat(slot.of(node), " cannot be set: ", why),
           {.node = node.name, .value = slot.option(), .hint = hint});
    };
    if (index < 0) {
      return refuse("there is none", "list the operators of the optimized model");
    }
    TensorQuantizationConfig& config = record_.configs[static_cast<size_t>(index)];
    const Value* value = slot.is_output ? node.output(at) : node.input(at);
    if (config.state == QuantizationState::kSoi) {
      return refuse("it is a shape or an index, or steers the operator", "leave it out");
    }
    if (config.state == QuantizationState::kPassiveInit) {
      return refuse("its scale follows from those of other slots", "set the slots that hold data");
    }
    if (config.state != QuantizationState::kInitial) return;  // a layer that writes floats
    if (value && IsInside(record_, value)) {
      return refuse("one operator computes it together with what reads it",
                    "set the output of the last of them");
    }
    const bool weights = !slot.is_output && slot.slot == WeightSlot(node, op.rule);
    if (weights && (own.axis || own.momentum || own.stop_after)) {
      const char* option = own.axis ? "axis" : own.momentum ? "momentum" : "stopUpdateAfter";
      return refuse(StrCat("it holds weights, and ", option, " is of activations only"),
                    "leave it out");
    }
    TensorSettings merged = own.Over(weights ? settings.weights : settings.activations);
    const int axis = weights ? WeightAxis(node, op.rule) : -1;
    if (weights) merged.per_channel = merged.per_channel && axis >= 0;
    CheckTensorSettings(merged, weights, slot.of(node), slot.option());
    ApplySettings(merged, weights, config);
    if (weights) config.axis = axis;
    if (own.given.scale.empty()) return;
    config.observer = kGiven;
    config.scale = own.given.scale;
    config.offset = own.given.offset;
    config.offset.resize(std::max(config.scale.size(), config.offset.size()));
    if (value && value->is_constant() && !weights) {
      config.policy = (config.policy & ~kPerChannel) | kPerTensor;
    }
    if (const std::optional<Refusal> why = WhyNoScales(config)) {
      Fail(ErrorCode::kInvalidQuantization, StrCat(why->what, " for ", slot.of(node)),
           {.node = node.name, .value = StrCat(slot.option(), ".", why->field), .hint = why->hint});
    }
  }

  const Graph& graph_;
  const QuantizeOptions& options_;
  QuantizationRecord& record_;
};

}  // namespace

void CheckTensorSettings(const TensorSettings& settings, bool weights, const std::string& where,
                         const std::string& slot) {
  CheckSettings(settings, weights, where, slot);
  TensorQuantizationConfig probe;
  ApplySettings(settings, weights, probe);
  MakeObserver(probe);
  if (!weights && settings.per_channel && probe.observer == "auto") {
    Fail(ErrorCode::kInvalidArgument, StrCat("observer 'auto' is per tensor, for ", where),
         {.value = slot, .hint = "use mse for activations per channel"});
  }
  if (weights && FindObserver(probe.observer)->of_weights == nullptr) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("observer '", probe.observer, "' cannot observe ", where),
         {.value = slot, .hint = "weights are seen once: use minmax, percentile, kl, mse or auto"});
  }
}

void ApplySlotOptions(const Graph& graph, const QuantizeOptions& options,
                      QuantizationRecord& record) {
  SlotOptions(graph, options, record).Run();
}

}  // namespace requant
