// What the samples show: the first of the quantizer's three stages.
//
//   takes    a float graph and a record whose slots are joined, but have no scales
//   leaves   what observers and moments saw, and samples (Calibrated). Graph and record have
//            changed where a method of kMeasure rewrites the network, and where Concats join
//            values of unlike ranges.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "interpret/interpreter.h"
#include "quant/calibrate/separate_concats.h"
#include "quant/calibrate/token_lengths.h"
#include "quant/config/record.h"
#include "quant/config/settings.h"
#include "quant/observers/moments.h"
#include "quant/observers/observer.h"
#include "quant/observers/scan.h"
#include "quant/observers/state_bytes.h"
#include "quant/recover/recovery.h"

namespace requant {

/// What the samples showed of one slot.
struct Watch {
  std::vector<std::unique_ptr<Observer>> channels;  // one observer, or one for each channel
  /// Counts samples whose largest magnitude is in [2^(key - 1), 2^key), without those that are 0.
  struct Magnitude {
    int64_t samples = 0;
    int64_t first = 0;  // the index of one of them
  };
  std::map<int, Magnitude> magnitudes;
  /// Counts samples by 4 log2(root mean square of what is not 0), rounded.
  std::map<int, int64_t> powers;
  /// The range of a value that nobody observed, which follows from others' ranges.
  std::optional<Range> derived;
};

struct Calibrated {
  std::map<int, Watch> slots;                                    // by config
  std::map<std::string, std::unique_ptr<InputMoments>> moments;  // by layer
  std::vector<TensorMap> samples;                                // as many as methods wanted
};

class Calibration {
 public:
  /// The arguments must live as long as this object.
  Calibration(Graph& graph, QuantizationRecord& record, const QuantizeOptions& options,
              const RecoveryMethods& methods);
  Calibration(const Calibration&) = delete;
  Calibration& operator=(const Calibration&) = delete;

  // These do what the methods of Quantizer of the same name say.
  int passes() const { return static_cast<int>(samples_.size()); }
  bool wants_sample(int pass) const;
  std::vector<std::string> observed_values(int pass);
  void Observe(int pass, const std::string& value, const Tensor& seen, bool channels_last);
  void EndSample(int pass);
  void Keep(const TensorMap& feeds);
  void SetFirstSample(int64_t index) { first_sample_ = index; }
  void SetProbing(bool probing) { probing_ = probing; }
  std::vector<uint8_t> SaveState(int pass);
  void LoadState(int pass, std::span<const uint8_t> bytes);
  void MergeState(int pass, std::span<const uint8_t> bytes);

  /// Ends calibration; call it once, when no sample comes any more. Throws kInvalidArgument when a
  /// pass that matters has seen none.
  Calibrated Finish();

 private:
  /// A method of kMeasure; its passes begin with that one.
  struct Rewriting {
    const RecoveryRow* row;
    std::unique_ptr<SampleRewriter> rewriter;
    int first_pass = 0;
    bool applied = false;
    int end_pass() const { return first_pass + rewriter->passes(); }
  };

  bool Given(int index) const { return options_.Gives(Config(index)); }
  TensorQuantizationConfig& Config(int index) {
    return record_.configs[static_cast<size_t>(index)];
  }
  const TensorQuantizationConfig& Config(int index) const {
    return record_.configs[static_cast<size_t>(index)];
  }
  void CheckPass(int pass) const;
  void CheckSamples() const;
  // calibration.cpp
  void PlanObservers();
  void PlanMoments();
  Rewriting* RewritingIn(int pass);
  void RewriteBefore(int pass);
  void MakeChannels(int index, Watch& watch, size_t count);
  bool NeedsOrder(int pass, const std::string& value) const;
  void Watching(int pass, int index, const Tensor& tensor, const Scan& scan);
  // calibration_state.cpp
  void Fields(int pass, StateBytes& state);
  void SlotFields(int pass, StateBytes& state);
  void KeptFields(StateBytes& state);
  void MergeSlots(const Calibration& later, int pass);
  // settle_concats.cpp
  void SettleConcats();
  std::optional<Range> RangeOf(const Value& value) const;
  void WatchAnew(const QuantizationRecord& before, const SeparatedConcats& made);

  Graph& graph_;
  QuantizationRecord& record_;
  const QuantizeOptions& options_;
  const RecoveryMethods& methods_;

  Calibrated seen_;
  TokenLengths lengths_;
  std::map<std::string, std::vector<int>> watched_;               // value -> configs
  std::map<std::string, std::unique_ptr<Observer>> around_;       // by value (separate_concats.h)
  std::map<std::string, ChannelRanges> by_channel_;               // the same
  std::map<std::string, std::vector<InputMoments*>> moments_of_;  // by value
  std::map<std::string, float> filled_;                           // graph/masks.h
  std::vector<Rewriting> rewritings_;
  int first_pass_ = 0;            // of calibration; those before it are of rewritings
  std::vector<int64_t> samples_;  // by pass
  int64_t first_sample_ = 0;
  int64_t wanted_samples_ = 0;
  size_t kept_bytes_ = 0;
  bool probing_ = false;
  bool finished_ = false;
};

}  // namespace requant
