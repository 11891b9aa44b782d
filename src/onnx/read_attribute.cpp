#include <optional>
#include <set>
#include <vector>

#include "onnx/local_functions.h"
#include "onnx/read_parts.h"
#include "onnx/tags.h"

namespace requant {

using onnx_tags::AttributeType;

namespace {

/// The kind of attribute in a field that no supported operator reads.
std::optional<AttributeType> UnreadKind(onnx_tags::AttributeProto tag) {
  using Tag = onnx_tags::AttributeProto;
  switch (tag) {
    case Tag::kTensors:
      return AttributeType::kTensors;
    case Tag::kGraphs:
      return AttributeType::kGraphs;
    case Tag::kSparseTensors:
      return AttributeType::kSparseTensors;
    case Tag::kTypeProtos:
      return AttributeType::kTypeProtos;
    default:
      return std::nullopt;
  }
}

}  // namespace

void ReadAttribute(Message message, const std::string& op_type, const std::string& label,
                   const SharedBytes& file, const ExternalFiles& external,
                   SubgraphReader& subgraphs, const AttributeMap* around,
                   AttributeMap& attributes) {
  using Tag = onnx_tags::AttributeProto;
  std::string name;
  int32_t declared = 0;
  std::set<AttributeType> present;
  int64_t number = 0;
  float real = 0;
  std::string text;
  std::optional<protozero::data_view> tensor;
  std::optional<protozero::data_view> graph;
  std::optional<protozero::data_view> value_type;
  std::vector<int64_t> numbers;
  std::vector<float> reals;
  std::vector<std::string> texts;
  std::string reference;
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
        if (tensor) InvalidFile(StrCat("attribute '", name, "' has two tensors"));
        tensor = message.View();
        present.insert(AttributeType::kTensor);
        break;
      case Tag::kSparseTensor:
        tensor = message.View();
        present.insert(AttributeType::kSparseTensor);
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
        if (graph) InvalidFile(StrCat("attribute '", name, "' has two graphs"));
        graph = message.View();
        present.insert(AttributeType::kGraph);
        break;
      case Tag::kTypeProto:
        value_type = message.View();
        present.insert(AttributeType::kTypeProto);
        break;
      case Tag::kRefAttrName:
        reference = message.String();
        break;
      default:
        if (const auto kind = UnreadKind(message.tag<Tag>())) present.insert(*kind);
        message.Skip();
    }
  }
  if (name.empty()) InvalidFile("an attribute has no name", {.node = label});
  if (attributes.Has(name))
    InvalidFile(StrCat("attribute '", name, "' is there twice"), {.node = label});
  if (!reference.empty() && present.empty()) {
    if (around == nullptr) {
      InvalidFile(StrCat("attribute '", name, "' refers to '", reference, "' of no function"),
                  {.node = label});
    }
    const Attribute* given = around->Find(reference);
    if (given) attributes.Set(name, *given);
    return;
  }
  auto type = static_cast<AttributeType>(declared);
  if (type == AttributeType::kUndefined && present.size() == 1) type = *present.begin();
  // A list or scalar may be absent when it is empty or zero; anything else must not be present.
  if (!reference.empty() || present.size() > 1 ||
      (present.size() == 1 && *present.begin() != type)) {
    InvalidFile(StrCat("attribute '", name, "' does not hold what its type says"), {.node = label});
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
    case AttributeType::kSparseTensor:
      if (!tensor) InvalidFile(StrCat("attribute '", name, "' has no tensor"), {.node = label});
      try {
        const bool sparse = type == AttributeType::kSparseTensor;
        NamedTensor read = sparse ? kReadSparseTensor(Message(*tensor), file, external, name)
                                  : ReadTensorMessage(Message(*tensor), file, external, name);
        // A Constant's sparse value is a dense one from here on.
        if (sparse && name == "sparse_value") name = "value";
        return attributes.Set(name, std::move(read.tensor));
      } catch (Error& error) {
        error.AddNode(label);
        throw;
      }
    case AttributeType::kTypeProto:
      // Only Optional has such an attribute; the graph keeps the number of the dtype.
      if (!value_type || op_type != "Optional") break;
      return attributes.Set(name, static_cast<int64_t>(ReadTypeProto(Message(*value_type),
                                                                     StrCat(label, ".", name))));
    case AttributeType::kGraph:
      if (!graph) InvalidFile(StrCat("attribute '", name, "' has no graph"), {.node = label});
      return attributes.Set(name, subgraphs.ReadSubgraph(Message(*graph)));
    default:
      break;
  }
  Fail(ErrorCode::kUnsupported,
       StrCat("attribute '", name, "' of ", op_type, " has kind ", declared,
              ", which is not supported"),
       {.node = label, .hint = "replace the operator or split the model before it"});
}

}  // namespace requant
