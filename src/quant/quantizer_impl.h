// What quantizer.cpp, observe.cpp, settle_concats.cpp and scales.cpp share; no other file
// includes it.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quant/calibrate/separate_concats.h"
#include "quant/lower/simulated.h"
#include "quant/observers/moments.h"
#include "quant/observers/observer.h"
#include "quant/observers/scan.h"
#include "quant/observers/state_bytes.h"
#include "quant/quantizer.h"
#include "quant/recover/equalize/equalize_activations.h"
#include "quant/recover/recover.h"
#include "quant/sim/simulator.h"

namespace requant {

inline bool Contains(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// Samples of observer "auto" that are kept.
inline constexpr int64_t kSamplesOfAuto = 64;

/// The observers of one slot: one, or one for each channel.
struct Watch {
  std::vector<std::unique_ptr<Observer>> channels;
  /// Samples whose largest magnitude is in [2^(key - 1), 2^key), without those that are 0.
  struct Magnitude {
    int64_t samples = 0;
    int64_t first = 0;  // the index of one of them
  };
  std::map<int, Magnitude> magnitudes;
  /// Samples by 4 log2(root mean square of what is not 0), rounded.
  std::map<int, int64_t> powers;
  /// Of a value that nobody observed: what follows from others' ranges.
  std::optional<Range> derived;
};

/// What a method gained, averaged over the layers.
struct LayersGain {
  double before = 0, after = 0;  // sums of decibels
  int layers = 0;
  void Add(const LayerNoise& noise) {
    if (!(noise.signal > 0)) return;
    before += noise.Decibels(noise.before);
    after += noise.Decibels(noise.after);
    ++layers;
  }
};

struct Quantizer::Impl {
  Graph graph;
  QuantizationRecord record;
  QuantizeOptions options;
  bool round_weights = false;
  bool bias_correction = false;
  std::map<int, Watch> observers;                                // by config
  std::map<std::string, std::vector<int>> watched;               // value -> configs
  std::map<std::string, std::unique_ptr<Observer>> around;       // by value (separate_concats.h)
  std::map<std::string, ChannelRanges> by_channel;               // the same
  std::map<std::string, std::unique_ptr<InputMoments>> moments;  // by node
  std::map<std::string, std::vector<InputMoments*>> moments_of;  // by value
  std::vector<int64_t> samples;                                  // by pass
  std::map<std::string, float> filled;                           // quant/graph/masks.h
  int64_t first_sample = 0;
  bool probing = false;
  std::unique_ptr<ActivationEqualizer> equalizer;
  int first_pass = 0;  // of calibration; those before it are the equalizer's
  bool equalized = false;
  bool wants_auto = false;
  int64_t wanted_samples = 0;
  size_t kept_bytes = 0;
  std::vector<TensorMap> kept;
  std::map<std::string, std::vector<double>> biases;  // by node
  // Finishing.
  bool started = false, finished = false;
  std::unique_ptr<RangeChooser> chooser;
  std::set<int> chosen;  // configs whose ranges it has found
  size_t next_node = 0;
  std::vector<const RecoveryRow*> learning;
  size_t learned = 0;
  std::unique_ptr<RecoveryJob> job;
  struct {
    std::vector<TensorQuantizationConfig> configs;
    std::map<std::string, OperatorQuantization> operators;
    std::map<std::string, std::vector<double>> biases;
  } before_job;     // what a method that learns may change
  SnrMeter before;  // of the outputs
  std::vector<std::vector<Tensor>> float_outputs;
  LayersGain rounding, correcting;

  TensorQuantizationConfig& Config(int index) { return record.configs[static_cast<size_t>(index)]; }
  bool Fixed(int index) { return options.scales.contains(Config(index).value); }

  // quantizer.cpp
  void CheckOptions();
  void CheckSamples() const;
  FinishProgress QuantizeNext();
  SnrMeter OutputSnr();
  std::vector<Tensor> FloatOutputs(Simulator& simulator, size_t i, const TensorMap& sample);
  void RecordGain(const char* method, const LayersGain& gain);
  void WarnOfIdle(const char* method);
  void EndJob(const RecoveryRow& row);
  FinishProgress Analyze();
  // observe.cpp
  void CheckPass(int pass) const;
  bool Equalizing(int pass) const { return pass < first_pass; }
  void Equalize();
  void FindFilled();
  void PlanObservers();
  void PlanMoments();
  void MakeChannels(int index, Watch& watch, size_t count);
  bool NeedsOrder(int pass, const std::string& value) const;
  void Watching(int pass, int index, const Tensor& tensor, const Scan& scan);
  void Fields(int pass, StateBytes& state);
  void CalibrationFields(int pass, StateBytes& state);
  void KeptFields(StateBytes& state);
  // settle_concats.cpp
  void SettleConcats();
  std::optional<Range> RangeOf(const Value& value) const;
  void WatchAnew(const QuantizationRecord& before, const SeparatedConcats& made);
  // scales.cpp
  std::unique_ptr<RangeChooser> MakeChooser();
  void Activate();
  std::set<int> WarnOfUselessScales();
  void WarnOfLostCodes(const std::set<int>& known);
  void SetGiven(TensorQuantizationConfig& config) const;
  void SetScale(TensorQuantizationConfig& config, const std::vector<Range>& ranges);
  void QuantizeLayer(const Node& node, const OperatorQuantization& op);
  void QuantizeOperands(const Node& node, const OperatorQuantization& op);
  void Bake();
};

}  // namespace requant
