// The interface that the bindings and the tests of the whole engine include.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/operators.h"
#include "base/parallel.h"
#include "codegen/codegen.h"
#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "ir/text.h"
#include "kernels/entry.h"
#include "kernels/list.h"
#include "onnx/read.h"
#include "onnx/write.h"
#include "partition/partition.h"
#include "passes/pass.h"
#include "passes/runner.h"
#include "plan/low_bits.h"
#include "plan/lower/table.h"
#include "quant/pack_weights.h"
#include "quant/prepare.h"
#include "quant/quantizer.h"
#include "quant/weight_only.h"
#include "report/compare.h"
#include "session/session.h"
#include "train/trainer.h"

namespace requant {

/// Whether the graph has Q/DQ nodes or integer operators.
bool IsQuantized(const Graph& graph);

/// The table rows of the operators in a graph, each once. PrepareForRun turns an operator into
/// extended operators only if it is one itself.
std::vector<const OpDef*> OperatorsOf(const Graph& graph);

/// The function that raises a graph quantized in the forms of an older opset, else nullptr. It is
/// among the extended operators, which these graphs load (bindings/README.md).
RaiseFunction OpsetRaising(const Graph& graph);

/// The graph in the form that sessions run: a float graph is optimized, Q/DQ nodes become integer
/// operators, and a QOperator graph is optimized as it is. A graph that is handed over frees its
/// memory early.
std::shared_ptr<const Graph> PrepareForRun(std::shared_ptr<const Graph> graph);
inline std::shared_ptr<const Graph> PrepareForRun(const Graph& graph) {
  return PrepareForRun(std::make_shared<Graph>(graph.Clone()));
}

/// Name, type and shape of one feed.
struct FeedType {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape shape;
};
std::vector<FeedType> TypesOf(const TensorMap& feeds);

/// Plans the model for these inputs (for the declared ones if there are none and all are known) and
/// drops the plan. Operators that cannot be planned become float ones, with a warning each. Throws
/// what a session of the model would throw for any other reason.
void KeepRunnable(QuantizedModel& model, const std::vector<FeedType>& feeds);

/// Shows calibration samples to a Quantizer. It owns the float sessions that tap the values.
class Calibrator {
 public:
  /// Makes a quantizer for an optimized copy of the graph. Throws kInvalidArgument for a model that
  /// is already quantized, and what Quantizer throws. `runner` is as in SessionOptions.
  Calibrator(const Graph& float_graph, const QuantizeOptions& options,
             ParallelRunner* runner = nullptr);

  /// The optimized float graph that samples run through; options and record refer to its node
  /// names.
  const Graph& graph() const { return quantizer_.graph(); }
  int passes() const { return quantizer_.passes(); }
  void Add(int pass, const TensorMap& feeds);
  /// Shows sample 0 to a shard that begins with a later one (`first_sample`).
  void Probe(const TensorMap& feeds, int64_t first_sample);
  std::vector<uint8_t> SaveState(int pass) { return quantizer_.SaveState(pass); }
  void LoadState(int pass, std::span<const uint8_t> bytes) { quantizer_.LoadState(pass, bytes); }
  void MergeState(int pass, std::span<const uint8_t> bytes) { quantizer_.MergeState(pass, bytes); }
  FinishProgress Step();
  /// Returns the model, after KeepRunnable() has checked it.
  QuantizedModel Finish();

 private:
  void Show(int pass, const TensorMap& feeds);

  Quantizer quantizer_;
  ParallelRunner* runner_;
  int session_pass_ = -1;
  std::vector<std::string> observed_;
  std::unique_ptr<Session> session_;
  std::vector<FeedType> feeds_;  // types of the latest sample
};

/// The passes that need more than a graph, Legalize and AnnotateUsedMemory, for
/// PipelineOptions::more.
std::span<const Pass> ApiPasses();
/// Turns Q/DQ nodes into integer operators (requant.cpp), as sessions do by themselves.
bool Legalize(Graph& graph, PassContext& context);
/// Plans the graph and records in every node the memory in use while it runs (used_memory.cpp).
bool AnnotateUsedMemory(Graph& graph, PassContext& context);

/// The float network in a quantized file (Q/DQ, QOperator, QONNX) and how the file quantizes it.
/// Throws kUnsupported for a file that is not quantized, and what SpellPairs throws.
QuantizedModel ReadQuantized(const Graph& file);

/// Runs PackTwoValues. QONNX's Quant nodes become integers first, as for running, since the
/// constants before them are floats of many values.
Graph PackWeights(const std::shared_ptr<const Graph>& graph);

/// The optimized float form of a graph, which the quantizer takes.
Graph OptimizedFloat(const Graph& graph);

/// Runs GenerateC on any model, float or quantized, prepared as for a run on inputs of these
/// shapes, by name (shapes that the model knows may be missing). Throws what GenerateC throws, and
/// kUnsupported for an open shape.
GeneratedC GenerateCode(const std::shared_ptr<const Graph>& graph,
                        const std::map<std::string, Shape>& shapes, const GenerateCOptions& options,
                        const CKernels& kernels);

/// A copy of the graph with the types of all values, as far as they follow from inputs of these
/// shapes, by name (shapes that the model knows may be missing). If all are known, values that
/// follow from shapes are computed as well.
Graph WithTypes(const Graph& graph, const std::map<std::string, Shape>& shapes);

/// JSON as described in bindings/README.md.
std::string ModelInfoJson(const Graph& graph);
std::string PlanJson(const Plan* plan);
std::string ProfileJson(const std::vector<StepProfile>& profile);
/// Runs passes on the graph and returns the JSON report of Model.optimize; with `dump` it includes
/// the graph after every pass that changed it.
std::string OptimizeToJson(Graph& graph, PipelineOptions options, bool dump);
std::string OperatorsJson();
std::string PassesJson();
std::string KernelsJson();

}  // namespace requant
