// Tries in the simulator, on some samples, what may stay in float, and applies the best choice: the
// common part of float_start, float_sums, float_end and float_answers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/recover/recovery.h"
#include "quant/sim/answers.h"
#include "quant/sim/simulator.h"

namespace requant {

/// The number of samples that suffices where choices must be quick.
inline constexpr int64_t kQuickSamples = 8;

/// Operators that stay in float, and quantized layers that write their accumulators as floats.
struct FloatChoice {
  std::vector<std::string> operators;
  std::vector<std::string> layers;
  double price = 0;    // the gain that it must exceed
  std::string detail;  // text for the record if this choice is the best
};

enum class FloatGain : uint8_t {
  kDecibels,  // signal to noise ratio of the outputs
  kAnswers,   // how many more answers of 100 keep float's class (answers.h)
};

/// Measures the gain of each choice against none, and applies the one with the largest gain less
/// its price if that is at least least_gain. Slots are DEACTIVATED for a trial and DEQUANTIZED for
/// good.
class FloatTrials : public RecoveryJob {
 public:
  /// The work of one node for one sample.
  struct Work {
    double products = 0;
    double results = 0;  // elements of its first output
    double weights = 0;
  };

  /// least_gain is in dB or answers; it keeps changes out that other samples might take back.
  /// kAnswers measures only networks whose one output scores classes.
  FloatTrials(const RecoveryContext& context, const char* method,
              FloatGain gain = FloatGain::kDecibels, double least_gain = 0.5);

  const RecoveryContext& context() const { return context_; }
  const std::vector<const Node*>& nodes() const { return simulator_.nodes(); }
  /// Indexed by node; empty without samples.
  const std::vector<Work>& works() const { return works_; }
  /// The work of all nodes.
  const Work& all() const { return all_; }
  /// The value whose largest element is the class that float prefers; nullptr if there is none.
  const Value* scores() const { return scores_; }
  /// Whether the nodes before i may be float and those from i on not, or the other way round; false
  /// where operators are computed together.
  bool MayCutBefore(size_t i) const { return whole_[i]; }
  /// Offers a choice; call it before the first step.
  void Offer(FloatChoice choice) {
    trials_.push_back({std::move(choice), {}});
    offered_ = true;
  }

  /// Sets the record's text for the case that nothing is applied.
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
  /// The gain less the price; -infinity where outputs are no numbers.
  double Score(const Trial& trial) const;
  size_t Shared(const FloatChoice& choice, SimMode mode) const;
  void Measure(Trial& trial);
  void BeginPass();
  bool EndPass();
  void DropWorse();
  void Apply();

  RecoveryContext context_;
  std::string method_;
  const Value* scores_;
  double least_gain_;
  AnswerOdds odds_;
  Simulator simulator_;
  std::vector<bool> whole_;  // indexed by node: MayCutBefore
  std::vector<Work> works_;
  Work all_;
  std::vector<Trial> trials_;  // the first one has nothing in float
  Values float_, quantized_;   // values of one sample, without a choice
  size_t count_ = 0;           // number of samples
  size_t end_ = 0;             // end of the nodes that trials run
  struct {
    size_t begin = 0, end = 0;
  } pass_;  // trials that go through the samples together
  size_t sample_ = 0, trial_ = 0;
  size_t measured_ = 0;  // trials, each with one sample
  bool offered_ = false, applied_ = false;
  std::string detail_ = "everything stays quantized";
};

/// Offers choices with the first operators in float, as many as may be, wherever nothing is
/// computed together, until `most` (a share) of the network's products are float. Each offer has
/// `apart` more of the products than the one before. If all became float, that would cost `price`.
void OfferStarts(FloatTrials& trials, double most, double price, double apart = 0);

}  // namespace requant
