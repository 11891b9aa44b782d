// What the bindings and the tests of the whole engine include.
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

/// True when the graph holds Q/DQ nodes or integer operators.
bool IsQuantized(const Graph& graph);

/// The rows of the operators that a graph has, once each. What PrepareForRun makes of an operator
/// is among the rarer operators only if the operator is.
std::vector<const OpDef*> OperatorsOf(const Graph& graph);

/// What a run needs for a graph that is quantized in the forms of an older opset, else nullptr:
/// among the rarer operators, which are worth loading for these (bindings/README.md).
RaiseFunction OpsetRaising(const Graph& graph);

/// The graph as sessions run it. A float graph is optimized; Q/DQ nodes become integer operators; a
/// QOperator graph is optimized as it is. A graph that is handed over gives its memory back early.
std::shared_ptr<const Graph> PrepareForRun(std::shared_ptr<const Graph> graph);
inline std::shared_ptr<const Graph> PrepareForRun(const Graph& graph) {
  return PrepareForRun(std::make_shared<Graph>(graph.Clone()));
}

/// What an input was fed.
struct FeedType {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape shape;
};
std::vector<FeedType> TypesOf(const TensorMap& feeds);

/// Plans the model for such inputs (none: for those that it declares, if all are known) and forgets
/// the plan; operators that cannot be planned become float ones, with a warning each. Throws what a
/// session of it would throw for another reason.
void KeepRunnable(QuantizedModel& model, const std::vector<FeedType>& feeds);

/// Shows calibration samples to a Quantizer: owns the float sessions that tap the values.
class Calibrator {
 public:
  /// Optimizes a copy of the graph first. Throws kInvalidArgument for a model that is already
  /// quantized, or what Quantizer throws. `runner` as in SessionOptions.
  Calibrator(const Graph& float_graph, const QuantizeOptions& options,
             ParallelRunner* runner = nullptr);

  /// What samples are shown to: the optimized float graph, whose node names the options and the
  /// record refer to.
  const Graph& graph() const { return quantizer_.graph(); }
  int passes() const { return quantizer_.passes(); }
  void Add(int pass, const TensorMap& feeds);
  /// Sample 0, shown to a shard that begins with a later one (`first_sample`).
  void Probe(const TensorMap& feeds, int64_t first_sample);
  std::vector<uint8_t> SaveState(int pass) { return quantizer_.SaveState(pass); }
  void LoadState(int pass, std::span<const uint8_t> bytes) { quantizer_.LoadState(pass, bytes); }
  void MergeState(int pass, std::span<const uint8_t> bytes) { quantizer_.MergeState(pass, bytes); }
  FinishProgress Step();
  /// A model that KeepRunnable() has seen.
  QuantizedModel Finish();

 private:
  void Show(int pass, const TensorMap& feeds);

  Quantizer quantizer_;
  ParallelRunner* runner_;
  int session_pass_ = -1;
  std::vector<std::string> observed_;
  std::unique_ptr<Session> session_;
  std::vector<FeedType> feeds_;  // of the latest sample
};

/// The passes that need more than a graph: Legalize, AnnotateUsedMemory. For PipelineOptions::more.
std::span<const Pass> ApiPasses();
/// Q/DQ nodes become integer operators (requant.cpp); sessions do that by themselves.
bool Legalize(Graph& graph, PassContext& context);
/// Plans the graph and notes in every node the memory in use while it runs (used_memory.cpp).
bool AnnotateUsedMemory(Graph& graph, PassContext& context);

/// What a quantized file says (Q/DQ, QOperator, QONNX): the float network and how it is quantized.
/// Throws kUnsupported for a file that says nothing, and as SpellPairs.
QuantizedModel ReadQuantized(const Graph& file);

/// PackTwoValues. QONNX's Quant nodes become integers first, as for running: the constants before
/// them are floats of many values.
Graph PackWeights(const std::shared_ptr<const Graph>& graph);

/// The optimized float form of a graph, as the quantizer takes it.
Graph OptimizedFloat(const Graph& graph);

/// GenerateC of any model, float or quantized, prepared as for a run on inputs of these shapes, by
/// name (those that the model knows may be missing). Throws as GenerateC, and kUnsupported for a
/// shape that is open.
GeneratedC GenerateCode(const std::shared_ptr<const Graph>& graph,
                        const std::map<std::string, Shape>& shapes, const GenerateCOptions& options,
                        const CKernels& kernels);

/// The graph with the types of all values, as far as they follow from inputs of these shapes, by
/// name (those that the model knows may be missing). If all are known what follows from shapes is
/// computed as well.
Graph WithTypes(const Graph& graph, const std::map<std::string, Shape>& shapes);

/// JSON of bindings/README.md.
std::string ModelInfoJson(const Graph& graph);
std::string PlanJson(const Plan* plan);
std::string ProfileJson(const std::vector<StepProfile>& profile);
/// Runs the passes on the graph; the JSON report of Model.optimize, with the graph after every pass
/// that changed it if `dump`.
std::string OptimizeToJson(Graph& graph, PipelineOptions options, bool dump);
std::string OperatorsJson();
std::string PassesJson();
std::string KernelsJson();

}  // namespace requant
