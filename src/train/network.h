// Runs the network forward and backward for the samples of a batch. All samples pass one operator
// before the next begins, so that normalization and observers see the whole batch, whatever batch
// dimension the shapes of the model have.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "quant/observers/observer.h"
#include "quant/sim/backward.h"
#include "quant/sim/simulator.h"
#include "train/layer.h"
#include "train/scale_learner.h"

namespace requant {

class TrainNetwork {
 public:
  /// `ends` are the values whose gradients are given. Learning changes the scales of the record.
  TrainNetwork(const Graph& graph, QuantizationRecord& record, const TrainOptions& options,
               const std::vector<const Value*>& ends);

  size_t size() const { return simulator_.nodes().size(); }
  const std::map<const Node*, std::unique_ptr<TrainLayer>>& layers() const { return layers_; }
  /// Layers that no gradient reaches, each with the operator that stops it, by name.
  const std::map<std::string, std::string>& unreached() const { return unreached_; }
  Simulator& simulator() { return simulator_; }
  /// Runs a layer in float on the values of every sample, and adds its outputs to them.
  std::vector<Tensor> FloatOutputs(const Node& layer, std::vector<Values>& samples);

  void Begin(std::vector<Values> samples);
  /// Runs node `at` for all samples. Call it for all nodes in order.
  void Forward(size_t at);
  /// A value of a sample after the forward pass.
  const Tensor& Get(size_t sample, const Value* value) const { return values_[sample].at(value); }
  /// Adds gradients to d loss / d value, by sample; empty ones count as 0.
  void AddGradients(const Value* value, std::vector<Tensor> gradients);
  /// Runs node `at` backward; call it for all nodes in reverse order. Frees what no earlier node
  /// needs.
  void Backward(size_t at);
  /// Discards the batch without learning from it.
  void Drop();
  void Update(double rate);
  void SetMeasuring(bool measuring);
  /// Folds normalizations into weights and biases, and stops observers.
  void Freeze();
  /// Writes or reads what was measured and learned. Call it between batches.
  void Fields(StateBytes& state);
  /// Stores the learned scales as ranges of the record.
  void StoreRanges();

 private:
  struct Entry {
    std::vector<std::vector<Tensor>> inputs;  // as the operator read them, by sample and slot
    std::vector<std::vector<Tensor>> raw;     // before rounding to the grid, by sample and output
  };

  /// The mutable config of the record that the simulator sees as a constant.
  TensorQuantizationConfig& Own(const TensorQuantizationConfig& config);
  void FindLearners(const std::vector<const Value*>& ends);
  void PlanScales();
  void Read(size_t at, Entry& entry);
  std::vector<Tensor> OnGrid(const TensorQuantizationConfig& config, std::vector<Tensor> x);
  std::vector<Tensor> GridBackward(const TensorQuantizationConfig& config,
                                   const std::vector<const Tensor*>& x, std::vector<Tensor> dy);
  void BackwardThrough(size_t at, std::vector<std::vector<Tensor>> dy);

  QuantizationRecord& record_;
  const TrainOptions& options_;
  std::shared_ptr<BatchRunner> runner_;
  Simulator simulator_;
  OperatorGradients gradients_of_;
  std::map<const Node*, std::unique_ptr<TrainLayer>> layers_;
  std::set<const Value*> learning_;  // values that depend on a layer that learns
  std::set<const Node*> reached_;
  std::map<std::string, std::string> unreached_;
  std::map<const TensorQuantizationConfig*, ScaleLearner> scales_;
  std::map<const TensorQuantizationConfig*, std::unique_ptr<Observer>> observers_;
  std::map<const TensorQuantizationConfig*, double> one_bit_;  // averages of FollowOneBit()
  bool frozen_ = false;

  std::vector<Values> values_;
  std::vector<Entry> entries_;  // by node
  std::vector<std::map<const Value*, Tensor>> gradients_;
};

}  // namespace requant
