#include "onnx/read.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/verify.h"
#include "onnx/local_functions.h"
#include "onnx/model_reader.h"
#include "onnx/read_parts.h"
#include "onnx/tags.h"
#include "onnx/upgrade.h"

namespace requant {

std::string NormalizeDomain(std::string domain) {
  return domain == "ai.onnx" ? std::string() : std::move(domain);
}

namespace {

void UpgradeIfOld(Graph& graph) {
  const auto onnx = graph.opsets.find("");
  if (onnx != graph.opsets.end() && onnx->second < kOldestKept) kUpgradeOpset(graph);
}

}  // namespace

Graph ModelReader::Read() {
  ReadModel(Message(file_.bytes));
  graph_.SortTopologically();
  UpgradeIfOld(graph_);
  VerifyGraph(graph_);
  return std::move(graph_);
}

Subgraph ModelReader::ReadSubgraph(Message message) {
  if (depth_ >= kDeepestSubgraph) InvalidFile("subgraphs are nested too deeply");
  ModelReader inner(file_, options_, depth_ + 1);
  inner.graph_.opsets = graph_.opsets;
  inner.functions_ = functions_;
  inner.SetScope(scope_, false);
  inner.ReadGraph(message);
  inner.graph_.SortTopologically();
  UpgradeIfOld(inner.graph_);
  VerifyGraph(inner.graph_);
  return std::make_shared<Graph>(std::move(inner.graph_));
}

void ModelReader::ReadModel(Message message) {
  using Tag = onnx_tags::ModelProto;
  int64_t ir_version = 0;
  std::optional<protozero::data_view> graph;
  std::vector<protozero::data_view> functions;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kIrVersion:
        ir_version = message.Int64();
        break;
      case Tag::kOpsetImport:
        ReadOpset(message.Child());
        break;
      case Tag::kGraph:
        if (graph) InvalidFile("the file has two graphs");
        graph = message.View();
        break;
      case Tag::kMetadataProps:
        ReadMetadata(message.Child());
        break;
      case Tag::kFunctions:
        functions.push_back(message.View());
        break;
      default:
        message.Skip();
    }
  }
  if (!graph) InvalidFile("the file has no graph");
  CheckOpsets(ir_version);
  if (!functions.empty()) functions_ = kReadLocalFunctions(functions, *graph, graph_.opsets);
  ReadGraph(Message(*graph));
}

OpsetImport ReadOpsetImport(Message message) {
  using Tag = onnx_tags::OperatorSetIdProto;
  std::string domain;
  int64_t version = 0;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kDomain:
        domain = NormalizeDomain(message.String());
        break;
      case Tag::kVersion:
        version = message.Int64();
        break;
      default:
        message.Skip();
    }
  }
  if (version < 1 || version > std::numeric_limits<int>::max()) {
    InvalidFile(StrCat("opset version ", version, " of domain '", domain, "'"));
  }
  return {std::move(domain), static_cast<int>(version)};
}

void ModelReader::ReadOpset(Message message) {
  const OpsetImport import = ReadOpsetImport(message);
  const auto [entry, added] = graph_.opsets.emplace(import.domain, import.version);
  if (!added && entry->second != import.version) {
    InvalidFile(StrCat("domain '", import.domain, "' is imported twice"));
  }
}

void ModelReader::CheckOpsets(int64_t ir_version) {
  if (ir_version < 1) InvalidFile("the file has no ir_version");
  if (ir_version < 3) {
    Fail(ErrorCode::kUnsupported, StrCat("ONNX IR version ", ir_version, " is too old"),
         {.hint = "convert the model to IR version 3 or newer (onnx.version_converter)"});
  }
  if (graph_.opsets.empty()) InvalidFile("the model imports no operator set");
  const auto onnx = graph_.opsets.find("");
  if (onnx != graph_.opsets.end() && onnx->second < kOldestOpset) {
    Fail(ErrorCode::kUnsupported, StrCat("opset ", onnx->second, " is too old"),
         {.hint = "convert the model to opset 13 or newer (onnx.version_converter)"});
  }
}

