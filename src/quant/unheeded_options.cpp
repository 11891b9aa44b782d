#include "quant/unheeded_options.h"

#include <algorithm>

#include "base/str_cat.h"
#include "quant/recover/recovery.h"

namespace requant {
namespace {

/// Warns of options for single slots that no operator has, or that exist as floats only.
void NoteUnheededSlots(const Graph& graph, const QuantizeOptions& options,
                       QuantizationRecord& record) {
  const auto heeded = [&](const Node& node, bool is_output, int slot) {
    const OperatorQuantization& op = record.operators.at(node.name);
    const std::vector<int>& slots = is_output ? op.outputs : op.inputs;
    const int index =
        static_cast<size_t>(slot) < slots.size() ? slots[static_cast<size_t>(slot)] : -1;
    return index >= 0 &&
           record.configs[static_cast<size_t>(index)].state != QuantizationState::kFp32;
  };
  for (const bool is_output : {false, true}) {
    const char* what = is_output ? "output " : "input ";
    for (const auto& [type, settings] : options.by_type) {
      for (const auto& [slot, own] : is_output ? settings.outputs : settings.inputs) {
        const bool any =
            std::any_of(graph.nodes().begin(), graph.nodes().end(),
                        [&, &type = type, slot = slot](const auto& node) {
                          return node->op_type == type && heeded(*node, is_output, slot);
                        });
        if (any) continue;
        record.warnings.push_back(StrCat("the options for ", what, slot,
                                         " of operators of the type ", type,
                                         " have no effect: it is float"));
      }
    }
    for (const auto& [name, settings] : options.by_name) {
      const Node* node = graph.FindNode(name);
      if (node == nullptr || !record.operators.at(name).quantized) continue;
      for (const auto& [slot, own] : is_output ? settings.outputs : settings.inputs) {
        if (heeded(*node, is_output, slot)) continue;
        record.warnings.push_back(
            StrCat("the options for ", what, slot, " of ", name, " have no effect: it is float"));
      }
    }
  }
}

}  // namespace

void NoteUnheededOptions(const Graph& graph, const QuantizeOptions& options,
                         QuantizationRecord& record) {
  for (const auto& [type, settings] : options.by_type) {
    const bool any =
        std::any_of(graph.nodes().begin(), graph.nodes().end(),
                    [&type = type](const auto& node) { return node->op_type == type; });
    if (any) continue;
    record.warnings.push_back(StrCat("the options for operators of the type ", type,
                                     " have no effect: the optimized network has none"));
  }
  constexpr size_t kNamed = 3;
  size_t unheeded = 0;
  std::string named;
  for (const auto& [name, settings] : options.by_name) {
    const OperatorQuantization* op = record.Find(name);
    if (op == nullptr || op->quantized || !settings.quantize || !op->absorbed_by.empty() ||
        op->rule == QuantRule::kShape || ++unheeded > kNamed) {
      continue;
    }
    named += StrCat(unheeded > 1 ? "; '" : "'", name, "', as ", op->reason);
  }
  if (unheeded > 0) {
    record.warnings.push_back(StrCat("the options for ", unheeded,
                                     " operators by name have no effect, which stay float: ", named,
                                     unheeded > kNamed ? "; and others" : ""));
  }
  NoteUnheededSlots(graph, options, record);
  bool learns = false;
  bool keeps = false;
  for (const std::string& name : options.recover) {
    const RecoveryRow* row = FindRecovery(name);
    learns = learns || (row && row->stage == RecoveryStage::kLearn);
    keeps = keeps || learns || (row && row->stage == RecoveryStage::kChoose);
  }
#define REQUANT_RECOVERY_OPTION(field, name, needs, verb)                               \
  if (options.field > 0 && !(needs)) {                                                  \
    record.warnings.push_back("the option " name                                        \
                              " has no effect: no method of the option recover " verb); \
  }
#include "quant/options.inc"
}

}  // namespace requant
