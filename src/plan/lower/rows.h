// Declares the lowering functions that table.cpp lists, and helpers that several of them share.
#pragma once

#include <string_view>

#include "kernels/conv/table.h"
#include "plan/builder.h"
#include "plan/lower/convolution/window.h"
#include "plan/lower/elementwise/epilogue.h"

namespace requant {

#define LOWER(op, domain, function) bool function(PlanBuilder& builder, const Node& node);
#define LOWER_LATE(op, domain, function, fits) LOWER(op, domain, function)
#include "plan/lower/lowerings.inc"
#undef LOWER
#undef LOWER_LATE

/// A Transpose of the last two dimensions that only a MatMul of dynamic operands reads, as its
/// right-hand side.
bool IsTransposedOperand(const Node& node);

/// Whether the node's data, or its result, has 16-bit codes.
bool IsWideData(const Node& node);
bool IsWideResult(const Node& node);
/// Whether the node is a product of bytes of 16-bit codes (ops/quantized/wide_rewrite.cpp).
bool IsWideProduct(const Node& node);

/// Whether this machine has a row's instructions and runs them fast.
template <typename Row>
bool IsUsable(const Row& row, bool relaxed) {
  return (row.missing == nullptr || row.missing() == nullptr) &&
         (relaxed || std::string_view(row.isa) != "relaxed");
}

/// Whether each group has one input and one output channel.
inline bool IsDepthwise(const ConvGeometry& geometry) {
  return geometry.groups == geometry.in_c && geometry.in_c == geometry.out_c && geometry.in_c > 1;
}

/// Float weights, or the lean constant that has their numbers, if `lean` is not null.
struct FloatWeights : ConvF32Weights {
  FloatWeights(const ConvF32Weights& weights, const Tensor* constant = nullptr)
      : ConvF32Weights(weights), lean(constant) {}
  const Tensor* lean;
};

/// Chooses the row for a float convolution; `tuning` as in PlanBuilder::Choose.
const ConvF32Kernel& ChooseConvF32(const PlanBuilder& builder, const ConvGeometry& geometry,
                                   const std::string& tuning = {}, const HalfWeights& half = {});
/// Chooses the row for products of two dynamic matrices, whose steps have no workspace for lines.
const ConvF32Kernel& ChooseProductF32(const PlanBuilder& builder);
/// The weights of a product or convolution: the constant's floats, or its 16 bits.
FloatWeights WeightsOf(const ConvWeightsLayout& layout, const Tensor& constant, const float* bias);
/// The 16 bits of a constant's floats, if it has any.
HalfWeights HalvesOf(const Tensor& constant);

/// Adds a float convolution or matrix product with its epilogue; the output has layout `layout`.
void AddConvF32Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                    const FloatWeights& weights, Layout layout, int input);
/// Adds a float convolution with a given epilogue; inputs[1], if any, is the residual.
void AddConvF32Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                    const FloatWeights& weights, const std::vector<int>& inputs, int output,
                    const Epilogue& epilogue);
/// Adds a depthwise float convolution without a residual; weights are [channels, 1, kernel_h,
/// kernel_w], `bias` may be nullptr.
void AddDepthwiseF32Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                         const float* weights, const float* bias, int input, int output,
                         const Epilogue& epilogue, const HalfWeights& half = {});

}  // namespace requant
