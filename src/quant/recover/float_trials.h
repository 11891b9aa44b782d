// What may stay in float is tried in the simulator, on some samples, and the best choice is
// applied: what float_start and float_sums share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/recover/recovery.h"
#include "quant/sim/simulator.h"

namespace requant {

/// Operators that stay in float, and quantized layers that write their accumulators as floats.
struct FloatChoice {
  std::vector<std::string> operators;
  std::vector<std::string> layers;
  double price = 0;    // what the outputs must gain for it, in dB
  std::string detail;  // for the record, if it is the best
};

/// Measures what the outputs gain by each choice, next to none; the one with the largest gain less
/// its price is applied if that is kLeastGain. Slots are DEACTIVATED for a trial and DEQUANTIZED
/// for good.
class FloatTrials : public RecoveryJob {
 public:
  /// Of one node, for one sample.
  struct Work {
    double products = 0;
    double results = 0;  // elements of its first output
  };

  FloatTrials(const RecoveryContext& context, const char* method);

  const RecoveryContext& context() const { return context_; }
  const std::vector<const Node*>& nodes() const { return simulator_.nodes(); }
  /// By node; empty without samples.
  const std::vector<Work>& works() const { return works_; }
  double all_products() const { return all_products_; }
  /// Before the first step.
  void Offer(FloatChoice choice) { trials_.push_back({std::move(choice), {}}); }

  /// What the record says when nothing is applied.
  void Say(std::string detail) { detail_ = std::move(detail); }

  FinishProgress Step() override;
  std::string detail() const override { return detail_; }

 private:
  struct Trial {
    FloatChoice choice;
    SnrMeter meter;
  };

  void MeasureWork();
  size_t Shared(const FloatChoice& choice, SimMode mode) const;
  void Measure(const TensorMap& sample, Trial& trial);
  void Apply();

  RecoveryContext context_;
  std::string method_;
  Simulator simulator_;
  std::vector<Work> works_;
  double all_products_ = 0;
  std::vector<Trial> trials_;  // the first: nothing in float
  Values float_, quantized_;   // of one sample, without a choice
  size_t count_ = 0, at_ = 0;
  std::string detail_ = "everything stays quantized";
};

}  // namespace requant
