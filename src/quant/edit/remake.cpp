#include "quant/edit/remake.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/grid/weight_matrix.h"
#include "quant/lower/expand_signs.h"
#include "quant/lower/simulated.h"
#include "quant/weights/weights.h"

namespace requant {
namespace {

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

class Remaker {
 public:
  Remaker(QuantizedModel& model, const QuantizationRecord& before, const std::set<int>& changed)
      : graph_(model.float_graph), record_(model.record), before_(before), changed_(changed) {}

  void Run() {
    for (const auto& node : graph_.nodes()) {
      const OperatorQuantization* op = record_.Find(node->name);
      if (op == nullptr || !op->quantized) continue;
      if (WeightSlot(*node, op->rule) >= 0) {
        RemakeLayer(*node, *op);
      } else {
        RemakeOperands(*node, *op);
      }
    }
    BakePassive(graph_, record_);
    if (!rounded_.empty()) {
      record_.warnings.push_back(StrCat(
          "the weights of ", rounded_, " are rounded to the nearest: what recovery chose is lost"));
    }
    for (const auto& node : graph_.nodes()) {
      const auto found = record_.operators.find(node->name);
      if (found != record_.operators.end()) found->second.simulated = false;
    }
    MarkSimulated(graph_, record_);
    FindSigns(record_);
    record_.analysis.clear();  // it describes the model before
  }

 private:
  TensorQuantizationConfig& Config(int index) {
    return record_.configs[static_cast<size_t>(index)];
  }
  const TensorQuantizationConfig& Before(int index) const {
    return before_.configs[static_cast<size_t>(index)];
  }

  void RemakeLayer(const Node& node, const OperatorQuantization& op) {
    const int weight = op.inputs[static_cast<size_t>(WeightSlot(node, op.rule))];
    const int input = record_.RootIndex(op.inputs[0]);
    const bool new_weights = changed_.contains(weight);
    if (!new_weights && !changed_.contains(input)) return;
    if (Before(input).threshold != 0 || Config(input).threshold != 0) {
      Fail(ErrorCode::kInvalidQuantization,
           StrCat("the bias of '", node.name, "' makes up for signs that are never negative"),
           {.node = node.name, .hint = "quantize the model again"});
    }
    const int slot = BiasSlot(node, op.rule);
    const int bias = slot < 0 ? -1 : op.inputs[static_cast<size_t>(slot)];
    const std::vector<double> real =
        slot < 0 || bias < 0 ? std::vector<double>() : RealBias(node, op, slot, bias, new_weights);
    TensorQuantizationConfig& weights = Config(weight);
    if (new_weights) {
      const Tensor& values = node.inputs[static_cast<size_t>(WeightSlot(node, op.rule))]->constant;
      const TensorQuantizationConfig& old = Before(weight);
      if (!SameBytes(QuantizeParameter(values, old), old.baked)) {
        rounded_ += StrCat(rounded_.empty() ? "'" : ", '", node.name, "'");
      }
      if (weights.scale.empty()) FindScale(node, op, input, real, weights);
      weights.baked = QuantizeParameter(values, weights);
    }
    if (bias < 0 || real.empty()) return;
    TensorQuantizationConfig& own = Config(bias);
    own.state = QuantizationState::kPassiveInit;  // its scale is computed again, if it gets one
    own.scale.clear();
    own.offset.clear();
    const TensorQuantizationConfig& data = Config(input);
    BakeBias(real, data.exotic_activation() ? std::vector<float>() : data.scale, weights, own);
  }

  /// The bias as real numbers: the model's, unless the integers are others than follow from it.
  std::vector<double> RealBias(const Node& node, const OperatorQuantization& op, int slot,
                               int index, bool new_weights) {
    const TensorQuantizationConfig& config = Before(index);
    const auto rows = ViewWeights(node, op.rule).rows;
    std::vector<double> model = ReadBias(node.constant(static_cast<size_t>(slot)), rows);
    if (config.baked.empty()) return model;
    // Corrections suit the integers of the weights, which are rounded anew.
    if (new_weights && !model.empty()) return model;
    std::vector<double> stored;
    if (config.scale.empty()) {  // it is added in float
      stored = config.baked.ToDoubles();
    } else {
      for (int64_t row = 0; row < config.baked.count(); ++row) {
        stored.push_back(static_cast<double>(config.baked.AsInt64(row)) * config.ScaleOfRow(row));
      }
    }
    if (new_weights) return std::vector<double>(stored.size(), 0.0);
    for (size_t row = 0; row < stored.size(); ++row) {
      const double unit = config.scale.empty() ? 0 : config.ScaleOfRow(static_cast<int64_t>(row));
      const double given = row < model.size() ? model[row] : 0;
      if (std::fabs(given - stored[row]) > 0.51 * unit + 1e-7 * std::fabs(given)) return stored;
    }
    return model.empty() ? stored : model;
  }

  void FindScale(const Node& node, const OperatorQuantization& op, int input,
                 const std::vector<double>& bias, TensorQuantizationConfig& weights) {
    const TensorQuantizationConfig& data = Config(input);
    const bool wide = data.wide() || (!op.float_output && record_.Root(op.outputs[0]).wide());
    const bool in_float =
        op.float_output || wide || data.exotic_activation() || weights.exotic_weight();
    const double output = in_float ? 0 : static_cast<double>(record_.Root(op.outputs[0]).scale[0]);
    const Tensor& values = node.inputs[static_cast<size_t>(WeightSlot(node, op.rule))]->constant;
    ScaleWeights(values, ViewWeights(node, op.rule), static_cast<double>(data.scale[0]), output,
                 in_float ? std::vector<double>() : bias, weights);
  }

  /// Constant operands have grids of their own, or follow the data (BakePassive).
  void RemakeOperands(const Node& node, const OperatorQuantization& op) {
    for (size_t slot = 0; slot < op.inputs.size(); ++slot) {
      const Tensor* constant = node.constant(slot);
      if (op.inputs[slot] < 0 || constant == nullptr) continue;
      TensorQuantizationConfig& config = Config(op.inputs[slot]);
      if (changed_.contains(op.inputs[slot])) config.baked = QuantizeParameter(*constant, config);
      if (config.state == QuantizationState::kPassiveBaked ||
          config.state == QuantizationState::kPassive) {
        config.state = QuantizationState::kPassiveInit;
      }
    }
  }

  Graph& graph_;
  QuantizationRecord& record_;
  const QuantizationRecord& before_;
  const std::set<int>& changed_;
  std::string rounded_;
};

}  // namespace

void RemakeIntegers(QuantizedModel& model, const QuantizationRecord& before,
                    const std::set<int>& changed) {
  Remaker(model, before, changed).Run();
}

}  // namespace requant
