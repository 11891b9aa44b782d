// Methods that work on kept samples: the last of the quantizer's three stages.
//
//   takes    a float graph, a record with scales and integers, the layers' biases, kept samples
//   leaves   other scales, integers and biases, or operators in float; what made the network's
//            outputs worse is undone
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quant/recover/recovery.h"
#include "quant/sim/simulator.h"

namespace requant {

class RecoveryPipeline {
 public:
  /// What `context` refers to must live as long as this object.
  RecoveryPipeline(const RecoveryContext& context, const RecoveryMethods& methods);

  bool finished() const { return next_ == rows_.size(); }
  /// Makes one step of the method at work.
  FinishProgress Step();

 private:
  /// What a method may change.
  struct Snapshot {
    std::vector<TensorQuantizationConfig> configs;
    std::map<std::string, OperatorQuantization> operators;
    std::map<std::string, std::vector<double>> biases;
  };

  SnrMeter OutputSnr();
  std::vector<Tensor> FloatOutputs(Simulator& simulator, size_t i, const TensorMap& sample);
  void End(const RecoveryRow& row);

  RecoveryContext context_;
  std::vector<const RecoveryRow*> rows_;
  size_t next_ = 0;
  std::unique_ptr<RecoveryJob> job_;
  Snapshot before_job_;
  SnrMeter before_;  // of the outputs
  std::vector<std::vector<Tensor>> float_outputs_;
};

}  // namespace requant
