// Writes the float graph with every quantized value and parameter on its grid, whatever the format
// expresses grids with: Q/DQ pairs (to_qdq.cpp) or Quant nodes (to_qonnx.cpp).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/quantized/qonnx.h"
#include "quant/lower/lowering.h"

namespace requant {

/// The codes of a parameter as the metadata `requant.codes` has them behind its name: the least and
/// the greatest one; for -1 and 1 without 0 in reverse.
std::string CodesText(const TensorQuantizationConfig& config, int64_t shift = 0);

/// Whether the graph quantizes to 16 bits, for which QuantizeLinear needs opset 21.
bool WritesWideCodes(const Graph& graph);

/// Throws kUnsupported for an operator whose grid no integer operator has.
void RefuseSimulated(const Graph& graph, const QuantizationRecord& record, const char* format);

class GridWriter {
 public:
  explicit GridWriter(const QuantizedModel& model)
      : graph_(model.float_graph), record_(model.record) {}
  virtual ~GridWriter() = default;
  GridWriter(const GridWriter&) = delete;
  GridWriter& operator=(const GridWriter&) = delete;

  Graph Run();

 protected:
  /// Sets opsets, and refuses what the format cannot express.
  virtual void Begin() = 0;
  /// Puts `real` on its grid, as a new value named `result`.
  virtual Value* Grid(const Value* value, Value* real, const Format& format,
                      std::string result) = 0;
  /// Makes a value of the parameter's numbers, from its integers.
  virtual Value* Parameter(const std::string& name, const TensorQuantizationConfig& config) = 0;

  const Graph& graph_;
  const QuantizationRecord& record_;
  Graph out_;

 private:
  const TensorQuantizationConfig& Own(int index) const {
    return record_.configs[static_cast<size_t>(index)];
  }
  Format FormatOfSlot(int index) const { return FormatOf(record_.Root(index)); }
  Format ProducerFormat(const Value* value) const;
  Value* Raw(const Value* value);
  Value* ReadFloat(const Value* value);
  Value* ReadOnGrid(const Value* value, const Format& format);
  Value* ReadSlot(const Node& node, const OperatorQuantization& op, size_t slot);
  bool InTable(const Node& node, const OperatorQuantization& op) const;
  void Write(const Node& node);

  std::map<const Value*, Value*> raw_;
  std::map<const Value*, std::vector<std::pair<Format, Value*>>> gridded_;
};

}  // namespace requant
