#include "onnx/write_graph.h"

#include <algorithm>

#include "onnx/tags.h"
#include "onnx/text_data.h"
#include "tensor/text.h"

namespace requant {

std::string EntryBytes(const std::string& key, const std::string& value) {
  using Tag = onnx_tags::StringStringEntryProto;
  std::string out;
  MessageWriter writer(out);
  writer.Bytes(Tag::kKey, key);
  writer.Bytes(Tag::kValue, value);
  return out;
}

std::string TensorHead(const std::string& name, const Tensor& tensor) {
  using Tag = onnx_tags::TensorProto;
  std::string out;
  MessageWriter writer(out);
  for (const int64_t dim : tensor.shape()) writer.Int(Tag::kDims, dim);
  writer.Int(Tag::kDataType, static_cast<int64_t>(tensor.dtype()));
  if (!name.empty()) writer.Bytes(Tag::kName, name);
  return out;
}

std::string TensorBytes(const std::string& name, const Tensor& tensor) {
  std::string out = TensorHead(name, tensor);
  if (IsText(tensor.dtype())) {
    kWriteTexts(tensor, out);
    return out;
  }
  out.reserve(out.size() + tensor.bytes() + 16);
  MessageWriter(out).Bytes(onnx_tags::TensorProto::kRawData,
                           {static_cast<const char*>(tensor.raw()), tensor.bytes()});
  return out;
}

std::string HalfName(const Graph& graph, const Value& value) {
  std::string name = value.name + "_half";
  while (graph.FindValue(name)) name += "_";
  return name;
}

namespace {

using onnx_tags::AttributeType;

std::string ShapeBytes(const SymbolicShape& shape) {
  using Tag = onnx_tags::DimensionProto;
  std::string out;
  MessageWriter writer(out);
  for (const Dim& dim : shape) {
    std::string bytes;
    MessageWriter dim_writer(bytes);
    if (dim.known()) {
      dim_writer.Int(Tag::kDimValue, dim.value);
    } else if (!dim.symbol.empty()) {
      dim_writer.Bytes(Tag::kDimParam, dim.symbol);
    }
    writer.Bytes(onnx_tags::TensorShapeProto::kDim, bytes);
  }
  return out;
}

std::string TypeBytes(const ValueType& value_type) {
  using Tag = onnx_tags::TypeProto;
  const auto bits = static_cast<uint8_t>(value_type.dtype);
  const bool contained = bits >= kOptionalBit;
  std::string tensor_type;
  MessageWriter tensor_writer(tensor_type);
  tensor_writer.Int(onnx_tags::TensorTypeProto::kElemType, bits & (kOptionalBit - 1));
  // The shape of a container is that of its bytes.
  if (value_type.shape && !contained) {
    tensor_writer.Bytes(onnx_tags::TensorTypeProto::kShape, ShapeBytes(*value_type.shape));
  }
  std::string type;
  MessageWriter(type).Bytes(Tag::kTensorType, tensor_type);
  const auto wrap = [&type, bits](uint8_t bit, Tag tag) {
    if ((bits & bit) == 0) return;
    std::string container;
    MessageWriter(container).Bytes(onnx_tags::TensorTypeProto::kElemType, type);
    type.clear();
    MessageWriter(type).Bytes(tag, container);
  };
  wrap(kSequenceBit, Tag::kSequenceType);
  wrap(kOptionalBit, Tag::kOptionalType);
  return type;
}

std::string ValueInfoBytes(const Value& value) {
  std::string out;
  MessageWriter writer(out);
  writer.Bytes(onnx_tags::ValueInfoProto::kName, value.name);
  // ZipMap gives maps in a file; readers know that from the operator.
  const bool maps = value.producer && value.producer->op_type == "ZipMap";
  if (value.type.dtype != DType::kUndefined && !maps) {
    writer.Bytes(onnx_tags::ValueInfoProto::kType, TypeBytes(value.type));
  }
  return out;
}

std::string GraphBytes(const Graph& graph);

struct AttributeWriter {
  using Tag = onnx_tags::AttributeProto;
  MessageWriter& writer;

