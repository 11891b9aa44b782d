// Finds the constants of which a session of open shapes needs no bytes once they are packed.
#include <algorithm>

#include "kernels/conv/table.h"
#include "plan/stages.h"

namespace requant {
namespace {

/// Packed weights of fewer bytes are not shared (HoldOnce), and smaller constants gain little.
constexpr size_t kLeastLean = 4096;

/// An operator whose weights some row of a table packs in a form that can be unpacked.
struct PackedOperator {
  const char* name;
  const char* domain;
  size_t slot;  ///< of the weights
  bool bytes;   ///< int8 or uint8, else float32
  bool window;  ///< a convolution, else a product of matrices
};
constexpr PackedOperator kPackedOperators[] = {
    {"MatMul", "", 1, false, false},
    {"Gemm", "", 1, false, false},
    {"Conv", "", 1, false, true},
    {"MatMulInteger", "", 1, true, false},
    {"MatMulIntegerRows", kRequantDomain, 1, true, false},
    {"ConvInteger", "", 1, true, true},
    {"QLinearMatMul", "", 3, true, false},
    {"QGemm", kMicrosoftDomain, 3, true, false},
    {"QLinearConv", "", 3, true, true},
};

/// Whether the node packs the constant in this slot in a form from which it can be unpacked. A slot
/// that the planner reads in another way after all makes the bytes stay.
bool PacksLean(const Node& node, size_t slot) {
  const Value* value = node.inputs[slot];
  if (node.Is(Op::kMatMulNBits)) {
    // Rows of whole blocks have no bits that packing leaves out.
    const int64_t block = node.attributes.Int("block_size", 0);
    return (slot == 1 || slot == 2) && block > 0 && node.attributes.Int("K", 0) % block == 0;
  }
  const DType dtype = value->constant.dtype();
  for (const PackedOperator& op : kPackedOperators) {
    const bool right = op.bytes ? IsByte(dtype) : dtype == DType::kFloat32;
    if (slot != op.slot || !right || !node.Is(op.name, op.domain)) continue;
    const Shape& shape = value->constant.shape();
    if (!op.window) return shape.size() == 2;
    // Rows of depthwise convolutions have no inverse.
    const bool dense = node.attributes.Int("group", 1) == 1 || shape[1] > 1;
    return (shape.size() == 3 || shape.size() == 4) && dense;
  }
  return false;
}

/// Whether the planner keeps weights of 16 bits for a row that takes them.
bool CanBeLean(const Tensor& constant) {
  const Tensor* half = constant.half();
  if (half == nullptr) return constant.bytes() >= kLeastLean;
  return half->bytes() >= kLeastLean &&
         conv::HalvesFit({static_cast<const uint16_t*>(half->raw()),
                          static_cast<size_t>(half->count()), half->dtype() == DType::kBfloat16});
}

bool IsLeanUse(const Node& node, const Value* value) {
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    if (node.inputs[slot] == value && !PacksLean(node, slot)) return false;
  }
  return true;
}

}  // namespace

void PreparedModel::LeanConstants() {
  for (const auto& value : graph_.values()) {
    Tensor& constant = value->constant;
    const Tensor* half = constant.half();
    if (value->consumers.empty() || graph_.IsOutput(value.get()) || constant.lean() ||
        (half && half->lean()) ||
        !std::all_of(value->consumers.begin(), value->consumers.end(),
                     [&](const Node* node) { return IsLeanUse(*node, value.get()); }) ||
        !CanBeLean(constant)) {
      continue;
    }
    constant = half ? Tensor::Widened(Tensor::Lean(*half)) : Tensor::Lean(constant);
  }
}

}  // namespace requant
