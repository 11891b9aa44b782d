// One array of rows for each family's file; table.cpp joins them. Adding an operator takes one row
// in its family's array; adding a family takes one line in each of these two files.
#pragma once

#include <span>

#include "ops/op.h"

namespace requant {

std::span<const OpDef> ConvOps();             // conv.cpp: Conv
std::span<const OpDef> ConvTransposeOps();    // conv_transpose.cpp
std::span<const OpDef> MatMulOps();           // matmul.cpp: Gemm, MatMul
std::span<const OpDef> PoolOps();             // pool.cpp: MaxPool, AveragePool, Global*
std::span<const OpDef> LpPoolOps();           // lp_pool.cpp: LpPool, GlobalLpPool
std::span<const OpDef> NormalizeOps();        // normalize.cpp: BatchNormalization, Softmax ...
std::span<const OpDef> UnaryOps();            // unary.cpp: Relu, Sigmoid, Clip, Exp ...
std::span<const OpDef> ActivationOps();       // activation.cpp: Elu, Selu, Softplus ...
std::span<const OpDef> FloatTestOps();        // float_tests.cpp: IsInf, IsNaN
std::span<const OpDef> GatherElementsOps();   // gather_elements.cpp: GatherND ...
std::span<const OpDef> TopKOps();             // top_k.cpp: TopK
std::span<const OpDef> NormalizeGroupsOps();  // normalize_groups.cpp: GroupNormalization ...
std::span<const OpDef> LrnOps();              // lrn.cpp: LRN
std::span<const OpDef> TrigonometryOps();     // trigonometry.cpp: Sin, Acosh ...
std::span<const OpDef> BinaryOps();           // binary.cpp: Add, Mul, Where, comparisons ...
std::span<const OpDef> ReduceOps();           // reduce.cpp: ReduceMean ...
std::span<const OpDef> ArgOps();              // arg.cpp: ArgMax, ArgMin
std::span<const OpDef> CumSumOps();           // cum_sum.cpp: CumSum
std::span<const OpDef> ShapeOps();            // shape.cpp: Shape, Reshape, Flatten, Squeeze, Expand
std::span<const OpDef> CastOps();             // cast.cpp: Cast, CastLike
std::span<const OpDef> ConstantOps();         // constant.cpp: Constant, ConstantOfShape, Range
std::span<const OpDef> OneHotOps();           // one_hot.cpp: EyeLike, OneHot, NonZero, Trilu
std::span<const OpDef> MovementOps();         // movement.cpp: Transpose, Concat, Slice, Split, Tile
std::span<const OpDef> SpaceDepthOps();       // space_depth.cpp: DepthToSpace, SpaceToDepth
std::span<const OpDef> PadOps();              // pad.cpp: Pad
std::span<const OpDef> GatherOps();           // gather.cpp
std::span<const OpDef> GatherBlockQuantizedOps();  // gather_block_quantized.cpp
std::span<const OpDef> ScatterOps();               // scatter.cpp: ScatterElements, ScatterND
std::span<const OpDef> ResizeOps();                // resize.cpp: Resize, Upsample
std::span<const OpDef> ControlOps();               // control.cpp: If, Loop, Scan
std::span<const OpDef> FastMathOps();              // fast_math.cpp: FastExp ... of ai.requant
std::span<const OpDef> AttentionOps();      // attention.cpp: Attention, GroupQueryAttention ...
std::span<const OpDef> TensorScatterOps();  // tensor_scatter.cpp: TensorScatter
std::span<const OpDef> RotaryOps();         // rotary.cpp: RotaryEmbedding
std::span<const OpDef> RecurrentOps();      // recurrent.cpp: LSTM, GRU, RNN
std::span<const OpDef> DetectionOps();      // detection.cpp: NonMaxSuppression, RoiAlign, MaxUnpool
std::span<const OpDef> GridSampleOps();     // grid_sample.cpp: GridSample
std::span<const OpDef> AffineGridOps();     // affine_grid.cpp: AffineGrid
std::span<const OpDef> CenterCropPadOps();  // center_crop_pad.cpp
std::span<const OpDef> Col2ImOps();         // col2im.cpp
std::span<const OpDef> DeformConvOps();     // deform_conv.cpp
std::span<const OpDef> EinsumOps();         // einsum.cpp: Einsum
std::span<const OpDef> BitPackOps();        // bitpack.cpp: BitPack of ai.requant
std::span<const OpDef> SignalOps();         // signal.cpp: DFT, STFT, windows
std::span<const OpDef> UniqueOps();         // unique.cpp: Unique, Compress
std::span<const OpDef> BitwiseOps();        // bitwise.cpp: BitShift, BitwiseAnd ...
std::span<const OpDef> SquareMatrixOps();   // square_matrix.cpp: Det, Inverse
std::span<const OpDef> TfIdfOps();          // tf_idf.cpp: TfIdfVectorizer
std::span<const OpDef> LossOps();           // loss.cpp: NegativeLogLikelihoodLoss ...
std::span<const OpDef> QonnxOps();          // qonnx.cpp: Quant, BipolarQuant, Trunc
std::span<const OpDef> MatMulNBitsOps();    // matmul_nbits.cpp: UnpackBits
std::span<const OpDef> FunctionOps();       // function.cpp: operators spelled out in others
std::span<const OpDef> QuantizedFunctionOps();     // function_quantized.cpp: QLinearWhere ...
std::span<const OpDef> EmbedLayerNormOps();        // embed_layer_norm.cpp
std::span<const OpDef> QuantizeOps();              // quantize.cpp: QuantizeLinear, DequantizeLinear
std::span<const OpDef> DynamicQuantizeOps();       // dynamic_quantize.cpp: DynamicQuantizeLinear
std::span<const OpDef> FakeQuantizeOps();          // fake_quantize.cpp: FakeQuantize
std::span<const OpDef> QLinearConvOps();           // qlinear_conv.cpp: QLinearConv, ConvInteger
std::span<const OpDef> QLinearConvTransposeOps();  // qlinear_conv_transpose.cpp
std::span<const OpDef> QLinearMatMulOps();         // qlinear_matmul.cpp: QLinearMatMul, QGemm ...
std::span<const OpDef> QLinearBinaryOps();         // qlinear_binary.cpp: QLinearAdd, QLinearMul
std::span<const OpDef> QLinearPoolOps();           // qlinear_pool.cpp: QLinearAveragePool ...
std::span<const OpDef> QLinearUnaryOps();          // qlinear_unary.cpp: QLinearConcat, Lut
std::span<const OpDef> QLinearFunctionOps();       // qlinear_functions.cpp: QLinearSigmoid ...

}  // namespace requant
