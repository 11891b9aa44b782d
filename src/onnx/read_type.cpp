// Reads ValueInfoProto, TypeProto and the shapes inside.
#include <optional>

#include "onnx/read_parts.h"
#include "onnx/tags.h"

namespace requant {
namespace {

Dim ReadDim(Message message, const std::string& value_name) {
  using Tag = onnx_tags::DimensionProto;
  Dim dim;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kDimValue:
        dim = Dim(message.Int64());
        if (dim.value < -1) {
          InvalidFile(StrCat("value '", value_name, "' has a dimension of ", dim.value),
                      {.value = value_name});
        }
        break;  // some exporters spell an unknown size as -1
      case Tag::kDimParam:
        dim = Dim(message.String());
        break;
      default:
        message.Skip();
    }
  }
  return dim;
}

ValueType ReadTensorType(Message message, const std::string& value_name) {
  using Tag = onnx_tags::TensorTypeProto;
  ValueType type;
  int64_t number = 0;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kElemType:
        number = message.Int32();
        break;
      case Tag::kShape: {
        if (type.shape) InvalidFile(StrCat("value '", value_name, "' has two shapes"));
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

[[noreturn]] void RefuseType(onnx_tags::TypeProto tag, const std::string& value_name) {
  using Tag = onnx_tags::TypeProto;
  Fail(ErrorCode::kUnsupported,
       StrCat("value '", value_name, "' is ",
              tag == Tag::kSequenceType   ? "a sequence"
              : tag == Tag::kMapType      ? "a map"
              : tag == Tag::kOptionalType ? "an optional value"
                                          : "a sparse or opaque value",
              ", not a dense tensor"),
       {.value = value_name, .hint = "cut that part of the model off before loading it"});
}

/// Reads a TypeProto.Sequence, and tells whether its elements are maps.
bool IsListOfMaps(Message& field) {
  Message sequence = field.Child();
  bool maps = false;
  while (sequence.Next()) {
    // TypeProto.Sequence.elem_type
    Message element = sequence.Child();
    while (element.Next()) {
      maps = maps || element.tag<onnx_tags::TypeProto>() == onnx_tags::TypeProto::kMapType;
      element.Skip();
    }
  }
  return maps;
}

ValueType ReadType(Message message, const std::string& value_name) {
  using Tag = onnx_tags::TypeProto;
  std::optional<ValueType> type;
  while (message.Next()) {
    switch (const Tag tag = message.tag<Tag>()) {
      case Tag::kTensorType:
        if (type)
          InvalidFile(StrCat("value '", value_name, "' has two types"), {.value = value_name});
        type = ReadTensorType(message.Child(), value_name);
        break;
      case Tag::kSequenceType:
        // The result of ZipMap, which is a tensor here (ops/ml/features.cpp).
        if (IsListOfMaps(message)) break;
        RefuseType(tag, value_name);
      case Tag::kMapType:
      case Tag::kOpaqueType:
      case Tag::kSparseTensorType:
      case Tag::kOptionalType:
        RefuseType(tag, value_name);
      default:
        message.Skip();
    }
  }
  return type.value_or(ValueType{});
}

}  // namespace

ValueInfo ReadValueInfo(Message message) {
  using Tag = onnx_tags::ValueInfoProto;
  ValueInfo info;
  std::optional<protozero::data_view> type;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kName:
        info.name = message.String();
        break;
      case Tag::kType:
        if (type) InvalidFile("a value has two types");
        type = message.View();
        break;
      default:
        message.Skip();
    }
  }
  if (info.name.empty()) InvalidFile("an input, output or value_info has no name");
  if (type) info.type = ReadType(Message(*type), info.name);
  return info;
}

}  // namespace requant
