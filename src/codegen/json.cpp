#include "base/json.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "codegen/codegen.h"
#include "tensor/text.h"

namespace requant {
namespace {

/// Base64 as in RFC 4648.
std::string Base64(const uint8_t* bytes, size_t count) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < count; i += 3) {
    const size_t some = count - i < 3 ? count - i : 3;
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < some ? bytes[i + j] : 0);
    for (size_t j = 0; j < 4; ++j) {
      out += j <= some ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

class Writer {
 public:
  Writer(size_t max_numbers, bool whole) : max_numbers_(max_numbers), whole_(whole) {}

  std::string Write(const Graph& graph);

 private:
  void Names(const std::vector<Value*>& values);
  void Type(const ValueType& type);
  void Constant(const Tensor& tensor);
  void Node(const requant::Node& node);
  /// Writes an attribute's value, whatever its kind.
  void Attribute(const requant::Node&, int64_t value) { json_.Int(value); }
  void Attribute(const requant::Node&, float value) { json_.Number(value); }
  void Attribute(const requant::Node&, const std::string& value) { json_.String(value); }
  void Attribute(const requant::Node&, const Tensor& value) { Constant(value); }
  void Attribute(const requant::Node& node, const Subgraph&);
  template <typename T>
  void Attribute(const requant::Node& node, const std::vector<T>& values) {
    json_.BeginArray();
    for (const T& value : values) Attribute(node, value);
    json_.EndArray();
  }

  size_t max_numbers_;
  bool whole_;  // whether large constants are written, and bodies refused
  JsonWriter json_;
};

void Writer::Names(const std::vector<Value*>& values) {
  json_.BeginArray();
  for (const Value* value : values) json_.String(value ? value->name : "");
  json_.EndArray();
}

/// Writes an open object with type and dims; the caller adds members and closes it.
void Writer::Type(const ValueType& type) {
  json_.BeginObject().Key("type").String(DTypeName(type.dtype)).Key("dims");
  if (!type.shape) {
    json_.Null();
    return;
  }
  json_.BeginArray();
  for (const Dim& dim : *type.shape) {
    if (dim.known()) {
      json_.Int(dim.value);
    } else if (dim.symbol.empty()) {
      json_.Null();
    } else {
      json_.String(dim.symbol);
    }
  }
  json_.EndArray();
}

void Writer::Constant(const Tensor& tensor) {
  Type({tensor.dtype(), ToSymbolic(tensor.shape())});
  const bool texts = IsText(tensor.dtype());
  const bool large = static_cast<size_t>(tensor.count()) > max_numbers_;
  if (large && !whole_) {
    json_.EndObject();
    return;
  }
  json_.Key("data");
  if (large && !texts) {
    json_.String(Base64(static_cast<const uint8_t*>(tensor.raw()), tensor.bytes()));
  } else {
    json_.BeginArray();
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (texts) {
        json_.String(TextOf(static_cast<const uint64_t*>(tensor.raw())[i]));
      } else if (IsFloat(tensor.dtype())) {
        json_.Number(tensor.AsDouble(i));
      } else {
        json_.Int(tensor.AsInt64(i));
      }
    }
    json_.EndArray();
  }
  json_.EndObject();
}

void Writer::Attribute(const requant::Node& node, const Subgraph&) {
  if (!whole_) {
    json_.Null();
    return;
  }
  Fail(ErrorCode::kUnsupported, StrCat(node.op_type, " has a body, which has no JSON"),
       {.node = node.name, .hint = "Control flow is written as ONNX only."});
}

void Writer::Node(const requant::Node& node) {
  json_.BeginObject().Key("name").String(node.name).Key("op").String(node.op_type);
  json_.Key("domain").String(node.domain);
  json_.Key("inputs");
  Names(node.inputs);
  json_.Key("outputs");
  Names(node.outputs);
  json_.Key("attributes").BeginObject();
  for (const auto& [name, attribute] : node.attributes.entries()) {
    json_.Key(name);
    std::visit([&](const auto& value) { Attribute(node, value); }, attribute);
  }
  json_.EndObject().EndObject();
}

std::string Writer::Write(const Graph& graph) {
  json_.BeginObject().Key("name").String(graph.name).Key("opsets").BeginObject();
  for (const auto& [domain, version] : graph.opsets) {
    json_.Key(domain.empty() ? "ai.onnx" : domain).Int(version);
  }
  json_.EndObject().Key("inputs");
  Names(graph.inputs());
  json_.Key("outputs");
  Names(graph.outputs());
  json_.Key("nodes").BeginArray();
  for (const auto& node : graph.nodes()) Node(*node);
  json_.EndArray().Key("values").BeginObject();
  for (const auto& value : graph.values()) {
    if (value->is_constant()) continue;
    json_.Key(value->name);
    Type(value->type);
    json_.EndObject();
  }
  json_.EndObject().Key("constants").BeginObject();
  for (const auto& value : graph.values()) {
    if (!value->is_constant()) continue;
    json_.Key(value->name);
    Constant(value->constant);
  }
  json_.EndObject().EndObject();
  return json_.text();
}

}  // namespace

std::string GraphToJson(const Graph& graph, size_t max_numbers) {
  return Writer(max_numbers, true).Write(graph);
}

std::string DescribeGraph(const Graph& graph, size_t max_numbers) {
  return Writer(max_numbers, false).Write(graph);
}

}  // namespace requant
