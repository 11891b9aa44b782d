#include <map>

#include "base/str_cat.h"
#include "ir/text.h"

namespace requant {
namespace {

/// Escapes text for a double-quoted DOT string (graphviz.org/doc/info/lang.html).
std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string ValueLabel(const Value& value) {
  return Escape(value.name) + "\\n" + Escape(TypeToString(value.type));
}

}  // namespace

std::string GraphToDot(const Graph& graph) {
  std::map<const Node*, std::string> ids;
  for (const auto& node : graph.nodes()) ids[node.get()] = StrCat("n", ids.size());
  std::string out = StrCat("digraph \"", Escape(graph.name), "\" {\n  node [shape=box];\n");
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value& input = *graph.inputs()[i];
    out += StrCat("  i", i, " [shape=ellipse, label=\"", ValueLabel(input), "\"];\n");
    for (const Node* consumer : input.consumers) {
      out += StrCat("  i", i, " -> ", ids[consumer], ";\n");
    }
  }
  for (const auto& node : graph.nodes()) {
    // Constants are lines of the box, since nodes of their own would bury the graph.
    std::string label = Escape(node->op_type) + "\\n" + Escape(node->name);
    if (!node->group.empty() && node->group != node->name) {
      label += "\\nof " + Escape(node->group);
    }
    if (node->used_bytes >= 0) label += StrCat("\\n", node->used_bytes, " bytes in use");
    for (size_t slot = 0; slot < node->inputs.size(); ++slot) {
      const Value* input = node->inputs[slot];
      if (input == nullptr || !input->is_constant()) continue;
      label +=
          StrCat("\\n", slot, ": ", Escape(input->name), " ", Escape(TypeToString(input->type)));
    }
    out += StrCat("  ", ids[node.get()], " [label=\"", label, "\"];\n");
    for (const Value* output : node->outputs) {
      if (output == nullptr) continue;
      for (const Node* consumer : output->consumers) {
        out += StrCat("  ", ids[node.get()], " -> ", ids[consumer], " [label=\"",
                      ValueLabel(*output), "\"];\n");
      }
    }
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Value& output = *graph.outputs()[i];
    out += StrCat("  o", i, " [shape=ellipse, label=\"", ValueLabel(output), "\"];\n");
    if (output.producer) out += StrCat("  ", ids[output.producer], " -> o", i, ";\n");
    for (size_t j = 0; j < graph.inputs().size(); ++j) {
      if (graph.inputs()[j] == &output) out += StrCat("  i", j, " -> o", i, ";\n");
    }
  }
  return out + "}\n";
}

}  // namespace requant
