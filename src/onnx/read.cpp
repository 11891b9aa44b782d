#include "onnx/read.h"

#include <algorithm>
#include <limits>
#include <protozero/exception.hpp>
#include <set>
#include <unordered_set>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/verify.h"
#include "onnx/tags.h"
#include "onnx/upgrade.h"

namespace requant {
namespace {

using onnx_tags::AttributeType;

constexpr const char* kDamaged = "the file is damaged or is no ONNX model";

[[noreturn]] void Invalid(std::string message, ErrorContext context = {}) {
  if (context.hint.empty()) context.hint = kDamaged;
  Fail(ErrorCode::kInvalidModel, std::move(message), std::move(context));
}

std::string NormalizeDomain(std::string domain) { return domain == "ai.onnx" ? "" : domain; }

struct NodeParts {
  std::string op_type;
  std::string domain;
  std::string name;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<protozero::data_view> attributes;

  /// How errors call the node before the graph has named it.
  std::string Label() const { return !name.empty() ? name : op_type; }
};

struct ValueInfo {
  std::string name;
  ValueType type;
};

class ModelReader {
 public:
  ModelReader(const SharedBytes& file, const ReadOptions& options)
      : file_(file), options_(options) {}

  Graph Read() {
    ReadModel(Message(file_.bytes));
    graph_.SortTopologically();
    UpgradeOpset(graph_);
    VerifyGraph(graph_);
    return std::move(graph_);
  }

 private:
  void ReadModel(Message message);
  void ReadOpset(Message message);
  void ReadMetadata(Message message);
  void ReadGraph(Message message);
  void ReadInitializer(Message message);
  ValueInfo ReadValueInfo(Message message);
  ValueType ReadType(Message message, const std::string& value_name);
  ValueType ReadTensorType(Message message, const std::string& value_name);
  Dim ReadDim(Message message, const std::string& value_name);
  NodeParts ReadNodeParts(Message message);
  void AddNode(const NodeParts& parts);
  void ReadAttribute(Message message, const NodeParts& node, AttributeMap& attributes);
  void CheckOpsets(int64_t ir_version);
  void CheckDefined();

  Value* Declare(const std::string& name) {
    Value* value = graph_.FindValue(name);
    return value ? value : graph_.AddValue(name);
  }

  const SharedBytes& file_;
  const ReadOptions& options_;
  Graph graph_;
};

void ModelReader::ReadModel(Message message) {
  using Tag = onnx_tags::ModelProto;
  int64_t ir_version = 0;
  std::optional<protozero::data_view> graph;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kIrVersion:
        ir_version = message.Int64();
        break;
      case Tag::kOpsetImport:
        ReadOpset(message.Child());
        break;
      case Tag::kGraph:
        if (graph) Invalid("the file has two graphs");
        graph = message.View();
        break;
      case Tag::kMetadataProps:
        ReadMetadata(message.Child());
        break;
      case Tag::kFunctions:
        Fail(ErrorCode::kUnsupported, "the model defines functions of its own",
             {.hint = "inline them first (onnx.inliner.inline_local_functions)"});
      default:
        message.Skip();
    }
  }
  if (!graph) Invalid("the file has no graph");
  CheckOpsets(ir_version);
  ReadGraph(Message(*graph));
}

void ModelReader::ReadOpset(Message message) {
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
    Invalid(StrCat("opset version ", version, " of domain '", domain, "'"));
  }
  const auto [entry, added] = graph_.opsets.emplace(domain, static_cast<int>(version));
  if (!added && entry->second != version) {
    Invalid(StrCat("domain '", domain, "' is imported twice"));
  }
}

