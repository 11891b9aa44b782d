#include "onnx/tensor_proto.h"

#include <cstring>
#include <optional>

#include "base/checked_math.h"
#include "onnx/external_range.h"
#include "onnx/tags.h"
#include "onnx/text_data.h"
#include "tensor/text.h"

namespace requant {
namespace {

using Tag = onnx_tags::TensorProto;

constexpr const char* kRemedy = "the file is damaged or was written wrongly";

struct Parts {
  std::string name;
  Shape dims;
  int64_t data_type = 0;
  bool external = false;
  ExternalRange range;
  std::optional<std::span<const uint8_t>> raw;
  std::vector<float> floats;
  std::vector<int32_t> int32s;
  std::vector<int64_t> int64s;
  std::vector<double> doubles;
  std::vector<uint64_t> uint64s;
};

[[noreturn]] void Invalid(const Parts& parts, const std::string& message) {
  Fail(ErrorCode::kInvalidModel, StrCat("tensor '", parts.name, "': ", message),
       {.value = parts.name, .hint = kRemedy});
}

/// The number of bytes that `text` names.
uint64_t BytesOf(const Parts& parts, const std::string& text) {
  const std::optional<uint64_t> number = ParseDecimal(text);
  if (!number) Invalid(parts, StrCat("'", text, "' is no offset or length of external data"));
  return *number;
}

Parts ReadParts(Message message, const std::string& what) {
  Parts parts;
  parts.name = what;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kDims:
        message.AppendInt64(parts.dims);
        break;
      case Tag::kDataType:
        parts.data_type = message.Int32();
        break;
      case Tag::kSegment:
        Fail(ErrorCode::kUnsupported, StrCat("tensor '", parts.name, "' is stored in segments"),
             {.value = parts.name, .hint = "save the model with whole tensors"});
      case Tag::kFloatData:
        message.AppendFloat(parts.floats);
        break;
      case Tag::kInt32Data:
        message.AppendInt32(parts.int32s);
        break;
      case Tag::kInt64Data:
        message.AppendInt64(parts.int64s);
        break;
      case Tag::kName:
        parts.name = message.String();
        break;
      case Tag::kRawData:
        parts.raw = message.Bytes();
        break;
      case Tag::kDoubleData:
        message.AppendDouble(parts.doubles);
        break;
      case Tag::kUint64Data:
        message.AppendUint64(parts.uint64s);
        break;
      case Tag::kExternalData:
        ReadExternalEntry(message.Child(), parts.range);
        break;
      case Tag::kDataLocation:
        parts.external = message.Int32() == 1;  // DataLocation.EXTERNAL
        break;
      default:
        message.Skip();
    }
  }
  return parts;
}

Tensor FromExternal(const Parts& parts, DType dtype, size_t bytes, const ExternalFiles& files) {
  const ExternalRange& range = parts.range;
  if (bytes == 0) return Tensor(dtype, parts.dims);
  const uint64_t offset = range.offset.empty() ? 0 : BytesOf(parts, range.offset);
  const uint64_t length = range.length.empty() ? bytes : BytesOf(parts, range.length);
  if (length != bytes) {
    Invalid(parts, StrCat("needs ", bytes, " bytes, but its external data has ", length));
  }
  bool given = false;
  for (const ExternalPiece& piece : files) {
    if (piece.file != range.location) continue;
    given = true;
    const std::span<const uint8_t> data = piece.data.bytes;
    if (offset < piece.offset || offset - piece.offset > data.size()) continue;
    const auto begin = static_cast<size_t>(offset - piece.offset);
    if (bytes > data.size() - begin) continue;
    return Tensor::View(dtype, parts.dims, data.subspan(begin, bytes), piece.data.owner);
  }
  if (!given) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("tensor '", parts.name, "' is stored in the external file '", range.location,
                "', which was not given"),
         {.value = parts.name, .hint = "pass the bytes of that file under this name"});
  }
  Invalid(parts, StrCat("external file '", range.location, "' has no ", bytes, " bytes at offset ",
                        offset));
}

