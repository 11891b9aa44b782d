#include "plan/low_bits.h"

#include <algorithm>

#include "kernels/list.h"
#include "kernels/variant/missing.h"
#include "numeric/few_bits.h"

namespace requant {
namespace {

template <typename Int>
bool HasFewLevels(const Tensor& tensor) {
  const auto* data = tensor.data<Int>();
  int least = data[0], most = data[0];
  for (int64_t i = 0; i < tensor.count(); ++i) {
    least = std::min<int>(least, data[i]);
    most = std::max<int>(most, data[i]);
    if (most - least > kFewBitsRange) return false;
  }
  return true;
}

/// Whether the node clamps codes to at most 16 neighbors.
bool IsNarrowClip(const Node& node) {
  const Tensor* low = node.constant(1);
  const Tensor* high = node.constant(2);
  return node.Is(Op::kClip) && low && high && IsInteger(low->dtype()) &&
         high->AsDouble(0) - low->AsDouble(0) <= kFewBitsRange;
}

/// Whether a constant is weights of few levels, or has a narrow type.
bool IsFewBits(const Tensor& tensor) {
  if (tensor.count() == 0) return false;
  switch (tensor.dtype()) {
    case DType::kInt2:
    case DType::kUint2:
    case DType::kInt4:
    case DType::kUint4:
      return true;
    case DType::kInt8:
      return tensor.rank() > 1 && HasFewLevels<int8_t>(tensor);
    case DType::kUint8:
      return tensor.rank() > 1 && HasFewLevels<uint8_t>(tensor);
    default:
      return false;
  }
}

}  // namespace

bool MayUseLowBits(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    for (const auto& [name, value] : node->attributes.entries()) {
      const auto* body = std::get_if<Subgraph>(&value);
      if (body && MayUseLowBits(**body)) return true;
    }
    const bool quantizes = node->op_type.ends_with("Quant") && !node->domain.empty();  // QONNX
    const bool unpacks =
        node->Is(Op::kBitShift) && node->constant(0);  // quant/weights/pack_weights.h
    // A session makes MatMulNBits of these.
    const bool blocked = node->op_type == "QMoE" || (node->Is(Op::kDequantizeLinear) &&
                                                     node->attributes.Int("block_size", 0) > 0);
    if (quantizes || unpacks || blocked || IsNarrowClip(*node) || node->Is(Op::kMatMulNBits)) {
      return true;
    }
  }
  return std::any_of(graph.values().begin(), graph.values().end(), [](const auto& value) {
    return value->is_constant() && IsFewBits(value->constant);
  });
}

bool LacksLowBits(const Plan& plan) {
  if (rq_low_bits_loaded() != 0) return false;
  for (const KernelInfo& kernel : ListKernels()) {
    if (!kernel.low_bits) continue;
    for (const auto& step : plan.steps) {
      if (step->kernel == kernel.name) return true;
    }
  }
  return false;
}

}  // namespace requant
