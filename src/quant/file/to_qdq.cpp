// Writes the float graph with Q/DQ pairs, the form that other runtimes read.
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/quantized/wide.h"
#include "quant/assign/assign.h"
#include "quant/file/grid_writer.h"
#include "quant/graph/prepare.h"
#include "quant/grid/affine.h"
#include "quant/lower/simulated.h"

namespace requant {
namespace {

class QdqWriter : public GridWriter {
 public:
  QdqWriter(const QuantizedModel& model, int narrowest)
      : GridWriter(model), narrowest_(narrowest) {}

 private:
  void Begin() override { RefuseSimulated(graph_, record_, "Q/DQ"); }

  /// ONNX's type of 4 or 2 bits for these codes; kUndefined if there is none.
  DType Narrow(DType dtype, int64_t low, int64_t high) const {
    const int64_t codes = high - low + 1;
    if ((codes != 16 && codes != 4) || codes < 1 << narrowest_) return DType::kUndefined;
    if (dtype == DType::kUint8 && low == 0) return codes == 4 ? DType::kUint2 : DType::kUint4;
    const bool is_signed = dtype == DType::kInt8 && low == -codes / 2;
    if (!is_signed) return DType::kUndefined;
    return codes == 4 ? DType::kInt2 : DType::kInt4;
  }

  static Tensor Packed(const Tensor& bytes, DType dtype) {
    Tensor out(dtype, bytes.shape());
    auto* to = static_cast<uint8_t*>(out.raw());
    const int bits = DTypeBits(dtype);
    const int64_t in_byte = 8 / bits;
    for (int64_t i = 0; i < bytes.count(); ++i) {
      const auto code = static_cast<uint32_t>(bytes.AsInt64(i)) & ((1U << bits) - 1);
      const auto shift = static_cast<uint32_t>(i % in_byte) * static_cast<uint32_t>(bits);
      const uint32_t before = i % in_byte == 0 ? 0 : to[i / in_byte];
      to[i / in_byte] = static_cast<uint8_t>(before | code << shift);
    }
    return out;
  }

  static Tensor ZeroPoints(DType dtype, const std::vector<int32_t>& offsets, Shape shape) {
    Tensor out(dtype, std::move(shape));
    for (size_t i = 0; i < offsets.size(); ++i) {
      if (dtype == DType::kInt32) {
        out.data<int32_t>()[i] = offsets[i];
      } else {
        StoreCode(out.raw(), dtype, static_cast<int64_t>(i), offsets[i]);
      }
    }
    return out;
  }

  /// Widens the bounds of a Clip that round to the grid's ends to these ends, which has the same
  /// codes. onnxruntime-web 1.30 drops such a Clip behind a MatMul or Gemm, and then refuses the
  /// file: "two nodes with same node name".
  void WidenClip(const Value* value, Node* clip, const Format& format) {
    if (!clip || !clip->Is(Op::kClip) || !IsMaterialized(record_, value)) return;
    for (const size_t slot : {size_t{1}, size_t{2}}) {
      const Tensor* given = clip->constant(slot);
      if (given == nullptr || given->dtype() != DType::kFloat32 || given->count() != 1) continue;
      const float bound = given->data<float>()[0];
      const int64_t code = slot == 1 ? format.low : format.high;
      const float end = static_cast<float>(code - format.offset) * format.scale;
      const bool inside = slot == 1 ? bound > end : bound < end;
      if (!inside || std::fabs(bound - end) >= format.scale / 2) continue;
      out_.SetInput(clip, slot, out_.AddConstant(clip->name + "_bound", Tensor::Scalar(end)));
    }
  }

  Value* Grid(const Value* value, Value* real, const Format& format, std::string result) override {
    const std::string& name = value->name;
    WidenClip(value, real->producer, format);
    Value* scale = out_.AddConstant(name + "_scale", Tensor::Scalar(format.scale));
    const DType narrow = Narrow(format.dtype, format.low, format.high);
    const bool small = narrow != DType::kUndefined;
    Tensor offset = ZeroPoints(format.dtype, {format.offset}, {});
    Value* zero_point =
        out_.AddConstant(name + "_zero_point", small ? Packed(offset, narrow) : std::move(offset));
    Value* integers =
        out_.AddOp("QuantizeLinear", "", {real, scale, zero_point}, name + "_q",
                   {small ? narrow : format.dtype, value->type.shape}, {}, name + "_quantize");
    if (format.narrow() && !small) integers = LimitInFile(out_, name, integers, format);
    return out_.AddOp("DequantizeLinear", "", {integers, scale, zero_point}, std::move(result),
                      value->type, {}, name + "_dequantize");
  }

  /// Writes a parameter as integers -> DequantizeLinear, whose output has the parameter's name.
  Value* Parameter(const std::string& name, const TensorQuantizationConfig& config) override {
    const bool spread = config.scale.size() > 1;
    const Shape shape = spread ? Shape{static_cast<int64_t>(config.scale.size())} : Shape{};
    // Symmetric codes omit the lowest one, which the narrow types have nevertheless.
    const int half = 1 << (config.bipolar() ? 1 : config.bits - 1);
    const int64_t lowest = config.dtype == DType::kInt8 ? -half : 0;
    const DType narrow = config.bits <= 4 && IsByte(config.dtype)
                             ? Narrow(config.dtype, lowest, lowest + 2 * half - 1)
                             : DType::kUndefined;
    const bool small = narrow != DType::kUndefined;
    Value* integers =
        out_.AddConstant(name + "_q", small ? Packed(config.baked, narrow) : config.baked);
    Value* scale = out_.AddConstant(name + "_scale", Tensor::FromVector(config.scale, shape));
    Tensor offsets = ZeroPoints(config.dtype, config.offset, shape);
    Value* zero_point = out_.AddConstant(name + "_zero_point",
                                         small ? Packed(offsets, narrow) : std::move(offsets));
    AttributeMap attributes;
    if (spread) attributes.Set("axis", int64_t{config.axis});
    Value* made = out_.AddOp("DequantizeLinear", "", {integers, scale, zero_point}, name,
                             {DType::kFloat32, ToSymbolic(config.baked.shape())},
                             std::move(attributes), name + "_dequantize");
    if (IsByte(config.dtype)) {
      out_.metadata[kCodesKey] += StrCat(made->name, CodesText(config));
    }
    return made;
  }

  int narrowest_;
};

}  // namespace

Graph ToQdq(const QuantizedModel& model, int narrowest) {
  if (model.record.expand_signs) return ToQdq(model.record.expand_signs(model), narrowest);
  Graph graph = QdqWriter(model, narrowest).Run();
  if (narrowest <= 4 || WritesWideCodes(graph)) RaiseOpset(graph, narrowest <= 2 ? 25 : 21);
  return graph;
}

}  // namespace requant
