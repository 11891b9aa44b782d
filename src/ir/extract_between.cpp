#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/extract.h"

namespace requant {
namespace {

using Values = std::vector<const Value*>;

bool Has(const Values& values, const Value* value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

[[noreturn]] void Refuse(std::string message, const std::string& value, std::string hint) {
  Fail(ErrorCode::kInvalidArgument, std::move(message), {.value = value, .hint = std::move(hint)});
}

/// The values for names of values or nodes, each once.
Values Find(const Graph& graph, const std::vector<std::string>& names, bool inputs) {
  Values found;
  const auto add = [&found](const Value* value) {
    if (value != nullptr && !Has(found, value)) found.push_back(value);
  };
  for (const std::string& name : names) {
    if (const Value* value = graph.FindValue(name)) {
      add(value);
      continue;
    }
    const Node* node = graph.FindNode(name);
    if (node == nullptr) {
      Refuse(StrCat("the model has no value and no operator \"", name, "\""), name,
             "model.info.nodes has the names of all operators and of what they read and compute.");
    }
    for (const Value* value : inputs ? node->inputs : node->outputs) {
      if (value != nullptr && !(inputs && value->is_constant())) add(value);
    }
  }
  return found;
}

}  // namespace

Graph ExtractBetween(const Graph& graph, const std::vector<std::string>& from,
                     const std::vector<std::string>& to) {
  Values starts = Find(graph, from, true);
  const Values ends = Find(graph, to, false);
  if (from.empty()) {
    for (const Value* input : graph.inputs()) {
      if (!input->is_constant()) starts.push_back(input);
    }
  }
  if (ends.empty()) Refuse("nothing is to be computed", "to", "Name a value or an operator.");
  graph.Renumber();
  std::vector<uint8_t> needed(graph.nodes().size());
  Values reached, left = ends;
  while (!left.empty()) {
    const Value* value = left.back();
    left.pop_back();
    if (value == nullptr || value->is_constant()) continue;
    if (Has(starts, value)) {
      if (!Has(reached, value)) reached.push_back(value);
      continue;
    }
    if (value->producer == nullptr) {
      Refuse(StrCat("the outputs need the input \"", value->name, "\", where nothing is cut"),
             value->name, "Name it, or a value between it and the outputs, in options.from.");
    }
    uint8_t& done = needed[value->producer->position];
    if (done != 0) continue;
    done = 1;
    for (const Value* input : value->producer->inputs) left.push_back(input);
  }
  std::vector<const Node*> nodes;
  for (const auto& node : graph.nodes()) {
    if (needed[node->position] == 0) continue;
    nodes.push_back(node.get());
    for (const Value* output : node->outputs) {
      if (output != nullptr && Has(starts, output)) {
        Refuse(StrCat("\"", output->name, "\" is cut off, but its operator is needed"),
               output->name, "Cut at all outputs of the operator, or at its inputs.");
      }
    }
  }
  for (const Value* start : starts) {
    if (from.empty() || Has(reached, start)) continue;
    Refuse(StrCat("no output needs \"", start->name, "\""), start->name,
           "Leave it out of options.from.");
  }
  Graph out = Extract(graph, nodes, ends);
  // Extract() lists inputs in the order of reading, without those that are outputs only.
  while (!out.inputs().empty()) out.RemoveInput(out.inputs().back());
  for (const Value* start : starts) {
    if (Has(reached, start)) out.AddInput(out.FindValue(start->name));
  }
  return out;
}

}  // namespace requant
