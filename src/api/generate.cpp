#include "api/generate.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "api/prepare.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "passes/rewrite.h"
#include "passes/shape/infer_type.h"
#include "plan/stages.h"

namespace requant {
namespace {

/// The shapes of all inputs, given or the model's own; nullopt when one is open. Throws
/// kShapeMismatch where a given shape contradicts the model.
std::optional<std::vector<Shape>> InputShapes(const Graph& graph,
                                              const std::map<std::string, Shape>& shapes) {
  std::vector<Shape> known;
  std::map<std::string, int64_t> symbols;
  for (const Value* input : graph.inputs()) {
    if (input->is_constant()) continue;
    const auto given = shapes.find(input->name);
    if (given == shapes.end() && !input->type.IsStatic()) return std::nullopt;
    known.push_back(given == shapes.end() ? input->type.StaticShape() : given->second);
    CheckFeed(*input, Tensor::Unowned(input->type.dtype, known.back(), nullptr), symbols);
  }
  return known;
}

/// Makes the results of Constant nodes constants: files of many exporters have weights and shapes
/// in them. A result that the graph returns stays.
void FoldConstantNodes(Graph& graph) {
  for (size_t i = 0; i < graph.nodes().size();) {
    Node* node = graph.nodes()[i].get();
    Value* output = node->output();
    const bool text = node->attributes.Has("value_string") ||
                      node->attributes.Has("value_strings") || node->attributes.Has("sparse_value");
    if (!node->Is(Op::kConstant) || output == nullptr || output->consumers.empty() ||
        graph.IsOutput(output) || text) {
      ++i;
      continue;
    }
    Tensor value = std::move(EvaluateNode(graph, *node, {}, RequantizeMode::kFloat)[0]);
    graph.MakeConstant(output, std::move(value));
  }
}

/// Makes inputs and outputs of 16 bits float32, which C has a type for. The graph has Casts behind
/// and before them.
void FloatEnds(Graph& graph) {
  const auto casts_to_float = [](const Node* node) {
    return node->Is(Op::kCast) &&
           node->attributes.Int("to", 0) == static_cast<int64_t>(DType::kFloat32);
  };
  for (Value* input : graph.inputs()) {
    const std::vector<Node*> readers = input->consumers;
    if (!IsHalf(input->type.dtype) ||
        !std::all_of(readers.begin(), readers.end(), casts_to_float)) {
      continue;
    }
    input->type.dtype = DType::kFloat32;
    for (Node* reader : readers) Bypass(graph, reader, input);
  }
  const std::vector<Value*> outputs = graph.outputs();
  for (Value* output : outputs) {
    Node* node = output->producer;
    const bool rounded = IsHalf(output->type.dtype) && node && node->Is(Op::kCast) &&
                         node->inputs[0]->type.dtype == DType::kFloat32;
    if (rounded) Bypass(graph, node, node->inputs[0]);
  }
}

}  // namespace

Graph PrepareForC(const Graph& graph, const std::map<std::string, Shape>& shapes) {
  Graph floats = PrepareForRun(graph, Reader::kOther).Release();
  FloatEnds(floats);
  PreparedModel prepared = PreparedModel::Settled(std::move(floats));
  const auto known = InputShapes(prepared.graph(), shapes);
  if (!known) {
    Fail(ErrorCode::kUnsupported, "the shape of an input is open",
         {.hint = "Give options.shapes: memory is laid out ahead of time."});
  }
  return Specialize(std::move(prepared), *known, Reader::kOther).Release();
}

GeneratedC GenerateCode(const Graph& graph, const std::map<std::string, Shape>& shapes,
                        const GenerateCOptions& options, const CKernels& kernels) {
  return GenerateC(PrepareForC(graph, shapes), options, kernels);
}

Graph WithTypes(const Graph& graph, const std::map<std::string, Shape>& shapes) {
  Graph copy = WithFloats(graph);
  FoldConstantNodes(copy);
  if (const auto known = InputShapes(copy, shapes)) {
    return Specialize(PreparedModel::AsIs(std::move(copy)), *known, Reader::kOther).Release();
  }
  InferTypes(copy);
  return copy;
}

}  // namespace requant
