#include "plan/lower/table.h"

#include "plan/lower/rows.h"

namespace requant {
namespace {

constexpr LowerRow kRows[] = {
    {"Conv", "", LowerConv},
    {"Gemm", "", LowerGemm},
    {"MatMul", "", LowerMatMul},
    {"QLinearConv", "", LowerQLinearConv},
    {"QLinearMatMul", "", LowerQLinearMatMul},
    {"QGemm", kMicrosoftDomain, LowerQGemm},
    {"Add", "", LowerBinary},
    {"Sub", "", LowerBinary},
    {"Mul", "", LowerBinary},
    {"Div", "", LowerBinary},
    {"QLinearAdd", kMicrosoftDomain, LowerQLinearBinary},
    {"QLinearMul", kMicrosoftDomain, LowerQLinearBinary},
    {"Relu", "", LowerUnary},
    {"Clip", "", LowerUnary},
    {"LeakyRelu", "", LowerUnary},
    {"HardSigmoid", "", LowerUnary},
    {"HardSwish", "", LowerUnary},
    {"Abs", "", LowerUnary},
    {"Neg", "", LowerUnary},
    {"Sqrt", "", LowerUnary},
    {"Sigmoid", "", LowerUnary},
    {"Tanh", "", LowerUnary},
    {"Erf", "", LowerUnary},
    {"Gelu", "", LowerUnary},
    {"Gelu", kMicrosoftDomain, LowerUnary},
    {"Lut", kRequantDomain, LowerLut},
    {"QLinearSigmoid", kMicrosoftDomain, LowerByteUnary},
    {"QLinearLeakyRelu", kMicrosoftDomain, LowerByteUnary},
    {"MaxPool", "", LowerPool},
    {"AveragePool", "", LowerPool},
    {"GlobalAveragePool", "", LowerGlobalPool},
    {"QLinearAveragePool", kMicrosoftDomain, LowerQLinearPool},
    {"QLinearGlobalAveragePool", kMicrosoftDomain, LowerQLinearPool},
    {"QuantizeLinear", "", LowerQuantize},
    {"DequantizeLinear", "", LowerDequantize},
    {"Softmax", "", LowerSoftmax},
    {"LogSoftmax", "", LowerSoftmax},
    {"LayerNormalization", "", LowerLayerNormalization},
    {"ConvTranspose", "", LowerConvTranspose},
    {"Resize", "", LowerResize},
    {"Upsample", "", LowerResize},
    {"Reshape", "", LowerAlias},
    {"Flatten", "", LowerAlias},
    {"Squeeze", "", LowerAlias},
    {"Unsqueeze", "", LowerAlias},
    {"Identity", "", LowerAlias},
    {"Dropout", "", LowerAlias},
    {"Transpose", "", LowerTranspose},
    {"Concat", "", LowerConcat},
    {"QLinearConcat", kMicrosoftDomain, LowerQLinearConcat},
    {"Slice", "", LowerSlice},
    {"Pad", "", LowerPad},
};

}  // namespace

std::span<const LowerRow> LowerTable() { return kRows; }

}  // namespace requant