/// Copies a typed field, narrowing every element to T (as onnx.numpy_helper.to_array does).
template <typename T, typename Source>
Tensor FromField(const Parts& parts, DType dtype, const std::vector<Source>& field) {
  const size_t needed = DTypeBytes(dtype, static_cast<size_t>(NumElements(parts.dims)));
  if (field.size() != needed / sizeof(T)) {
    Invalid(parts, StrCat(DTypeName(dtype), ShapeToString(parts.dims), " has ", field.size(),
                          " elements of data"));
  }
  Tensor tensor(dtype, parts.dims);
  T* out = static_cast<T*>(tensor.raw());
  for (size_t i = 0; i < field.size(); ++i) out[i] = static_cast<T>(field[i]);
  return tensor;
}

/// Reads the typed field of this dtype, as the comments of TensorProto in onnx.proto assign them.
Tensor FromTyped(const Parts& parts, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return FromField<float>(parts, dtype, parts.floats);
    case DType::kFloat64:
      return FromField<double>(parts, dtype, parts.doubles);
    case DType::kInt64:
      return FromField<int64_t>(parts, dtype, parts.int64s);
    case DType::kUint64:
      return FromField<uint64_t>(parts, dtype, parts.uint64s);
    case DType::kUint32:
      return FromField<uint32_t>(parts, dtype, parts.uint64s);
    case DType::kInt32:
      return FromField<int32_t>(parts, dtype, parts.int32s);
    case DType::kInt16:
      return FromField<int16_t>(parts, dtype, parts.int32s);
    case DType::kUint16:
    case DType::kFloat16:  // the field has bit patterns
    case DType::kBfloat16:
      return FromField<uint16_t>(parts, dtype, parts.int32s);
    case DType::kInt8:
      return FromField<int8_t>(parts, dtype, parts.int32s);
    default:  // uint8, bool, codes of float8, and two 4-bit values in every element
      return FromField<uint8_t>(parts, dtype, parts.int32s);
  }
}

/// Booleans are one byte, 0 or 1, everywhere in the engine; a file may hold any byte.
Tensor NormalizeBool(Tensor tensor) {
  const auto* in = static_cast<const uint8_t*>(tensor.raw());
  bool clean = true;
  for (int64_t i = 0; i < tensor.count(); ++i) clean = clean && in[i] <= 1;
  if (clean) return tensor;
  Tensor out(DType::kBool, tensor.shape());
  auto* bytes = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < tensor.count(); ++i) bytes[i] = in[i] != 0;
  return out;
}

}  // namespace

DType DTypeFromNumber(int64_t number, const std::string& value_name) {
  const auto dtype = static_cast<DType>(number >= 0 && number < kOptionalBit ? number : 0);
  if (number == 0) {
    Fail(ErrorCode::kInvalidModel, StrCat("value '", value_name, "' has no element type"),
         {.value = value_name, .hint = kRemedy});
  }
  if (DTypeBits(dtype) == 0) {
    Fail(ErrorCode::kUnsupported,
         StrCat("value '", value_name, "' has element type ", number, ", which is not supported"),
         {.value = value_name, .hint = "cut that part of the model off before loading it"});
  }
  return dtype;
}

NamedTensor ReadTensorMessage(Message message, const SharedBytes& file,
                              const ExternalFiles& external, const std::string& what) {
  Parts parts = ReadParts(message, what);
  const DType dtype = DTypeFromNumber(parts.data_type, parts.name);
  try {
    const size_t bytes = DTypeBytes(dtype, static_cast<size_t>(NumElements(parts.dims)));
    const bool typed = !parts.floats.empty() || !parts.int32s.empty() || !parts.int64s.empty() ||
                       !parts.doubles.empty() || !parts.uint64s.empty();
    if (typed && (parts.raw || parts.external)) Invalid(parts, "has its data twice");
    Tensor tensor;
    if (IsText(dtype)) {
      if (parts.raw || parts.external) Invalid(parts, "has strings as raw bytes");
      tensor = kReadTexts(message, parts.dims);
    } else if (parts.external) {
      tensor = FromExternal(parts, dtype, bytes, external);
    } else if (parts.raw) {
      tensor = Tensor::View(dtype, parts.dims, *parts.raw, file.owner);
    } else {
      tensor = FromTyped(parts, dtype);
    }
    if (dtype == DType::kBool) tensor = NormalizeBool(std::move(tensor));
    return {std::move(parts.name), std::move(tensor)};
  } catch (const Error& error) {
    if (!error.context().value.empty()) throw;
    throw Error(error.code(), StrCat("tensor '", parts.name, "': ", error.message()),
                {.value = parts.name, .hint = kRemedy});
  }
}

}  // namespace requant
