// Sequence*, SplitToSequence, ConcatFromSequence and SequenceMap (onnx docs/Operators.md).
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/container/container.h"
#include "ops/control/body.h"
#include "ops/table.h"

namespace requant {
namespace {

void RequireSequence(const InferContext& context, size_t slot) {
  const DType dtype = context.inputs[slot].dtype;
  if (dtype == DType::kUndefined || IsSequence(dtype)) return;
  Fail(ErrorCode::kTypeMismatch, StrCat(RQ_LATE_TEXT("input "), slot, " of ", context.node.op_type,
                                        RQ_LATE_TEXT(" is no sequence")));
}

/// Items that the node owns: copies of what its inputs hold.
std::vector<Tensor> CopiesOf(const Tensor& sequence) {
  std::vector<Tensor> items = ItemsOf(sequence);
  for (Tensor& item : items) item = item.Clone();
  return items;
}

/// The index in input `slot`, from the end where it is negative, among `count` places.
size_t PlaceOf(const EvalContext& context, size_t slot, size_t count) {
  const Tensor& position = context.input(slot);
  const auto places = static_cast<int64_t>(count);
  const int64_t at = position.count() == 1 ? position.AsInt64(0) : places;
  if (at < -places || at >= places) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat(RQ_LATE_TEXT("position "), at, " of ", context.node.op_type,
                RQ_LATE_TEXT(" in a sequence with "), places, RQ_LATE_TEXT(" places")));
  }
  return static_cast<size_t>(at < 0 ? at + places : at);
}

// --- SequenceConstruct, SequenceEmpty

void InferConstruct(InferContext& context) {
  for (size_t i = 1; i < context.inputs.size(); ++i) RequireSameDType(context, 0, i);
  SetOutput(context, 0, SequenceOf(context.inputs[0].dtype), ContainerShape());
}

void EvaluateConstruct(EvalContext& context) {
  std::vector<Tensor> items;
  for (size_t i = 0; i < context.inputs.size(); ++i) items.push_back(context.input(i));
  context.outputs[0] = ContainerOf(SequenceOf(items[0].dtype()), items);
}

DType DTypeOfEmpty(const AttributeMap& attributes) {
  return SequenceOf(static_cast<DType>(attributes.Int("dtype", 1) & 63));
}

void InferEmpty(InferContext& context) {
  SetOutput(context, 0, DTypeOfEmpty(context.attributes()), ContainerShape());
}

void EvaluateEmpty(EvalContext& context) {
  context.outputs[0] = ContainerOf(DTypeOfEmpty(context.attributes()), {});
}

// --- SequenceAt, SequenceInsert, SequenceErase, SequenceLength

void InferAt(InferContext& context) {
  RequireSequence(context, 0);
  SetOutput(context, 0, ContentOf(context.inputs[0].dtype), std::nullopt);
}

void EvaluateAt(EvalContext& context) {
  const std::vector<Tensor> items = ItemsOf(context.input(0));
  context.outputs[0] = items[PlaceOf(context, 1, items.size())].Clone();
}

void InferInsert(InferContext& context) {
  RequireSequence(context, 0);
  const DType item = context.inputs[1].dtype;
  const DType sequence = context.inputs[0].dtype;
  // An empty sequence may be declared with any type.
  SetOutput(context, 0, item == DType::kUndefined ? sequence : SequenceOf(item), ContainerShape());
}

void EvaluateInsert(EvalContext& context) {
  std::vector<Tensor> items = ItemsOf(context.input(0));
  size_t at = items.size();
  if (context.has(2)) at = PlaceOf(context, 2, items.size() + 1);
  // A negative position counts from the last item, not from the place behind it.
  if (context.has(2) && context.input(2).AsInt64(0) < 0 && at > 0) --at;
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), context.input(1));
  context.outputs[0] = ContainerOf(SequenceOf(context.input(1).dtype()), items);
}

void InferErase(InferContext& context) {
  RequireSequence(context, 0);
  SetOutput(context, 0, context.inputs[0].dtype, ContainerShape());
}

void EvaluateErase(EvalContext& context) {
  std::vector<Tensor> items = ItemsOf(context.input(0));
  if (items.empty()) {
    Fail(ErrorCode::kInvalidArgument, RQ_LATE_TEXT("SequenceErase of an empty sequence"));
  }
  const size_t at = context.has(1) ? PlaceOf(context, 1, items.size()) : items.size() - 1;
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
  context.outputs[0] = ContainerOf(context.input(0).dtype(), items);
}

