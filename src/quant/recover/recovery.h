// The methods that recover accuracy: one file and one row of the table each.
//
//   stage      when it runs                                      what a method is
//   kGraph     before calibration                                a function that rewrites the graph
//   kMeasure   before calibration, in passes of its own          a SampleRewriter
//   kRound     while a layer's weights become integers           a function on the layer
//   kCorrect   when the layer has its integers, on its bias      a function on the layer
//   kChoose    when all layers have integers, on kept samples    a job: what stays in float
//   kLearn     after that, on kept samples                       a job: what learns
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
#include "quant/observers/state_bytes.h"

namespace requant {

/// Megabytes for samples that somebody asked for, and for the values between two blocks, unless the
/// option recoverMemory says otherwise.
constexpr int64_t kRecoverMegabytes = 512;

/// How many samples are kept to measure weights of 7 bits (recover/weights/narrow_weights.h).
inline constexpr int64_t kSamplesOfNarrowing = 48;

struct NarrowLayer;   // recover/weights/narrow_weights.h
struct LayerNoise;    // recover/weights/layer_weights.h
struct LayerWeights;  // recover/weights/layer_weights.h

/// The progress of finishing.
struct FinishProgress {
  std::string method;  // the method at work
  int64_t done = 0, total = 1;
  bool finished = false;
};

/// What a method of kGraph changed in the float network.
struct Rewritten {
  int64_t changes = 0;
  std::string detail;  // one line for the record
};

/// Rewrites the float network by what samples show it. Shards give what one pass over all samples
/// gives, to the last bit.
class SampleRewriter {
 public:
  struct Result {
    double before_db = 0, after_db = 0;
    std::string detail;
  };

  virtual ~SampleRewriter() = default;
  /// How often it wants to see the samples; 0 if the network has nothing that the method works on.
  virtual int passes() const = 0;
  /// Whether the sample of that index says anything in that pass.
  virtual bool Wants(int pass, int64_t sample) const = 0;
  /// What Observe() should see in that pass.
  virtual std::vector<std::string> Values(int pass) const = 0;
  virtual void Observe(int pass, int64_t sample, const std::string& value,
                       const Tensor& tensor) = 0;
  /// Writes or reads what is known after that pass; further passes keep it.
  virtual void Fields(StateBytes& state, int pass) = 0;
  /// Adds what `later`, made by the same row, saw in that pass.
  virtual void Merge(const SampleRewriter& later, int pass) = 0;
  /// Changes the graph's constants. Call it once, after all passes.
  virtual Result Apply() = 0;
};

/// The data that jobs work on after calibration. Activations have scales and weights their
/// integers; biases are still real numbers.
struct RecoveryContext {
  const Graph& graph;
  QuantizationRecord& record;
  const QuantizeOptions& options;
  const std::vector<TensorMap>& samples;               // kept samples
  std::map<std::string, std::vector<double>>& biases;  // indexed by node: what the layer adds
  /// Layers whose weights may have 7 bits (recover/weights/narrow_weights.h); the job takes them.
  std::vector<NarrowLayer>* narrow = nullptr;
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

enum class RecoveryStage : uint8_t { kGraph, kMeasure, kRound, kCorrect, kChoose, kLearn };

/// One row of the table. It has the function that its stage calls, and no other.
struct RecoveryRow {
  using Rewrite = Rewritten (*)(Graph& graph, const QuantizeOptions& options);
  using Measure = std::unique_ptr<SampleRewriter> (*)(Graph& graph,
                                                      const QuantizationRecord& record);
  using Layer = void (*)(LayerWeights& layer, LayerNoise& noise);
  using Job = std::unique_ptr<RecoveryJob> (*)(const RecoveryContext& context);

  const char* name;
  RecoveryStage stage;
  Rewrite rewrite = nullptr;  // kGraph
  Measure measure = nullptr;  // kMeasure
  Layer layer = nullptr;      // kRound, kCorrect
  Job job = nullptr;          // kChoose, kLearn
  bool pays = false;          // for speed, with accuracy: it is not undone
};

/// The methods in the order in which they are applied.
std::span<const RecoveryRow> RecoveryTable();
const RecoveryRow* FindRecovery(std::string_view name);

/// The rows that the options ask for, in the order of the table.
class RecoveryMethods {
 public:
  /// Throws kInvalidArgument for a name that the table does not have, listing those that it has.
  explicit RecoveryMethods(const QuantizeOptions& options);

  std::vector<const RecoveryRow*> At(RecoveryStage stage) const;
  bool Any(RecoveryStage stage) const { return !At(stage).empty(); }
  /// How many samples calibration keeps for them.
  int64_t samples() const { return samples_; }

 private:
  std::vector<const RecoveryRow*> rows_;
  int64_t samples_ = 0;
};

/// Warns, when somebody asked for the method by name, that it had nothing to do.
void WarnOfIdle(const char* method, const QuantizeOptions& options, QuantizationRecord& record);

/// Runs the methods of kGraph; returns their lines for the record, and adds the names of those that
/// changed nothing to `idle`.
std::vector<RecoveryStep> RewriteGraph(const RecoveryMethods& methods,
                                       const QuantizeOptions& options, Graph& graph,
                                       std::vector<const char*>& idle);

}  // namespace requant
