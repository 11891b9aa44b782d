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

/// Reads a TypeProto. `around` has the bits of the containers around it (tensor/dtype.h).
ValueType ReadType(Message message, const std::string& value_name, uint8_t around) {
  using Tag = onnx_tags::TypeProto;
  std::optional<ValueType> type;
  while (message.Next()) {
    const Tag tag = message.tag<Tag>();
    if (tag < Tag::kTensorType || tag > Tag::kOptionalType || tag == Tag::kDenotation) {
      message.Skip();
      continue;
    }
    if (type) {
      InvalidFile(StrCat("value '", value_name, "' has two types"), {.value = value_name});
    }
    if (tag == Tag::kTensorType) {
      type = ReadTensorType(message.Child(), value_name);
      continue;
    }
    type.emplace();
    const uint8_t bit = tag == Tag::kSequenceType   ? kSequenceBit
                        : tag == Tag::kOptionalType ? kOptionalBit
                                                    : 0;
    // The maps of ZipMap are a sequence of tensors here (ops/ml/labels.cpp).
    if (tag == Tag::kMapType && around == kSequenceBit) {
      message.Skip();
      continue;
    }
    // Items of sequences are tensors.
    if (bit == 0 || around == kSequenceBit || (around & bit) != 0) {
      Fail(ErrorCode::kUnsupported,
           StrCat("value '", value_name, "' is a map, or sparse, opaque or nested"),
           {.value = value_name, .hint = "cut that part of the model off before loading it"});
    }
    Message container = message.Child();
    while (container.Next()) {
      // TypeProto.Sequence.elem_type and TypeProto.Optional.elem_type
      if (container.tag<onnx_tags::TensorTypeProto>() != onnx_tags::TensorTypeProto::kElemType) {
        container.Skip();
        continue;
      }
      const DType item = ReadType(container.Child(), value_name, around | bit).dtype;
      if (item == DType::kUndefined) continue;
      type = ValueType{static_cast<DType>(static_cast<uint8_t>(item) | bit), SymbolicShape{Dim()}};
    }
  }
  return type.value_or(ValueType{});
}

}  // namespace

DType ReadTypeProto(Message message, const std::string& what) {
  return ReadType(message, what, 0).dtype;
}

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
  if (type) info.type = ReadType(Message(*type), info.name, 0);
  return info;
}

}  // namespace requant