void ModelReader::CheckOpsets(int64_t ir_version) {
  if (ir_version < 1) Invalid("the file has no ir_version");
  if (ir_version < 3) {
    Fail(ErrorCode::kUnsupported, StrCat("ONNX IR version ", ir_version, " is too old"),
         {.hint = "convert the model to IR version 3 or newer (onnx.version_converter)"});
  }
  if (graph_.opsets.empty()) Invalid("the model imports no operator set");
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
        ReadInitializer(message.Child());
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
        Fail(ErrorCode::kUnsupported, "the model has sparse initializers",
             {.hint = "save the model with dense tensors"});
      default:
        message.Skip();
    }
  }
  std::unordered_set<std::string> input_names;
  for (ValueInfo& info : inputs) {
    if (!input_names.insert(info.name).second) {
      Invalid(StrCat("input '", info.name, "' is listed twice"), {.value = info.name});
    }
    // Until IR version 3 every initializer was an input too; from 4 on such an input is a default
    // that callers could override. Both are constants here.
    if (graph_.FindValue(info.name)) continue;
    if (info.type.dtype == DType::kUndefined) {
      Invalid(StrCat("input '", info.name, "' has no type"), {.value = info.name});
    }
    graph_.AddInput(graph_.AddValue(info.name, std::move(info.type)));
  }
  for (const NodeParts& node : nodes) AddNode(node);
  std::unordered_set<std::string> output_names;
  for (ValueInfo& info : outputs) {
    if (!output_names.insert(info.name).second) {
      Invalid(StrCat("output '", info.name, "' is listed twice"), {.value = info.name});
    }
    graph_.AddOutput(Declare(info.name));
  }
  outputs.insert(outputs.end(), infos.begin(), infos.end());
  for (ValueInfo& info : outputs) {
    Value* value = graph_.FindValue(info.name);
    if (value == nullptr || value->is_constant() || graph_.IsInput(value)) continue;
    if (value->type.dtype != DType::kUndefined && value->type.dtype != info.type.dtype &&
        info.type.dtype != DType::kUndefined) {
      Invalid(StrCat("value '", info.name, "' is declared as ", DTypeName(value->type.dtype),
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
  for (const auto& node : graph_.nodes()) {
    for (const Value* input : node->inputs) {
      if (input == nullptr || defined(input)) continue;
      Invalid(StrCat("node '", node->name, "' reads '", input->name, "', which nothing defines"),
              {.node = node->name, .value = input->name});
    }
  }
  for (const Value* output : graph_.outputs()) {
    if (defined(output)) continue;
    Invalid(StrCat("output '", output->name, "' is never computed"), {.value = output->name});
  }
}

void ModelReader::ReadInitializer(Message message) {
  NamedTensor read = ReadTensorMessage(message, file_, options_.external, "");
  if (read.name.empty()) Invalid("an initializer has no name");
  if (graph_.FindValue(read.name)) {
    Invalid(StrCat("initializer '", read.name, "' is there twice"), {.value = read.name});
  }
  graph_.AddConstant(read.name, std::move(read.tensor));
}

ValueInfo ModelReader::ReadValueInfo(Message message) {
  using Tag = onnx_tags::ValueInfoProto;
  ValueInfo info;
  std::optional<protozero::data_view> type;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kName:
        info.name = message.String();
        break;
      case Tag::kType:
        if (type) Invalid("a value has two types");
        type = message.View();
        break;
      default:
        message.Skip();
    }
  }
  if (info.name.empty()) Invalid("an input, output or value_info has no name");
  if (type) info.type = ReadType(Message(*type), info.name);
  return info;
}

ValueType ModelReader::ReadType(Message message, const std::string& value_name) {
  using Tag = onnx_tags::TypeProto;
  std::optional<ValueType> type;
  while (message.Next()) {
    switch (const Tag tag = message.tag<Tag>()) {
      case Tag::kTensorType:
        if (type) Invalid(StrCat("value '", value_name, "' has two types"), {.value = value_name});
        type = ReadTensorType(message.Child(), value_name);
        break;
      case Tag::kSequenceType:
      case Tag::kMapType:
      case Tag::kOpaqueType:
      case Tag::kSparseTensorType:
      case Tag::kOptionalType:
        Fail(ErrorCode::kUnsupported,
             StrCat("value '", value_name, "' is ",
                    tag == Tag::kSequenceType   ? "a sequence"
                    : tag == Tag::kMapType      ? "a map"
                    : tag == Tag::kOptionalType ? "an optional value"
                                                : "a sparse or opaque value",
                    ", not a dense tensor"),
             {.value = value_name, .hint = "cut that part of the model off before loading it"});
      default:
        message.Skip();
    }
  }
  return type.value_or(ValueType{});
}

ValueType ModelReader::ReadTensorType(Message message, const std::string& value_name) {
  using Tag = onnx_tags::TensorTypeProto;
  ValueType type;
  int64_t number = 0;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kElemType:
        number = message.Int32();
        break;
      case Tag::kShape: {
        if (type.shape) Invalid(StrCat("value '", value_name, "' has two shapes"));
        type.shape.emplace();
        Message shape = message.Child();
        while (shape.Next()) {
          if (shape.tag<onnx_tags::TensorShapeProto>() == onnx_tags::TensorShapeProto::kDim) {
            type.shape->push_back(ReadDim(shape.Child(), value_name));
          } else {
            shape.Skip();
          }
        }
        break;
      }
      default:
        message.Skip();
    }
  }
  type.dtype = DTypeFromNumber(number, value_name);
  return type;
}

