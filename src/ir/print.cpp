#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/number_text.h"
#include "base/str_cat.h"
#include "ir/text.h"
#include "tensor/text.h"

namespace requant {
namespace {

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '-';
}

bool IsPlain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsNameChar);
}

/// Whether the grammar reads the text as an identifier: plain, and not starting like a number.
bool IsIdentifier(std::string_view text) {
  return IsPlain(text) && !(text[0] >= '0' && text[0] <= '9') && text[0] != '-' && text[0] != '.' &&
         text[0] != '/' && text != "_";
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x" + HexText(byte, 2);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string Identifier(std::string_view text) {
  return IsIdentifier(text) ? std::string(text) : Quote(text);
}

std::string Ref(const Value* value) {
  if (value == nullptr) return "_";
  return "%" + (IsPlain(value->name) ? value->name : Quote(value->name));
}

/// The number with `digits` significant digits (9 for float32, 17 for float64, which restore it
/// exactly) and a dot, or "inf" or "nan", so that no float looks like an integer.
std::string Real(double value, int digits) {
  if (!std::isfinite(value)) return NumberText(value);
  std::string text = NumberText(value, digits);
  if (text.find('.') == std::string::npos) {
    const size_t exponent = text.find('e');
    text.insert(exponent == std::string::npos ? text.size() : exponent, ".0");
  }
  return text;
}

/// Spells a NaN with its bits, unless they are the usual ones.
std::string NanBits(uint64_t bits) { return "nan(0x" + HexText(bits) + ")"; }

std::string FloatText(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return std::isnan(value) && bits != 0x7fc00000 ? NanBits(bits) : Real(value, 9);
}

std::string DoubleText(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return std::isnan(value) && bits != 0x7ff8000000000000 ? NanBits(bits) : Real(value, 17);
}

std::string ElementText(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return FloatText(tensor.data<float>()[i]);
    case DType::kFloat64:
      return DoubleText(tensor.data<double>()[i]);
    case DType::kFloat16:
    case DType::kBfloat16: {
      const uint16_t bits = static_cast<const uint16_t*>(tensor.raw())[i];
      const uint16_t usual = tensor.dtype() == DType::kFloat16 ? 0x7e00 : 0x7fc0;
      const double value = tensor.AsDouble(i);
      return std::isnan(value) && bits != usual ? NanBits(bits) : Real(value, 9);
    }
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ: {
      const double value = tensor.AsDouble(i);
      return std::isnan(value) ? NanBits(static_cast<const uint8_t*>(tensor.raw())[i])
                               : Real(value, 9);
    }
    case DType::kUint64:
      return std::to_string(tensor.data<uint64_t>()[i]);
    case DType::kString:
      return Quote(kTextOf(static_cast<const uint64_t*>(tensor.raw())[i]));
    default:
      return std::to_string(tensor.AsInt64(i));
  }
}

std::string DimText(const Dim& dim) {
  if (dim.known()) return std::to_string(dim.value);
  return dim.symbol.empty() ? "?" : Identifier(dim.symbol);
}

std::string TypeText(const ValueType& type) {
  std::string out = DTypeName(type.dtype);
  if (!type.shape) return out + "[...]";
  out += "[";
  for (size_t i = 0; i < type.shape->size(); ++i) {
    out += StrCat(i ? ", " : "", DimText((*type.shape)[i]));
  }
  return out + "]";
}

std::string Data(const Tensor& tensor, const PrintOptions& options) {
  const auto limit = static_cast<int64_t>(options.max_constant_elements);
  if (limit != 0 && tensor.count() > limit) {
    return StrCat("<", ShapeToString(tensor.shape()), ", ", tensor.count(), " elements>");
  }
  std::string out = "{";
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (i) out += ", ";
    out += ElementText(tensor, i);
  }
  return out + "}";
}

template <typename T, typename Format>
std::string List(const char* empty, const std::vector<T>& items, Format format) {
  if (items.empty()) return empty;
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i) out += (i ? ", " : "") + format(items[i]);
  return out + "]";
}

struct AttributePrinter {
  const PrintOptions& options;

  std::string operator()(const Subgraph& value) const {
    return "{ " + PrintGraph(*value, options) + "}";
  }

  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(float value) const { return FloatText(value); }
  std::string operator()(const std::string& value) const { return Quote(value); }
  std::string operator()(const std::vector<int64_t>& value) const {
    return List("ints[]", value, [](int64_t item) { return std::to_string(item); });
  }
  std::string operator()(const std::vector<float>& value) const {
    return List("floats[]", value, FloatText);
  }
  std::string operator()(const std::vector<std::string>& value) const {
    return List("strings[]", value, [](const std::string& item) { return Quote(item); });
  }
  std::string operator()(const Tensor& value) const {
    return StrCat(DTypeName(value.dtype()), ShapeToString(value.shape()), " ",
                  Data(value, options));
  }
};

std::string AttributesText(const AttributeMap& attributes, const PrintOptions& options,
                           std::initializer_list<std::string_view> without) {
  std::string out;
  for (const auto& [name, value] : attributes.entries()) {
    if (std::find(without.begin(), without.end(), name) != without.end()) continue;
    out += StrCat(out.empty() ? "{" : ", ", Identifier(name), " = ",
                  std::visit(AttributePrinter{options}, value));
  }
  return out.empty() ? out : out + "}";
}

std::string TypedRef(const Value* value) {
  std::string out = Ref(value);
  if (value && (value->type.dtype != DType::kUndefined || value->type.shape)) {
    out += ": " + TypeText(value->type);
  }
  return out;
}

std::string NodeText(const Node& node, const PrintOptions& options) {
  std::string out;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    out += (i ? ", " : "") + TypedRef(node.outputs[i]);
  }
  if (node.outputs.empty()) out += "_";
  out += " = ";
  if (!node.domain.empty()) out += Identifier(node.domain) + "::";
  out += Identifier(node.op_type) + "(";
  for (size_t i = 0; i < node.inputs.size(); ++i) out += (i ? ", " : "") + Ref(node.inputs[i]);
  out += ")";
  const std::string attributes = AttributesText(node.attributes, options, {});
  if (!attributes.empty()) out += " " + attributes;
  out += " " + Quote(node.name);
  if (!node.group.empty()) out += " of " + Quote(node.group);
  return node.used_bytes < 0 ? out : StrCat(out, " uses ", node.used_bytes);
}

}  // namespace

std::string PrintAttributes(const AttributeMap& attributes,
                            std::initializer_list<std::string_view> without) {
  return AttributesText(attributes, {}, without);
}

std::string PrintGraph(const Graph& graph, const PrintOptions& options) {
  std::string out = "graph " + Quote(graph.name);
  bool first = true;
  for (const auto& [domain, version] : graph.opsets) {
    out += first ? " opset " : ", ";
    first = false;
    if (!domain.empty()) out += Identifier(domain) + " ";
    out += std::to_string(version);
  }
  out += "\n";
  for (const auto& [key, value] : graph.metadata) {
    out += StrCat("metadata ", Quote(key), " = ", Quote(value), "\n");
  }
  const size_t formal = graph.inputs().size() - graph.captured;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    out += (i < formal ? "input " : "capture ") + TypedRef(graph.inputs()[i]) + "\n";
  }
  for (const auto& value : graph.values()) {
    if (!value->is_constant()) continue;
    out += StrCat("const ", TypedRef(value.get()), " = ", Data(value->constant, options), "\n");
  }
  for (const auto& node : graph.nodes()) out += NodeText(*node, options) + "\n";
  for (const Value* output : graph.outputs()) out += "output " + Ref(output) + "\n";
  return out;
}

}  // namespace requant
