// Writes the integer graph, node by node, from the float graph and the record. A float value has
// several forms in the new graph, made when first asked for and then shared: float as it was
// computed, 8-bit integers in one or more formats, and floats dequantized from those.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "quant/config/record.h"
#include "quant/lower/lower.h"

namespace requant {

/// The format of per-tensor integers: their type and what they represent.
struct Format {
  DType dtype = DType::kUint8;
  float scale = 1;
  int32_t offset = 0;
  /// The codes in use: fewer than the type has for less than 8 bits.
  int32_t low = 0, high = 255;
  /// Signs, which lowering has made operators of (expand_signs.h); in steps, where 1 begins.
  bool bipolar = false;
  int32_t threshold = 0;
  bool narrow() const;
  bool operator==(const Format& other) const = default;
};

Format FormatOf(const TensorQuantizationConfig& config);

/// Make tables with 256 or 65536 entries, by the bit pattern of `from`: dequantize -> (any
/// function) -> quantize. PatternValues gives the dequantized patterns; `values` are the function's
/// results for them.
Tensor PatternValues(const Format& from);
Tensor TableFrom(const Tensor& values, const Format& to);

class Lowering {
 public:
  Lowering(const QuantizedModel& model, const LowerOptions& options);
  Graph Run();

  // --- used by the operator families
  const Graph& source() const { return model_.float_graph; }
  const QuantizationRecord& record() const { return model_.record; }
  Graph& graph() { return out_; }
  bool use_lut() const { return options_.use_lut; }
  const TensorQuantizationConfig& Own(int index) const {
    return model_.record.configs[static_cast<size_t>(index)];
  }
  Format FormatOfSlot(int index) const { return FormatOf(model_.record.Root(index)); }

  /// The value's integers in that format (for constants, the slot's baked integers).
  Value* Integer(const Value* value, const Format& format);
  Value* IntegerInput(const Node& node, const OperatorQuantization& op, size_t slot);
  /// The value in float, dequantized if it was only computed as integers.
  Value* Float(const Value* value);
  /// The float that these integers represent.
  Value* Dequantized(const Value* value, Value* integers, const Format& format);
  /// Any existing form, for operators that read only the shape.
  Value* AnyForm(const Value* value);
  /// Records that the value now exists as integers.
  void SetInteger(const Value* value, Value* integers, const Format& format);
  void SetFloat(const Value* value, Value* made) { forms_[value].real = made; }

  Value* Constant(const std::string& name, Tensor tensor);
  Value* ScaleOf(const Format& format);
  Value* ZeroPointOf(const Format& format);
  /// Makes a value for the integers of `value`, named `<value>_q`.
  Value* NewInteger(const Value* value, const Format& format);
  Value* Quantize(const Value* value, Value* real, const Format& format);
  /// Converts to another format of the same real numbers: by a table, or through float.
  Value* Requantize(const Value* value, Value* integers, const Format& from, const Format& to);
  /// Maps `integers` through a table to a new value `result`.
  void EmitLut(Value* integers, Tensor table, Value* result, std::string node_name);
  /// Adds the node that computes `node` and the activation it absorbs, in the format of its output.
  void EmitCompute(const Node& node, const OperatorQuantization& op, std::string op_type,
                   std::string domain, std::vector<Value*> inputs, AttributeMap attributes = {});
  /// Whether an input has 16-bit codes (ops/quantized/wide.h).
  static bool HasWide(const std::vector<Value*>& inputs);
  /// Whether a grid of the operator has 16-bit codes.
  bool UsesWide(const OperatorQuantization& op) const;
  /// Limits `integers` to the format's codes, if its type has more.
  Value* Limited(const Value* value, Value* integers, const Format& format);
  /// Computes the operator in float on its grids, with everything that it computes for others.
  static void LowerSimulated(Lowering& lowering, const Node& node, const OperatorQuantization& op);
  /// Copies a float node unchanged, with the given inputs and outputs.
  Node* CopyNode(const Node& node, std::vector<Value*> inputs, std::vector<Value*> outputs);

 private:
  struct Forms {
    Value* real = nullptr;                            // float, or any type that is not quantized
    std::vector<std::pair<Format, Value*>> integers;  // the first one is the primary form
  };

  void LowerFloat(const Node& node);
  Value* Parameter(const std::string& name, const TensorQuantizationConfig& config);
  void EmitSimulated(const Node& node, bool last);
  Value* OnGrid(const std::string& name, Value* real, const TensorQuantizationConfig& config);

  const QuantizedModel& model_;
  LowerOptions options_;
  Graph out_;
  std::map<const Value*, Forms> forms_;
  std::map<const Value*, const TensorQuantizationConfig*> grid_;  // grids of simulated values
  std::map<std::pair<const Value*, const TensorQuantizationConfig*>, Value*> gridded_;
  /// Indexed by integer value of out_ and the bits of scale and zero point, since two values may
  /// have the same codes.
  std::map<std::tuple<const Value*, uint32_t, int32_t>, Value*> dequantized_;
  std::map<std::pair<uint32_t, int>, Value*> shared_;  // scales and zero points
};

// One function for each family of operators; it handles operators that are quantized and not
// absorbed.
/// Lowers a layer with float_output, of either kind.
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
