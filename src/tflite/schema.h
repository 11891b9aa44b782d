// Field numbers and enums of TFLite's schema (tensorflow/lite/schema/schema.fbs, version 3c), as
// far as this folder reads the fields. A field's number is its position in its table; a union takes
// two.
#pragma once

#include <cstdint>

namespace requant::tflite {

/// Bytes 4 to 8 of a file: schema.fbs, file_identifier.
inline constexpr char kIdentifier[] = "TFL3";

/// A table's fields, by tables.
namespace field {

enum class Model : uint16_t {
  kVersion = 0,
  kOperatorCodes = 1,
  kSubgraphs = 2,
  kDescription = 3,
  kBuffers = 4,
};

enum class OperatorCode : uint16_t {
  kDeprecatedBuiltinCode = 0,
  kCustomCode = 1,
  kVersion = 2,
  kBuiltinCode = 3,
};

enum class SubGraph : uint16_t {
  kTensors = 0,
  kInputs = 1,
  kOutputs = 2,
  kOperators = 3,
  kName = 4,
};

enum class Tensor : uint16_t {
  kShape = 0,
  kType = 1,
  kBuffer = 2,
  kName = 3,
  kQuantization = 4,
  kIsVariable = 5,
  kSparsity = 6,
  kShapeSignature = 7,
};

enum class QuantizationParameters : uint16_t {
  kScale = 2,
  kZeroPoint = 3,
  kDetailsType = 4,
  kDetails = 5,
  kQuantizedDimension = 6,
};

enum class SparsityParameters : uint16_t {
  kTraversalOrder = 0,
  kBlockMap = 1,
  kDimMetadata = 2,
};

enum class DimensionMetadata : uint16_t {
  kFormat = 0,
  kDenseSize = 1,
  kArraySegmentsType = 2,
  kArraySegments = 3,
  kArrayIndicesType = 4,
  kArrayIndices = 5,
};

/// Int32Vector, Uint16Vector and Uint8Vector.
enum class SparseIndexVector : uint16_t { kValues = 0 };

enum class Buffer : uint16_t { kData = 0, kOffset = 1, kSize = 2 };

enum class Operator : uint16_t {
  kOpcodeIndex = 0,
  kInputs = 1,
  kOutputs = 2,
  kBuiltinOptions = 4,
  kCustomOptions = 5,
  kBuiltinOptions2 = 12,
};

enum class Conv2DOptions : uint16_t {
  kPadding = 0,
  kStrideW = 1,
  kStrideH = 2,
  kActivation = 3,
  kDilationW = 4,
  kDilationH = 5,
};

enum class DepthwiseConv2DOptions : uint16_t {
  kPadding = 0,
  kStrideW = 1,
  kStrideH = 2,
  kDepthMultiplier = 3,
  kActivation = 4,
  kDilationW = 5,
  kDilationH = 6,
};

enum class TransposeConvOptions : uint16_t {
  kPadding = 0,
  kStrideW = 1,
  kStrideH = 2,
  kActivation = 3,
};

enum class Pool2DOptions : uint16_t {
  kPadding = 0,
  kStrideW = 1,
  kStrideH = 2,
  kFilterW = 3,
  kFilterH = 4,
  kActivation = 5,
};

enum class FullyConnectedOptions : uint16_t {
  kActivation = 0,
  kWeightsFormat = 1,
  kKeepNumDims = 2,
};

enum class BatchMatMulOptions : uint16_t { kAdjX = 0, kAdjY = 1 };

/// AddOptions, SubOptions, MulOptions, DivOptions and L2NormOptions.
enum class ActivationOptions : uint16_t { kActivation = 0 };

enum class SoftmaxOptions : uint16_t { kBeta = 0 };

enum class ConcatenationOptions : uint16_t { kAxis = 0, kActivation = 1 };

enum class LocalResponseNormalizationOptions : uint16_t {
  kRadius = 0,
  kBias = 1,
  kAlpha = 2,
  kBeta = 3,
};

enum class Conv3DOptions : uint16_t {
  kPadding = 0,
  kStrideD = 1,
  kStrideW = 2,
  kStrideH = 3,
  kActivation = 4,
  kDilationD = 5,
  kDilationW = 6,
  kDilationH = 7,
};

enum class RnnOptions : uint16_t { kActivation = 0 };
enum class SequenceRnnOptions : uint16_t { kTimeMajor = 0, kActivation = 1 };
enum class BidirectionalRnnOptions : uint16_t {
  kTimeMajor = 0,
  kActivation = 1,
  kMergeOutputs = 2,
};
enum class SvdfOptions : uint16_t { kRank = 0, kActivation = 1 };

enum class LstmOptions : uint16_t {
  kActivation = 0,
  kCellClip = 1,
  kProjClip = 2,
  kKernelType = 3
};

enum class BidirectionalLstmOptions : uint16_t {
  kActivation = 0,
  kCellClip = 1,
  kProjClip = 2,
  kMergeOutputs = 3,
  kTimeMajor = 4,
};

enum class SequenceLstmOptions : uint16_t {
  kActivation = 0,
  kCellClip = 1,
  kProjClip = 2,
  kTimeMajor = 3,
};

enum class ResizeBilinearOptions : uint16_t { kAlignCorners = 2, kHalfPixelCenters = 3 };

enum class ResizeNearestNeighborOptions : uint16_t { kAlignCorners = 0, kHalfPixelCenters = 1 };

enum class ReshapeOptions : uint16_t { kNewShape = 0 };

/// SpaceToDepthOptions and DepthToSpaceOptions.
enum class BlockOptions : uint16_t { kBlockSize = 0 };

enum class GatherOptions : uint16_t { kAxis = 0, kBatchDims = 1 };

enum class ReducerOptions : uint16_t { kKeepDims = 0 };

enum class SqueezeOptions : uint16_t { kSqueezeDims = 0 };

enum class StridedSliceOptions : uint16_t {
  kBeginMask = 0,
  kEndMask = 1,
  kEllipsisMask = 2,
  kNewAxisMask = 3,
  kShrinkAxisMask = 4,
  kOffset = 5,
};

/// PackOptions and UnpackOptions.
enum class PackOptions : uint16_t { kCount = 0, kAxis = 1 };

enum class OneHotOptions : uint16_t { kAxis = 0 };

enum class LeakyReluOptions : uint16_t { kAlpha = 0 };

enum class MirrorPadOptions : uint16_t { kMode = 0 };

enum class CumsumOptions : uint16_t { kExclusive = 0, kReverse = 1 };

enum class GeluOptions : uint16_t { kApproximate = 0 };

enum class FakeQuantOptions : uint16_t { kMin = 0, kMax = 1, kNumBits = 2, kNarrowRange = 3 };

enum class ReverseSequenceOptions : uint16_t { kSeqDim = 0, kBatchDim = 1 };

enum class BucketizeOptions : uint16_t { kBoundaries = 0 };
enum class RandomOptions : uint16_t { kSeed = 0, kSeed2 = 1 };

enum class CompositeOptions : uint16_t { kName = 0, kDecomposition = 1 };

enum class IfOptions : uint16_t { kThen = 0, kElse = 1 };
enum class WhileOptions : uint16_t { kCondition = 0, kBody = 1 };

}  // namespace field

enum class TensorType : int8_t {
  kFloat32 = 0,
  kFloat16 = 1,
  kInt32 = 2,
  kUint8 = 3,
  kInt64 = 4,
  kString = 5,
  kBool = 6,
  kInt16 = 7,
  kComplex64 = 8,
  kInt8 = 9,
  kFloat64 = 10,
  kComplex128 = 11,
  kUint64 = 12,
  kResource = 13,
  kVariant = 14,
  kUint32 = 15,
  kUint16 = 16,
  kInt4 = 17,
  kBfloat16 = 18,
};

enum class Padding : int8_t { kSame = 0, kValid = 1 };

enum class Activation : int8_t {
  kNone = 0,
  kRelu = 1,
  kReluN1To1 = 2,
  kRelu6 = 3,
  kTanh = 4,
  kSignBit = 5,
};

enum class DimensionType : int8_t { kDense = 0, kSparseCsr = 1 };

enum class SparseIndexType : uint8_t { kNone = 0, kInt32 = 1, kUint16 = 2, kUint8 = 3 };

enum class MirrorPadMode : int8_t { kReflect = 0, kSymmetric = 1 };

/// BuiltinOperator.CUSTOM; operators.inc has all others.
inline constexpr int32_t kCustomOperator = 32;

}  // namespace requant::tflite
