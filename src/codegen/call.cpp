#include "codegen/call.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/composite.h"

namespace requant {
namespace {

constexpr const char* kTypes =
    R"(/* What functions of other libraries get. Guarded, since several networks may define it. */
#ifndef REQUANT_CALL
#define REQUANT_CALL

/* A value of the operators that a function computes. */
typedef struct requant_tensor {
  const void *data; /* NULL: one operator computes it and another reads it, so it has no memory */
  int32_t type;     /* ONNX's number of the type: 1 float, 2 uint8, 3 int8, 6 int32, 7 int64 */
  int32_t rank;
  const int32_t *dims;
  int32_t constant; /* 1: the same in every run */
} requant_tensor;

/* An attribute of an operator: integers, floats or a text, by the pointer that is not NULL. */
typedef struct requant_attribute {
  const char *name;
  int32_t count;
  const int64_t *ints;
  const float *floats;
  const char *text;
} requant_attribute;

/* An operator with the slots of ONNX. Slots are indices of tensors; -1: left out. */
typedef struct requant_node {
  const char *op, *domain, *name;
  int32_t input_count, output_count, attribute_count;
  const int32_t *inputs, *outputs;
  const requant_attribute *attributes;
} requant_node;

#endif

)";

constexpr const char* kParameters =
    "(void *result, const requant_tensor *tensors, int32_t tensor_count,\n    const requant_node "
    "*nodes, int32_t node_count)";

/// A text as C writes it.
std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || c == '?' || code < 32 || code > 126) {
      // An octal escape has three digits at most, so no character after it belongs to it.
      out += StrCat("\\", code >> 6, code >> 3 & 7, code & 7);
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Writes one call.
class CallWriter {
 public:
  CallWriter(const Graph& graph, const std::vector<const Node*>& nodes, CFile& file)
      : graph_(graph), nodes_(nodes), file_(file) {}

  void Write(const std::string& function) {
    const Node& last = *nodes_.back();
    const EmitContext end{graph_, last, file_};
    if (last.outputs.size() != 1) end.Unsupported("a call that ends with several results");
    for (const Node* node : nodes_) CheckValues({graph_, *node, file_});
    if (NumElements(last.output()->type.StaticShape()) == 0) return;
    IndexOf(last.output());
    std::vector<Fields> rows;
    for (const Node* node : nodes_) rows.push_back(NodeFields(*node));
    Fields tensors;
    for (const Value* value : values_) tensors << TensorFields(*value, end);
    file_.Call(function, Fields() << file_.Pointer(last.output())
                                  << StrCat("(const requant_tensor[])", tensors.Braced())
                                  << Count(values_) << file_.Table("requant_node", rows)
                                  << Count(nodes_));
  }

 private:
  template <typename List>
  static int64_t Count(const List& list) {
    return static_cast<int64_t>(list.size());
  }

  int32_t IndexOf(const Value* value) {
    if (value == nullptr) return -1;
    const auto found = std::find(values_.begin(), values_.end(), value);
    const auto index = static_cast<int32_t>(found - values_.begin());
    if (found == values_.end()) values_.push_back(value);
    return index;
  }

  std::string Slots(const std::vector<Value*>& values) {
    std::vector<int32_t> slots;
    for (const Value* value : values) slots.push_back(IndexOf(value));
    return file_.Ints(slots);
  }

  Fields NodeFields(const Node& node) {
    std::vector<Fields> attributes;
    for (const auto& [name, value] : node.attributes.entries()) {
      attributes.push_back(AttributeFields(node, name, value));
    }
    return Fields() << Quoted(node.op_type) << Quoted(node.domain) << Quoted(node.name)
                    << Count(node.inputs) << Count(node.outputs) << Count(attributes)
                    << Slots(node.inputs) << Slots(node.outputs)
                    << file_.Table("requant_attribute", attributes);
  }

  Fields AttributeFields(const Node& node, const std::string& name, const Attribute& value) {
    const auto row = [&name](int64_t count, std::string_view ints, std::string_view floats,
                             std::string_view text) {
      return Fields() << Quoted(name) << count << ints << floats << text;
    };
    if (const auto* one = std::get_if<int64_t>(&value)) {
      return row(1, file_.Longs({one, 1}), "NULL", "NULL");
    }
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
      return row(Count(*ints), file_.Longs(*ints), "NULL", "NULL");
    }
    if (const auto* one = std::get_if<float>(&value)) {
      return row(1, "NULL", file_.Floats({one, 1}), "NULL");
    }
    if (const auto* floats = std::get_if<std::vector<float>>(&value)) {
      return row(Count(*floats), "NULL", file_.Floats(*floats), "NULL");
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
      return row(1, "NULL", "NULL", Quoted(*text));
    }
    EmitContext{graph_, node, file_}.Unsupported(StrCat("a call with the attribute ", name));
  }

  Fields TensorFields(const Value& value, const EmitContext& context) {
    std::vector<int32_t> dims;
    for (const int64_t dim : value.type.StaticShape()) dims.push_back(static_cast<int32_t>(dim));
    return Fields() << Data(value, context) << static_cast<int64_t>(value.type.dtype) << Count(dims)
                    << file_.Ints(dims) << (value.is_constant() ? 1 : 0);
  }

  std::string Data(const Value& value, const EmitContext& context) {
    if (!value.is_constant()) {
      const bool inner =
          std::find(nodes_.begin(), nodes_.end() - 1, value.producer) != nodes_.end() - 1;
      return inner ? "NULL" : file_.Pointer(&value);
    }
    const Tensor& tensor = value.constant;
    switch (tensor.dtype()) {
      case DType::kInt32:
        return file_.Ints(tensor.values<int32_t>());
      case DType::kInt64:
        return file_.Longs(tensor.values<int64_t>());
      case DType::kFloat32:
      case DType::kInt8:
      case DType::kUint8:
      case DType::kBool:
        return file_.Pointer(&value);
      default:
        context.Unsupported(StrCat("a call with a constant of ", DTypeName(tensor.dtype())));
    }
  }

  const Graph& graph_;
  const std::vector<const Node*>& nodes_;
  CFile& file_;
  std::vector<const Value*> values_;
};

}  // namespace

