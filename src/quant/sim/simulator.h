// The network in float, with or without the grids of its configs: what recovery, mixed precision
// and analysis measure and learn with. Any grid of a config is simulated, integers or not.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "interpret/interpreter.h"
#include "quant/record.h"
#include "quant/sim/layer.h"

namespace requant {

/// Values by name: stays valid when the graph is copied.
using Values = std::map<const Value*, Tensor>;

/// One layer with a weight matrix, as the simulator runs it.
struct SimLayer {
  bool quantized = true;
  std::unique_ptr<LayerMath> math;
  std::vector<float> float_bias;  // of the model
  std::vector<float> weights;     // on the grid
  std::vector<float> bias;
};

enum class SimMode : uint8_t { kFloat, kQuantized };

class Simulator {
 public:
  Simulator(const Graph& graph, const QuantizationRecord& record);

  const Graph& graph() const { return graph_; }
  const QuantizationRecord& record() const { return record_; }
  const std::vector<const Node*>& nodes() const { return nodes_; }
  /// nullptr for operators without a weight matrix and those that are not quantized.
  SimLayer* Layer(const Node* node);
  /// Of any layer with a weight matrix of the model (HasWeightMatrix), quantized or not; nullptr
  /// for all other operators, which are run by their references.
  LayerMath* Math(const Node* node) const;
  /// Whether gradients go through the operator: else what it reads is constant to whoever learns.
  bool PassesGradients(const Node& node) const;
  /// The layer's weights and bias on their grid, from its config's integers. `bias` replaces the
  /// model's; nullptr keeps it.
  void SetWeights(const Node* node, const std::vector<double>* bias);

  Values Start(const TensorMap& feeds) const;
  /// Runs nodes [begin, end). With `forget`, values that nothing later reads are dropped.
  void Run(Values& values, SimMode mode, size_t begin, size_t end, bool forget = true);
  /// Drops what nothing behind nodes [begin, end) reads.
  void Forget(Values& values, size_t begin, size_t end) const;
  /// Outputs of the whole network.
  std::vector<Tensor> Outputs(const TensorMap& feeds, SimMode mode);
  /// The same of values that are computed.
  std::vector<Tensor> Outputs(const Values& values) const;
  /// The config through which the slot reads its value; nullptr when it reads it as it is.
  const TensorQuantizationConfig* ReadConfig(const Node& node, size_t slot) const;
  /// The same if the value is not on that grid already, as it was written.
  const TensorQuantizationConfig* ReadGrid(const Node& node, size_t slot) const;
  /// The config through which the output is written; nullptr for none.
  const TensorQuantizationConfig* WriteConfig(const Node& node, size_t slot) const;
  /// The constant that a quantized operator without weights reads, on its grid; empty where it
  /// reads it as it is.
  Tensor ConstantOnGrid(const Node& node, size_t slot) const;
  /// Of a layer: whether its weights are quantized.
  bool WeightsAreOnGrid(const Node& node) const;

  /// What a node computes, without grids; weighted layers with `weights`, nullptr = the model's.
  std::vector<Tensor> Evaluate(const Node& node, const std::vector<const Tensor*>& inputs,
                               const float* weights, const std::vector<float>* bias);

 private:
  const Graph& graph_;
  const QuantizationRecord& record_;
  std::vector<const Node*> nodes_;
  std::vector<std::vector<const Value*>> dead_after_;  // by node
  std::map<const Node*, SimLayer> layers_;
};

/// Every element through the grid.
Tensor FakeQuantizeTensor(const Tensor& x, const TensorQuantizationConfig& config);

/// 10 log10(sum r^2 / sum (r - c)^2) over all outputs of all samples.
class SnrMeter {
 public:
  void Add(const Tensor& reference, const Tensor& candidate);
  double Decibels() const;
  /// The same of class scores, matrices whose rows mean the same with any number added to them;
  /// other outputs as they are.
  double ScoreDecibels() const;
  /// Of one score's error.
  double ScoreVariance() const;
  double noise() const { return noise_; }

 private:
  double signal_ = 0, noise_ = 0;
  double score_signal_ = 0, score_noise_ = 0;
  double scores_ = 0;  // less one in each row
};

}  // namespace requant