void ModelReader::ReadMetadata(Message message) {
  using Tag = onnx_tags::StringStringEntryProto;
  std::string key;
  std::string value;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kKey:
        key = message.String();
        break;
      case Tag::kValue:
        value = message.String();
        break;
      default:
        message.Skip();
    }
  }
  graph_.metadata[key] = value;
}

void ModelReader::ReadGraph(Message message) {
  using Tag = onnx_tags::GraphProto;
  std::vector<NodeParts> nodes;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> infos;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kNode:
        nodes.push_back(ReadNodeParts(message.Child()));
        break;
      case Tag::kName:
        graph_.name = message.String();
        break;
      case Tag::kInitializer:
        AddInitializer(ReadTensorMessage(message.Child(), file_, options_.external, ""));
        break;
      case Tag::kInput:
        inputs.push_back(ReadValueInfo(message.Child()));
        break;
      case Tag::kOutput:
        outputs.push_back(ReadValueInfo(message.Child()));
        break;
      case Tag::kValueInfo:
        infos.push_back(ReadValueInfo(message.Child()));
        break;
      case Tag::kSparseInitializer:
        AddInitializer(kReadSparseTensor(message.Child(), file_, options_.external, ""));
        break;
      default:
        message.Skip();
    }
  }
  std::set<std::string> input_names;
  for (ValueInfo& info : inputs) {
    if (!input_names.insert(info.name).second) {
      InvalidFile(StrCat("input '", info.name, "' is listed twice"), {.value = info.name});
    }
    // Until IR version 3 every initializer was an input too; from 4 on such an input is a default
    // that callers could override. Both are constants here.
    if (graph_.FindValue(info.name)) continue;
    if (info.type.dtype == DType::kUndefined && depth_ == 0) {
      InvalidFile(StrCat("input '", info.name, "' has no type"), {.value = info.name});
    }
    graph_.AddInput(graph_.AddValue(info.name, std::move(info.type)));
  }
  for (const NodeParts& node : nodes) AddNode(node);
  std::set<std::string> output_names;
  for (ValueInfo& info : outputs) {
    if (!output_names.insert(info.name).second) {
      InvalidFile(StrCat("output '", info.name, "' is listed twice"), {.value = info.name});
    }
    graph_.AddOutput(Declare(info.name));
  }
  outputs.insert(outputs.end(), infos.begin(), infos.end());
  for (ValueInfo& info : outputs) {
    Value* value = graph_.FindValue(info.name);
    if (value == nullptr || value->is_constant() || graph_.IsInput(value)) continue;
    if (value->type.dtype != DType::kUndefined && value->type.dtype != info.type.dtype &&
        info.type.dtype != DType::kUndefined) {
      InvalidFile(StrCat("value '", info.name, "' is declared as ", DTypeName(value->type.dtype),
                         " and as ", DTypeName(info.type.dtype)),
                  {.value = info.name});
    }
    if (value->type.dtype == DType::kUndefined) value->type.dtype = info.type.dtype;
    if (!value->type.shape) value->type.shape = std::move(info.type.shape);
  }
  CheckDefined();
}

void ModelReader::CheckDefined() {
  const auto defined = [this](const Value* value) {
    return value->producer || value->is_constant() || graph_.IsInput(value);
  };
  if (depth_ > 0) {
    // A value that nothing in the graph defines belongs to the graph around it.
    for (const auto& value : graph_.values()) {
      if (defined(value.get())) continue;
      graph_.AddInput(value.get());
      ++graph_.captured;
    }
  }
  for (const auto& node : graph_.nodes()) {
    for (const Value* input : node->inputs) {
      if (input == nullptr || defined(input)) continue;
      InvalidFile(
          StrCat("node '", node->name, "' reads '", input->name, "', which nothing defines"),
          {.node = node->name, .value = input->name});
    }
  }
  for (const Value* output : graph_.outputs()) {
    if (defined(output)) continue;
    InvalidFile(StrCat("output '", output->name, "' is never computed"), {.value = output->name});
  }
}

