#include "ops/table.h"

#include <vector>

namespace requant {

std::span<const OpDef* const> OpTable() {
  static const std::vector<const OpDef*> table = [] {
    std::vector<const OpDef*> rows;
    for (const std::span<const OpDef> family : {ConvOps(),
                                                ConvTransposeOps(),
                                                MatMulOps(),
                                                PoolOps(),
                                                LpPoolOps(),
                                                NormalizeOps(),
                                                UnaryOps(),
                                                ActivationOps(),
                                                FloatTestOps(),
                                                BinaryOps(),
                                                ReduceOps(),
                                                ArgOps(),
                                                CumSumOps(),
                                                ShapeOps(),
                                                CastOps(),
                                                ConstantOps(),
                                                OneHotOps(),
                                                MovementOps(),
                                                SpaceDepthOps(),
                                                PadOps(),
                                                GatherOps(),
                                                GatherBlockQuantizedOps(),
                                                ScatterOps(),
                                                ResizeOps(),
                                                ControlOps(),
                                                AttentionOps(),
                                                RotaryOps(),
                                                TensorScatterOps(),
                                                RecurrentOps(),
                                                DetectionOps(),
                                                GridSampleOps(),
                                                AffineGridOps(),
                                                CenterCropPadOps(),
                                                Col2ImOps(),
                                                DeformConvOps(),
                                                EinsumOps(),
                                                SignalOps(),
                                                UniqueOps(),
                                                BitwiseOps(),
                                                SquareMatrixOps(),
                                                TfIdfOps(),
                                                LossOps(),
                                                QonnxOps(),
                                                FunctionOps(),
                                                QuantizedFunctionOps(),
                                                EmbedLayerNormOps(),
                                                MatMulNBitsOps(),
                                                QuantizeOps(),
                                                QLinearConvOps(),
                                                QLinearConvTransposeOps(),
                                                QLinearMatMulOps(),
                                                QLinearBinaryOps(),
                                                QLinearPoolOps(),
                                                QLinearUnaryOps(),
                                                QLinearFunctionOps(),
                                                DynamicQuantizeOps(),
                                                FakeQuantizeOps(),
                                                FastMathOps(),
                                                TrigonometryOps(),
                                                NormalizeGroupsOps(),
                                                LrnOps(),
                                                GatherElementsOps(),
                                                TopKOps(),
                                                BitPackOps()}) {
      for (const OpDef& row : family) rows.push_back(&row);
    }
    return rows;
  }();
  return table;
}

}  // namespace requant
