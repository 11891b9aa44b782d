// Writes the integer graph, node by node, from the float graph and the record. Every float value
// has any number of forms in the new graph, made when first asked for and shared from then on:
// float as it was computed, 8-bit integers in one or more formats, and floats dequantized from
// those.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "quant/lower/lower.h"
#include "quant/record.h"

namespace requant {

/// Per-tensor integers: what they are and what they stand for.
struct Format {
  DType dtype = DType::kUint8;
  float scale = 1;
  int32_t offset = 0;
  /// The codes in use: fewer than the type has for less than 8 bits.
  int32_t low = 0, high = 255;
  bool narrow() const;
  bool operator==(const Format& other) const = default;
};

Format FormatOf(const TensorQuantizationConfig& config);

/// 256 entries by bit pattern of `from`: dequantize -> (any function) -> quantize. `values` holds
/// the function's results for the dequantized patterns.
Tensor PatternValues(const Format& from);
Tensor TableFrom(const Tensor& values, const Format& to);

class Lowering {
 public:
  Lowering(const QuantizedModel& model, const LowerOptions& options);
  Graph Run();

  // --- for the operator families
  const Graph& source() const { return model_.float_graph; }
  const QuantizationRecord& record() const { return model_.record; }
  Graph& graph() { return out_; }
  bool use_lut() const { return options_.use_lut; }
  const TensorQuantizationConfig& Own(int index) const {
    return model_.record.configs[static_cast<size_t>(index)];
  }
  Format FormatOfSlot(int index) const { return FormatOf(model_.record.Root(index)); }

  /// The value's integers in that format (constants: the slot's baked integers).
  Value* Integer(const Value* value, const Format& format);
  Value* IntegerInput(const Node& node, const OperatorQuantization& op, size_t slot);
  /// The value in float (dequantized if it was only computed as integers).
  Value* Float(const Value* value);
  /// The float that these integers stand for.
  Value* Dequantized(const Value* value, Value* integers, const Format& format);
  /// Whatever form exists: for operators that look at the shape only.
  Value* AnyForm(const Value* value);
  /// Tells that the value now exists as integers.
  void SetInteger(const Value* value, Value* integers, const Format& format);
  void SetFloat(const Value* value, Value* made) { forms_[value].real = made; }

  Value* Constant(const std::string& name, Tensor tensor);
  Value* ScaleOf(const Format& format);
  Value* ZeroPointOf(const Format& format);
  /// A fresh value for the integers of `value`, named `<value>_q`.
  Value* NewInteger(const Value* value, const Format& format);
  Value* Quantize(const Value* value, Value* real, const Format& format);
  /// Same real numbers in another format: a table, or through float.
  Value* Requantize(const Value* value, Value* integers, const Format& from, const Format& to);
  /// `integers` through a table into a fresh value `result`.
  void EmitLut(Value* integers, Tensor table, Value* result, std::string node_name);
  /// Adds the node that computes `node` and the activation it absorbs, in the format of its output.
  void EmitCompute(const Node& node, const OperatorQuantization& op, std::string op_type,
                   std::string domain, std::vector<Value*> inputs, AttributeMap attributes = {});
  /// `integers` limited to the format's codes, if its type has more.
  Value* Limited(const Value* value, Value* integers, const Format& format);
  /// In float on the operator's grids, with whatever it computes for others.
  static void LowerSimulated(Lowering& lowering, const Node& node, const OperatorQuantization& op);
  /// A float node as it is, with the given inputs.
  void CopyNode(const Node& node, std::vector<Value*> inputs, std::vector<Value*> outputs);

 private:
  struct Forms {
    Value* real = nullptr;                            // float, or any type that is not quantized
    std::vector<std::pair<Format, Value*>> integers;  // the first is the primary one
  };

  void LowerFloat(const Node& node);
  void EmitSimulated(const Node& node, bool last);
  Value* OnGrid(const std::string& name, Value* real, const TensorQuantizationConfig& config);

  const QuantizedModel& model_;
  LowerOptions options_;
  Graph out_;
  std::map<const Value*, Forms> forms_;
  std::map<const Value*, const TensorQuantizationConfig*> grid_;  // of simulated values
  std::map<std::pair<const Value*, const TensorQuantizationConfig*>, Value*> gridded_;
  /// By integer value of out_, bits of the scale and zero point: two values may have the same
  /// codes.
  std::map<std::tuple<const Value*, uint32_t, int32_t>, Value*> dequantized_;
  std::map<std::pair<uint32_t, int>, Value*> shared_;  // scales and zero points
};

// One function per family; they handle operators with quantized == true that are not absorbed.
/// A layer with float_output, of either kind.
void LowerToFloat(Lowering& lowering, const Node& node, const OperatorQuantization& op);
void LowerConvolution(Lowering& lowering, const Node& node, const OperatorQuantization& op);
void LowerMatrixProduct(Lowering& lowering, const Node& node, const OperatorQuantization& op);
void LowerSum(Lowering& lowering, const Node& node, const OperatorQuantization& op);
void LowerProduct(Lowering& lowering, const Node& node, const OperatorQuantization& op);
void LowerConcat(Lowering& lowering, const Node& node, const OperatorQuantization& op);
void LowerAverage(Lowering& lowering, const Node& node, const OperatorQuantization& op);
void LowerTable(Lowering& lowering, const Node& node, const OperatorQuantization& op);
void LowerPassive(Lowering& lowering, const Node& node, const OperatorQuantization& op);

}  // namespace requant
