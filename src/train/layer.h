// A layer with weights while it is trained.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "quant/record.h"
#include "quant/sim/layer.h"
#include "train/batch_norm.h"
#include "train/optimizer.h"
#include "train/scale_learner.h"

namespace requant {

class TrainLayer {
 public:
  /// Starts with the integers of the record, and what recovery made of the bias. `weight_config`:
  /// nullptr where the weights stay in float; `bias_config`: nullptr where there is none.
  TrainLayer(const Node& node, const OperatorQuantization& op,
             TensorQuantizationConfig* weight_config, const TensorQuantizationConfig* bias_config,
             const TrainOptions& options);

  /// Before anything is learned, with the float layer's outputs for every batch that is measured.
  void Measure(std::span<const Tensor> float_outputs);
  /// Before anything is learned, and before Fold(): the weights stay, statistics settle.
  void SetMeasuring(bool measuring);
  /// Folds the normalization away: from now on the layer has weights and a bias.
  void Fold();

  /// The grid for this step's weights, and the weights on it.
  void Begin();
  /// By sample.
  std::vector<Tensor> Forward(std::span<const Tensor> x);
  /// `x` as in Forward(). Adds to the gradients; d loss / d x if wanted.
  std::vector<Tensor> Backward(std::span<const Tensor> x, std::span<const Tensor> dy,
                               bool x_wanted);
  void Update(double rate);

  /// What is deployed, before its grid. Only after Fold().
  const std::vector<float>& weights() const { return weights_; }
  const std::vector<float>& bias() const { return bias_; }

 private:
  void StartFrom(const TensorQuantizationConfig* bias_config);
  float Factor(int64_t row) const;
  bool GridFollows() const;
  void PlaceGrid();
  void ObserveWeights();
  void QuantizeWeights();
  void SetSizes();
  void WeightsBackward();

  const TrainOptions& options_;
  const Tensor& model_weights_;
  TensorQuantizationConfig* config_;
  LayerMath math_;
  bool wants_norm_;
  // What relative rates are of: a step of the weights' grid, the deviation of the outputs, and of
  // both the share that a step is of the weights' root mean square.
  double weight_step_ = 1, output_size_ = 1, fineness_ = 1;
  std::vector<float> weights_, bias_;
  std::optional<BatchNorm> norm_;
  std::vector<Tensor> plain_;  // outputs before the normalization
  std::vector<float> folded_;  // W'
  std::vector<float> used_;    // W' on its grid
  std::vector<float> weight_gradient_, bias_gradient_;
  std::optional<ScaleLearner> scales_;
  std::vector<float> kept_scale_;  // where it is not learned
  Optimizer weight_optimizer_, bias_optimizer_, gamma_optimizer_;
};

}  // namespace requant
