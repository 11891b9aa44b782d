// The methods that recover accuracy: one file and one row of the table each.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interpret/interpreter.h"
#include "quant/observers/observer.h"
#include "quant/record.h"
#include "quant/settings.h"

namespace requant {

/// Where finishing is.
struct FinishProgress {
  std::string method;  // what is being done
  int64_t done = 0, total = 1;
  bool finished = false;
};

/// What methods work on after calibration. Activations have scales, weights their integers; biases
/// are still real numbers.
struct RecoveryContext {
  const Graph& graph;
  QuantizationRecord& record;
  const QuantizeOptions& options;
  const std::vector<TensorMap>& samples;               // kept ones
  std::map<std::string, std::vector<double>>& biases;  // by node: what the layer adds
};

/// Work that can be interrupted between steps.
class RecoveryJob {
 public:
  virtual ~RecoveryJob() = default;
  virtual FinishProgress Step() = 0;
  /// Whether the network is another one now; only after the last step.
  virtual bool changed() const { return true; }
  /// Whether the network has nothing that the method works on; only after the last step.
  virtual bool idle() const { return false; }
  /// One line about what was done, for the record.
  virtual std::string detail() const { return {}; }
};

enum class RecoveryStage : uint8_t {
  kGraph,    // rewrites the float network before calibration
  kMeasure,  // the same by what samples show in passes of its own (quantizer.cpp)
  kWeights,  // part of making a layer's integers (quantizer.cpp)
  kChoose,   // a job after that, on kept samples: what stays in float
  kLearn,    // the same: what learns
};

/// What a method did to the float network.
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

/// In the order in which they are applied.
std::span<const RecoveryRow> RecoveryTable();
const RecoveryRow* FindRecovery(std::string_view name);

/// Signal to noise of an output channel's weights on their grid, in dB, averaged over all channels
/// of all layers: what rewriting the network is for (weights_noise.cpp).
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

/// choose_ranges.cpp: of each slot with observer "auto" the proposal with the least error of the
/// operators that read it, found on one sample in each step. The last fills the configs' ranges and
/// observers. `proposals` by config.
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
