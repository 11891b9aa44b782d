// Which normalizations integer operators compute (ops/normalization/integer_normalizations.h).
#include "numeric/integer_layer_norm.h"
#include "quant/assign/assign.h"

namespace requant {
namespace {

/// The number of elements from `axis` on, or nullopt for dimensions that are not known.
std::optional<int64_t> RowLength(const Node& node, const SymbolicShape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = node.attributes.Int("axis", -1);
  if (axis < 0) axis += rank;
  int64_t length = 1;
  for (int64_t i = axis; i < rank; ++i) {
    const Dim& dim = shape[static_cast<size_t>(i)];
    if (!dim.known() || dim.value > kLongestIntegerRow) return std::nullopt;
    length *= dim.value;
    if (length > kLongestIntegerRow) return std::nullopt;
  }
  return length;
}

}  // namespace

bool IsNormalization(const Node& node) {
  return node.Is(Op::kSoftmax) || node.Is(Op::kLayerNormalization) ||
         node.Is(Op::kSimplifiedLayerNormalization) ||
         (node.op_type == "RMSNormalization" && node.domain.empty());
}

const char* WhyFloatNormalization(const Node& node) {
  const SymbolicShape* shape = node.inputs[0]->type.shape ? &*node.inputs[0]->type.shape : nullptr;
  if (shape == nullptr || shape->empty()) return "its rank is unknown";
  if (node.Is(Op::kSoftmax)) {
    const auto last = static_cast<int64_t>(shape->size()) - 1;
    const int64_t axis = node.attributes.Int("axis", -1);
    return axis == -1 || axis == last ? nullptr : "it is no softmax over the last dimension";
  }
  if (node.output(1) || node.output(2)) return "its mean or deviation is used";
  const std::optional<int64_t> length = RowLength(node, *shape);
  if (!length) return "its rows are too long for integers, or of unknown length";
  for (const size_t slot : {1, 2}) {
    const Value* parameter = node.input(slot);
    if (parameter == nullptr) continue;
    if (!parameter->is_constant() || parameter->type.dtype != DType::kFloat32) {
      return "one of its parameters is computed";
    }
    if (parameter->constant.count() != *length) return "one of its parameters is stretched";
  }
  return nullptr;
}

}  // namespace requant
