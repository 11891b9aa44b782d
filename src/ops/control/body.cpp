#include "ops/control/body.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"

namespace requant {
namespace {

/// The first of the node's inputs that this body captures.
size_t CapturedFrom(const Node& node, const Graph& body) {
  size_t at = node.formal_inputs();
  for (const auto& [name, value] : node.attributes.entries()) {
    const auto* graph = std::get_if<Subgraph>(&value);
    if (graph == nullptr) continue;
    if (graph->get() == &body) break;
    at += (*graph)->captured;
  }
  return at;
}

}  // namespace

const Graph& BodyOf(const Node& node, const char* name) {
  const Graph* body = node.attributes.GraphValue(name);
  if (body == nullptr) {
    Fail(ErrorCode::kInvalidModel, StrCat(node.op_type, " has no ", name), {.node = node.name});
  }
  return *body;
}

void CheckBody(const Node& node, const Graph& body, size_t inputs, size_t outputs) {
  const size_t captured = body.captured;
  if ((node.op_type == "If" && node.formal_inputs() != 1) ||
      body.inputs().size() != inputs + captured || body.outputs().size() != outputs ||
      CapturedFrom(node, body) + captured > node.inputs.size()) {
    Fail(
        ErrorCode::kInvalidModel,
        StrCat("a body of ", node.op_type, " has ", body.inputs().size() - captured, " inputs and ",
               body.outputs().size(), " outputs where ", inputs, " and ", outputs, " are needed"),
        {.node = node.name});
  }
}

std::vector<ValueType> InferBody(const InferContext& context, const Graph& body,
                                 std::vector<ValueType> types) {
  const size_t from = CapturedFrom(context.node, body);
  for (size_t i = 0; i < body.captured; ++i) types.push_back(context.inputs[from + i]);
  // The last round of a Loop's inference records the types that no longer change.
  if (context.bodies) (*context.bodies)[&body] = types;
  return InferGraph(body, types);
}

std::vector<Tensor> RunBody(EvalContext& context, const Graph& body,
                            std::vector<const Tensor*> formal) {
  const size_t from = CapturedFrom(context.node, body);
  for (size_t i = 0; i < body.captured; ++i) formal.push_back(&context.input(from + i));
  std::vector<const Tensor*> inputs;
  for (size_t i = 0; i < formal.size(); ++i) {
    if (!body.inputs()[i]->is_constant()) inputs.push_back(formal[i]);
  }
  if (context.bodies) return context.bodies->Run(body, inputs);
  return EvaluateGraph(body, inputs, context.requantize);
}

std::vector<ValueType> TypesOfNone(const EvalContext& context, const Graph& body,
                                   std::vector<ValueType> types) {
  std::vector<ValueType> declared;
  for (const Value* output : body.outputs()) declared.push_back(output->type);
  Graph copy = body.Clone();
  const size_t from = CapturedFrom(context.node, body);
  for (size_t i = 0; i < body.captured; ++i) {
    const Tensor& captured = context.input(from + i);
    Value* input = copy.inputs()[types.size()];
    types.push_back(TypeOf(captured));
    if (!input->is_constant()) input->constant = captured;
  }
  std::vector<ValueType> inferred;
  try {
    inferred = InferGraph(copy, types);
  } catch (const Error&) {
    return declared;  // the body cannot run on these types, and does not
  }
  for (size_t i = 0; i < declared.size(); ++i) {
    if (inferred[i].dtype == DType::kUndefined) inferred[i].dtype = declared[i].dtype;
    if (!inferred[i].shape || !declared[i].shape ||
        inferred[i].shape->size() != declared[i].shape->size()) {
      continue;
    }
    for (size_t k = 0; k < inferred[i].shape->size(); ++k) {
      Dim& dim = (*inferred[i].shape)[k];
      if (!dim.known()) dim = (*declared[i].shape)[k];
    }
  }
  return inferred;
}

bool ConditionOf(const Tensor& tensor) {
  if (tensor.count() != 1) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("a condition must be one boolean, not ", ShapeToString(tensor.shape())));
  }
  return tensor.AsInt64(0) != 0;
}

std::optional<SymbolicShape> CommonShape(const std::optional<SymbolicShape>& a,
                                         const std::optional<SymbolicShape>& b) {
  if (!a || !b || a->size() != b->size()) return std::nullopt;
  SymbolicShape out = *a;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!((*a)[i] == (*b)[i])) out[i] = Dim();
  }
  return out;
}

void Stack::Add(const Tensor& tensor) {
  if (count_ == 0) {
    dtype_ = tensor.dtype();
    shape_ = tensor.shape();
    ElementBytes(dtype_);  // throws for elements that cannot be stacked
  } else if (tensor.dtype() != dtype_ || tensor.shape() != shape_) {
    Fail(ErrorCode::kShapeMismatch, StrCat("an iteration gives ", ShapeToString(tensor.shape()),
                                           " after ", ShapeToString(shape_)));
  }
  const auto* from = static_cast<const uint8_t*>(tensor.raw());
  if (count_ == 0 && limit_ > 0) {
    constexpr size_t kReserve = size_t{1} << 20;
    const size_t each = std::max<size_t>(tensor.bytes(), 1);
    bytes_.reserve(each * std::min(kReserve / each, static_cast<size_t>(limit_)));
  }
  bytes_.insert(bytes_.end(), from, from + tensor.bytes());
  ++count_;
}

Tensor Stack::Finish(bool reverse, const ValueType& type) const {
  Shape shape = shape_;
  if (count_ == 0 && type.shape) {
    for (const Dim& dim : *type.shape) shape.push_back(dim.known() ? dim.value : 0);
  }
  const auto each = count_ > 0 ? bytes_.size() / static_cast<size_t>(count_) : 0;
  shape.insert(shape.begin(), count_);
  Tensor out(count_ > 0 ? dtype_ : type.dtype, shape);
  for (int64_t i = 0; i < count_ && each > 0; ++i) {
    const auto from = static_cast<size_t>(reverse ? count_ - 1 - i : i) * each;
    std::memcpy(static_cast<uint8_t*>(out.raw()) + static_cast<size_t>(i) * each,
                bytes_.data() + from, each);
  }
  return out;
}

}  // namespace requant
