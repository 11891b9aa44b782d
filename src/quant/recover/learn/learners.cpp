#include "quant/recover/learn/learners.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <vector>

#include "quant/assign/assign.h"
#include "quant/recover/learn/soft_rounding.h"
#include "quant/sim/adam.h"

namespace requant {
namespace {

/// Learning ends gently.
float Decay(double at) { return static_cast<float>(0.5 * (1 + std::cos(M_PI * at))); }

class RoundingLearner : public BlockLearner {
 public:
  explicit RoundingLearner(const Lesson& lesson) : lesson_(lesson) {}

  void Begin(const Block& block) override {
    layers_.clear();
    for (const Node* node : block.layers) {
      const OperatorQuantization& op = lesson_.context.record.operators.at(node->name);
      TensorQuantizationConfig& config = lesson_.context.record.configs[static_cast<size_t>(
          op.inputs[static_cast<size_t>(WeightSlot(*node, op.rule))])];
      if (!config.exotic_weight()) layers_.push_back(Start(*node, op, config));
    }
  }

  void Apply(bool hard) override {
    for (const Layer& layer : layers_) {
      if (layer.rounding.empty()) continue;
      layer.rounding.Weights(hard, lesson_.tape.layers.at(layer.node).weights);
    }
  }

  void Update(double at) override {
    // The loss starts at 1; the share of one weight is about 1 / weights.
    size_t weights = 1;
    for (const Layer& layer : layers_) weights += layer.rounding.count();
    const double warm = 0.2;
    const double beta =
        at < warm ? 0 : 2 + 18 * 0.5 * (1 + std::cos(M_PI * (at - warm) / (1 - warm)));
    const float push = at < warm ? 0 : 0.3f / static_cast<float>(weights);
    for (Layer& layer : layers_) {
      if (layer.rounding.empty()) continue;
      layer.rounding.Update(lesson_.tape.layers.at(layer.node).weight_gradient, push, beta);
    }
  }

  void Keep() override {
    for (const Layer& layer : layers_) {
      if (layer.rounding.empty()) continue;
      Tensor integers(layer.config->baked.dtype(), layer.config->baked.shape());
      auto* to = static_cast<uint8_t*>(integers.raw());  // of int8 or uint8
      for (size_t i = 0; i < layer.rounding.count(); ++i) {
        to[i] = static_cast<uint8_t>(static_cast<int32_t>(layer.rounding.Integer(i)));
      }
      layer.config->baked = std::move(integers);
    }
  }

 private:
  struct Layer {
    const Node* node;
    TensorQuantizationConfig* config;
    SoftRounding rounding;
  };

  static Layer Start(const Node& node, const OperatorQuantization& op,
                     TensorQuantizationConfig& config) {
    const WeightMatrix view = ViewWeights(node, op.rule);
    const Tensor& weights = node.inputs[1]->constant;
    const float* data = weights.data<float>();
    Layer layer{&node, &config, SoftRounding(static_cast<size_t>(weights.count()), config)};
    for (int64_t row = 0; row < view.rows; ++row) {
      const auto scale = static_cast<float>(config.ScaleOfRow(row));
      const auto offset = static_cast<float>(config.OffsetOfRow(row));
      for (int64_t column = 0; column < view.k; ++column) {
        const int64_t at = view.At(row, column);
        layer.rounding.Start(static_cast<size_t>(at), data[at] / scale,
                             static_cast<float>(config.baked.AsInt64(at)), scale, offset);
      }
    }
    return layer;
  }

  Lesson lesson_;
  std::vector<Layer> layers_;
};

class BiasLearner : public BlockLearner {
 public:
  explicit BiasLearner(const Lesson& lesson) : lesson_(lesson) {}

  void Begin(const Block& block) override {
    layers_.clear();
    for (const Node* node : block.layers) {
      Layer layer;
      layer.node = node;
      layer.bias = lesson_.simulator.Layer(node)->bias;
      layers_.push_back(std::move(layer));
    }
  }

