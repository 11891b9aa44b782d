#include "report/affine_values.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/op.h"

namespace requant {
namespace {

// Which inputs of an operator hold the scale and zero point of its output.
struct OutputSlots {
  const char* op;
  const char* domain;
  size_t scale, zero_point;
};
constexpr OutputSlots kOutputSlots[] = {
    {"QuantizeLinear", "", 1, 2},
    {"QLinearConv", "", 6, 7},
    {"QLinearConvTranspose", kRequantDomain, 6, 7},
    {"QLinearMatMul", "", 6, 7},
    {"QLinearAdd", kMicrosoftDomain, 6, 7},
    {"QLinearMul", kMicrosoftDomain, 6, 7},
    {"QGemm", kMicrosoftDomain, 7, 8},
    {"QLinearConcat", kMicrosoftDomain, 0, 1},
    {"QLinearAveragePool", kMicrosoftDomain, 3, 4},
    {"QLinearGlobalAveragePool", kMicrosoftDomain, 3, 4},
    {"QLinearSigmoid", kMicrosoftDomain, 3, 4},
    {"QLinearLeakyRelu", kMicrosoftDomain, 3, 4},
    {"QLinearSoftmax", kMicrosoftDomain, 3, 4},
};

std::optional<ValueAffine> ReadAffine(const Node& node, size_t scale_slot, size_t zero_slot) {
  const Tensor* scale = node.constant(scale_slot);
  const Tensor* zero = node.constant(zero_slot);
  if (scale == nullptr || scale->count() != 1) return std::nullopt;
  return ValueAffine{static_cast<float>(scale->AsDouble(0)),
                     zero ? static_cast<int32_t>(zero->AsInt64(0)) : 0};
}

std::optional<ValueAffine> AffineOf(const Node& node,
                                    const std::map<std::string, ValueAffine>& known) {
  for (const OutputSlots& row : kOutputSlots) {
    if (node.Is(row.op, row.domain)) return ReadAffine(node, row.scale, row.zero_point);
  }
  if (node.Is("Lut", kRequantDomain)) {
    if (!node.attributes.Has("scale")) return std::nullopt;
    return ValueAffine{node.attributes.Float("scale", 1),
                       static_cast<int32_t>(node.attributes.Int("zero_point", 0))};
  }
  const OpDef* op = FindOp(node.op_type, node.domain);
  const bool passive = op && (op->quant == QuantRule::kPassive || op->quant == QuantRule::kConcat);
  if (!passive || node.inputs.empty()) return std::nullopt;
  const auto found = known.find(node.inputs[0]->name);
  if (found == known.end()) return std::nullopt;
  return found->second;
}

}  // namespace

std::map<std::string, ValueAffine> FindAffineValues(const Graph& graph) {
  std::map<std::string, ValueAffine> known;
  for (const auto& node : graph.nodes()) {
    const auto affine = AffineOf(*node, known);
    if (!affine) continue;
    for (const Value* output : node->outputs) {
      if (output && IsByte(output->type.dtype)) known[output->name] = *affine;
    }
  }
  return known;
}

Tensor DequantizeTensor(const Tensor& quantized, const ValueAffine& affine) {
  Tensor out(DType::kFloat32, quantized.shape());
  auto* values = out.data<float>();
  for (int64_t i = 0; i < quantized.count(); ++i) {
    values[i] = static_cast<float>(quantized.AsInt64(i) - affine.zero_point) * affine.scale;
  }
  return out;
}

Tensor QuantizeTensor(const Tensor& values, const ValueAffine& affine, DType dtype) {
  Tensor out(dtype, values.shape());
  const float* source = values.data<float>();
  auto* bytes = static_cast<uint8_t*>(out.raw());
  const float lo = dtype == DType::kInt8 ? -128.0F : 0.0F;
  for (int64_t i = 0; i < values.count(); ++i) {
    const float q =
        std::nearbyint(source[i] / affine.scale) + static_cast<float>(affine.zero_point);
    const float clamped =
        std::isnan(q) ? static_cast<float>(affine.zero_point) : std::clamp(q, lo, lo + 255.0F);
    bytes[i] = static_cast<uint8_t>(static_cast<int>(clamped));
  }
  return out;
}

}  // namespace requant
