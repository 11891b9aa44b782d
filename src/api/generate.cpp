#include "api/requant.h"
#include "base/str_cat.h"
#include "passes/infer_type.h"

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

}  // namespace

GeneratedC GenerateCode(const std::shared_ptr<const Graph>& graph,
                        const std::map<std::string, Shape>& shapes, const GenerateCOptions& options,
                        const CKernels& kernels) {
  std::shared_ptr<const Graph> prepared = PrepareForRun(graph);
  const auto known = InputShapes(*prepared, shapes);
  if (!known) {
    Fail(ErrorCode::kUnsupported, "the shape of an input is open",
         {.hint = "Give options.shapes: memory is laid out ahead of time."});
  }
  return GenerateC(*SpecializeGraph(std::move(prepared), *known), options, kernels);
}

Graph WithTypes(const Graph& graph, const std::map<std::string, Shape>& shapes) {
  auto copy = std::make_shared<Graph>(graph.Clone());
  if (const auto known = InputShapes(*copy, shapes)) {
    return std::move(*SpecializeGraph(std::move(copy), *known));
  }
  InferTypes(*copy);
  return std::move(*copy);
}

}  // namespace requant