  void Type(AttributeType type) const { writer.Int(Tag::kType, static_cast<int64_t>(type)); }
  void operator()(int64_t value) const {
    writer.Int(Tag::kInt, value);
    Type(AttributeType::kInt);
  }
  void operator()(float value) const {
    writer.Float(Tag::kFloat, value);
    Type(AttributeType::kFloat);
  }
  void operator()(const std::string& value) const {
    writer.Bytes(Tag::kString, value);
    Type(AttributeType::kString);
  }
  void operator()(const std::vector<int64_t>& values) const {
    for (const int64_t value : values) writer.Int(Tag::kInts, value);
    Type(AttributeType::kInts);
  }
  void operator()(const std::vector<float>& values) const {
    for (const float value : values) writer.Float(Tag::kFloats, value);
    Type(AttributeType::kFloats);
  }
  void operator()(const std::vector<std::string>& values) const {
    for (const std::string& value : values) writer.Bytes(Tag::kStrings, value);
    Type(AttributeType::kStrings);
  }
  void operator()(const Subgraph& value) const {
    writer.Bytes(Tag::kGraph, GraphBytes(*value));
    Type(AttributeType::kGraph);
  }
  void operator()(const Tensor& value) const {
    writer.Bytes(Tag::kTensor, TensorBytes("", value));
    Type(AttributeType::kTensor);
  }
};

/// A copy of a subgraph whose captured inputs have the names of the values that they stand for.
Subgraph Reconnected(const Graph& body, std::span<Value* const> captured) {
  auto copy = std::make_shared<Graph>(body.Clone());
  const size_t first = copy->inputs().size() - copy->captured;
  for (size_t i = 0; i < captured.size(); ++i) {
    // Another value of that name is renamed first; a value captured again later gets its own name.
    Value* own = copy->inputs()[first + i];
    const auto twin = std::find(captured.begin(), captured.end(), captured[i]) - captured.begin();
    if (static_cast<size_t>(twin) < i) {
      copy->ReplaceAllUses(own, copy->inputs()[first + static_cast<size_t>(twin)]);
      continue;
    }
    Value* taken = copy->FindValue(captured[i]->name);
    if (taken == own) continue;
    if (taken) copy->RenameValue(taken, taken->name + "_inner");
    copy->RenameValue(own, captured[i]->name);
  }
  return copy;
}

std::string NodeBytes(const Node& node) {
  using Tag = onnx_tags::NodeProto;
  std::string out;
  MessageWriter writer(out);
  size_t next = node.formal_inputs();
  for (size_t i = 0; i < next; ++i) {
    writer.Bytes(Tag::kInput, node.inputs[i] ? node.inputs[i]->name : "");
  }
  for (const Value* output : node.outputs) writer.Bytes(Tag::kOutput, output ? output->name : "");
  writer.Bytes(Tag::kName, node.name);
  writer.Bytes(Tag::kOpType, node.op_type);
  if (!node.domain.empty()) writer.Bytes(Tag::kDomain, node.domain);
  for (const auto& [name, value] : node.attributes.entries()) {
    std::string bytes;
    MessageWriter attribute(bytes);
    attribute.Bytes(onnx_tags::AttributeProto::kName, name);
    if (const auto* body = std::get_if<Subgraph>(&value)) {
      const std::span<Value* const> captured(node.inputs.data() + next, (*body)->captured);
      next += captured.size();
      AttributeWriter{attribute}(Reconnected(**body, captured));
    } else if (name == "type" && node.op_type == "Optional") {
      // The reader has made it a number.
      const auto dtype = static_cast<DType>(node.attributes.Int(name, 0));
      attribute.Bytes(onnx_tags::AttributeProto::kTypeProto, TypeBytes({dtype, std::nullopt}));
      AttributeWriter{attribute}.Type(AttributeType::kTypeProto);
    } else {
      std::visit(AttributeWriter{attribute}, value);
    }
    writer.Bytes(Tag::kAttribute, bytes);
  }
  return out;
}

/// The Cast to float32 of a constant that is written in 16 bits.
std::string WideningBytes(const Graph& graph, const Value& value) {
  using Tag = onnx_tags::NodeProto;
  std::string attribute;
  MessageWriter attribute_writer(attribute);
  attribute_writer.Bytes(onnx_tags::AttributeProto::kName, "to");
  AttributeWriter{attribute_writer}(static_cast<int64_t>(DType::kFloat32));
  std::string out;
  MessageWriter writer(out);
  writer.Bytes(Tag::kInput, HalfName(graph, value));
  writer.Bytes(Tag::kOutput, value.name);
  writer.Bytes(Tag::kName, value.name + "_widen");
  writer.Bytes(Tag::kOpType, "Cast");
  writer.Bytes(Tag::kAttribute, attribute);
  return out;
}

std::string GraphBytes(const Graph& graph) {
  std::string out = GraphHead(graph);
  ForEachInitializer(graph, [&](const std::string& name, const Tensor& tensor) {
    MessageWriter(out).Bytes(onnx_tags::GraphProto::kInitializer, TensorBytes(name, tensor));
  });
  return out + GraphTail(graph);
}

}  // namespace

std::string GraphHead(const Graph& graph) {
  using Tag = onnx_tags::GraphProto;
  std::string out;
  MessageWriter writer(out);
  for (const auto& value : graph.values()) {
    if (value->constant.half()) writer.Bytes(Tag::kNode, WideningBytes(graph, *value));
  }
  for (const auto& node : graph.nodes()) writer.Bytes(Tag::kNode, NodeBytes(*node));
  writer.Bytes(Tag::kName, graph.name.empty() ? "graph" : graph.name);
  return out;
}

std::string GraphTail(const Graph& graph) {
  using Tag = onnx_tags::GraphProto;
  std::string out;
  MessageWriter writer(out);
  for (size_t i = 0; i + graph.captured < graph.inputs().size(); ++i) {
    writer.Bytes(Tag::kInput, ValueInfoBytes(*graph.inputs()[i]));
  }
  for (const Value* output : graph.outputs()) writer.Bytes(Tag::kOutput, ValueInfoBytes(*output));
  for (const auto& value : graph.values()) {
    const bool declared = value->type.dtype != DType::kUndefined && value->producer;
    if (declared && !graph.IsOutput(value.get())) {
      writer.Bytes(Tag::kValueInfo, ValueInfoBytes(*value));
    }
  }
  return out;
}

}  // namespace requant
