// IF and WHILE. Subgraphs become bodies that capture their arguments.
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

namespace {

/// A subgraph that is computed as it is: both branches of an If whose condition is known, which the
/// optimizer replaces by its nodes.
struct Call {
  AttributeMap attributes;
  std::vector<size_t> captured;  // positions of the arguments

  Call(const Converter& graph, int32_t index, size_t arguments) {
    const Subgraph body =
        graph.ConvertBody(static_cast<size_t>(index), std::vector<Tensor>(arguments), captured);
    attributes.Set("then_branch", body);
    attributes.Set("else_branch", Subgraph(std::make_shared<Graph>(body->Clone())));
  }
  std::vector<Value*> Inputs(Value* condition, const std::vector<Value*>& arguments) const {
    std::vector<Value*> inputs = {condition};
    for (int branch = 0; branch < 2; ++branch) {
      for (const size_t argument : captured) inputs.push_back(arguments[argument]);
    }
    return inputs;
  }
};

}  // namespace

/// Loop(_, c(x), x) with the body x' = b(x), c(x').
void ConvertWhile(Context& context, const char*) {
  using Options = field::WhileOptions;
  Converter& graph = context.graph();
  const int32_t parts[] = {context.options().Get<int32_t>(Options::kCondition, 0),
                           context.options().Get<int32_t>(Options::kBody, 0)};
  const size_t count = context.inputs();
  for (const int32_t index : parts) {
    if (index < 0 || static_cast<size_t>(index) >= graph.subgraphs()) {
      context.Invalid(StrCat(RQ_LATE_TEXT("has the subgraph "), index, RQ_LATE_TEXT(" of "),
                             graph.subgraphs()));
    }
  }
  if (graph.subgraph(static_cast<size_t>(parts[0])).outputs.size() != 1 ||
      graph.subgraph(static_cast<size_t>(parts[1])).outputs.size() != count ||
      context.outputs() != count) {
    context.Invalid(RQ_LATE_TEXT("has a subgraph of another number of outputs"));
  }
  const Call condition(graph, parts[0], count);
  const Call step(graph, parts[1], count);

  auto body = std::make_shared<Graph>();
  body->opsets = graph.graph().opsets;
  body->AddInput(body->AddValue("iteration", {DType::kInt64, SymbolicShape{}}));
  body->AddInput(body->AddValue("going", {DType::kBool, std::nullopt}));
  std::vector<Value*> before, after, inputs;
  for (size_t i = 0; i < count; ++i) {
    inputs.push_back(context.Codes(i));
    before.push_back(body->AddValue("x", {inputs.back()->type.dtype, std::nullopt}));
    after.push_back(body->AddValue("y"));
    body->AddInput(before.back());
  }
  Value* always = body->AddConstant("always", Tensor::Scalar(true));
  Value* goes_on = body->AddValue("goes_on");
  body->AddNode("If", "", step.Inputs(always, before), after, step.attributes);
  body->AddNode("If", "", condition.Inputs(always, after), {goes_on}, condition.attributes);
  body->AddOutput(goes_on);
  for (Value* value : after) body->AddOutput(value);

  Value* first =
      graph.AddMany("If", condition.Inputs(graph.AddConstant(Tensor::Scalar(true)), inputs), 1,
                    condition.attributes)[0];
  inputs.insert(inputs.begin(), {nullptr, first});
  const std::vector<Value*> results =
      graph.AddMany("Loop", std::move(inputs), count, With("body", Subgraph(std::move(body))));
  for (size_t i = 0; i < count; ++i) graph.DefineCodes(context.out(i), results[i], Order::kPlain);
}

/// A composite operator is computed by the subgraph of its parts.
void ConvertComposite(Context& context, const char*) {
  const auto index = context.op().options2.Get<int32_t>(field::CompositeOptions::kDecomposition, 0);
  if (index < 1 || static_cast<size_t>(index) >= context.graph().subgraphs()) {
    context.Invalid(StrCat(RQ_LATE_TEXT("has the subgraph "), index, RQ_LATE_TEXT(" of "),
                           context.graph().subgraphs()));
  }
  context.graph().Inline(static_cast<size_t>(index), context.op());
}

}  // namespace requant::tflite
