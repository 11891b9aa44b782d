// The quantizer's decisions for every operator slot. Lowering and the exporters read only this and
// the float graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/op.h"
#include "quant/config/tensor_quantization_config.h"

namespace requant {

class Lowering;

/// The reason of an operator that the options keep in float.
inline constexpr const char* kKeptByOptions = "the options keep it in float";

struct OperatorQuantization {
  std::string op_type;
  QuantRule rule = QuantRule::kFloat;
  bool quantized = false;
  /// Quantized on a grid that no integer operator has: computed in float on that grid.
  bool simulated = false;
  /// Lowers a simulated operator (lower/simulated.cpp, which files never need).
  void (*lower_simulated)(Lowering&, const Node&, const OperatorQuantization&) = nullptr;
  /// Lowers an operator that only the quantizer chooses, in place of its rule's function
  /// (lower/normalization.h).
  void (*lower_own)(Lowering&, const Node&, const OperatorQuantization&) = nullptr;
  /// A layer that writes its accumulators as floats: only float operators or the network's outputs
  /// read them.
  bool float_output = false;
  /// The reason why it stays float; empty for quantized operators.
  std::string reason;
  /// The config index of each slot; -1 where a slot has none.
  std::vector<int> inputs;
  std::vector<int> outputs;
  /// The Relu or Clip that this operator computes as well (its own output slot is OVERLAPPED).
  std::string activation;
  /// The operator that computes this one; empty if it computes itself.
  std::string absorbed_by;
  /// For the last operator of a table region (elementwise functions of one 8-bit value): all
  /// operators of the region in order, this one last, and the value that they are a function of.
  std::vector<std::string> table;
  std::string table_input;
  int table_config = -1;  // config of that value
};

/// The gain of one recovery method: signal to noise ratios before and after it. For methods that
/// learn they are those of the network's outputs on the kept samples; for others `detail` says of
/// what.
struct RecoveryStep {
  std::string method;
  double before_db = 0, after_db = 0;
  std::string detail;
};

/// An operator in a body of If, Loop or Scan.
struct BodyOperator {
  std::string name;  // behind the names of the nodes and bodies around it
  std::string op_type, reason;
  /// Whether it has 8-bit weights and quantizes its activations at run time.
  bool quantized = false;
};

struct QuantizedModel;

struct QuantizationRecord {
  /// Set where activations are bipolar: makes operators of their signs (lower/expand_signs.h).
  QuantizedModel (*expand_signs)(const QuantizedModel&) = nullptr;
  std::vector<TensorQuantizationConfig> configs;
  std::map<std::string, OperatorQuantization> operators;  // indexed by node name
  std::vector<BodyOperator> in_bodies;
  std::vector<std::string> warnings;
  std::vector<RecoveryStep> recovery;
  std::string analysis;  // JSON (quant/analyze.h); empty unless asked for

  /// The config that decides for config `index`: the end of its chain of dominators.
  int RootIndex(int index) const;
  const TensorQuantizationConfig& Root(int index) const {
    return configs[static_cast<size_t>(RootIndex(index))];
  }
  const OperatorQuantization* Find(const std::string& node) const {
    const auto found = operators.find(node);
    return found == operators.end() ? nullptr : &found->second;
  }
};

/// The record as JSON: {"operators": [{name, type, quantized, reason?, inputs: [...], outputs:
/// [...]}], "warnings": [...]}, with one object per slot that has policy, bits, range, scale,
/// offset, state.
std::string RecordToJson(const QuantizationRecord& record);

}  // namespace requant