Dim ModelReader::ReadDim(Message message, const std::string& value_name) {
  using Tag = onnx_tags::DimensionProto;
  Dim dim;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kDimValue:
        dim = Dim(message.Int64());
        if (dim.value < -1) {
          Invalid(StrCat("value '", value_name, "' has a dimension of ", dim.value),
                  {.value = value_name});
        }
        break;  // -1 is how some exporters spell an unknown size
      case Tag::kDimParam:
        dim = Dim(message.String());
        break;
      default:
        message.Skip();
    }
  }
  return dim;
}

NodeParts ModelReader::ReadNodeParts(Message message) {
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
      default:
        message.Skip();
    }
  }
  if (parts.op_type.empty()) Invalid("a node has no operator", {.node = parts.name});
  return parts;
}

void ModelReader::AddNode(const NodeParts& parts) {
  AttributeMap attributes;
  for (const protozero::data_view& view : parts.attributes) {
    ReadAttribute(Message(view), parts, attributes);
  }
  std::vector<Value*> inputs;
  for (const std::string& name : parts.inputs) {
    inputs.push_back(name.empty() ? nullptr : Declare(name));
  }
  std::vector<Value*> outputs;
  for (const std::string& name : parts.outputs) {
    Value* value = name.empty() ? nullptr : Declare(name);
    if (value && (value->producer || value->is_constant() || graph_.IsInput(value) ||
                  std::find(outputs.begin(), outputs.end(), value) != outputs.end())) {
      Invalid(StrCat("value '", name, "' is defined twice"),
              {.node = parts.Label(), .value = name, .hint = "every value needs one producer"});
    }
    outputs.push_back(value);
  }
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  while (!outputs.empty() && outputs.back() == nullptr) outputs.pop_back();
  graph_.AddNode(parts.op_type, parts.domain, std::move(inputs), std::move(outputs),
                 std::move(attributes), parts.name);
}

void ModelReader::ReadAttribute(Message message, const NodeParts& node, AttributeMap& attributes) {
  using Tag = onnx_tags::AttributeProto;
  std::string name;
  int32_t declared = 0;
  std::set<AttributeType> present;
  int64_t number = 0;
  float real = 0;
  std::string text;
  std::optional<protozero::data_view> tensor;
  std::vector<int64_t> numbers;
  std::vector<float> reals;
  std::vector<std::string> texts;
  bool reference = false;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kName:
        name = message.String();
        break;
      case Tag::kType:
        declared = message.Int32();
        break;
      case Tag::kInt:
        number = message.Int64();
        present.insert(AttributeType::kInt);
        break;
      case Tag::kFloat:
        real = message.Float();
        present.insert(AttributeType::kFloat);
        break;
      case Tag::kString:
        text = message.String();
        present.insert(AttributeType::kString);
        break;
      case Tag::kTensor:
        if (tensor) Invalid(StrCat("attribute '", name, "' has two tensors"));
        tensor = message.View();
        present.insert(AttributeType::kTensor);
        break;
      case Tag::kInts:
        message.AppendInt64(numbers);
        present.insert(AttributeType::kInts);
        break;
      case Tag::kFloats:
        message.AppendFloat(reals);
        present.insert(AttributeType::kFloats);
        break;
      case Tag::kStrings:
        texts.push_back(message.String());
        present.insert(AttributeType::kStrings);
        break;
      case Tag::kGraph:
      case Tag::kGraphs:
        present.insert(AttributeType::kGraph);
        message.Skip();
        break;
      case Tag::kTensors:
      case Tag::kTypeProto:
      case Tag::kTypeProtos:
      case Tag::kSparseTensor:
      case Tag::kSparseTensors:
        present.insert(AttributeType::kSparseTensor);
        message.Skip();
        break;
      case Tag::kRefAttrName:
        reference = true;
        message.Skip();
        break;
      default:
        message.Skip();
    }
  }
  const std::string label = node.Label();
  if (name.empty()) Invalid("an attribute has no name", {.node = label});
  if (attributes.Has(name))
    Invalid(StrCat("attribute '", name, "' is there twice"), {.node = label});
  auto type = static_cast<AttributeType>(declared);
  if (type == AttributeType::kUndefined && present.size() == 1) type = *present.begin();
  if (type == AttributeType::kGraph || type == AttributeType::kGraphs ||
      present.contains(AttributeType::kGraph)) {
    Fail(ErrorCode::kUnsupported,
         StrCat("operator ", node.op_type, " has a subgraph in attribute '", name, "'"),
         {.node = label, .hint = "control flow is not supported: unroll it before exporting"});
  }
  // A list or scalar may be absent when it is empty or zero; anything else must not be present.
  if (reference || present.size() > 1 || (present.size() == 1 && *present.begin() != type)) {
    Invalid(StrCat("attribute '", name, "' does not hold what its type says"), {.node = label});
  }
  switch (type) {
    case AttributeType::kInt:
      return attributes.Set(name, number);
    case AttributeType::kFloat:
      return attributes.Set(name, real);
    case AttributeType::kString:
      return attributes.Set(name, std::move(text));
    case AttributeType::kInts:
      return attributes.Set(name, std::move(numbers));
    case AttributeType::kFloats:
      return attributes.Set(name, std::move(reals));
    case AttributeType::kStrings:
      return attributes.Set(name, std::move(texts));
    case AttributeType::kTensor:
      if (!tensor) Invalid(StrCat("attribute '", name, "' has no tensor"), {.node = label});
      try {
        NamedTensor read = ReadTensorMessage(Message(*tensor), file_, options_.external, name);
        return attributes.Set(name, std::move(read.tensor));
      } catch (Error& error) {
        error.AddNode(label);
        throw;
      }
    default:
      break;
  }
  Fail(ErrorCode::kUnsupported,
       StrCat("attribute '", name, "' of ", node.op_type, " has kind ", declared,
              ", which is not supported"),
       {.node = label, .hint = "replace the operator or split the model before it"});
}

