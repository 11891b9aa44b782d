// The kinds of steps, for saved plans. A step class takes its file, an entry here, and a case in
// its file's New...Step.
#pragma once

#include <memory>

#include "plan/archive.h"
#include "plan/plan.h"

namespace requant {

enum class StepKind : uint8_t {
  kConvF32,
  kDepthwiseF32,
  kConvQ8,
  kDepthwiseQ8,
  kBinary,
  kUnary,
  kQAdd,
  kQMul,
  kTranspose,
  kCopy,
  kConcat,
  kBoxCopy,
  kLut,
  kMaxPoolF32,
  kMaxPoolQ8,
  kAvgPoolF32,
  kAvgPoolQ8,
  kQuantize,
  kQuantizePlanes,
  kDequantize,
  kSoftmax,
  kLayerNorm,
  kReduce,
  kNearest,
  kLinear,
  kReference,
  kCast,
  kMatMulNBits,
  kQAddNibbles,
  kIntegerProduct,
  // The code of these steps is among the extended operators (bindings/README.md).
  kMatMul,
  kQMatMul,
  kAttention,
  kRecurrent,
  kDynamicQuantize,
  kWiden,
  kInterleave,
  kUnfold,
};
inline constexpr StepKind kFirstLateStep = StepKind::kMatMul;
inline constexpr StepKind kLastStep = StepKind::kUnfold;

/// Makes an empty step of that kind; nullptr for a kind that does not exist.
std::unique_ptr<Step> NewStep(StepKind kind);  // table.cpp

/// Each makes an empty step of the kinds of one file; nullptr for other kinds.
std::unique_ptr<Step> NewConvStep(StepKind kind);             // conv.cpp
std::unique_ptr<Step> NewQConvStep(StepKind kind);            // qconv.cpp
std::unique_ptr<Step> NewElementwiseStep(StepKind kind);      // elementwise.cpp
std::unique_ptr<Step> NewQBinaryStep(StepKind kind);          // qelementwise.cpp
std::unique_ptr<Step> NewLayoutStep(StepKind kind);           // layout.cpp
std::unique_ptr<Step> NewConcatStep(StepKind kind);           // concat.cpp
std::unique_ptr<Step> NewLayerNormStep(StepKind kind);        // layer_norm.cpp
std::unique_ptr<Step> NewReduceStep(StepKind kind);           // reduce.cpp
std::unique_ptr<Step> NewResizeStep(StepKind kind);           // resize.cpp
std::unique_ptr<Step> NewBoxCopyStep(StepKind kind);          // slice.cpp
std::unique_ptr<Step> NewLutStep(StepKind kind);              // lut.cpp
std::unique_ptr<Step> NewPoolStep(StepKind kind);             // pool.cpp
std::unique_ptr<Step> NewQuantizeStep(StepKind kind);         // quantize.cpp
std::unique_ptr<Step> NewSoftmaxStep(StepKind kind);          // softmax.cpp
std::unique_ptr<Step> NewReferenceStep(StepKind kind);        // reference.cpp
std::unique_ptr<Step> NewCastStep(StepKind kind);             // cast.cpp
std::unique_ptr<Step> NewMatMulNBitsStep(StepKind kind);      // matmul_nbits_step.cpp
std::unique_ptr<Step> NewComputedStep(StepKind kind);         // matmul_computed.cpp
std::unique_ptr<Step> NewQMatMulStep(StepKind kind);          // qmatmul_computed.cpp
std::unique_ptr<Step> NewAttentionStep(StepKind kind);        // attention.cpp
std::unique_ptr<Step> NewRecurrentStep(StepKind kind);        // recurrent.cpp
std::unique_ptr<Step> NewIntegerProductStep(StepKind kind);   // integer_product.cpp
std::unique_ptr<Step> NewDynamicQuantizeStep(StepKind kind);  // dynamic_quantize.cpp
std::unique_ptr<Step> NewInterleaveStep(StepKind kind);       // transposition.cpp
std::unique_ptr<Step> NewUnfoldStep(StepKind kind);           // volume.cpp

}  // namespace requant
