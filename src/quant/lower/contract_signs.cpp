// Finds the operators of signs in the quantized model of a file (expand_signs.cpp has the form),
// and makes bipolar activations of them.
#include <cmath>
#include <string>
#include <vector>

#include "numeric/sign_steps.h"
#include "quant/assign/assign.h"
#include "quant/assign/joint.h"
#include "quant/lower/expand_signs.h"

namespace requant {
namespace {

/// The number of a constant scalar that an operator of two values reads second.
bool ReadScalar(const Node& node, float& number) {
  const Tensor* constant = node.constant(1);
  if (constant == nullptr || constant->count() != 1 || constant->dtype() != DType::kFloat32) {
    return false;
  }
  number = constant->data<float>()[0];
  return true;
}

bool IsNear(float a, float b) { return std::fabs(a - b) <= 1e-5F * std::fabs(b); }

class SignContractor {
 public:
  explicit SignContractor(QuantizedModel& model) : model_(model) {}

  void Run() {
    std::vector<std::string> names;
    for (const auto& [name, op] : model_.record.operators) {
      if (op.quantized && !op.simulated && op.op_type == "Add" && !op.table.empty()) {
        names.push_back(name);
      }
    }
    for (const std::string& name : names) Contract(name);
    model_.float_graph.RemoveUnusedValues();
    FindSigns(model_.record);
  }

 private:
  TensorQuantizationConfig& Config(int index) {
    return model_.record.configs[static_cast<size_t>(index)];
  }

  /// The threshold of the signs that the region makes of `source`; -1 if it does not make signs.
  int32_t ThresholdOf(const OperatorQuantization& op, const TensorQuantizationConfig& source,
                      const TensorQuantizationConfig& signs) const {
    float by = 0;
    float added = 0;
    if (op.table.size() != 2) return -1;
    const Node& factor = *model_.float_graph.FindNode(op.table[0]);
    const Node& shift = *model_.float_graph.FindNode(op.table[1]);
    if (!factor.Is(Op::kMul) || !ReadScalar(factor, by) || !ReadScalar(shift, added) ||
        source.bits != 1 || source.scale.size() != 1 || source.quant_min != -1 ||
        source.quant_max != 0 || signs.scale.size() != 1 || signs.offset[0] != 0 ||
        signs.dtype != DType::kInt8) {
      return -1;
    }
    for (const int32_t threshold : {0, 1}) {
      const SignSteps steps = StepsOfSigns(signs.scale[0], threshold);
      if (IsNear(source.scale[0], steps.step) && IsNear(by, steps.factor) &&
          IsNear(added, steps.shift) && source.offset[0] == steps.zero_point) {
        return threshold;
      }
    }
    return -1;
  }

  /// Makes a config bipolar, with the scale of the file's signs.
  void MakeBipolar(TensorQuantizationConfig& config, const TensorQuantizationConfig& signs,
                   int32_t threshold) const {
    const auto scale = static_cast<double>(signs.scale[0]);
    config.policy = kPerTensor | kLinear | kSymmetrical;
    config.bits = 1;
    config.quant_min = -1;
    config.quant_max = 1;
    config.dtype = signs.dtype;
    config.scale = signs.scale;
    config.offset = signs.offset;
    config.threshold = threshold;
    config.range_min = (threshold - 1) * scale;
    config.range_max = (threshold + 1) * scale;
  }

  /// Joins the slots that read the value on the grid `signs` to `root`, and those behind operators
  /// that move it. Without a root the first one becomes it.
  void Join(const Value* value, const TensorQuantizationConfig& signs, int32_t threshold,
            int& root) {
    const auto join = [&](int index) {
      if (index < 0 || !IsQuantizing(Config(index).state) || !Config(index).baked.empty()) {
        return false;
      }
      const int own = model_.record.RootIndex(index);
      if (own == root || !SameGrid(Config(own), signs)) return false;
      if (root < 0) {
        root = index;
        Config(index).dominator = -1;
        Config(index).state = QuantizationState::kActivated;
        MakeBipolar(Config(index), signs, threshold);
      } else {
        Follow(index, root);
      }
      return true;
    };
    for (const Node* reader : value->consumers) {
      const OperatorQuantization* op = model_.record.Find(reader->name);
      if (op == nullptr || !op->quantized) continue;
      bool joined = false;
      for (size_t slot = 0; slot < op->inputs.size(); ++slot) {
        if (reader->input(slot) == value) joined = join(op->inputs[slot]) || joined;
      }
      const bool moves = op->rule == QuantRule::kPassive && op->absorbed_by.empty();
      if (!joined || !moves) continue;
      for (size_t slot = 0; slot < op->outputs.size(); ++slot) {
        if (join(op->outputs[slot])) Join(reader->outputs[slot], signs, threshold, root);
      }
    }
  }

  static bool SameGrid(const TensorQuantizationConfig& a, const TensorQuantizationConfig& b) {
    return a.dtype == b.dtype && a.scale == b.scale && a.offset == b.offset;
  }

  void Contract(const std::string& name) {
    QuantizationRecord& record = model_.record;
    Graph& graph = model_.float_graph;
    const OperatorQuantization op = record.operators.at(name);
    if (op.table_config < 0) return;
    const TensorQuantizationConfig source = record.Root(op.table_config);
    const TensorQuantizationConfig signs = record.Root(op.outputs[0]);
    const int32_t threshold = ThresholdOf(op, source, signs);
    Value* value = graph.FindValue(op.table_input);
    Value* result = graph.FindNode(name)->outputs[0];
    if (threshold < 0 || value == nullptr || graph.IsOutput(value)) return;
    const int written = IsMaterialized(record, value) ? OutputConfig(record, value) : -1;
    const bool made = written >= 0 && SameGrid(record.Root(written), source) &&
                      record.Root(written).bits == 1 && value->consumers.size() == 1;
    // A value that is written on another grid keeps that grid, and a graph output would lose its
    // name.
    if (!made && graph.IsOutput(result)) return;
    int root = -1;
    if (made) {
      root = record.RootIndex(written);
      MakeBipolar(Config(root), signs, threshold);
    }
    const std::string old = result->name;
    Join(result, signs, threshold, root);
    if (graph.IsOutput(result)) {
      graph.ReplaceAndKeepName(result, value);
    } else {
      graph.ReplaceAllUses(result, value);
    }
    for (size_t i = op.table.size(); i-- > 0;) {
      graph.EraseNode(graph.FindNode(op.table[i]));
      record.operators.erase(op.table[i]);
    }
    for (auto& [other, region] : record.operators) {
      if (region.table_input == old) region.table_input = value->name;
    }
  }

  void Follow(int index, int root) {
    Config(index).dominator = root;
    Config(index).state = QuantizationState::kOverlapped;
  }

  QuantizedModel& model_;
};

}  // namespace

void ContractSigns(QuantizedModel& model) { SignContractor(model).Run(); }

}  // namespace requant
