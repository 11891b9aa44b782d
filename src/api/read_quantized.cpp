#include <algorithm>
#include <optional>
#include <utility>

#include "api/prepare.h"
#include "api/read_quantized.h"
#include "base/error.h"
#include "ops/op.h"
#include "ops/quantized/qonnx.h"
#include "passes/runner.h"
#include "quant/assign/assign.h"
#include "quant/file/spell_pairs.h"
#include "quant/graph/prepare.h"
#include "quant/lower/expand_signs.h"
#include "quant/weights/pack_weights.h"

namespace requant {

QuantizedModel ReadQuantized(const Graph& file) {
  Graph graph = WithFloats(file);
  const bool qonnx = std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    return node->op_type == "Quant" || node->op_type == "BipolarQuant";
  });
  if (qonnx) {
    graph.metadata[kFormKey] = "qonnx";
    RaiseOpset(graph);  // Q/DQ has existed since opset 10, with scales per channel since 13
    SpellQdq(graph);
  }
  SpellPairs(graph);
  PipelineOptions tables;
  tables.only = {"InferType", "GatherCodes"};
  RunPasses(graph, tables);
  PipelineOptions options;
  options.disable = {"MoveQdq"};  // operators that move integers have configs, too
  RunPasses(graph, options);
  std::optional<QuantizedModel> model = FromQdq(graph);
  if (!model) {
    Fail(ErrorCode::kUnsupported, "the model says nothing about a quantization that can be read",
         {.hint = "give one with QuantizeLinear, QLinear or Quant nodes of constant scales"});
  }
  ReadFileCodes(*model);
  ContractSigns(*model);
  model->float_graph.metadata.erase(kFormKey);
  return std::move(*model);
}

QuantizedModel KeepFloat(const Graph& file) {
  if (IsQuantized(file)) {
    Fail(ErrorCode::kInvalidArgument, "the model is already quantized",
         {.hint = "train what readQuantized() makes of it"});
  }
  QuantizedModel model{OptimizedFloat(file).Release(), {}};
  NormalizeForms(model.float_graph);
  QuantizeOptions options;
  options.global.quantize = false;
  options.recover = {};
  model.record = AssignConfigs(model.float_graph, options);
  return model;
}

Graph PackWeights(const Graph& graph) {
  const bool rewrites =
      std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
        const OpDef* op = node->domain.empty() ? nullptr : FindOp(*node);
        return op != nullptr && op->rewrite != nullptr;
      });
  return rewrites ? PackTwoValues(PrepareForRun(graph).graph()) : PackTwoValues(WithFloats(graph));
}

}  // namespace requant