VendorCalls::VendorCalls(const Graph& graph, const GenerateCOptions& options)
    : options_(options), call_of_(graph.nodes().size(), -1) {
  graph.Renumber();
  for (const VendorCall& call : options.calls) {
    if (!IsIdentifier(call.function)) {
      Fail(ErrorCode::kInvalidArgument, StrCat("\"", call.function, "\" is no name in C"),
           {.value = "options.calls", .hint = "Take letters, digits and _, no digit first."});
    }
    if (call.header.find_first_of("\"\n\r") != std::string::npos) {
      Fail(ErrorCode::kInvalidArgument, StrCat("\"", call.header, "\" is no header in C"),
           {.value = "options.calls", .hint = "Take a file name without quotes."});
    }
    nodes_.push_back(NodesOf(graph, {0, call.nodes}));
    for (const Node* node : nodes_.back()) {
      int& place = call_of_[node->position];
      if (place >= 0) {
        Fail(ErrorCode::kInvalidArgument, "two calls compute one operator", {.node = node->name});
      }
      place = static_cast<int>(nodes_.size()) - 1;
    }
  }
}

const std::vector<const Node*>& VendorCalls::EndingWith(const Node& node) const {
  if (!Has(node)) return none_;
  const auto& nodes = nodes_[static_cast<size_t>(call_of_[node.position])];
  return nodes.back() == &node ? nodes : none_;
}

void VendorCalls::Emit(const Graph& graph, const Node& last, CFile& file) const {
  const auto call = static_cast<size_t>(call_of_[last.position]);
  CallWriter(graph, nodes_[call], file).Write(options_.calls[call].function);
}

std::string VendorCalls::Declarations() const {
  if (options_.calls.empty()) return "";
  std::string declared;
  for (const VendorCall& call : options_.calls) {
    const std::string line = StrCat("void ", call.function, kParameters, ";\n");
    if (call.header.empty() && declared.find(line) == std::string::npos) declared += line;
  }
  if (declared.empty()) return kTypes;
  return StrCat(kTypes,
                "/* Functions of other libraries: they write the last operator's result, which is "
                "tensors[0]. */\n",
                declared, "\n");
}

std::string VendorCalls::Includes() const {
  std::string out;
  for (const VendorCall& call : options_.calls) {
    const std::string line = StrCat("#include \"", call.header, "\"\n");
    if (!call.header.empty() && out.find(line) == std::string::npos) out += line;
  }
  return out;
}

}  // namespace requant
