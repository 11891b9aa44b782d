#include "plan/lower/convolution/byte_weights.h"

#include <memory>
#include <vector>

#include "kernels/conv/facts.h"

namespace requant {
namespace {

/// Weights that outlive the plan with its zero points.
struct KeptWeights : ConvQ8Weights {
  KeptWeights(const ConvQ8Weights& weights, conv::Q8Unpack inverse)
      : ConvQ8Weights(weights), unpack(inverse) {
    if (zero_points == nullptr) return;
    zeros = std::make_shared<std::vector<int32_t>>(zero_points, zero_points + layout.out_c);
    zero_points = zeros->data();
  }
  conv::Q8Unpack unpack;
  std::shared_ptr<std::vector<int32_t>> zeros;  // shared, so that copies point to the same ones
};

void PointAt(KeptWeights& weights, const Tensor* bytes) {
  weights.data = bytes->raw();
  weights.facts = nullptr;  // a row that is forced may need more levels than facts have
}

void Unpack(const KeptWeights& weights, const void* packed, size_t, void* to) {
  weights.unpack(weights, packed, to);
}

/// This row makes facts a packed form of the weights, so that the cache of packed forms holds them.
constexpr ConvQ8Kernel kFacts{
    "facts",         "",      nullptr, nullptr, nullptr, ConvWalk::kRows, ConvQ8FactsSize,
    FindConvQ8Facts, nullptr, nullptr};

/// Packs lean weights. `unpack` as in LeanParts.
const uint8_t* PackLean(PlanBuilder& builder, const ConvQ8Kernel& row, const ByteWeights& weights,
                        conv::Q8Unpack unpack) {
  const LeanParts<KeptWeights> parts{{&weights.lean, 1}, PointAt, unpack ? Unpack : nullptr};
  return builder.PackLean(row, KeptWeights(weights, unpack), parts);
}

}  // namespace

ByteWeights ByteWeightsOf(PlanBuilder& builder, const ConvWeightsLayout& layout,
                          const Tensor& constant, const int32_t* zero_points) {
  ByteWeights weights;
  weights.layout = layout;
  weights.is_signed = constant.dtype() == DType::kInt8;
  weights.zero_points = zero_points;
  if (constant.lean() == nullptr) {
    weights.data = constant.raw();
    return weights;
  }
  weights.lean = &constant;
  weights.facts = reinterpret_cast<const ConvQ8Facts*>(PackLean(builder, kFacts, weights, nullptr));
  return weights;
}

const uint8_t* PackBytes(PlanBuilder& builder, const ConvQ8Kernel& row,
                         const ByteWeights& weights) {
  if (weights.lean) return PackLean(builder, row, weights, row.unpack_weights());
  const ConvQ8Weights& plain = weights;
  return builder.Pack(row, plain);
}

}  // namespace requant
