// Declares the lowering functions that table.cpp lists, and helpers that several of them share.
#pragma once

#include <string_view>

#include "kernels/conv/table.h"
#include "plan/builder.h"
#include "plan/lower/epilogue.h"
#include "plan/lower/window.h"

namespace requant {

bool LowerConv(PlanBuilder& builder, const Node& node);            // conv.cpp
bool LowerGemm(PlanBuilder& builder, const Node& node);            // matmul.cpp
bool LowerMatMul(PlanBuilder& builder, const Node& node);          // matmul.cpp
bool LowerComputedMatMul(PlanBuilder& builder, const Node& node);  // matmul_computed.cpp
bool LowerComputedGemm(PlanBuilder& builder, const Node& node);    // matmul_computed.cpp
/// A Transpose of the last two dimensions that only a MatMul of dynamic operands reads, as its
/// right-hand side.
bool LowerTurnedOperand(PlanBuilder& builder, const Node& node);  // matmul_computed.cpp
bool IsTurnedOperand(const Node& node);
bool LowerAttention(PlanBuilder& builder, const Node& node);             // attention.cpp
bool LowerRecurrent(PlanBuilder& builder, const Node& node);             // recurrent.cpp
bool LowerMatMulNBits(PlanBuilder& builder, const Node& node);           // matmul_nbits.cpp
bool LowerQLinearConv(PlanBuilder& builder, const Node& node);           // qconv.cpp
bool LowerQLinearConvTranspose(PlanBuilder& builder, const Node& node);  // qconv_transpose.cpp
bool LowerQLinearMatMul(PlanBuilder& builder, const Node& node);         // qmatmul.cpp
bool LowerComputedQMatMul(PlanBuilder& builder, const Node& node);       // qmatmul_computed.cpp
bool LowerQGemm(PlanBuilder& builder, const Node& node);                 // qmatmul.cpp
bool LowerBinary(PlanBuilder& builder, const Node& node);                // elementwise.cpp
bool LowerUnary(PlanBuilder& builder, const Node& node);                 // elementwise.cpp
bool LowerQLinearBinary(PlanBuilder& builder, const Node& node);         // qelementwise.cpp
bool LowerByteUnary(PlanBuilder& builder, const Node& node);             // lut.cpp
bool LowerPool(PlanBuilder& builder, const Node& node);                  // pool.cpp
bool LowerGlobalPool(PlanBuilder& builder, const Node& node);            // pool.cpp
bool LowerQLinearPool(PlanBuilder& builder, const Node& node);           // pool.cpp
bool LowerQuantize(PlanBuilder& builder, const Node& node);              // quantize.cpp
bool LowerDequantize(PlanBuilder& builder, const Node& node);            // quantize.cpp
bool LowerAlias(PlanBuilder& builder, const Node& node);                 // layout.cpp: Reshape, ...
bool LowerTranspose(PlanBuilder& builder, const Node& node);             // layout.cpp
bool LowerConcat(PlanBuilder& builder, const Node& node);                // concat.cpp
bool LowerSlice(PlanBuilder& builder, const Node& node);                 // slice.cpp
bool LowerPad(PlanBuilder& builder, const Node& node);                   // slice.cpp
bool LowerReduce(PlanBuilder& builder, const Node& node);                // reduce.cpp
bool LowerSoftmax(PlanBuilder& builder, const Node& node);               // softmax.cpp
bool LowerLayerNormalization(PlanBuilder& builder, const Node& node);    // layer_norm.cpp
bool LowerConvTranspose(PlanBuilder& builder, const Node& node);         // conv_transpose.cpp
bool LowerResize(PlanBuilder& builder, const Node& node);                // resize.cpp
bool LowerConvInteger(PlanBuilder& builder, const Node& node);           // integer_product.cpp
bool LowerMatMulInteger(PlanBuilder& builder, const Node& node);         // integer_product.cpp
bool LowerDepthwiseInteger(PlanBuilder& builder, const Node& node);      // dynamic_quantize.cpp
bool LowerDynamicQuantize(PlanBuilder& builder, const Node& node);       // dynamic_quantize.cpp
bool LowerCast(PlanBuilder& builder, const Node& node);                  // cast.cpp
bool LowerVolume(PlanBuilder& builder, const Node& node);                // volume.cpp
bool LowerQLinearConcat(PlanBuilder& builder, const Node& node);         // concat.cpp

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

/// Chooses the row for a float convolution; `tuning` as in PlanBuilder::Choose.
const ConvF32Kernel& ChooseConvF32(const PlanBuilder& builder, const ConvGeometry& geometry,
                                   const std::string& tuning = {});
/// Chooses the row for products of two dynamic matrices, whose steps have no workspace for lines.
const ConvF32Kernel& ChooseProductF32(const PlanBuilder& builder);
/// Adds a float convolution or matrix product with its epilogue; the output has layout `layout`.
void AddConvF32Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                    const ConvF32Weights& weights, Layout layout, int input);
/// Adds a float convolution with a given epilogue; inputs[1], if any, is the residual.
void AddConvF32Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                    const ConvF32Weights& weights, const std::vector<int>& inputs, int output,
                    const Epilogue& epilogue);
/// Adds a depthwise float convolution without a residual; weights are [channels, 1, kernel_h,
/// kernel_w], `bias` may be nullptr.
void AddDepthwiseF32Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                         const float* weights, const float* bias, int input, int output,
                         const Epilogue& epilogue);

}  // namespace requant
