// What may stay in float is tried in the simulator, on some samples, and the best choice is
// applied: what float_start, float_sums, float_end and float_answers share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/recover/recovery.h"
#include "quant/sim/answers.h"
#include "quant/sim/simulator.h"

namespace requant {

/// Samples that are enough where choices must be quick.
inline constexpr int64_t kQuickSamples = 8;

/// Operators that stay in float, and quantized layers that write their accumulators as floats.
struct FloatChoice {
  std::vector<std::string> operators;
  std::vector<std::string> layers;
  double price = 0;    // what must be gained for it
  std::string detail;  // for the record, if it is the best
};

enum class FloatGain : uint8_t {
  kDecibels,  // signal to noise of the outputs
  kAnswers,   // of 100, how many more keep float's class (answers.h)
};

/// Measures what is gained by each choice, next to none; the one with the largest gain less its
/// price is applied if that is least_gain. Slots are DEACTIVATED for a trial and DEQUANTIZED for
/// good.
class FloatTrials : public RecoveryJob {
 public:
  /// Of one node, for one sample.
  struct Work {
    double products = 0;
    double results = 0;  // elements of its first output
    double weights = 0;
  };

  /// least_gain: in dB or answers, so that nothing is changed for what other samples may take back.
  /// With kAnswers, of a network whose one output is scores of classes, or none are measured.
  FloatTrials(const RecoveryContext& context, const char* method,
              FloatGain gain = FloatGain::kDecibels, double least_gain = 0.5);

  const RecoveryContext& context() const { return context_; }
  const std::vector<const Node*>& nodes() const { return simulator_.nodes(); }
  /// By node; empty without samples.
  const std::vector<Work>& works() const { return works_; }
  /// Of all of them.
  const Work& all() const { return all_; }
  /// The class that float gives the most to is the largest of this value; nullptr for none.
  const Value* scores() const { return scores_; }
  /// Whether the nodes before i may be float and those from i on not, or the other way round: not
  /// where operators are computed together.
  bool MayCutBefore(size_t i) const { return whole_[i]; }
  /// Before the first step.
  void Offer(FloatChoice choice) {
    trials_.push_back({std::move(choice), {}});
    offered_ = true;
  }

  /// What the record says when nothing is applied.
  void Say(std::string detail) { detail_ = std::move(detail); }

  FinishProgress Step() override;
  bool changed() const override { return applied_; }
  bool idle() const override { return count_ > 0 && !offered_; }
  std::string detail() const override { return detail_; }

 private:
  struct Trial {
    FloatChoice choice;
    SnrMeter meter;
  };

  void FindCuts();
  void MeasureWork();
  double Gain(const Trial& trial) const;
  size_t Shared(const FloatChoice& choice, SimMode mode) const;
  void Measure(Trial& trial);
  void BeginPass();
  bool EndPass();
  void Apply();

  RecoveryContext context_;
  std::string method_;
  const Value* scores_;
  double least_gain_;
  AnswerOdds odds_;
  Simulator simulator_;
  std::vector<bool> whole_;  // by node: whether MayCutBefore it
  std::vector<Work> works_;
  Work all_;
  std::vector<Trial> trials_;  // the first: nothing in float
  Values float_, quantized_;   // of one sample, without a choice
  size_t count_ = 0;           // samples
  size_t end_ = 0;             // of the nodes that trials run
  struct {
    size_t begin = 0, end = 0;
  } pass_;  // trials that go through the samples together
  size_t sample_ = 0, trial_ = 0;
  bool offered_ = false, applied_ = false;
  std::string detail_ = "everything stays quantized";
};

/// The first operators in float, as many as may be, wherever nothing is computed together: until
/// `most` (a share) of the network's products are float. Each offer has `apart` more of them than
/// the one before. If all became float, that would cost `price`.
void OfferStarts(FloatTrials& trials, double most, double price, double apart = 0);

}  // namespace requant
