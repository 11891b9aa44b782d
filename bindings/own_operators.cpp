// Operators of the user's own, and the interpreter with a hook. A part of the tools, which
// tools.cpp binds. web/extend checks what users give.
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "options.h"
#include "own_values.h"
#include "quantized_handle.h"

namespace requant::bindings {
namespace {

struct OwnOperator {
  std::string name, domain;
  OpDef row;
  val infer, run;
  bool removed = false;
};

/// At addresses that stay, since sessions refer to rows.
std::deque<OwnOperator>& OwnOperators() {
  // Never destroyed: a destructor at exit would be a call from the main module.
  static auto& operators = *new std::deque<OwnOperator>;
  return operators;
}

const OwnOperator& OwnOperatorOf(const Node& node) {
  for (const OwnOperator& own : OwnOperators()) {
    if (!own.removed && node.Is(own.name, own.domain)) return own;
  }
  Fail(ErrorCode::kUnsupported, StrCat("operator ", node.op_type, " was removed"),
       {.node = node.name});
}

ValueType TypeFromJs(const val& given) {
  ValueType out{DTypeFromName(given["type"].as<std::string>()), std::nullopt};
  if (!Has(given, "dims")) return out;
  out.shape.emplace();
  const val dims = given["dims"];
  const auto rank = dims["length"].as<unsigned>();
  for (unsigned i = 0; i < rank; ++i) {
    const val dim = dims[i];
    if (dim.isNumber()) {
      out.shape->push_back(Dim(static_cast<int64_t>(dim.as<double>())));
    } else {
      out.shape->push_back(dim.isString() ? Dim(dim.as<std::string>()) : Dim());
    }
  }
  return out;
}

/// The types that the user's infer() returns for inputs of these types. An undefined dtype stands
/// for an input that is left out.
std::vector<ValueType> InferredTypes(const OwnOperator& own, const Node& node,
                                     const std::vector<ValueType>& inputs, size_t outputs) {
  val types = val::array();
  for (size_t slot = 0; slot < inputs.size(); ++slot) {
    types.call<void>("push", node.input(slot) ? TypeToJs(inputs[slot]) : val::undefined());
  }
  const val made =
      CallUser(own.infer, ErrorCode::kInvalidModel, types, AttributesToJs(node.attributes));
  const auto count = made["length"].as<unsigned>();
  if (count < outputs) {
    Fail(ErrorCode::kInvalidModel, StrCat("operator ", own.name, " has ", outputs,
                                          " outputs, but infer gives ", count, " types"));
  }
  std::vector<ValueType> out;
  for (unsigned slot = 0; slot < outputs; ++slot) out.push_back(TypeFromJs(made[slot]));
  return out;
}

void InferOwn(InferContext& context) {
  context.outputs = InferredTypes(OwnOperatorOf(context.node), context.node, context.inputs,
                                  context.outputs.size());
}

bool Fits(const Tensor& tensor, const ValueType& type) {
  if (type.dtype != tensor.dtype()) return false;
  if (!type.shape) return true;
  if (static_cast<int64_t>(type.shape->size()) != tensor.rank()) return false;
  for (int64_t i = 0; i < tensor.rank(); ++i) {
    const Dim& dim = (*type.shape)[static_cast<size_t>(i)];
    if (dim.known() && dim.value != tensor.dim(i)) return false;
  }
  return true;
}

void EvaluateOwn(EvalContext& context) {
  const OwnOperator& own = OwnOperatorOf(context.node);
  val inputs = val::array();
  std::vector<ValueType> types;
  for (const Tensor* input : context.inputs) {
    inputs.call<void>("push", input ? TensorToJs(*input) : val::undefined());
    types.push_back(input ? ValueType{input->dtype(), ToSymbolic(input->shape())} : ValueType{});
  }
  const val results =
      CallUser(own.run, ErrorCode::kInvalidArgument, inputs, AttributesToJs(context.attributes()));
  const auto count = results["length"].as<unsigned>();
  // All memory is taken over before anything is checked.
  std::vector<Tensor> tensors;
  for (unsigned i = 0; i < count; ++i) tensors.push_back(TensorFromJs(results[i]));
  if (tensors.size() < context.outputs.size()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("operator ", own.name, " has ", context.outputs.size(), " outputs, but run gives ",
                tensors.size(), " tensors"));
  }
  const std::vector<ValueType> wanted =
      InferredTypes(own, context.node, types, context.outputs.size());
  for (size_t slot = 0; slot < context.outputs.size(); ++slot) {
    if (!Fits(tensors[slot], wanted[slot])) {
      const Value* value = context.node.output(slot);
      Fail(ErrorCode::kShapeMismatch,
           StrCat("run of operator ", own.name, " gives ", DTypeName(tensors[slot].dtype()),
                  ShapeToString(tensors[slot].shape()), " where infer gives ",
                  TypeToString(wanted[slot])),
           {.value = value ? value->name : "", .hint = "both must agree"});
    }
    context.outputs[slot] = tensors[slot];
  }
}

val AddOperator(const val& given) {
  return Guard([&] {
    const auto name = given["name"].as<std::string>();
    const auto domain = given["domain"].as<std::string>();
    if (FindOp(name, domain) != nullptr) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("there is an operator ", domain, "::", name, " already"),
           {.value = name, .hint = "choose another name, or remove the other operator"});
    }
    OwnOperator& own =
        OwnOperators().emplace_back(OwnOperator{name, domain, {}, given["infer"], given["run"]});
    const std::string rule = given["quantize"].as<std::string>();
    OpDef row{own.name.c_str(),
              own.domain.c_str(),
              1,
              given["minInputs"].as<int>(),
              given["maxInputs"].as<int>(),
              given["maxOutputs"].as<int>(),
              InferOwn,
              EvaluateOwn,
              rule == "unary"     ? QuantRule::kUnary
              : rule == "passive" ? QuantRule::kPassive
                                  : QuantRule::kFloat,
              rule == "unary" ? FusionRule::kBroadcast : FusionRule::kOpaque};
    row.expensive = true;
    own.row = row;
    OwnOps().push_back(&own.row);
    return val::undefined();
  });
}

