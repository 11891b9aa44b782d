#include "onnx/local_functions.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "onnx/tags.h"

namespace requant {
namespace {

// Bodies that call others twice each grow exponentially.
constexpr size_t kMostNodes = size_t{1} << 18;

std::string KeyOf(const std::string& domain, const std::string& name, const std::string& overload) {
  return StrCat(domain, "::", name, ":", overload);
}

struct NamedFunction {
  std::string key;
  LocalFunction function;
};

NamedFunction ReadFunction(Message message) {
  using Tag = onnx_tags::FunctionProto;
  LocalFunction out;
  std::string domain;
  std::string overload;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kName:
        out.name = message.String();
        break;
      case Tag::kInput:
        out.inputs.push_back(message.String());
        break;
      case Tag::kOutput:
        out.outputs.push_back(message.String());
        break;
      case Tag::kNode:
        out.nodes.push_back(message.View());
        break;
      case Tag::kOpsetImport: {
        const OpsetImport import = ReadOpsetImport(message.Child());
        out.opsets[import.domain] = import.version;
        break;
      }
      case Tag::kDomain:
        domain = NormalizeDomain(message.String());
        break;
      case Tag::kAttributeProto:
        out.defaults.push_back(message.View());
        break;
      case Tag::kOverload:
        overload = message.String();
        break;
      default:
        message.Skip();
    }
  }
  if (out.name.empty()) InvalidFile("a function has no name");
  std::string key = KeyOf(domain, out.name, overload);
  if (!domain.empty()) out.name = StrCat(domain, "::", out.name);
  std::set<std::string> inputs;
  for (const std::string& input : out.inputs) {
    if (!input.empty() && inputs.insert(input).second) continue;
    InvalidFile(StrCat("function ", out.name, " lists input '", input, "' twice"),
                {.value = input});
  }
  return {std::move(key), std::move(out)};
}

void CollectNames(Message node, int depth, std::set<std::string>& names);

void CollectFromGraph(Message graph, int depth, std::set<std::string>& names) {
  if (depth > kDeepestSubgraph) return;  // the reader refuses such a file
  while (graph.Next()) {
    if (graph.tag<onnx_tags::GraphProto>() == onnx_tags::GraphProto::kNode) {
      CollectNames(graph.Child(), depth, names);
    } else {
      graph.Skip();
    }
  }
}

void CollectNames(Message node, int depth, std::set<std::string>& names) {
  using Tag = onnx_tags::NodeProto;
  while (node.Next()) {
    switch (node.tag<Tag>()) {
      case Tag::kInput:
      case Tag::kOutput:
        names.insert(node.String());
        break;
      case Tag::kAttribute: {
        Message attribute = node.Child();
        while (attribute.Next()) {
          if (attribute.tag<onnx_tags::AttributeProto>() == onnx_tags::AttributeProto::kGraph) {
            CollectFromGraph(attribute.Child(), depth + 1, names);
          } else {
            attribute.Skip();
          }
        }
        break;
      }
      default:
        node.Skip();
    }
  }
}

/// The value of the graph that a name of the body stands for; a value of the body's own gets one.
std::string Renamed(ModelReader& reader, FunctionScope& scope, const std::string& name) {
  if (name.empty()) return name;
  const auto [entry, added] = scope.names.emplace(name, std::string());
  if (!added) return entry->second;
  const std::string base = StrCat(scope.prefix, "/", name);
  entry->second = base;
  const auto taken = [&reader](const std::string& candidate) {
    return reader.functions().names.contains(candidate) || reader.graph().FindValue(candidate);
  };
  if (taken(base)) {
    // Calls without names share their names; so the search goes on where it ended.
    size_t& suffix = reader.functions().suffixes.emplace(base, 1).first->second;
    do {
      entry->second = StrCat(base, "_", ++suffix);
    } while (taken(entry->second));
  }
  // The name is taken at once, also by a value that a later node defines.
  reader.graph().AddValue(entry->second);
  return entry->second;
}

