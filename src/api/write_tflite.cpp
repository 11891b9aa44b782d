#include "api/write_tflite.h"

#include "api/prepare.h"
#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ir/fix_dimensions.h"
#include "passes/runner.h"

namespace requant {
namespace {

/// Gives inputs these shapes, and 1 to an open batch.
void FixInputs(Graph& graph, const std::map<std::string, Shape>& shapes) {
  std::map<std::string, int64_t> symbols;
  for (Value* input : graph.inputs()) {
    if (input->is_constant() || !input->type.shape) continue;
    SymbolicShape& dims = *input->type.shape;
    const auto given = shapes.find(input->name);
    if (given != shapes.end() && given->second.size() != dims.size()) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat("the shape ", ShapeToString(given->second), " of '", input->name, "' has not ",
                  dims.size(), " dimensions"),
           {.value = input->name, .hint = RQ_LATE_TEXT("Give a size for each dimension.")});
    }
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i].known()) continue;
      if (given == shapes.end() && i > 0) continue;
      const int64_t size = given == shapes.end() ? 1 : given->second[i];
      if (!dims[i].symbol.empty()) symbols[dims[i].symbol] = size;
      dims[i] = Dim(size);
    }
    graph.TypeChanged(input);
  }
  FixDimensions(graph, symbols);
}

/// Throws kUnsupported for integer operators and those of QONNX: this writer reads Q/DQ pairs.
void CheckPairs(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (node->Is("QuantizeLinear") || node->Is("DequantizeLinear")) continue;
    const OpDef* op = FindOp(*node);
    const bool dynamic =
        node->Is("DynamicQuantizeLinear") || node->Is("MatMulInteger") || node->Is("ConvInteger");
    const bool qonnx = node->op_type == "Quant" || node->op_type == "BipolarQuant";
    if (!dynamic && !qonnx && (op == nullptr || !op->on_integers)) continue;
    ErrorContext context{.node = node->name};
    context.hint = dynamic ? RQ_LATE_TEXT(
                                 "Scales that are computed while the model runs have no "
                                 "form in the file. Take the float model, quantize() it "
                                 "with the target 'tflite', and write that.")
                           : RQ_LATE_TEXT(
                                 "Call readQuantized(model), and toTflite() of what it "
                                 "returns.");
    Fail(ErrorCode::kUnsupported,
         StrCat(node->op_type, " '", node->name,
                qonnx ? RQ_LATE_TEXT("' is an operator of QONNX")
                      : RQ_LATE_TEXT("' is an integer operator")),
         std::move(context));
  }
}

}  // namespace

TfliteFile TfliteOf(const Graph& model, const std::map<std::string, Shape>& shapes,
                    const TfliteOptions& options) {
  Graph graph = WithFloats(model);
  CheckPairs(graph);
  FixInputs(graph, shapes);
  PipelineOptions passes;
  // Attention and normalizations as operators have no counterpart; their parts have.
  passes.disable = {"FuseNormalization", "FuseAttention", "FuseOps"};
  RunPasses(graph, passes);
  return WriteTflite(graph, options);
}

}  // namespace requant