  void Apply(bool) override {
    for (const Layer& layer : layers_) lesson_.tape.layers.at(layer.node).bias = layer.bias;
  }

  void Update(double at) override {
    for (Layer& layer : layers_) {
      if (layer.bias.empty()) continue;
      if (layer.rate == 0) {
        // A thousandth of a typical bias or output.
        double sum = 1e-12;
        for (const float b : layer.bias) sum += static_cast<double>(b * b);
        layer.rate =
            static_cast<float>(1e-3 * std::sqrt(sum / static_cast<double>(layer.bias.size())));
      }
      layer.adam.Update(layer.bias, lesson_.tape.layers.at(layer.node).bias_gradient,
                        layer.rate * Decay(at));
    }
  }

  void Keep() override {
    for (const Layer& layer : layers_) {
      std::vector<double>& bias = lesson_.context.biases.at(layer.node->name);
      bias.assign(layer.bias.begin(), layer.bias.end());
      lesson_.simulator.SetWeights(layer.node, &bias);
    }
  }

 private:
  struct Layer {
    const Node* node = nullptr;
    std::vector<float> bias;
    Adam adam;
    float rate = 0;
  };

  Lesson lesson_;
  std::vector<Layer> layers_;
};

class StepLearner : public BlockLearner {
 public:
  explicit StepLearner(const Lesson& lesson) : lesson_(lesson) {}

  void Begin(const Block& block) override {
    steps_.clear();
    lesson_.tape.steps.clear();
    ForEachWrite(block, [this](const TensorQuantizationConfig* config) {
      if (config == nullptr || config->scale.size() != 1 || lesson_.tape.steps.contains(config) ||
          settled_.contains(config) || (config->policy & kPowerOf2) != 0 ||
          config->observer == "given") {
        return;
      }
      Step step;
      step.config = const_cast<TensorQuantizationConfig*>(config);
      step.start = config->scale[0];
      lesson_.tape.steps[config] = 0;
      steps_.push_back(std::move(step));
    });
  }

  void Apply(bool) override {}  // the configs themselves change

  void Update(double at) override {
    for (Step& step : steps_) {
      const auto slope = static_cast<float>(lesson_.tape.steps.at(step.config));
      step.adam.Update(step.log_step, {slope}, 4e-3f * Decay(at));
      step.config->scale[0] = step.start * std::exp(std::clamp(step.log_step[0], -1.5f, 1.5f));
    }
  }

  void Keep() override {}

  void Undo() override {
    for (const Step& step : steps_) step.config->scale[0] = step.start;
  }

  /// A later block that shares a step finds it settled.
  void Leave(const Block& block) override {
    ForEachWrite(block,
                 [this](const TensorQuantizationConfig* config) { settled_.insert(config); });
  }

 private:
  struct Step {
    TensorQuantizationConfig* config = nullptr;
    float start = 1;
    std::vector<float> log_step = {0};
    Adam adam;
  };

  template <typename Body>
  void ForEachWrite(const Block& block, Body body) {
    for (size_t at = block.begin; at < block.end; ++at) {
      const Node& node = *lesson_.simulator.nodes()[at];
      for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
        if (node.outputs[slot]) body(lesson_.simulator.WriteConfig(node, slot));
      }
    }
  }

  Lesson lesson_;
  std::vector<Step> steps_;
  std::set<const TensorQuantizationConfig*> settled_;
};

}  // namespace

std::unique_ptr<BlockLearner> LearnRounding(const Lesson& lesson) {
  return std::make_unique<RoundingLearner>(lesson);
}
std::unique_ptr<BlockLearner> LearnBiases(const Lesson& lesson) {
  return std::make_unique<BiasLearner>(lesson);
}
std::unique_ptr<BlockLearner> LearnSteps(const Lesson& lesson) {
  return std::make_unique<StepLearner>(lesson);
}

}  // namespace requant
