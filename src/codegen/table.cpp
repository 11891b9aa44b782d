#include "codegen/emit.h"

namespace requant {

std::span<const EmitRow> EmitTable() {
  static constexpr EmitRow kRows[] = {
      {"QLinearConv", "", EmitQLinearConv},
      {"ConvInteger", "", EmitConvInteger},
      {"QLinearConvTranspose", kRequantDomain, EmitQLinearConvTranspose},
      {"QLinearMatMul", "", EmitQLinearMatMul},
      {"MatMulInteger", "", EmitMatMulInteger},
      {"QGemm", kMicrosoftDomain, EmitQGemm},
      {"QLinearAdd", kMicrosoftDomain, EmitQLinearAdd},
      {"QLinearMul", kMicrosoftDomain, EmitQLinearMul},
      {"QLinearAveragePool", kMicrosoftDomain, EmitQLinearAveragePool},
      {"QLinearGlobalAveragePool", kMicrosoftDomain, EmitQLinearGlobalAveragePool},
      {"MaxPool", "", EmitMaxPool},
      {"AveragePool", "", EmitFloatAveragePool},
      {"GlobalAveragePool", "", EmitFloatGlobalAveragePool},
      {"Lut", kRequantDomain, EmitLut},
      {"QLinearConcat", kMicrosoftDomain, EmitQLinearConcat},
      {"Concat", "", EmitConcat},
      {"QuantizeLinear", "", EmitQuantizeLinear},
      {"DequantizeLinear", "", EmitDequantizeLinear},
      {"Transpose", "", EmitMove},
      {"Slice", "", EmitMove},
      {"Split", "", EmitMove},
      {"Gather", "", EmitMove},
      {"Expand", "", EmitMove},
      {"Tile", "", EmitMove},
      {"DepthToSpace", "", EmitMove},
      {"SpaceToDepth", "", EmitMove},
      {"Resize", "", EmitMove},
      {"Pad", "", EmitPad},
      {"Cast", "", EmitCast},
      {"Relu", "", EmitClamp},
      {"Clip", "", EmitClamp},
      {"Conv", "", EmitFloatConv},
      {"MatMul", "", EmitFloatMatMul},
      {"Gemm", "", EmitFloatGemm},
      {"Add", "", EmitFloatArithmetic},
      {"Sub", "", EmitFloatArithmetic},
      {"Mul", "", EmitFloatArithmetic},
      {"Div", "", EmitFloatArithmetic},
      {"Softmax", "", EmitSoftmax},
  };
  return kRows;
}

}  // namespace requant