void ModelReader::AddInitializer(NamedTensor read) {
  if (read.name.empty()) InvalidFile("an initializer has no name");
  if (graph_.FindValue(read.name)) {
    InvalidFile(StrCat("initializer '", read.name, "' is there twice"), {.value = read.name});
  }
  graph_.AddConstant(read.name, std::move(read.tensor));
}

NodeParts ReadNodeParts(Message message) {
  using Tag = onnx_tags::NodeProto;
  NodeParts parts;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kInput:
        parts.inputs.push_back(message.String());
        break;
      case Tag::kOutput:
        parts.outputs.push_back(message.String());
        break;
      case Tag::kName:
        parts.name = message.String();
        break;
      case Tag::kOpType:
        parts.op_type = message.String();
        break;
      case Tag::kAttribute:
        parts.attributes.push_back(message.View());
        break;
      case Tag::kDomain:
        parts.domain = NormalizeDomain(message.String());
        break;
      case Tag::kOverload:
        parts.overload = message.String();
        break;
      default:
        message.Skip();
    }
  }
  if (parts.op_type.empty()) InvalidFile("a node has no operator", {.node = parts.name});
  return parts;
}

void ModelReader::ReadAttributeInto(Message message, const NodeParts& parts,
                                    AttributeMap& attributes) {
  ReadAttribute(message, parts.op_type, parts.Label(), file_, options_.external, *this,
                scope_ ? &scope_->attributes : nullptr, attributes);
}

Value* ModelReader::InputOf(const std::string& name) {
  if (name.empty()) return nullptr;
  if (scope_ && !own_scope_) {
    // A subgraph of a function's body may read an input that the call leaves out.
    const auto outer = scope_->names.find(name);
    if (outer != scope_->names.end() && outer->second.empty()) return nullptr;
  }
  return Declare(name);
}

Value* ModelReader::Captured(const std::string& name, const NodeParts& parts) {
  if (!own_scope_) return Declare(name);
  const auto outer = scope_->names.find(name);
  if (outer == scope_->names.end() || outer->second.empty()) {
    InvalidFile(StrCat("node '", parts.Label(), "' reads '", name, "', which nothing defines"),
                {.node = parts.Label(), .value = name});
  }
  return Declare(outer->second);
}

void ModelReader::AddNode(const NodeParts& parts) {
  AttributeMap attributes;
  for (const protozero::data_view& view : parts.attributes) {
    ReadAttributeInto(Message(view), parts, attributes);
  }
  if (functions_ && kExpandCall(*this, parts, attributes)) return;
  std::vector<Value*> inputs;
  for (const std::string& name : parts.inputs) inputs.push_back(InputOf(name));
  for (const auto& [name, attribute] : attributes.entries()) {
    const auto* body = std::get_if<Subgraph>(&attribute);
    if (body == nullptr) continue;
    const std::vector<Value*>& all = (*body)->inputs();
    for (size_t i = all.size() - (*body)->captured; i < all.size(); ++i) {
      inputs.push_back(Captured(all[i]->name, parts));
    }
  }
  std::vector<Value*> outputs;
  for (const std::string& name : parts.outputs) {
    Value* value = name.empty() ? nullptr : Declare(name);
    if (value && (value->producer || value->is_constant() || graph_.IsInput(value) ||
                  std::find(outputs.begin(), outputs.end(), value) != outputs.end())) {
      InvalidFile(StrCat("value '", name, "' is defined twice"),
                  {.node = parts.Label(), .value = name, .hint = "every value needs one producer"});
    }
    outputs.push_back(value);
  }
  if (functions_) kRaiseNode(graph_, {parts, attributes, inputs, outputs}, *functions_, scope_);
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  while (!outputs.empty() && outputs.back() == nullptr) outputs.pop_back();
  graph_.AddNode(parts.op_type, parts.domain, std::move(inputs), std::move(outputs),
                 std::move(attributes), parts.name);
}

Graph ReadOnnx(const SharedBytes& file, const ReadOptions& options) {
  return Guarded([&] { return ModelReader(file, options).Read(); });
}

NamedTensor ReadTensorFile(const SharedBytes& file) {
  return Guarded([&] { return ReadTensorMessage(Message(file.bytes), file, {}, ""); });
}

}  // namespace requant
