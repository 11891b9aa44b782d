// Q/DQ pairs of quantized tensors (ONNX QuantizeLinear and DequantizeLinear, opset 21).
#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/converter.h"

namespace requant::tflite {
namespace {

Tensor ScaleTensor(const Quantization& quantization) {
  if (quantization.scales.size() == 1) return Tensor::Scalar(quantization.scales[0]);
  return Tensor::Vector(quantization.scales);
}

template <typename T>
Tensor Narrowed(const std::vector<int64_t>& zeros) {
  std::vector<T> out;
  for (const int64_t zero : zeros) out.push_back(static_cast<T>(zero));
  return out.size() == 1 ? Tensor::Scalar(out[0]) : Tensor::Vector(out);
}

/// The zero points in the codes' type. Throws kInvalidModel for one beyond that type.
Tensor ZeroTensor(const Quantization& quantization, DType dtype, const std::string& name) {
  const int bits = DTypeBits(dtype);
  const bool is_signed = dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt4;
  const int64_t least = is_signed ? -(int64_t{1} << (bits - 1)) : 0;
  const int64_t most = least + (int64_t{1} << bits) - 1;
  for (const int64_t zero : quantization.zero_points) {
    if (zero >= least && zero <= most) continue;
    InvalidTflite(StrCat(RQ_LATE_TEXT("tensor '"), name, RQ_LATE_TEXT("' of "), DTypeName(dtype),
                         RQ_LATE_TEXT(" has the zero point "), zero),
                  {.value = name});
  }
  switch (dtype) {
    case DType::kInt8:
      return Narrowed<int8_t>(quantization.zero_points);
    case DType::kUint8:
      return Narrowed<uint8_t>(quantization.zero_points);
    case DType::kInt16:
      return Narrowed<int16_t>(quantization.zero_points);
    case DType::kUint16:
      return Narrowed<uint16_t>(quantization.zero_points);
    default:
      break;
  }
  if (dtype == DType::kInt4) {
    for (const int64_t zero : quantization.zero_points) {
      if (zero != 0) {
        Fail(ErrorCode::kUnsupported,
             StrCat(RQ_LATE_TEXT("tensor '"), name, RQ_LATE_TEXT("' of int4 has a zero point")),
             {.value = name, .hint = RQ_LATE_TEXT("quantize its weights symmetrically")});
      }
    }
    const auto count = static_cast<int64_t>(quantization.zero_points.size());
    return Tensor(dtype, count == 1 ? Shape{} : Shape{count});
  }
  Fail(ErrorCode::kUnsupported,
       StrCat(RQ_LATE_TEXT("tensor '"), name, RQ_LATE_TEXT("' has codes of "), DTypeName(dtype)),
       {.value = name, .hint = RQ_LATE_TEXT("codes of 4, 8 and 16 bits are supported")});
}

}  // namespace

Value* Converter::Dequantize(Value* codes, const Quantization& quantization, DType dtype,
                             int64_t axis) {
  std::vector<Value*> inputs = {codes, AddConstant(ScaleTensor(quantization))};
  // ONNX has no zero points of 32 bits but 0, which is the default.
  if (dtype == DType::kInt32) {
    for (const int64_t zero : quantization.zero_points) {
      if (zero != 0) {
        InvalidTflite(StrCat("'", codes->name, RQ_LATE_TEXT("' of int32 has a zero point")),
                      {.value = codes->name});
      }
    }
  } else {
    inputs.push_back(AddConstant(ZeroTensor(quantization, dtype, codes->name)));
  }
  AttributeMap attributes;
  if (quantization.scales.size() > 1) attributes.Set("axis", axis);
  return Add("DequantizeLinear", std::move(inputs), std::move(attributes));
}

Value* Converter::Quantize(Value* reals, int32_t index, Order order) {
  const FileTensor& file = tensor(index);
  const Quantization& quantization = file.quantization;
  for (const float scale : quantization.scales) {
    if (scale <= 0) {
      InvalidTflite(StrCat(RQ_LATE_TEXT("tensor '"), file.name, RQ_LATE_TEXT("' has a scale of 0")),
                    {.value = file.name});
    }
  }
  AttributeMap attributes;
  if (quantization.scales.size() > 1) {
    attributes.Set("axis", order == Order::kPlain
                               ? quantization.axis
                               : PlanarAxis(quantization.axis, file.shape.size()));
  }
  Value* scale = AddConstant(ScaleTensor(quantization));
  Value* zero = AddConstant(ZeroTensor(quantization, file.dtype, file.name));
  return Add("QuantizeLinear", {reals, scale, zero}, std::move(attributes));
}

}  // namespace requant::tflite
