// Writer builds the nodes that all rewriters of integers.h need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/infer_util.h"
#include "passes/integers/integers.h"

namespace requant::integers {

/// A quantized operand with constant parameters: one scale and zero point, or one for each channel.
struct Operand {
  std::vector<float> scales;
  std::vector<int32_t> zeros;

  bool per_tensor() const { return scales.size() == 1 && zeros.size() == 1; }
  bool any_zero() const;  ///< whether a zero point differs from 0
  float ScaleAt(size_t i) const { return scales.size() == 1 ? scales[0] : scales[i]; }
  int32_t ZeroAt(size_t i) const { return zeros.size() == 1 ? zeros[0] : zeros[i]; }
};

/// Reads the operand whose parameters are in these slots; nullopt unless they are constant and have
/// one entry each or `count` entries.
std::optional<Operand> ConstantOperand(const Node& node, size_t scale_slot, size_t zero_slot,
                                       int64_t count = 1);

/// The output of a node: its scale, its zero point and its codes.
struct Output {
  float scale;
  int32_t zero;
  DType dtype;
};
std::optional<Output> ConstantOutput(const Node& node, size_t scale_slot, size_t zero_slot);

/// Adds the nodes that replace one node, named after it.
class Writer {
 public:
  Writer(Graph& graph, Node* node, const IntegerForm& form)
      : graph_(graph), node_(node), form_(form) {}

  Node& node() const { return *node_; }
  const IntegerForm& form() const { return form_; }
  bool four_terms() const { return form_.decomposition == Decomposition::kFourTerms; }

  /// An operator of ONNX with one output of that type; `part` is what follows the node's name.
  Value* Add(const char* op, std::vector<Value*> inputs, const char* part, DType dtype,
             AttributeMap attributes = {});
  Value* Constant(const char* part, Tensor tensor);
  /// An int32 constant: a scalar where all numbers are equal, else of that shape.
  Value* Numbers(const char* part, const std::vector<int32_t>& numbers, Shape shape);
  Value* Scalar(const char* part, int32_t number) { return Numbers(part, {number}, {}); }
  /// A zero point in the dtype of its codes: a scalar where all are equal, else a vector.
  Value* ZeroPoint(const char* part, const std::vector<int32_t>& zeros, DType dtype);
  /// Codes as int32, less their zero point.
  Value* Centered(Value* codes, int32_t zero, const char* part);
  /// sums + numbers, or `sums` if all numbers are 0.
  Value* Plus(Value* sums, const std::vector<int32_t>& numbers, Shape shape, const char* part);

  /// ai.requant::Lut: the entry of a table of 256 for each code.
  Value* Lookup(Value* codes, Tensor table, const char* part);

  /// Makes the node's output of sums: FixedPointMultiply by real multipliers, one or as many as
  /// `shape` has elements, then the zero point and the clamp. Erases the node.
  void Finish(Value* sums, const std::vector<double>& multipliers, const Shape& shape,
              const Output& to);
  /// Does so for multipliers that are integers already: multiplier * 2^-shift, rounded upward.
  void FinishShift(Value* sums, FixedMultiplier multiplier, const Output& to);
  /// Makes the node's output by an operator of ONNX. Erases the node.
  void FinishWith(const char* op, std::vector<Value*> inputs, AttributeMap attributes = {});

 private:
  void Saturate(Value* steps, const Output& to);
  Value* Multiply(Value* sums, Value* multiplier, Value* shift, RequantizeMode mode);

  Graph& graph_;
  Node* node_;
  IntegerForm form_;
};

/// Why a node stays as it is; empty: the node was rewritten.
using Reason = std::string;

Reason LegalizeConv(Writer& writer);           // conv.cpp
Reason LegalizeConvTranspose(Writer& writer);  // conv_transpose.cpp
Reason LegalizeMatMul(Writer& writer);         // matmul.cpp
Reason LegalizeGemm(Writer& writer);           // matmul.cpp
Reason LegalizeAdd(Writer& writer);            // elementwise.cpp
Reason LegalizeMul(Writer& writer);            // elementwise.cpp
Reason LegalizeConcat(Writer& writer);         // elementwise.cpp
Reason LegalizeAveragePool(Writer& writer);    // pool.cpp
Reason LegalizeGlobalAverage(Writer& writer);  // pool.cpp

inline constexpr const char* kParametersNotConstant =
    "its scales or zero points are not constant, or are not one each";

/// Arithmetic of int32 that wraps around, as accumulators do.
inline int32_t Wrapped(int64_t number) {
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(number)));
}

}  // namespace requant::integers