void InferLength(InferContext& context) {
  RequireSequence(context, 0);
  SetOutput(context, 0, DType::kInt64, SymbolicShape{});
}

void EvaluateLength(EvalContext& context) {
  context.outputs[0] = Tensor::Scalar(static_cast<int64_t>(ItemsOf(context.input(0)).size()));
}

// --- SplitToSequence, ConcatFromSequence

/// Bytes of the elements behind one step along `axis`, and steps before it.
struct Run {
  size_t outer = 1, inner_bytes;
  Run(const Tensor& tensor, size_t axis) : inner_bytes(DTypeBytes(tensor.dtype(), 1)) {
    for (size_t i = 0; i < tensor.shape().size(); ++i) {
      if (i < axis) outer *= static_cast<size_t>(tensor.shape()[i]);
      if (i > axis) inner_bytes *= static_cast<size_t>(tensor.shape()[i]);
    }
  }
};

void InferSplitToItems(InferContext& context) {
  SetOutput(context, 0, SequenceOf(context.inputs[0].dtype), ContainerShape());
}

/// The lengths of the parts along an axis of `length`.
std::vector<int64_t> PartsOf(const EvalContext& context, int64_t length) {
  std::vector<int64_t> parts;
  if (context.has(1) && context.input(1).rank() > 0) {
    parts = context.input(1).ToInts();
  } else {
    const int64_t each = context.has(1) ? context.input(1).AsInt64(0) : 1;
    for (int64_t at = 0; each > 0 && at < length; at += each) {
      parts.push_back(std::min(each, length - at));
    }
  }
  int64_t sum = 0;
  for (const int64_t part : parts) sum += part < 0 || part > length ? length + 1 : part;
  if (sum != length) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat(RQ_LATE_TEXT("the parts of SplitToSequence do not make up "), length,
                RQ_LATE_TEXT(" elements")));
  }
  return parts;
}

void EvaluateSplitToItems(EvalContext& context) {
  const Tensor& whole = context.input(0);
  const auto axis =
      static_cast<size_t>(NormalizeAxis(context.attributes().Int("axis", 0), whole.rank()));
  const bool squeezes = !context.has(1) && context.attributes().Int("keepdims", 1) == 0;
  if (DTypeBits(whole.dtype()) < 8) {
    Fail(ErrorCode::kUnsupported,
         StrCat(RQ_LATE_TEXT("SplitToSequence of "), DTypeName(whole.dtype())));
  }
  const Run run(whole, axis);
  const size_t stride = run.inner_bytes * static_cast<size_t>(whole.shape()[axis]);
  std::vector<Tensor> items;
  size_t first = 0;
  for (const int64_t part : PartsOf(context, whole.shape()[axis])) {
    Shape shape = whole.shape();
    shape[axis] = part;
    Tensor item(whole.dtype(), shape);
    const size_t bytes = run.inner_bytes * static_cast<size_t>(part);
    for (size_t i = 0; i < run.outer && bytes > 0; ++i) {
      std::memcpy(static_cast<uint8_t*>(item.raw()) + i * bytes,
                  static_cast<const uint8_t*>(whole.raw()) + i * stride + first, bytes);
    }
    first += bytes;
    if (squeezes) {
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
      item = item.Reshaped(shape);
    }
    items.push_back(std::move(item));
  }
  context.outputs[0] = ContainerOf(SequenceOf(whole.dtype()), items);
}

void InferJoinItems(InferContext& context) {
  RequireSequence(context, 0);
  SetOutput(context, 0, ContentOf(context.inputs[0].dtype), std::nullopt);
}