bool RemoveOperator(const std::string& name, const std::string& domain) {
  std::vector<const OpDef*>& rows = OwnOps();
  const size_t before = rows.size();
  std::erase_if(rows, [&](const OpDef* row) { return name == row->name && domain == row->domain; });
  // Rows stay where they are, since sessions may still have them.
  for (OwnOperator& own : OwnOperators()) {
    if (own.name == name && own.domain == domain) own.removed = true;
  }
  return rows.size() != before;
}

// --- the interpreter

/// Runs the graph as it is by the references. `observe` gets { node, value, tensor } for each value
/// that a node computes, `output` the name and tensor of each output.
val InterpretModel(const ModelHandle& model, const val& names, const val& types, const val& dims,
                   const val& pointers, const val& options, const val& observe, const val& output) {
  return Guard([&] {
    const std::shared_ptr<const Graph> graph = model.graph();
    InterpretOptions interpret;
    interpret.requantize = ReadRequantizeMode(options);
    if (!observe.isUndefined()) {
      interpret.observe = [&](const Value& value, const Tensor& tensor) {
        if (value.producer == nullptr) return;
        CallUser(observe, ErrorCode::kInvalidArgument, NodeToJs(*value.producer), value.name,
                 TensorToJs(tensor));
      };
    }
    Graph typed = WithFloats(*graph);
    InferTypes(typed);
    const std::vector<Tensor> results =
        Interpret(typed, ReadFeeds(names, types, dims, pointers), interpret);
    for (size_t i = 0; i < results.size(); ++i) {
      output(typed.outputs()[i]->name, TensorToJs(results[i]));
    }
    return val::undefined();
  });
}

}  // namespace

void BindOwnOperators() {
  using emscripten::function;
  function("addOperator", &AddOperator);
  function("removeOperator", &RemoveOperator);
  function("interpret", &InterpretModel);
}

}  // namespace requant::bindings