void CheckCall(const ModelReader& reader, const LocalFunction& function, const NodeParts& call) {
  for (const FunctionScope* scope = reader.scope(); scope; scope = scope->caller) {
    if (&scope->function != &function) continue;
    InvalidFile(StrCat("function ", function.name, " calls itself"),
                {.node = call.Label(), .hint = "ONNX allows no recursion; use Loop"});
  }
  if (call.inputs.size() > function.inputs.size() ||
      call.outputs.size() > function.outputs.size()) {
    InvalidFile(StrCat("function ", function.name, " has ", function.inputs.size(), " inputs and ",
                       function.outputs.size(), " outputs; its call has ", call.inputs.size(),
                       " and ", call.outputs.size()),
                {.node = call.Label()});
  }
}

}  // namespace

std::shared_ptr<LocalFunctions> ReadLocalFunctions(
    const std::vector<protozero::data_view>& functions, protozero::data_view graph,
    std::map<std::string, int>& opsets) {
  auto out = std::make_shared<LocalFunctions>();
  const auto onnx = opsets.find("");
  if (onnx != opsets.end()) out->model_opset = onnx->second;
  for (const protozero::data_view& view : functions) {
    NamedFunction read = ReadFunction(Message(view));
    for (const auto& [domain, version] : read.function.opsets) {
      int& known = opsets.emplace(domain, version).first->second;
      known = std::max(known, version);
    }
    for (const protozero::data_view& node : read.function.nodes) {
      CollectNames(Message(node), 0, out->names);
    }
    const std::string name = read.function.name;
    if (!out->by_key.emplace(std::move(read.key), std::move(read.function)).second) {
      InvalidFile(StrCat("function ", name, " is defined twice"));
    }
  }
  CollectFromGraph(Message(graph), 0, out->names);
  return out;
}

bool ExpandCall(ModelReader& reader, const NodeParts& call, const AttributeMap& attributes) {
  LocalFunctions& functions = reader.functions();
  const auto found = functions.by_key.find(KeyOf(call.domain, call.op_type, call.overload));
  if (found == functions.by_key.end()) return false;
  const LocalFunction& function = found->second;
  CheckCall(reader, function, call);
  FunctionScope scope{function, reader.scope(), {}, attributes, call.Label()};
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    scope.names[function.inputs[i]] = i < call.inputs.size() ? call.inputs[i] : "";
  }
  // An input that is an output as well, or an output that is listed twice, is copied.
  std::vector<std::pair<std::string, std::string>> copies;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i].empty()) continue;
    const auto [entry, added] = scope.names.emplace(function.outputs[i], call.outputs[i]);
    if (!added) copies.emplace_back(entry->second, call.outputs[i]);
  }
  const FunctionScope* around = reader.scope();
  const bool own = reader.own_scope();
  reader.SetScope(&scope, true);
  for (const protozero::data_view& view : function.defaults) {
    AttributeMap given;
    reader.ReadAttributeInto(Message(view), call, given);
    for (const auto& [name, value] : given.entries()) {
      if (!scope.attributes.Has(name)) scope.attributes.Set(name, value);
    }
  }
  functions.nodes += function.nodes.size();
  if (functions.nodes > kMostNodes) {
    Fail(ErrorCode::kUnsupported, "the calls of the model's functions have too many nodes",
         {.node = call.Label(), .hint = "the bodies may call each other too often"});
  }
  std::vector<NodeParts> nodes;
  for (const protozero::data_view& view : function.nodes) {
    NodeParts& parts = nodes.emplace_back(ReadNodeParts(Message(view)));
    parts.name = StrCat(scope.prefix, "/", parts.Label());
    for (std::string& name : parts.outputs) name = Renamed(reader, scope, name);
  }
  for (NodeParts& parts : nodes) {
    for (std::string& name : parts.inputs) name = Renamed(reader, scope, name);
    reader.AddNode(parts);
  }
  for (const auto& [from, to] : copies) {
    if (from.empty()) {
      InvalidFile(StrCat("function ", function.name, " returns an input that its call leaves out"),
                  {.node = call.Label(), .value = to});
    }
    NodeParts copy;
    copy.op_type = "Identity";
    copy.name = StrCat(scope.prefix, "/Identity");
    copy.inputs = {from};
    copy.outputs = {to};
    reader.AddNode(copy);
  }
  reader.SetScope(around, own);
  return true;
}

}  // namespace requant
