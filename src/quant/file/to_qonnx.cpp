// Writes the float graph with QONNX's Quant nodes (qonnx, docs/qonnx-custom-ops/quant_op.md), which
// express any width: y = (clamp(round(x / scale + zero)) - zero) * scale.
#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/file/grid_writer.h"
#include "quant/grid/affine.h"

namespace requant {
namespace {

constexpr const char* kDomain = "qonnx.custom_op.general";

class QonnxWriter : public GridWriter {
 public:
  explicit QonnxWriter(const QuantizedModel& model) : GridWriter(model) {}

 private:
  void Begin() override {
    RefuseSimulated(graph_, record_, "Quant nodes of one scale");
    out_.opsets[kDomain] = 1;
    out_.metadata[kFormKey] = "qonnx";
  }

  /// Adds a Quant node with the codes low..high.
  Value* Quant(const std::string& name, Value* real, Tensor scale, Tensor zero, int64_t low,
               int64_t high, std::string result, const ValueType& type) {
    if (low == -1 && high == 0) {  // one bit with a sign means -1 and 1
      for (int64_t i = 0; i < zero.count(); ++i) ++zero.data<float>()[i];
      low = 0;
      high = 1;
    }
    const bool is_signed = low < 0;
    int bits = is_signed ? 1 : 0;
    while ((int64_t{1} << (bits - (is_signed ? 1 : 0))) - 1 < high) ++bits;
    const bool narrow = is_signed && low == -high;
    if (!narrow && low != (is_signed ? -high - 1 : 0)) {
      Fail(ErrorCode::kUnsupported,
           StrCat("Quant nodes cannot say the codes ", low, " to ", high, " of '", name, "'"),
           {.value = name});
    }
    AttributeMap attributes;
    attributes.Set("signed", int64_t{is_signed});
    attributes.Set("narrow", int64_t{narrow});
    attributes.Set("rounding_mode", std::string("ROUND"));
    return out_.AddOp("Quant", kDomain,
                      {real, out_.AddConstant(name + "_scale", std::move(scale)),
                       out_.AddConstant(name + "_zero_point", std::move(zero)),
                       out_.AddConstant(name + "_bits", Tensor::Scalar(static_cast<float>(bits)))},
                      std::move(result), type, std::move(attributes), name + "_quant");
  }

  /// Signs: BipolarQuant, of what lies above the threshold.
  Value* Signs(const Value* value, Value* real, const Format& format, std::string result) {
    const std::string& name = value->name;
    if (format.threshold != 0) {
      const float shift = static_cast<float>(-format.threshold) * format.scale;
      real = out_.AddOp("Add", "", {real, out_.AddConstant(name + "_shift", Tensor::Scalar(shift))},
                        name + "_shifted", value->type, {}, name + "_shift");
    }
    Value* scale = out_.AddConstant(name + "_scale", Tensor::Scalar(format.scale));
    return out_.AddOp("BipolarQuant", kDomain, {real, scale}, std::move(result), value->type, {},
                      name + "_quant");
  }

  Value* Grid(const Value* value, Value* real, const Format& format, std::string result) override {
    if (format.bipolar) return Signs(value, real, format, std::move(result));
    return Quant(value->name, real, Tensor::Scalar(format.scale),
                 Tensor::Scalar(static_cast<float>(format.offset)), format.low, format.high,
                 std::move(result), value->type);
  }

  Value* Parameter(const std::string& name, const TensorQuantizationConfig& config) override {
    Tensor numbers = DequantizeParameter(config.baked, config);
    // A bias stays float: QONNX's readers add it to accumulators in float.
    if (config.dtype == DType::kInt32) return out_.AddConstant(name, std::move(numbers));
    const ValueType type{DType::kFloat32, ToSymbolic(numbers.shape())};
    Shape shape;
    if (config.scale.size() > 1) {
      shape.assign(static_cast<size_t>(numbers.rank()), 1);
      shape[static_cast<size_t>(config.axis)] = static_cast<int64_t>(config.scale.size());
    }
    Value* real = out_.AddConstant(name + "_float", std::move(numbers));
    Tensor scale = Tensor::FromVector(config.scale, shape);
    Tensor offset = Tensor::Scalar(0.0F);
    const std::vector<float> offsets(config.offset.begin(), config.offset.end());
    const auto differs = [&offsets](float one) { return one != offsets[0]; };
    if (std::any_of(offsets.begin(), offsets.end(), differs)) {
      offset = Tensor::FromVector(offsets, shape);
    } else if (!offsets.empty()) {
      offset.data<float>()[0] = offsets[0];
    }
    if (config.bipolar()) {
      return out_.AddOp("BipolarQuant", kDomain,
                        {real, out_.AddConstant(name + "_scale", std::move(scale))}, name, type, {},
                        name + "_quant");
    }
    return Quant(name, real, std::move(scale), std::move(offset), config.quant_min,
                 config.quant_max, name, type);
  }
};

}  // namespace

Graph ToQonnx(const QuantizedModel& model) { return QonnxWriter(model).Run(); }

}  // namespace requant
