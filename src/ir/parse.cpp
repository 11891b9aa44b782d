#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/scanner.h"
#include "ir/text.h"
#include "tensor/half.h"
#include "tensor/text.h"

namespace requant {
namespace {

/// A recursive-descent parser; the grammar is in text.h.
class Parser : private Scanner {
 public:
  explicit Parser(std::string_view text, size_t at = 0, int depth = 0)
      : Scanner(text, at), text_(text), depth_(depth) {}

  /// Parses a whole text, or a subgraph up to its closing brace.
  Graph Parse();
  using Scanner::at;

 private:
  ValueType ReadType();
  Shape ReadStaticShape();
  Tensor ReadData(DType dtype, const Shape& shape);
  void AppendElement(DType dtype, const Number& number, std::vector<uint8_t>& bytes, size_t count);
  Attribute ReadAttribute();
  Attribute ReadList();
  std::string RefName() {
    Expect("%");
    if (Touches('"')) return Quoted();
    const std::string_view word = Word();
    if (word.empty()) Wrong("expected the name of a value");
    return std::string(word);
  }
  Value* Use() {
    const std::string name = RefName();
    Value* value = graph_.FindValue(name);
    if (value == nullptr) Wrong(StrCat("value '", name, "' is not defined above"));
    return value;
  }
  Value* Define() {
    const std::string name = RefName();
    if (graph_.FindValue(name)) Wrong(StrCat("value '", name, "' is defined twice"));
    ValueType type;
    if (Accept(":")) type = ReadType();
    return graph_.AddValue(name, std::move(type));
  }
  void ReadHeader();
  void ReadConst();
  void ReadNode();

  std::string_view text_;
  int depth_ = 0;
  Graph graph_;
};

ValueType Parser::ReadType() {
  const std::string name(Word());
  ValueType type;
  type.dtype = DTypeFromName(name);
  if (type.dtype == DType::kUndefined && name != "undefined") {
    Wrong(StrCat("unknown type '", name, "'"));
  }
  Expect("[");
  if (Accept("...")) {
    Expect("]");
    return type;
  }
  type.shape.emplace();
  while (!Accept("]")) {
    if (!type.shape->empty()) Expect(",");
    const char c = Peek();
    if (Accept("?")) {
      type.shape->emplace_back();
    } else if (c >= '0' && c <= '9') {
      type.shape->emplace_back(Integer(ReadNumber(), 0, std::numeric_limits<int64_t>::max()));
    } else {
      type.shape->push_back(Dim(Identifier()));
    }
  }
  return type;
}

Shape Parser::ReadStaticShape() {
  Shape shape;
  Expect("[");
  while (!Accept("]")) {
    if (!shape.empty()) Expect(",");
    shape.push_back(Integer(ReadNumber(), 0, std::numeric_limits<int64_t>::max()));
  }
  return shape;
}

template <typename T>
void AppendBytes(T value, std::vector<uint8_t>& bytes) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

void Parser::AppendElement(DType dtype, const Number& number, std::vector<uint8_t>& bytes,
                           size_t count) {
  switch (dtype) {
    case DType::kFloat32:
      return AppendBytes(ToFloat(number), bytes);
    case DType::kFloat64:
      return AppendBytes(ToDouble(number), bytes);
    case DType::kFloat16:
    case DType::kBfloat16: {
      if (number.nan_bits) return AppendBytes(static_cast<uint16_t>(*number.nan_bits), bytes);
      const float value = ToFloat(number);
      return AppendBytes(dtype == DType::kFloat16 ? FloatToHalf(value) : FloatToBfloat(value),
                         bytes);
    }
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
      if (number.nan_bits) return AppendBytes(static_cast<uint8_t>(*number.nan_bits), bytes);
      return AppendBytes(kFloatToFloat8(dtype, ToFloat(number), false), bytes);
    case DType::kUint4:
    case DType::kInt4:
    case DType::kUint2:
    case DType::kInt2: {
      const bool is_signed = dtype == DType::kInt4 || dtype == DType::kInt2;
      const int bits = DTypeBits(dtype);
      const int64_t values = int64_t{1} << bits;
      const int64_t value = Integer(number, is_signed ? -values / 2 : 0,
                                    static_cast<uint64_t>((is_signed ? values / 2 : values) - 1));
      const size_t place = count % static_cast<size_t>(8 / bits);
      if (place == 0) bytes.push_back(0);
      bytes.back() = static_cast<uint8_t>(
          bytes.back() | (value & (values - 1)) << (place * static_cast<size_t>(bits)));
      return;
    }
    case DType::kBool:
      return AppendBytes(static_cast<uint8_t>(Integer(number, 0, 1)), bytes);
    default:
      break;
  }
  const bool known = VisitDType(dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T>) {
      AppendBytes(
          static_cast<T>(Integer(number, static_cast<int64_t>(std::numeric_limits<T>::min()),
                                 static_cast<uint64_t>(std::numeric_limits<T>::max()))),
          bytes);
    }
  });
  if (!known) Wrong("a constant needs an element type");
}

Tensor Parser::ReadData(DType dtype, const Shape& shape) {
  if (Accept("<")) Wrong("the constant was left out when this text was printed");
  Expect("{");
  if (IsText(dtype)) {
    std::vector<std::string> texts;
    while (!Accept("}")) {
      if (!texts.empty()) Expect(",");
      texts.push_back(Quoted());
    }
    return TextTensor(texts, shape);
  }
  std::vector<uint8_t> bytes;
  size_t count = 0;
  while (!Accept("}")) {
    if (count > 0) Expect(",");
    AppendElement(dtype, ReadNumber(), bytes, count++);
  }
  if (dtype == DType::kUndefined) Wrong("a constant needs an element type");
  if (static_cast<int64_t>(count) != NumElements(shape)) {
    Wrong(StrCat(count, " elements for shape ", ShapeToString(shape)));
  }
  Tensor tensor(dtype, shape);
  if (!bytes.empty()) std::memcpy(tensor.raw(), bytes.data(), bytes.size());
  return tensor;
}

