// Passes of the user's own. A part of the tools, which tools.cpp binds. web/extend checks what
// users give.
#include <string>
#include <utility>
#include <vector>

#include "own_values.h"
#include "quantized_handle.h"

namespace requant::bindings {
namespace {

PatternNode ReadPattern(const val& given) {
  PatternNode out;
  const std::string kind = given["kind"].as<std::string>();
  out.kind = kind == "operator"   ? PatternNode::Kind::kOperator
             : kind == "constant" ? PatternNode::Kind::kConstant
             : kind == "absent"   ? PatternNode::Kind::kAbsent
                                  : PatternNode::Kind::kValue;
  out.op = Text(given, "op");
  out.domain = Text(given, "domain");
  out.name = Text(given, "name");
  Read(given, "commutes", out.commutes);
  out.has_inputs = Has(given, "inputs");
  if (!out.has_inputs) return out;
  const val inputs = given["inputs"];
  const auto count = inputs["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) out.inputs.push_back(ReadPattern(inputs[i]));
  return out;
}

val MatchToJs(const PatternMatch& match) {
  val out = val::object(), nodes = val::object(), values = val::object();
  for (const auto& [name, node] : match.nodes) nodes.set(name, NodeToJs(*node));
  for (const auto& [name, value] : match.values) values.set(name, ValueToJs(*value));
  out.set("root", NodeToJs(*match.root));
  out.set("nodes", nodes);
  out.set("values", values);
  return out;
}

/// Reads { value } (its name), { constant } (index), { node, output } or null.
OperandRef ReadOperandRef(const Graph& graph, const std::vector<Value*>& constants,
                          const val& given) {
  OperandRef out;
  if (given.isNull() || given.isUndefined()) return out;
  if (Has(given, "constant")) {
    out.value = constants.at(given["constant"].as<unsigned>());
  } else if (Has(given, "node")) {
    out.node = static_cast<int64_t>(given["node"].as<double>());
    out.output = given["output"].as<unsigned>();
  } else {
    const auto name = given["value"].as<std::string>();
    out.value = graph.FindValue(name);
    if (out.value == nullptr) {
      Fail(ErrorCode::kInvalidArgument, StrCat("the graph has no value '", name, "'"),
           {.value = name});
    }
  }
  return out;
}

std::vector<OperandRef> ReadOperands(const Graph& graph, const std::vector<Value*>& constants,
                                     const val& list) {
  std::vector<OperandRef> out;
  const auto count = list["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) out.push_back(ReadOperandRef(graph, constants, list[i]));
  return out;
}

std::optional<Replacement> ReadReplacement(Graph& graph, const PatternMatch& match,
                                           const val& given) {
  if (given.isNull() || given.isUndefined()) return {};
  std::vector<Value*> constants;
  const val tensors = given["constants"];
  const auto count = tensors["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) {
    constants.push_back(
        graph.AddConstant(StrCat(match.root->name, "_constant"), TensorFromJs(tensors[i])));
  }
  Replacement out;
  const val nodes = given["nodes"];
  const auto made = nodes["length"].as<unsigned>();
  for (unsigned i = 0; i < made; ++i) {
    const val node = nodes[i];
    NewOperator added;
    added.op = node["op"].as<std::string>();
    added.domain = Text(node, "domain");
    added.name = Text(node, "name");
    added.inputs = ReadOperands(graph, constants, node["inputs"]);
    added.outputs = node["outputs"].as<unsigned>();
    const std::string like = Text(node, "like");
    if (const Node* model = like.empty() ? nullptr : graph.FindNode(like)) {
      added.attributes = model->attributes;
    }
    const val attributes = node["attributes"];
    for (const std::string& name : emscripten::vecFromJSArray<std::string>(
             val::global("Object").call<val>("keys", attributes))) {
      added.attributes.Set(name, AttributeFromJs(attributes[name]));
    }
    out.nodes.push_back(std::move(added));
  }
  out.results = ReadOperands(graph, constants, given["results"]);
  return out;
}

val AddPass(const val& given) {
  return Guard([&] {
    OwnPassSpec spec;
    spec.name = given["name"].as<std::string>();
    spec.summary = Text(given, "summary");
    spec.before = Text(given, "before");
    spec.after = Text(given, "after");
    Read(given, "bound", spec.bound);
    Read(given, "byDefault", spec.by_default);
    spec.limit = static_cast<int64_t>(given["limit"].as<double>());
    spec.pattern = ReadPattern(given["pattern"]);
    spec.rewrite = [function = given["rewrite"]](Graph& graph, const PatternMatch& match) {
      return ReadReplacement(graph, match,
                             CallUser(function, ErrorCode::kInvalidArgument, MatchToJs(match)));
    };
    AddOwnPass(std::move(spec));
    return val::undefined();
  });
}

bool RemovePass(const std::string& name) { return RemoveOwnPass(name); }

}  // namespace

void BindOwnPasses() {
  emscripten::function("addPass", &AddPass);
  emscripten::function("removePass", &RemovePass);
}

}  // namespace requant::bindings