/// Runs `function`, with malformed protobuf turned into kInvalidModel.
template <typename Function>
auto Guarded(Function&& function) {
  try {
    return function();
  } catch (const protozero::exception& error) {
    Invalid(StrCat("the bytes are no protobuf message: ", error.what()));
  }
}

/// Calls `visit` with every message in field `tag` of `message`.
template <typename Tag, typename Visit>
void ForEach(Message message, Tag tag, Visit&& visit) {
  while (message.Next()) {
    if (message.tag<Tag>() == tag) {
      visit(message.Child());
    } else {
      message.Skip();
    }
  }
}

void CollectLocations(Message tensor, std::set<std::string>& out) {
  using Entry = onnx_tags::StringStringEntryProto;
  ForEach(tensor, onnx_tags::TensorProto::kExternalData, [&](Message entry) {
    std::string key;
    std::string value;
    while (entry.Next()) {
      switch (entry.tag<Entry>()) {
        case Entry::kKey:
          key = entry.String();
          break;
        case Entry::kValue:
          value = entry.String();
          break;
        default:
          entry.Skip();
      }
    }
    if (key == "location") out.insert(value);
  });
}

}  // namespace

Graph ReadOnnx(const SharedBytes& file, const ReadOptions& options) {
  return Guarded([&] { return ModelReader(file, options).Read(); });
}

std::vector<std::string> ExternalDataLocations(std::span<const uint8_t> file) {
  return Guarded([&] {
    std::set<std::string> locations;
    ForEach(Message(file), onnx_tags::ModelProto::kGraph, [&](Message graph) {
      ForEach(graph, onnx_tags::GraphProto::kInitializer,
              [&](Message tensor) { CollectLocations(tensor, locations); });
      ForEach(graph, onnx_tags::GraphProto::kNode, [&](Message node) {
        ForEach(node, onnx_tags::NodeProto::kAttribute, [&](Message attribute) {
          ForEach(attribute, onnx_tags::AttributeProto::kTensor,
                  [&](Message tensor) { CollectLocations(tensor, locations); });
        });
      });
    });
    return std::vector<std::string>(locations.begin(), locations.end());
  });
}

NamedTensor ReadTensorFile(const SharedBytes& file) {
  return Guarded([&] { return ReadTensorMessage(Message(file.bytes), file, {}, ""); });
}

}  // namespace requant
