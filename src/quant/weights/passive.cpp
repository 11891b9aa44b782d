// Sets the scales of parameters that follow other scales.
#include <algorithm>
#include <cmath>

#include "quant/grid/affine.h"
#include "quant/weights/weights.h"

namespace requant {

void BakeBias(const std::vector<double>& bias, const std::vector<float>& input_scale,
              const TensorQuantizationConfig& weights, TensorQuantizationConfig& config) {
  if (bias.empty()) {
    Transit(config.state, QuantizationState::kFp32, config.node);
    return;
  }
  const auto rows = static_cast<int64_t>(bias.size());
  if (input_scale.size() != 1 || weights.exotic_weight()) {
    config.baked = Tensor(DType::kFloat32, {rows});
    for (int64_t row = 0; row < rows; ++row) {
      config.baked.data<float>()[row] = static_cast<float>(bias[static_cast<size_t>(row)]);
    }
    Transit(config.state, QuantizationState::kFp32, config.node);
    return;
  }
  config.policy = kLinear | kSymmetrical | (weights.scale.size() > 1 ? kPerChannel : kPerTensor);
  config.scale.clear();
  // The groups of a ConvTranspose may share their scales.
  const size_t scales = weights.scale.size();
  for (size_t row = 0; row < (scales > 1 ? bias.size() : 1); ++row) {
    config.scale.push_back(input_scale[0] * weights.scale[row % scales]);
  }
  config.offset.assign(config.scale.size(), 0);
  config.baked = Tensor(DType::kInt32, {rows});
  for (int64_t row = 0; row < rows; ++row) {
    const float scale = weights.scale[static_cast<size_t>(row) % scales];
    const double unit = static_cast<double>(input_scale[0]) * static_cast<double>(scale);
    const double integer = std::nearbyint(bias[static_cast<size_t>(row)] / unit);
    config.baked.data<int32_t>()[row] =
        static_cast<int32_t>(std::clamp(integer, -2147483648.0, 2147483647.0));
  }
  Transit(config.state, QuantizationState::kPassive, config.node);
  Transit(config.state, QuantizationState::kPassiveBaked, config.node);
}

void BakePassive(const Graph& graph, QuantizationRecord& record) {
  for (const auto& node : graph.nodes()) {
    const OperatorQuantization* op = record.Find(node->name);
    if (op == nullptr || !op->quantized) continue;
    for (size_t slot = 0; slot < op->inputs.size(); ++slot) {
      const int index = op->inputs[slot];
      const Tensor* constant = node->constant(slot);
      if (index < 0 || constant == nullptr || constant->dtype() != DType::kFloat32) continue;
      TensorQuantizationConfig& config = record.configs[static_cast<size_t>(index)];
      const bool concat = op->rule == QuantRule::kConcat;
      const bool moved = op->rule == QuantRule::kPassive;
      const bool waiting = config.state == QuantizationState::kPassiveInit;
      if (!waiting && !(concat && config.state == QuantizationState::kOverlapped)) continue;
      if (!concat && !moved) {
        // Tables use the bounds of a Clip and other scalars in float.
        Transit(config.state,
                op->op_type == "Clip" ? QuantizationState::kPassive : QuantizationState::kFp32);
        if (op->op_type != "Clip") continue;
      }
      const TensorQuantizationConfig& leader =
          record.Root(concat || !op->absorbed_by.empty() ? op->outputs[0] : op->inputs[0]);
      config.policy = leader.policy;
      config.bits = leader.bits;
      config.dtype = leader.dtype;
      config.quant_min = leader.quant_min;
      config.quant_max = leader.quant_max;
      config.scale = leader.scale;
      config.offset = leader.offset;
      if (!concat && !moved) continue;
      config.baked = QuantizeParameter(*constant, config);
      if (waiting) {
        Transit(config.state, QuantizationState::kPassive, node->name);
        Transit(config.state, QuantizationState::kPassiveBaked, node->name);
      }
    }
  }
}

}  // namespace requant
