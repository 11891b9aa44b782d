// Scales and integers: the second of the quantizer's three stages.
//
//   takes    a float graph, a record whose slots are joined, and what calibration saw
//   leaves   scales in the configs of activations, scales and integers in those of weights and
//            constant operands, and the layers' biases, which are still real numbers: recovery may
//            change all of them. Finish() makes integers of the biases.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "quant/bake/choose_ranges.h"
#include "quant/calibrate/calibration.h"
#include "quant/config/record.h"
#include "quant/config/settings.h"
#include "quant/recover/recovery.h"
#include "quant/recover/weights/narrow_weights.h"

namespace requant {

class Baking {
 public:
  /// The arguments must live as long as this object. It uses the moments up.
  Baking(const Graph& graph, QuantizationRecord& record, const QuantizeOptions& options,
         const RecoveryMethods& methods, Calibrated& seen);
  Baking(const Baking&) = delete;
  Baking& operator=(const Baking&) = delete;

  /// Chooses ranges by one sample, or quantizes one layer.
  FinishProgress Step();
  bool finished() const { return finished_; }
  /// The biases by layer.
  std::map<std::string, std::vector<double>>& biases() { return biases_; }
  /// The layers whose weights may have 7 bits, once it is finished.
  std::vector<NarrowLayer>& narrow() { return narrow_; }
  /// Makes integers of the biases. Call it after recovery.
  void Finish();

 private:
  /// What a method gained, averaged over the layers.
  struct Gain {
    double before = 0, after = 0;  // sums of decibels
    int layers = 0;
    void Add(const LayerNoise& noise);
  };

  TensorQuantizationConfig& Config(int index) {
    return record_.configs[static_cast<size_t>(index)];
  }
  bool Given(int index) { return options_.Gives(Config(index)); }
  void MakeChooser();
  void Activate();
  /// Throws kInvalidQuantization for given zero points that the config's grid cannot have.
  static void CheckGivenOffsets(const TensorQuantizationConfig& config);
  /// The scale that the options give to the config, which Gives() tells.
  FixedScale GivenScale(const TensorQuantizationConfig& config) const {
    return config.observer == kGiven ? FixedScale{config.scale, config.offset}
                                     : options_.scales.at(config.value);
  }
  void SetGiven(TensorQuantizationConfig& config) const;
  void SetScale(TensorQuantizationConfig& config, const std::vector<Range>& ranges);
  // quantize_layer.cpp
  struct Layer;
  struct Rounded;
  void QuantizeLayer(const Node& node, const OperatorQuantization& op);
  void SetGivenWeights(const Layer& layer, TensorQuantizationConfig& config) const;
  Rounded Round(const Layer& layer, TensorQuantizationConfig config) const;
  static LayerNoise WeightNoise(const Layer& layer, const Rounded& rounded);
  void QuantizeOperands(const Node& node, const OperatorQuantization& op);
  void RecordGains();

  const Graph& graph_;
  QuantizationRecord& record_;
  const QuantizeOptions& options_;
  const RecoveryMethods& methods_;
  Calibrated& seen_;

  std::unique_ptr<RangeChooser> chooser_;
  std::set<int> chosen_;  // configs whose ranges it finds
  size_t next_node_ = 0;
  std::map<const RecoveryRow*, Gain> gains_;
  std::vector<NarrowLayer> narrow_;
  std::map<std::string, std::vector<double>> biases_;
  bool finished_ = false;
};

}  // namespace requant