void EvaluateJoinItems(EvalContext& context) {
  std::vector<Tensor> items = ItemsOf(context.input(0));
  if (items.empty()) {
    Fail(ErrorCode::kInvalidArgument, RQ_LATE_TEXT("ConcatFromSequence of an empty sequence"));
  }
  const bool stacks = context.attributes().Int("new_axis", 0) != 0;
  const int64_t rank = items[0].rank() + (stacks ? 1 : 0);
  const auto axis = static_cast<size_t>(NormalizeAxis(context.attributes().Int("axis", 0), rank));
  Shape shape;
  int64_t length = 0;
  for (Tensor& item : items) {
    Shape own = item.shape();
    if (stacks) own.insert(own.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    item = item.Reshaped(own);
    Shape common = own;
    if (own.size() > axis) {
      length += own[axis];
      common[axis] = 0;
    }
    if (shape.empty()) shape = common;
    if (common == shape && item.dtype() == items[0].dtype() && own.size() > axis) continue;
    Fail(ErrorCode::kShapeMismatch,
         StrCat(RQ_LATE_TEXT("ConcatFromSequence of "), ShapeToString(items[0].shape()), " and ",
                ShapeToString(own)));
  }
  shape[axis] = length;
  Tensor out(items[0].dtype(), shape);
  const Run run(out, axis);
  auto* to = static_cast<uint8_t*>(out.raw());
  for (size_t i = 0; i < run.outer; ++i) {
    for (const Tensor& item : items) {
      const size_t bytes = run.inner_bytes * static_cast<size_t>(item.shape()[axis]);
      if (bytes > 0) std::memcpy(to, static_cast<const uint8_t*>(item.raw()) + i * bytes, bytes);
      to += bytes;
    }
  }
  context.outputs[0] = std::move(out);
}

// --- SequenceMap

void InferMap(InferContext& context) {
  RequireSequence(context, 0);
  const Graph& body = BodyOf(context.node, "body");
  CheckBody(context.node, body, context.node.formal_inputs(), context.outputs.size());
  std::vector<ValueType> types;
  for (size_t i = 0; i < context.node.formal_inputs(); ++i) {
    ValueType type = context.inputs[i];
    if (IsSequence(type.dtype)) type = {ContentOf(type.dtype), std::nullopt};
    types.push_back(std::move(type));
  }
  const std::vector<ValueType> results = InferBody(context, body, std::move(types));
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    SetOutput(context, i, SequenceOf(results[i].dtype), ContainerShape());
  }
}

void EvaluateMap(EvalContext& context) {
  const Graph& body = BodyOf(context.node, "body");
  const size_t formal = context.node.formal_inputs();
  std::vector<std::vector<Tensor>> sequences;
  for (size_t i = 0; i < formal; ++i) {
    const bool is_sequence = IsSequence(context.node.inputs[i]->type.dtype);
    sequences.push_back(is_sequence ? CopiesOf(context.input(i)) : std::vector<Tensor>());
    if (is_sequence && sequences[i].size() != sequences[0].size()) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat(RQ_LATE_TEXT("SequenceMap over sequences of "), sequences[0].size(), " and ",
                  sequences[i].size(), RQ_LATE_TEXT(" items")));
    }
  }
  std::vector<std::vector<Tensor>> results(context.outputs.size());
  for (size_t at = 0; at < sequences[0].size(); ++at) {
    std::vector<const Tensor*> inputs;
    for (size_t i = 0; i < formal; ++i) {
      inputs.push_back(sequences[i].empty() ? &context.input(i) : &sequences[i][at]);
    }
    std::vector<Tensor> made = RunBody(context, body, std::move(inputs));
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(std::move(made[i]));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const DType declared = body.outputs()[i]->type.dtype;
    const DType item = results[i].empty() ? declared : results[i][0].dtype();
    context.outputs[i] = ContainerOf(SequenceOf(item), results[i]);
  }
}

constexpr auto kRule = QuantRule::kFloat;
constexpr OpDef kRows[] = {
    {"SequenceConstruct", "", 11, 1, kVariadic, 1, InferConstruct, EvaluateConstruct, kRule},
    {"SequenceEmpty", "", 11, 0, 0, 1, InferEmpty, EvaluateEmpty, kRule},
    {"SequenceAt", "", 11, 2, 2, 1, InferAt, EvaluateAt, kRule},
    {"SequenceInsert", "", 11, 2, 3, 1, InferInsert, EvaluateInsert, kRule},
    {"SequenceErase", "", 11, 1, 2, 1, InferErase, EvaluateErase, kRule},
    {"SequenceLength", "", 11, 1, 1, 1, InferLength, EvaluateLength, kRule},
    {"SplitToSequence", "", 11, 1, 2, 1, InferSplitToItems, EvaluateSplitToItems, kRule},
    {"ConcatFromSequence", "", 11, 1, 1, 1, InferJoinItems, EvaluateJoinItems, kRule},
    {"SequenceMap", "", 17, 1, kVariadic, kVariadic, InferMap, EvaluateMap, kRule},
};

}  // namespace

std::span<const OpDef> SequenceOps() { return kRows; }

}  // namespace requant