Attribute Parser::ReadList() {
  Expect("[");
  if (Peek() == '"') {
    std::vector<std::string> out;
    do out.push_back(Quoted());
    while (Accept(","));
    Expect("]");
    return out;
  }
  std::vector<Number> numbers;
  bool any_float = false;
  do {
    numbers.push_back(ReadNumber());
    any_float = any_float || numbers.back().is_float;
  } while (Accept(","));
  Expect("]");
  if (any_float) {
    std::vector<float> out;
    for (const Number& number : numbers) out.push_back(ToFloat(number));
    return out;
  }
  std::vector<int64_t> out;
  for (const Number& number : numbers) {
    out.push_back(
        Integer(number, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
  }
  return out;
}

Attribute Parser::ReadAttribute() {
  const char c = Peek();
  if (c == '"') return Quoted();
  if (c == '[') return ReadList();
  if (Accept("ints[]")) return std::vector<int64_t>();
  if (Accept("floats[]")) return std::vector<float>();
  if (Accept("strings[]")) return std::vector<std::string>();
  if (Accept("{")) {
    constexpr int kDeepest = 64;
    if (depth_ >= kDeepest) Wrong("subgraphs are nested too deeply");
    Parser inner(text_, at(), depth_ + 1);
    auto body = std::make_shared<Graph>(inner.Parse());
    Return(inner.at());
    return Subgraph(std::move(body));
  }
  const DType dtype = DTypeFromName(NextWord());
  if (dtype != DType::kUndefined) {
    Word();
    const Shape shape = ReadStaticShape();
    return ReadData(dtype, shape);
  }
  const Number number = ReadNumber();
  if (number.is_float) return ToFloat(number);
  return Integer(number, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
}

void Parser::ReadHeader() {
  Expect("graph");
  graph_.name = Quoted();
  if (NextWord() == "opset") {
    Word();
    do {
      std::string domain;
      const char c = Peek();
      if (c < '0' || c > '9') domain = Identifier();
      graph_.opsets[domain] =
          static_cast<int>(Integer(ReadNumber(), 1, std::numeric_limits<int>::max()));
    } while (Accept(","));
  }
}

void Parser::ReadConst() {
  Value* value;
  SkipSpace();
  const size_t start = at();
  const std::string name = RefName();
  Value* known = graph_.FindValue(name);
  if (known && graph_.IsInput(known) && !known->is_constant()) {
    value = known;  // an input with a default
    Expect(":");
    value->type = ReadType();
  } else {
    Return(start);
    value = Define();
  }
  if (!value->type.IsStatic()) Wrong("a constant needs a type with a known shape");
  Expect("=");
  value->constant = ReadData(value->type.dtype, value->type.StaticShape());
}

void Parser::ReadNode() {
  std::vector<Value*> outputs;
  do outputs.push_back(Accept("_") ? nullptr : Define());
  while (Accept(","));
  if (outputs.size() == 1 && outputs[0] == nullptr) outputs.clear();
  Expect("=");
  std::string domain;
  std::string op_type = Identifier();
  if (Accept("::")) {
    domain = std::move(op_type);
    op_type = Identifier();
  }
  Expect("(");
  std::vector<Value*> inputs;
  while (!Accept(")")) {
    if (!inputs.empty()) Expect(",");
    inputs.push_back(Accept("_") ? nullptr : Use());
  }
  AttributeMap attributes;
  if (Accept("{")) {
    do {
      std::string name = Identifier();
      if (attributes.Has(name)) Wrong(StrCat("attribute '", name, "' is there twice"));
      Expect("=");
      attributes.Set(std::move(name), ReadAttribute());
    } while (Accept(","));
    Expect("}");
  }
  std::string node_name;
  if (Peek() == '"') node_name = Quoted();
  std::string group;
  if (Accept("of ")) group = Quoted();
  int64_t used_bytes = -1;
  if (Accept("uses ")) {
    used_bytes = Integer(ReadNumber(), 0, std::numeric_limits<int64_t>::max());
  }
  for (const Value* input : inputs) {
    if (input && std::find(outputs.begin(), outputs.end(), input) != outputs.end()) {
      Wrong(StrCat("node reads its own output '", input->name, "'"));
    }
  }
  Node* node = graph_.AddNode(std::move(op_type), std::move(domain), std::move(inputs),
                              std::move(outputs), std::move(attributes), std::move(node_name));
  node->group = std::move(group);
  node->used_bytes = used_bytes;
}

Graph Parser::Parse() {
  ReadHeader();
  while (depth_ > 0 ? !Accept("}") : Peek() != '\0') {
    const std::string_view word = NextWord();
    if (word == "input") {
      Word();
      if (graph_.captured > 0) Wrong("inputs come before captures");
      graph_.AddInput(Define());
    } else if (word == "capture") {
      Word();
      graph_.AddInput(Define());
      ++graph_.captured;
    } else if (word == "const") {
      Word();
      ReadConst();
    } else if (word == "output") {
      Word();
      graph_.AddOutput(Use());
    } else if (word == "metadata") {
      Word();
      const std::string key = Quoted();
      Expect("=");
      graph_.metadata[key] = Quoted();
    } else {
      ReadNode();
    }
  }
  return std::move(graph_);
}

}  // namespace

Graph ParseGraph(std::string_view text) { return Parser(text).Parse(); }

}  // namespace requant
