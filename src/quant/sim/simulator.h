// Runs the network in float, with or without the grids of its configs, for recovery, mixed
// precision and analysis. It simulates any grid, whether integer operators have it or not.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "interpret/interpreter.h"
#include "quant/config/record.h"
#include "quant/sim/layer.h"

namespace requant {

/// Values by name: stays valid when the graph is copied.
using Values = std::map<const Value*, Tensor>;

/// One layer with a weight matrix, as the simulator runs it.
struct SimLayer {
  bool quantized = true;
  std::unique_ptr<LayerMath> math;
  std::vector<float> float_bias;  // bias of the model
  std::vector<float> weights;     // on the grid
  std::vector<float> bias;
};

enum class SimMode : uint8_t { kFloat, kQuantized };

class Simulator {
 public:
  /// Layers with a weight matrix compute on the threads of `runner`; null: on one.
  Simulator(const Graph& graph, const QuantizationRecord& record,
            const std::shared_ptr<BatchRunner>& runner = nullptr);

  const Graph& graph() const { return graph_; }
  const QuantizationRecord& record() const { return record_; }
  const std::vector<const Node*>& nodes() const { return nodes_; }
  /// The layer of an operator; nullptr for operators without a weight matrix and those that are not
  /// quantized.
  SimLayer* Layer(const Node* node);
  /// The matrix products of any layer with a weight matrix (HasWeightMatrix), quantized or not;
  /// nullptr for all other operators, which run by their references.
  LayerMath* Math(const Node* node) const;
  /// Whether gradients go through the operator; else its inputs are constant to what learns.
  bool PassesGradients(const Node& node) const;
  /// Sets the layer's weights and bias on their grid from its config's integers. `bias` replaces
  /// the model's; nullptr keeps it.
  void SetWeights(const Node* node, const std::vector<double>* bias);

  Values Start(const TensorMap& feeds) const;
  /// Runs nodes [begin, end). With `forget`, values that nothing later reads are dropped.
  void Run(Values& values, SimMode mode, size_t begin, size_t end, bool forget = true);
  /// Drops values that nothing behind nodes [begin, end) reads.
  void Forget(Values& values, size_t begin, size_t end) const;
  /// Runs the whole network and returns its outputs.
  std::vector<Tensor> Outputs(const TensorMap& feeds, SimMode mode);
  /// The network's outputs among computed values.
  std::vector<Tensor> Outputs(const Values& values) const;
  /// The config through which the slot reads its value; nullptr when it reads the value unchanged.
  const TensorQuantizationConfig* ReadConfig(const Node& node, size_t slot) const;
  /// The config through which the slot reads its value, unless the value was written on that grid
  /// already.
  const TensorQuantizationConfig* ReadGrid(const Node& node, size_t slot) const;
  /// The config through which the output is written, or nullptr.
  const TensorQuantizationConfig* WriteConfig(const Node& node, size_t slot) const;
  /// The constant that a quantized operator without weights reads, on its grid; empty where it
  /// reads the constant unchanged.
  Tensor ConstantOnGrid(const Node& node, size_t slot) const;
  /// Whether the weights of a layer are quantized.
  bool WeightsAreOnGrid(const Node& node) const;

  /// Runs one node without grids; weighted layers use `weights`, or the model's if nullptr.
  std::vector<Tensor> Evaluate(const Node& node, const std::vector<const Tensor*>& inputs,
                               const float* weights, const std::vector<float>* bias);

  /// Runs a layer with a weight matrix on a batch, without grids and with the model's weights.
  std::vector<Tensor> EvaluateLayer(const Node& node, std::span<const Tensor> x);

 private:
  const Graph& graph_;
  const QuantizationRecord& record_;
  std::vector<const Node*> nodes_;
  std::vector<std::vector<const Value*>> dead_after_;  // indexed by node
  std::map<const Node*, SimLayer> layers_;
};

/// 10 log10(sum r^2 / sum (r - c)^2) over all outputs of all samples.
class SnrMeter {
 public:
  void Add(const Tensor& reference, const Tensor& candidate);
  double Decibels() const;
  /// The ratio for class scores, matrices whose rows mean the same with any number added to them;
  /// other outputs count unchanged.
  double ScoreDecibels() const;
  /// The variance of one score's error.
  double ScoreVariance() const;
  double noise() const { return noise_; }

 private:
  double signal_ = 0, noise_ = 0;
  double score_signal_ = 0, score_noise_ = 0;
  double scores_ = 0;  // scores less one in each row
};

}  // namespace requant
