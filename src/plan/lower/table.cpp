#include "plan/lower/table.h"

#include <algorithm>

#include "ops/products.h"
#include "plan/lower/qconv.h"
#include "plan/lower/qelementwise.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

/// `fits` of rows whose code is among the extended operators while their operator is not.
bool Any(const Node&) { return true; }

constexpr LowerRow kRows[] = {
    {"Conv", "", LowerConv},
    {"Gemm", "", LowerGemm},
    {"MatMul", "", LowerMatMul},
    {"MatMul", "", LowerComputedMatMul, IsComputedProduct},
    {"Gemm", "", LowerComputedGemm, IsComputedProduct},
    {"Attention", "", LowerAttention},
    {"MultiHeadAttention", kMicrosoftDomain, LowerAttention},
    {"GroupQueryAttention", kMicrosoftDomain, LowerAttention},
    {"LSTM", "", LowerRecurrent},
    {"GRU", "", LowerRecurrent},
    {"RNN", "", LowerRecurrent},
    {"MatMulNBits", kMicrosoftDomain, LowerMatMulNBits},
    {"QLinearConv", "", LowerQLinearConv},
    {"QLinearConvTranspose", kRequantDomain, LowerQLinearConvTranspose},
    {"QLinearMatMul", "", LowerQLinearMatMul},
    {"QLinearMatMul", "", LowerComputedQMatMul, IsComputedProduct},
    {"QGemm", kMicrosoftDomain, LowerQGemm},
    {"ConvInteger", "", LowerDepthwiseInteger, Any},
    {"ConvInteger", "", LowerConvInteger},
    {"MatMulInteger", "", LowerMatMulInteger},
    {"DynamicQuantizeLinear", "", LowerDynamicQuantize},
    {"Cast", "", LowerCast},
    {"Add", "", LowerBinary},
    {"Sub", "", LowerBinary},
    {"Mul", "", LowerBinary},
    {"Div", "", LowerBinary},
    {"Max", "", LowerBinary},
    {"Min", "", LowerBinary},
    {"PRelu", "", LowerBinary},
    {"Equal", "", LowerBinary},
    {"Greater", "", LowerBinary},
    {"GreaterOrEqual", "", LowerBinary},
    {"Less", "", LowerBinary},
    {"LessOrEqual", "", LowerBinary},
    {"QLinearAdd", kMicrosoftDomain, LowerQLinearBinary},
    {"QLinearMul", kMicrosoftDomain, LowerQLinearBinary},
    {"Conv", "", LowerVolume, Any},
    {"QLinearConv", "", LowerVolume, Any},
    {"MaxPool", "", LowerVolume, Any},
    {"AveragePool", "", LowerVolume, Any},
    {"QLinearAveragePool", kMicrosoftDomain, LowerVolume, Any},
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
    {"FastGelu", kMicrosoftDomain, LowerUnary},
    {"QuickGelu", kMicrosoftDomain, LowerUnary},
    {"Swish", "", LowerUnary},
    {"FastExp", kRequantDomain, LowerUnary},
    {"FastTanh", kRequantDomain, LowerUnary},
    {"FastSigmoid", kRequantDomain, LowerUnary},
    {"FastErf", kRequantDomain, LowerUnary},
    {"FastErfGelu", kRequantDomain, LowerUnary},
    {"Lut", kRequantDomain, LowerByteUnary},
    {"Not", "", LowerByteUnary},
    {"QLinearSigmoid", kMicrosoftDomain, LowerByteUnary},
    {"QLinearLeakyRelu", kMicrosoftDomain, LowerByteUnary},
    {"MaxPool", "", LowerPool},
    {"AveragePool", "", LowerPool},
    {"GlobalAveragePool", "", LowerGlobalPool},
    {"QLinearAveragePool", kMicrosoftDomain, LowerQLinearPool},
    {"QLinearGlobalAveragePool", kMicrosoftDomain, LowerQLinearPool},
    {"QuantizeLinear", "", LowerQuantize},
    {"DequantizeLinear", "", LowerDequantize},
    {"ReduceSum", "", LowerReduce},
    {"ReduceMean", "", LowerReduce},
    {"ReduceL1", "", LowerReduce},
    {"ReduceSumSquare", "", LowerReduce},
    {"ReduceMax", "", LowerReduce},
    {"ReduceMin", "", LowerReduce},
    {"Softmax", "", LowerSoftmax},
    {"LogSoftmax", "", LowerSoftmax},
    {"FastSoftmax", kRequantDomain, LowerSoftmax},
    {"LayerNormalization", "", LowerLayerNormalization},
    {"RMSNormalization", "", LowerLayerNormalization},
    {"SimplifiedLayerNormalization", "", LowerLayerNormalization},
    {"ConvTranspose", "", LowerConvTranspose},
    {"Resize", "", LowerResize},
    {"Upsample", "", LowerResize},
    {"Reshape", "", LowerAlias},
    {"Flatten", "", LowerAlias},
    {"Squeeze", "", LowerAlias},
    {"Unsqueeze", "", LowerAlias},
    {"Identity", "", LowerAlias},
    {"Dropout", "", LowerAlias},
    {"Transpose", "", LowerTurnedOperand, IsTurnedOperand},
    {"Transpose", "", LowerTranspose},
    {"Concat", "", LowerConcat},
    {"QLinearConcat", kMicrosoftDomain, LowerQLinearConcat},
    {"Slice", "", LowerSlice},
    {"Pad", "", LowerPad},
};

}  // namespace

QAddNarrow (*const kMakeQAddNarrow)(const QAddMultipliers&, QAddRange, QAddRange, int32_t, int32_t,
                                    int32_t) = MakeQAddNarrow;
NarrowChannels (*const kAddNarrowRequantize)(PreparedRequantize&,
                                             const std::vector<int64_t>&) = AddNarrowRequantize;

std::span<const LowerRow> LowerTable() { return kRows; }

LowerFunction VolumeLowering(const Graph& graph) {
  const auto& nodes = graph.nodes();
  const auto is_volume = [](const auto& node) {
    return node->attributes.Ints("kernel_shape").size() == 3;
  };
  return std::any_of(nodes.begin(), nodes.end(), is_volume) ? LowerVolume : nullptr;
}

std::unique_ptr<Step> NewStep(StepKind kind) {
  // The files are asked in turn. Extended operators come last and are loaded if the kind is theirs.
  constexpr std::unique_ptr<Step> (*kFiles[])(StepKind) = {NewConvStep,
                                                           NewQConvStep,
                                                           NewElementwiseStep,
                                                           NewQBinaryStep,
                                                           NewLayoutStep,
                                                           NewBoxCopyStep,
                                                           NewLutStep,
                                                           NewPoolStep,
                                                           NewQuantizeStep,
                                                           NewSoftmaxStep,
                                                           NewReferenceStep,
                                                           NewCastStep,
                                                           NewConcatStep,
                                                           NewLayerNormStep,
                                                           NewReduceStep,
                                                           NewResizeStep,
                                                           NewMatMulNBitsStep,
                                                           NewIntegerProductStep,
                                                           NewComputedStep,
                                                           NewAttentionStep,
                                                           NewRecurrentStep,
                                                           NewQMatMulStep,
                                                           NewDynamicQuantizeStep,
                                                           NewInterleaveStep,
                                                           NewUnfoldStep};
  for (const auto& make : kFiles) {
    if (auto step = make(kind)) return step;
  }
  return nullptr;
}

}  // namespace requant
