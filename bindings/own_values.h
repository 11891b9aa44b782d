// How functions of JavaScript that the core calls get and give types, tensors, attributes and
// nodes. They return { error: { message, hint } } where the user's code threw (web/extend).
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "handles.h"
#include "read_option.h"

namespace requant::bindings {

using emscripten::val;

inline std::string Text(const val& object, const char* key) {
  return Has(object, key) ? object[key].as<std::string>() : std::string();
}

/// Calls the function and throws for an error that it returns.
template <typename... Arguments>
val CallUser(const val& function, ErrorCode code, Arguments&&... arguments) {
  const TextHold hold;
  val result = function(std::forward<Arguments>(arguments)...);
  if (Has(result, "error")) {
    const val error = result["error"];
    Fail(code, error["message"].as<std::string>(), {.hint = Text(error, "hint")});
  }
  return result;
}

template <typename List>
val Numbers(const List& list) {
  val out = val::array();
  for (const auto item : list) out.call<void>("push", static_cast<double>(item));
  return out;
}

/// { type, dims }: dims are null for an unknown rank; a dimension is a number, a name or null.
inline val TypeToJs(const ValueType& type) {
  val out = val::object();
  out.set("type", std::string(DTypeName(type.dtype)));
  val dims = val::null();
  if (type.shape) {
    dims = val::array();
    for (const Dim& dim : *type.shape) {
      if (dim.known()) {
        dims.call<void>("push", static_cast<double>(dim.value));
      } else {
        dims.call<void>("push", dim.symbol.empty() ? val::null() : val(dim.symbol));
      }
    }
  }
  out.set("dims", dims);
  return out;
}

inline val TensorToJs(const Tensor& tensor) {
  val out = val::object();
  out.set("type", std::string(DTypeName(tensor.dtype())));
  out.set("dims", Numbers(tensor.shape()));
  out.set("pointer", Address(tensor.raw()));
  out.set("size", static_cast<double>(tensor.bytes()));
  return out;
}

/// A tensor that JavaScript has put into the core's memory, which this frees.
inline Tensor TensorFromJs(const val& given) {
  Shape shape;
  for (const double dim : emscripten::vecFromJSArray<double>(given["dims"])) {
    shape.push_back(static_cast<int64_t>(dim));
  }
  Tensor out(DTypeFromName(given["type"].as<std::string>()), std::move(shape));
  uint8_t* bytes = Pointer(given["pointer"].as<double>());
  std::memcpy(out.raw(), bytes, out.bytes());
  std::free(bytes);
  return out;
}

/// Attributes as numbers, strings and lists of them; tensors and bodies are left out.
inline val AttributesToJs(const AttributeMap& attributes) {
  val out = val::object();
  for (const auto& [name, attribute] : attributes.entries()) {
    if (const auto* integer = std::get_if<int64_t>(&attribute)) {
      out.set(name, static_cast<double>(*integer));
    } else if (const auto* real = std::get_if<float>(&attribute)) {
      out.set(name, *real);
    } else if (const auto* text = std::get_if<std::string>(&attribute)) {
      out.set(name, *text);
    } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&attribute)) {
      out.set(name, Numbers(*integers));
    } else if (const auto* reals = std::get_if<std::vector<float>>(&attribute)) {
      out.set(name, Numbers(*reals));
    } else if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute)) {
      val list = val::array();
      for (const std::string& item : *texts) list.call<void>("push", item);
      out.set(name, list);
    }
  }
  return out;
}

/// One of { integer }, { real }, { text }, { integers }, { reals }, { texts }.
inline Attribute AttributeFromJs(const val& given) {
  if (Has(given, "integer")) return static_cast<int64_t>(given["integer"].as<double>());
  if (Has(given, "real")) return given["real"].as<float>();
  if (Has(given, "text")) return given["text"].as<std::string>();
  if (Has(given, "reals")) return emscripten::vecFromJSArray<float>(given["reals"]);
  if (Has(given, "texts")) return emscripten::vecFromJSArray<std::string>(given["texts"]);
  std::vector<int64_t> integers;
  for (const double item : emscripten::vecFromJSArray<double>(given["integers"])) {
    integers.push_back(static_cast<int64_t>(item));
  }
  return integers;
}

inline val NamesOf(const std::vector<Value*>& values) {
  val out = val::array();
  for (const Value* value : values) {
    out.call<void>("push", value ? val(value->name) : val::null());
  }
  return out;
}

inline val NodeToJs(const Node& node) {
  val out = val::object();
  out.set("name", node.name);
  out.set("op", node.op_type);
  out.set("domain", node.domain);
  out.set("attributes", AttributesToJs(node.attributes));
  out.set("inputs", NamesOf(node.inputs));
  out.set("outputs", NamesOf(node.outputs));
  return out;
}

inline val ValueToJs(const Value& value) {
  val out = TypeToJs(value.type);
  out.set("name", value.name);
  if (value.is_constant()) out.set("constant", TensorToJs(value.constant));
  return out;
}

}  // namespace requant::bindings
