// The methods that recover accuracy: one file and one row of the table each.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interpret/interpreter.h"
#include "quant/config/record.h"
#include "quant/config/settings.h"
#include "quant/observers/observer.h"

namespace requant {

/// The progress of finishing.
struct FinishProgress {
  std::string method;  // the method at work
  int64_t done = 0, total = 1;
  bool finished = false;
};

/// The data that methods work on after calibration. Activations have scales and weights their
/// integers; biases are still real numbers.
struct RecoveryContext {
  const Graph& graph;
  QuantizationRecord& record;
  const QuantizeOptions& options;
  const std::vector<TensorMap>& samples;               // kept samples
  std::map<std::string, std::vector<double>>& biases;  // indexed by node: what the layer adds
};

/// Work that can be interrupted between steps.
class RecoveryJob {
 public:
  virtual ~RecoveryJob() = default;
  virtual FinishProgress Step() = 0;
  /// Whether the network has changed; call it only after the last step.
  virtual bool changed() const { return true; }
  /// Whether the network has nothing that the method works on; call it only after the last step.
  virtual bool idle() const { return false; }
  /// One line for the record about what was done.
  virtual std::string detail() const { return {}; }
};

enum class RecoveryStage : uint8_t {
  kGraph,    // rewrites the float network before calibration
  kMeasure,  // rewrites it by what samples show in passes of their own (quantizer.cpp)
  kWeights,  // part of making a layer's integers (quantizer.cpp)
  kChoose,   // a job after that, on kept samples, that chooses what stays in float
  kLearn,    // a job after that, on kept samples, that learns
};

/// What a method changed in the float network.
struct Rewritten {
  int64_t changes = 0;
  std::string detail;  // one line for the record
};

struct RecoveryRow {
  const char* name;
  RecoveryStage stage;
  Rewritten (*rewrite)(Graph& graph, const QuantizeOptions& options);
  std::unique_ptr<RecoveryJob> (*make)(const RecoveryContext& context);
};

/// The methods in the order in which they are applied.
std::span<const RecoveryRow> RecoveryTable();
const RecoveryRow* FindRecovery(std::string_view name);

/// The signal to noise ratio of an output channel's weights on their grid, in dB, averaged over all
/// channels of all layers, which rewriting the network is to raise (weights_noise.cpp).
double WeightsSnr(const Graph& graph, const QuantizeOptions& options);

Rewritten EqualizeLayers(Graph& graph, const QuantizeOptions& options);  // equalize.cpp
Rewritten EqualizeThroughClips(Graph& graph, const QuantizeOptions& options);
Rewritten SplitChannels(Graph& graph, const QuantizeOptions& options);  // channel_split.cpp
std::unique_ptr<RecoveryJob> MakeFloatStart(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeFloatSums(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeFloatEnd(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeFloatAnswers(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeEmpiricalBias(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeAdaRound(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeBlockReconstruction(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeLearnedSteps(const RecoveryContext& context);

/// Chooses ranges (choose_ranges.cpp): for each slot with observer "auto", the proposal with the
/// least error of the operators that read it. Each step runs one sample; the last one sets the
/// configs' ranges and observers. `proposals` are indexed by config.
struct RangeProposal {
  const char* observer;
  Range range;
};
class RangeChooser {
 public:
  virtual ~RangeChooser() = default;
  virtual FinishProgress Step() = 0;
};
std::unique_ptr<RangeChooser> MakeRangeChooser(const Graph& graph, QuantizationRecord& record,
                                               std::map<int, std::vector<RangeProposal>> proposals,
                                               std::span<const TensorMap> samples);

}  // namespace requant
