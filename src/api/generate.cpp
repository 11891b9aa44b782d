#include "api/requant.h"
#include "base/str_cat.h"

namespace requant {

GeneratedC GenerateCode(const std::shared_ptr<const Graph>& graph,
                        const std::map<std::string, Shape>& shapes, const GenerateCOptions& options,
                        const CKernels& kernels) {
  std::shared_ptr<const Graph> prepared = PrepareForRun(graph);
  std::vector<Shape> known;
  std::map<std::string, int64_t> symbols;
  for (const Value* input : prepared->inputs()) {
    if (input->is_constant()) continue;
    const auto given = shapes.find(input->name);
    if (given == shapes.end() && !input->type.IsStatic()) {
      Fail(
          ErrorCode::kUnsupported, StrCat("the shape of input \"", input->name, "\" is open"),
          {.value = input->name, .hint = "Give options.shapes: memory is laid out ahead of time."});
    }
    known.push_back(given == shapes.end() ? input->type.StaticShape() : given->second);
    CheckFeed(*input, Tensor::Unowned(input->type.dtype, known.back(), nullptr), symbols);
  }
  return GenerateC(*SpecializeGraph(std::move(prepared), known), options, kernels);
}

}  // namespace requant
