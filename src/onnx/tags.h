// Field numbers of onnx.proto (onnx/onnx.proto of ONNX 1.12 to 1.18), as far as this folder reads,
// writes or refuses the fields.
#pragma once

#include <cstdint>

namespace requant::onnx_tags {

enum class ModelProto : uint32_t {
  kIrVersion = 1,
  kProducerName = 2,
  kProducerVersion = 3,
  kGraph = 7,
  kOpsetImport = 8,
  kMetadataProps = 14,
  kFunctions = 25,
};

enum class FunctionProto : uint32_t {
  kName = 1,
  kInput = 4,
  kOutput = 5,
  kNode = 7,
  kOpsetImport = 9,
  kDomain = 10,
  kAttributeProto = 11,
  kOverload = 13,
};

enum class OperatorSetIdProto : uint32_t { kDomain = 1, kVersion = 2 };

enum class StringStringEntryProto : uint32_t { kKey = 1, kValue = 2 };

enum class GraphProto : uint32_t {
  kNode = 1,
  kName = 2,
  kInitializer = 5,
  kInput = 11,
  kOutput = 12,
  kValueInfo = 13,
  kSparseInitializer = 15,
};

enum class NodeProto : uint32_t {
  kInput = 1,
  kOutput = 2,
  kName = 3,
  kOpType = 4,
  kAttribute = 5,
  kDomain = 7,
  kOverload = 8,
};

enum class AttributeProto : uint32_t {
  kName = 1,
  kFloat = 2,
  kInt = 3,
  kString = 4,
  kTensor = 5,
  kGraph = 6,
  kFloats = 7,
  kInts = 8,
  kStrings = 9,
  kTensors = 10,
  kGraphs = 11,
  kTypeProto = 14,
  kTypeProtos = 15,
  kType = 20,
  kRefAttrName = 21,
  kSparseTensor = 22,
  kSparseTensors = 23,
};

/// AttributeProto.AttributeType.
enum class AttributeType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14,
};

enum class TensorProto : uint32_t {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
  kDataLocation = 14,
};

enum class SparseTensorProto : uint32_t { kValues = 1, kIndices = 2, kDims = 3 };

enum class ValueInfoProto : uint32_t { kName = 1, kType = 2 };

enum class TypeProto : uint32_t {
  kTensorType = 1,
  kSequenceType = 4,
  kMapType = 5,
  kDenotation = 6,
  kOpaqueType = 7,
  kSparseTensorType = 8,
  kOptionalType = 9,
};

/// TypeProto.Tensor.
enum class TensorTypeProto : uint32_t { kElemType = 1, kShape = 2 };

enum class TensorShapeProto : uint32_t { kDim = 1 };

/// TensorShapeProto.Dimension.
enum class DimensionProto : uint32_t { kDimValue = 1, kDimParam = 2 };

}  // namespace requant::onnx_tags
