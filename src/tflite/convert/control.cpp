// IF. Its subgraphs become bodies that capture the arguments.
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/operators.h"

namespace requant::tflite {

void ConvertIf(Context& context, const char*) {
  Converter& graph = context.graph();
  std::vector<Value*> inputs = {context.Codes(0)};
  if (context.rank(0) != 0) inputs[0] = context.Add("Reshape", {inputs[0], context.Ints({})});
  std::vector<Tensor> arguments;
  for (size_t slot = 1; slot < context.inputs(); ++slot) {
    const Tensor* known = context.constant(slot);
    arguments.push_back(known ? *known : Tensor());
  }
  AttributeMap attributes;
  for (const bool then : {true, false}) {
    const auto index =
        context.options().Get<int32_t>(then ? field::IfOptions::kThen : field::IfOptions::kElse, 0);
    if (index < 0 || static_cast<size_t>(index) >= graph.subgraphs()) {
      context.Invalid(StrCat(RQ_LATE_TEXT("has the subgraph "), index, RQ_LATE_TEXT(" of "),
                             graph.subgraphs()));
    }
    if (graph.subgraph(static_cast<size_t>(index)).outputs.size() != context.outputs()) {
      context.Invalid(RQ_LATE_TEXT("has a subgraph of another number of outputs"));
    }
    std::vector<size_t> captured;
    attributes.Set(then ? "then_branch" : "else_branch",
                   graph.ConvertBody(static_cast<size_t>(index), arguments, captured));
    for (const size_t argument : captured) inputs.push_back(context.Codes(argument + 1));
  }
  const std::vector<Value*> results =
      graph.AddMany("If", std::move(inputs), context.outputs(), std::move(attributes));
  for (size_t i = 0; i < results.size(); ++i) {
    graph.DefineCodes(context.out(i), results[i], Order::kPlain);
  }
}

}  // namespace requant::tflite
