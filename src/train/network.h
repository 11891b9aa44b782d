// The network forward and backward, for the samples of a batch, one operator at a time: all samples
// go through an operator before the next begins, so that what depends on the batch (normalization,
// observers) has all of it, whatever batch the model's own shapes have.
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
  /// `ends`: the values whose gradients are given. The record's scales change while it learns.
  TrainNetwork(const Graph& graph, QuantizationRecord& record, const TrainOptions& options,
               const std::vector<const Value*>& ends);

  size_t size() const { return simulator_.nodes().size(); }
  const std::map<const Node*, std::unique_ptr<TrainLayer>>& layers() const { return layers_; }
  /// Layers that no gradient reaches, and the operator that stops it, by name.
  const std::map<std::string, std::string>& unreached() const { return unreached_; }
  Simulator& simulator() { return simulator_; }

  void Begin(std::vector<Values> samples);
  /// Node `at` for all samples: nodes in order.
  void Forward(size_t at);
  /// What the value is in a sample. Of the forward pass.
  const Tensor& Get(size_t sample, const Value* value) const { return values_[sample].at(value); }
  /// d loss / d value, added.
  void AddGradient(size_t sample, const Value* value, Tensor gradient);
  /// Nodes in reverse order. What has been needed for the last time is dropped.
  void Backward(size_t at);
  /// Forgets the batch, of which nothing is to be learned.
  void Drop();
  void Update(double rate);
  void SetMeasuring(bool measuring);
  /// Normalizations become weights and biases, observers stop.
  void Freeze();
  /// Learned scales become the ranges of the record.
  void StoreRanges();

 private:
  struct Entry {
    std::vector<std::vector<Tensor>> inputs;  // by sample and slot, as the operator read them
    std::vector<std::vector<Tensor>> raw;     // by sample and output, before its grid
  };

  /// The record's config that the simulator sees as a constant.
  TensorQuantizationConfig& Own(const TensorQuantizationConfig& config);
  void FindLearners(const std::vector<const Value*>& ends);
  void PlanScales();
  void Read(size_t at, Entry& entry);
  std::vector<Tensor> OnGrid(const TensorQuantizationConfig& config, std::vector<Tensor> x);
  Tensor GridBackward(const TensorQuantizationConfig& config, const Tensor& x, const Tensor& dy);
  void BackwardThrough(size_t at, std::vector<std::vector<Tensor>> dy);

  QuantizationRecord& record_;
  const TrainOptions& options_;
  Simulator simulator_;
  OperatorGradients gradients_of_;
  std::map<const Node*, std::unique_ptr<TrainLayer>> layers_;
  std::set<const Value*> learning_;  // depend on a layer that learns
  std::set<const Node*> reached_;
  std::map<std::string, std::string> unreached_;
  std::map<const TensorQuantizationConfig*, ScaleLearner> scales_;
  std::map<const TensorQuantizationConfig*, std::unique_ptr<Observer>> observers_;
  bool frozen_ = false;

  std::vector<Values> values_;
  std::vector<Entry> entries_;  // by node
  std::vector<std::map<const Value*, Tensor>> gradients_;
};

}  // namespace requant
