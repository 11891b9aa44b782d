// A layer with weights during training.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "quant/config/record.h"
#include "quant/sim/layer.h"
#include "train/batch_norm.h"
#include "train/optimizer.h"
#include "train/scale_learner.h"

namespace requant {

class TrainLayer {
 public:
  /// Starts with the integers of the record and the bias as recovery corrected it. `weight_config`
  /// is nullptr if the weights stay float, `bias_config` if there is no bias.
  TrainLayer(const Node& node, const OperatorQuantization& op,
             TensorQuantizationConfig* weight_config, const TensorQuantizationConfig* bias_config,
             const TrainOptions& options, std::shared_ptr<BatchRunner> runner = nullptr);

  /// Takes the float layer's outputs for a measured batch. Call it before training.
  void Measure(std::span<const Tensor> float_outputs);
  /// Measuring batches update the statistics only, not the weights. Call it before training, and
  /// before Fold().
  void SetMeasuring(bool measuring);
  /// Folds the normalization into weights and bias.
  void Fold();

  /// Computes the grid of this step and the weights on it.
  void Begin();
  /// The outputs, by sample.
  std::vector<Tensor> Forward(std::span<const Tensor> x);
  /// `x` as in Forward(). Adds to the gradients of the parameters; returns d loss / d x if wanted.
  std::vector<Tensor> Backward(std::span<const Tensor> x, std::span<const Tensor> dy,
                               bool x_wanted);
  void Update(double rate);
  /// Writes or reads what was measured and learned. Call it between batches.
  void Fields(StateBytes& state);

  /// The weights and bias before rounding; those that are deployed after Fold().
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
  void GridBackward();
  void FactorBackward();
  bool FoldsByBatch() const { return norm_ && options_.fold == TrainFold::kBatch; }
  /// Folds the weights, and computes the grid of this step and the weights on it.
  void PlaceWeights();
  /// Passes gradients through the batch's statistics; `dy` as in Backward(). Adds to `dx`, if any.
  void StatisticsBackward(std::span<const Tensor> x, std::span<const Tensor> dy,
                          std::vector<Tensor>& dx, bool x_wanted);

  const TrainOptions& options_;
  const Tensor& model_weights_;
  TensorQuantizationConfig* config_;
  std::shared_ptr<BatchRunner> runner_;
  LayerMath math_;
  bool wants_norm_;
  // The sizes to which rates are relative: the step of the weights' grid, the deviation of the
  // outputs, and (for both) the ratio of the step to the weights' root mean square.
  double weight_step_ = 1, output_size_ = 1, fineness_ = 1;
  std::vector<float> weights_, bias_;
  std::optional<BatchNorm> norm_;
  std::vector<Tensor> plain_;  // outputs before the normalization; by the batch: of float weights
  std::vector<float> folded_;  // W'
  std::vector<float> used_;    // W' on its grid
  std::vector<float> weight_gradient_, bias_gradient_;
  std::optional<ScaleLearner> scales_;
  std::vector<float> kept_scale_;  // the scale, if it is not learned
  Optimizer weight_optimizer_, bias_optimizer_, gamma_optimizer_;
};

}  // namespace requant
