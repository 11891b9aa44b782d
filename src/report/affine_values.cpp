#include "report/affine_values.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/op.h"

namespace requant {
namespace {

// The inputs of an operator that hold its output's scale and zero point. The first `inputs` of them
// are triples x, scale, zero point.
struct AffineSlots {
  const char* op;
  const char* domain;
  uint8_t inputs, scale, zero_point;
};
constexpr uint8_t kNone = UINT8_MAX;
constexpr AffineSlots kAffineSlots[] = {
    {"QuantizeLinear", "", 0, 1, 2},
    {"DequantizeLinear", "", 1, kNone, kNone},
    {"QLinearConv", "", 1, 6, 7},
    {"QLinearConvTranspose", kRequantDomain, 1, 6, 7},
    {"QLinearMatMul", "", 2, 6, 7},
    {"QLinearAdd", kMicrosoftDomain, 2, 6, 7},
    {"QLinearMul", kMicrosoftDomain, 2, 6, 7},
    {"QGemm", kMicrosoftDomain, 1, 7, 8},
    {"QLinearConcat", kMicrosoftDomain, 0, 0, 1},
    {"QLinearAveragePool", kMicrosoftDomain, 1, 3, 4},
    {"QLinearGlobalAveragePool", kMicrosoftDomain, 1, 3, 4},
    {"QLinearSigmoid", kMicrosoftDomain, 1, 3, 4},
    {"QLinearLeakyRelu", kMicrosoftDomain, 1, 3, 4},
    {"QLinearSoftmax", kMicrosoftDomain, 1, 3, 4},
};

const AffineSlots* FindSlots(const Node& node) {
  const auto* found =
      std::find_if(std::begin(kAffineSlots), std::end(kAffineSlots),
                   [&node](const AffineSlots& row) { return node.Is(row.op, row.domain); });
  return found == std::end(kAffineSlots) ? nullptr : found;
}

std::optional<ValueAffine> ReadAffine(const Node& node, size_t scale_slot, size_t zero_slot) {
  const Tensor* scale = node.constant(scale_slot);
  const Tensor* zero = node.constant(zero_slot);
  if (scale == nullptr || scale->count() != 1) return std::nullopt;
  return ValueAffine{static_cast<float>(scale->AsDouble(0)),
                     zero ? static_cast<int32_t>(zero->AsInt64(0)) : 0};
}

bool IsPassive(const Node& node) {
  const OpDef* op = FindOp(node);
  return op && (op->quant == QuantRule::kPassive || op->quant == QuantRule::kConcat) &&
         !node.inputs.empty();
}

/// The scale and zero point with which the first reader that has them reads the value.
std::optional<ValueAffine> AffineOfReaders(const Value& value) {
  for (const Node* reader : value.consumers) {
    const AffineSlots* slots = FindSlots(*reader);
    for (size_t i = 0; slots && i < 3U * slots->inputs; i += 3) {
      if (reader->input(i) != &value) continue;
      if (const auto affine = ReadAffine(*reader, i + 1, i + 2)) return affine;
    }
    if (!IsPassive(*reader) || reader->output(0) == nullptr) continue;
    if (const auto affine = AffineOfReaders(*reader->outputs[0])) return affine;
  }
  return std::nullopt;
}

std::optional<ValueAffine> AffineOf(const Node& node,
                                    const std::map<std::string, ValueAffine>& known) {
  if (const AffineSlots* slots = FindSlots(node)) {
    if (slots->scale == kNone) return std::nullopt;
    return ReadAffine(node, slots->scale, slots->zero_point);
  }
  if (node.Is(Op::kLut)) return AffineOfReaders(*node.outputs[0]);
  if (!IsPassive(node)) return std::nullopt;
  const auto found = known.find(node.inputs[0]->name);
  if (found == known.end()) return std::nullopt;
  return found->second;
}

int LowestCode(DType dtype) { return dtype == DType::kInt8 ? -128 : 0; }

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
  const auto lo = static_cast<float>(LowestCode(dtype));
  for (int64_t i = 0; i < values.count(); ++i) {
    const float q =
        std::nearbyint(source[i] / affine.scale) + static_cast<float>(affine.zero_point);
    const float clamped =
        std::isnan(q) ? static_cast<float>(affine.zero_point) : std::clamp(q, lo, lo + 255.0F);
    bytes[i] = static_cast<uint8_t>(static_cast<int>(clamped));
  }
  return out;
}

Tensor ClampTensor(const Tensor& values, const ValueAffine& affine, DType dtype) {
  const int lowest = LowestCode(dtype) - affine.zero_point;
  const float least = static_cast<float>(lowest) * affine.scale;
  const float most = static_cast<float>(lowest + 255) * affine.scale;
  Tensor out(DType::kFloat32, values.shape());
  const float* source = values.data<float>();
  for (int64_t i = 0; i < values.count(); ++i) {
    out.data<float>()[i] = std::clamp(source[i], least, most);
  }
  return out;
}

}  // namespace requant
