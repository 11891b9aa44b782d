// If, Loop and Scan (onnx docs/Operators.md). Their bodies read values of the graph around them as
// inputs of their own, after the formal ones (Graph::captured).
#include <cstring>
#include <limits>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/control/subgraph.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

const Graph& BodyOf(const Node& node, const char* name) {
  const Graph* body = node.attributes.GraphValue(name);
  if (body == nullptr) {
    Fail(ErrorCode::kInvalidModel, StrCat(node.op_type, " has no ", name), {.node = node.name});
  }
  return *body;
}

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

/// Checks a body's numbers of inputs and outputs, and that the node has the inputs that the body
/// captures.
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

/// Runs a body; `formal` are its inputs before the captured ones.
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

/// The types of a body's outputs where no iteration runs: inferred from formal inputs of these
/// types and the captured values, else as the body declares them.
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

/// The shape that holds for both: one rank, and the sizes that agree.
std::optional<SymbolicShape> CommonShape(const std::optional<SymbolicShape>& a,
                                         const std::optional<SymbolicShape>& b) {
  if (!a || !b || a->size() != b->size()) return std::nullopt;
  SymbolicShape out = *a;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!((*a)[i] == (*b)[i])) out[i] = Dim();
  }
  return out;
}

/// Whether both shapes know the same; unknown sizes must be unknown in both.
bool SameKnowledge(const std::optional<SymbolicShape>& a, const std::optional<SymbolicShape>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->size() == b->size() &&
         std::equal(a->begin(), a->end(), b->begin(), [](const Dim& x, const Dim& y) {
           return x.known() == y.known() && x.symbol == y.symbol &&
                  (!x.known() || x.value == y.value);
         });
}

// --- If

void InferIf(InferContext& context) {
  RequireDType(context, 0, {DType::kBool});
  const Graph& yes = BodyOf(context.node, "then_branch");
  const Graph& no = BodyOf(context.node, "else_branch");
  for (const Graph* body : {&yes, &no}) {
    CheckBody(context.node, *body, 0, body->outputs().size());
    if (body->outputs().size() < context.outputs.size()) {
      Fail(ErrorCode::kInvalidModel, "a branch of If has too few outputs");
    }
  }
  // A branch that cannot run with these shapes is never taken with them, so nothing follows from
  // it.
  std::optional<std::vector<ValueType>> types[2];
  std::optional<Error> error;
  for (const size_t i : {0, 1}) {
    try {
      types[i] = InferBody(context, i == 0 ? yes : no, {});
    } catch (const Error& thrown) {
      if (thrown.code() != ErrorCode::kShapeMismatch && thrown.code() != ErrorCode::kInvalidModel) {
        throw;
      }
      error = thrown;
    }
  }
  if (!types[0] && !types[1]) throw *error;
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    if (!types[0] || !types[1]) {
      context.outputs[i].dtype = (types[0] ? *types[0] : *types[1])[i].dtype;
      continue;
    }
    const ValueType& a = (*types[0])[i];
    const ValueType& b = (*types[1])[i];
    context.outputs[i] = {a.dtype == b.dtype ? a.dtype : DType::kUndefined,
                          CommonShape(a.shape, b.shape)};
  }
}

void EvaluateIf(EvalContext& context) {
  const bool taken = ConditionOf(context.input(0));
  const Graph& body = BodyOf(context.node, taken ? "then_branch" : "else_branch");
  CheckBody(context.node, body, 0, body.outputs().size());
  std::vector<Tensor> results = RunBody(context, body, {});
  if (results.size() < context.outputs.size()) {
    Fail(ErrorCode::kInvalidModel, "a branch of If has too few outputs");
  }
  results.resize(context.outputs.size());
  context.outputs = std::move(results);
}

// --- stacking the results of iterations

/// Collects tensors of one shape along a new axis.
class Stack {
 public:
  explicit Stack(int64_t limit) : limit_(limit) {}

  void Add(const Tensor& tensor) {
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

  bool empty() const { return count_ == 0; }

  /// The tensors stacked along the first axis, with `reverse` the last first. `type` is the type of
  /// an element when there is none; its unknown sizes are 0 then, as in ONNX Runtime.
  Tensor Finish(bool reverse, const ValueType& type) const {
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

 private:
  int64_t limit_;
  DType dtype_ = DType::kUndefined;
  Shape shape_;
  int64_t count_ = 0;
  std::vector<uint8_t> bytes_;
};

// --- Loop: M, condition, carried...
// Body: iteration, condition, carried -> condition, carried, scanned

struct LoopForm {
  const Graph& body;
  size_t carried, scanned;
};

LoopForm FormOfLoop(const Node& node) {
  const Graph& body = BodyOf(node, "body");
  const size_t formal = node.formal_inputs();
  const size_t carried = formal > 2 ? formal - 2 : 0;
  const size_t outputs = body.outputs().size();
  const size_t scanned = outputs > carried ? outputs - carried - 1 : 0;
  CheckBody(node, body, carried + 2, carried + scanned + 1);
  if (node.outputs.size() > carried + scanned) {
    Fail(ErrorCode::kInvalidModel, "Loop has more outputs than its body", {.node = node.name});
  }
  return {body, carried, scanned};
}

void InferLoop(InferContext& context) {
  RequireDType(context, 0, {DType::kInt64, DType::kInt32});
  RequireDType(context, 1, {DType::kBool});
  const LoopForm form = FormOfLoop(context.node);
  // A carried value may change its shape from one iteration to the next.
  std::vector<ValueType> types = {{DType::kInt64, SymbolicShape{}},
                                  {DType::kBool, SymbolicShape{}}};
  for (size_t i = 0; i < form.carried; ++i) {
    types.push_back({context.inputs[2 + i].dtype, context.inputs[2 + i].shape});
  }
  std::vector<ValueType> results;
  for (bool stable = false; !stable;) {  // each round knows less than the one before
    results = InferBody(context, form.body, types);
    stable = true;
    for (size_t i = 0; i < form.carried; ++i) {
      ValueType& type = types[2 + i];
      std::optional<SymbolicShape> common = CommonShape(type.shape, results[1 + i].shape);
      stable = stable && SameKnowledge(common, type.shape);
      type.shape = std::move(common);
      if (type.dtype == DType::kUndefined) type.dtype = results[1 + i].dtype;
    }
  }
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    ValueType type = results[1 + i];
    if (i < form.carried) {
      type = types[2 + i];
    } else if (type.shape) {
      type.shape->insert(type.shape->begin(), Dim());
    }
    context.outputs[i] = std::move(type);
  }
}

void EvaluateLoop(EvalContext& context) {
  const LoopForm form = FormOfLoop(context.node);
  const int64_t trips = context.has(0) && context.node.formal_inputs() > 0
                            ? (context.input(0).count() == 1 ? context.input(0).AsInt64(0) : 0)
                            : std::numeric_limits<int64_t>::max();
  bool going = context.node.formal_inputs() < 2 || !context.has(1) || ConditionOf(context.input(1));
  std::vector<Tensor> carried;
  for (size_t i = 0; i < form.carried; ++i) carried.push_back(context.input(2 + i));
  std::vector<Stack> stacks(form.scanned, Stack(std::min<int64_t>(trips, 1 << 20)));
  for (int64_t i = 0; i < trips && going; ++i) {
    const Tensor iteration = Tensor::Scalar(i);
    const Tensor condition = Tensor::Scalar(true);
    std::vector<const Tensor*> inputs = {&iteration, &condition};
    for (const Tensor& tensor : carried) inputs.push_back(&tensor);
    std::vector<Tensor> results = RunBody(context, form.body, std::move(inputs));
    going = ConditionOf(results[0]);
    for (size_t k = 0; k < form.carried; ++k) carried[k] = std::move(results[1 + k]);
    for (size_t k = 0; k < form.scanned; ++k) stacks[k].Add(results[1 + form.carried + k]);
  }
  std::vector<ValueType> types(form.body.outputs().size());
  if (!stacks.empty() && stacks[0].empty()) {
    std::vector<ValueType> formal = {{DType::kInt64, SymbolicShape{}},
                                     {DType::kBool, SymbolicShape{}}};
    for (const Tensor& tensor : carried) formal.push_back(TypeOf(tensor));
    types = TypesOfNone(context, form.body, std::move(formal));
  }
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    context.outputs[i] =
        i < form.carried ? carried[i] : stacks[i - form.carried].Finish(false, types[1 + i]);
  }
}

// --- Scan: states..., sequences...; body: states, slices -> states, slices. Opset 8 has lengths as
// its first input and a batch in front of every shape.

struct ScanForm {
  const Graph& body;
  size_t first;  // inputs before the states
  size_t states, sequences, scanned;
  bool batched;
};

ScanForm FormOfScan(const Node& node, int opset) {
  const Graph& body = BodyOf(node, "body");
  const bool batched = opset < 9;
  const size_t first = batched ? 1 : 0;
  const int64_t given = node.attributes.Int("num_scan_inputs", 0);
  const auto formal = static_cast<int64_t>(node.formal_inputs() - first);
  if (node.formal_inputs() < first || given < 1 || given > formal) {
    Fail(ErrorCode::kInvalidModel, StrCat("Scan over ", given, " of ", formal, " inputs"));
  }
  if (batched && node.input(0) != nullptr) {
    Fail(ErrorCode::kUnsupported, "Scan over sequences of several lengths",
         {.hint = "convert the model to opset 9 or newer"});
  }
  const auto states = static_cast<size_t>(formal - given);
  const size_t outputs = body.outputs().size();
  CheckBody(node, body, static_cast<size_t>(formal), std::max(outputs, states));
  if (node.outputs.size() > outputs) Fail(ErrorCode::kInvalidModel, "Scan has too many outputs");
  return {body, first, states, static_cast<size_t>(given), outputs - states, batched};
}

int64_t ListEntry(const AttributeMap& attributes, const char* name, size_t i) {
  const std::vector<int64_t> list = attributes.Ints(name);
  return i < list.size() ? list[i] : 0;
}

size_t ScanAxis(const Node& node, size_t sequence, size_t rank) {
  return static_cast<size_t>(NormalizeAxis(ListEntry(node.attributes, "scan_input_axes", sequence),
                                           static_cast<int64_t>(rank)));
}

void InferScan(InferContext& context) {
  const ScanForm form = FormOfScan(context.node, context.opset);
  std::vector<ValueType> types;
  Dim length, batch;
  for (size_t i = 0; i < form.states + form.sequences; ++i) {
    ValueType type = context.inputs[form.first + i];
    if (form.batched && type.shape && !type.shape->empty()) {
      batch = MergeDims(batch, type.shape->front(), "batches of Scan");
      type.shape->erase(type.shape->begin());
    }
    if (i >= form.states && type.shape) {
      const size_t axis = ScanAxis(context.node, i - form.states, type.shape->size());
      length = MergeDims(length, (*type.shape)[axis], "lengths of the sequences of Scan");
      type.shape->erase(type.shape->begin() + static_cast<std::ptrdiff_t>(axis));
    }
    types.push_back(std::move(type));
  }
  const std::vector<ValueType> results = InferBody(context, form.body, types);
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    ValueType type = results[i];
    if (i < form.states) {
      type.shape = CommonShape(types[i].shape, type.shape);
    } else if (type.shape) {
      const int64_t axis =
          NormalizeAxis(ListEntry(context.attributes(), "scan_output_axes", i - form.states),
                        static_cast<int64_t>(type.shape->size()) + 1);
      type.shape->insert(type.shape->begin() + axis, length);
    }
    if (form.batched && type.shape) type.shape->insert(type.shape->begin(), batch);
    context.outputs[i] = std::move(type);
  }
}

/// The element `index` along an axis, which disappears.
Tensor SliceAt(const Tensor& tensor, size_t axis, int64_t index) {
  std::vector<std::vector<int64_t>> picked;
  for (const int64_t dim : tensor.shape()) picked.push_back(Sequence(dim));
  picked[axis] = {index};
  Shape shape = tensor.shape();
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return SelectByAxis(tensor, picked).Reshaped(shape);
}

/// Runs over the sequences once; returns the states and the stacked outputs.
std::vector<Tensor> ScanOnce(EvalContext& context, const ScanForm& form, std::vector<Tensor> states,
                             const std::vector<Tensor>& sequences) {
  const AttributeMap& attributes = context.attributes();
  const char* directions = form.batched ? "directions" : "scan_input_directions";
  int64_t length = -1;
  std::vector<size_t> axes;
  for (size_t i = 0; i < form.sequences; ++i) {
    axes.push_back(ScanAxis(context.node, i, sequences[i].shape().size()));
    const int64_t size = sequences[i].shape()[axes.back()];
    if (length >= 0 && size != length) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat("Scan over sequences of ", length, " and ", size, " elements"));
    }
    length = size;
  }
  std::vector<ValueType> types(form.body.outputs().size());
  if (length == 0 && form.scanned > 0) {
    std::vector<ValueType> formal;
    for (const Tensor& tensor : states) formal.push_back(TypeOf(tensor));
    for (size_t i = 0; i < form.sequences; ++i) {
      ValueType slice = TypeOf(sequences[i]);
      slice.shape->erase(slice.shape->begin() + static_cast<std::ptrdiff_t>(axes[i]));
      formal.push_back(std::move(slice));
    }
    types = TypesOfNone(context, form.body, std::move(formal));
  }
  std::vector<Stack> stacks(form.scanned, Stack(length));
  for (int64_t step = 0; step < length; ++step) {
    std::vector<Tensor> slices;
    for (size_t i = 0; i < form.sequences; ++i) {
      const bool backward = ListEntry(attributes, directions, i) != 0;
      slices.push_back(SliceAt(sequences[i], axes[i], backward ? length - 1 - step : step));
    }
    std::vector<const Tensor*> inputs;
    for (const auto* list : {&states, &slices}) {
      for (const Tensor& tensor : *list) inputs.push_back(&tensor);
    }
    std::vector<Tensor> results = RunBody(context, form.body, std::move(inputs));
    for (size_t i = 0; i < form.scanned; ++i) stacks[i].Add(results[form.states + i]);
    results.resize(form.states);
    states = std::move(results);
  }
  for (size_t k = 0; k < form.scanned; ++k) {
    Tensor stacked = stacks[k].Finish(ListEntry(attributes, "scan_output_directions", k) != 0,
                                      types[form.states + k]);
    const int64_t axis =
        NormalizeAxis(ListEntry(attributes, "scan_output_axes", k), stacked.rank());
    if (axis > 0) {
      std::vector<int64_t> perm = Sequence(stacked.rank());
      perm.erase(perm.begin());
      perm.insert(perm.begin() + axis, 0);
      stacked = Permute(stacked, perm);
    }
    states.push_back(std::move(stacked));
  }
  return states;
}

void EvaluateScan(EvalContext& context) {
  const ScanForm form = FormOfScan(context.node, context.opset);
  std::vector<Tensor> states, sequences;
  for (size_t i = 0; i < form.states + form.sequences; ++i) {
    (i < form.states ? states : sequences).push_back(context.input(form.first + i));
  }
  std::vector<Tensor> results;
  if (!form.batched) {
    results = ScanOnce(context, form, std::move(states), sequences);
  } else {
    const int64_t batch = sequences[0].rank() > 0 ? sequences[0].dim(0) : 0;
    std::vector<Stack> stacks(form.states + form.scanned, Stack(batch));
    for (int64_t b = 0; b < batch; ++b) {
      std::vector<Tensor> parts[2];
      for (const auto* list : {&states, &sequences}) {
        for (const Tensor& tensor : *list) {
          if (tensor.rank() < 1 || tensor.dim(0) != batch) {
            Fail(ErrorCode::kShapeMismatch, "batches of Scan differ");
          }
          parts[list == &states ? 0 : 1].push_back(SliceAt(tensor, 0, b));
        }
      }
      const std::vector<Tensor> one = ScanOnce(context, form, std::move(parts[0]), parts[1]);
      for (size_t i = 0; i < one.size(); ++i) stacks[i].Add(one[i]);
    }
    for (size_t i = 0; i < stacks.size(); ++i) {
      results.push_back(stacks[i].Finish(false, form.body.outputs()[i]->type));
    }
  }
  results.resize(context.outputs.size());
  context.outputs = std::move(results);
}

constexpr OpDef kRows[] = {
    {"If", "", 1, 1, kVariadic, kVariadic, InferIf, EvaluateIf, QuantRule::kFloat},
    {"Loop", "", 1, 0, kVariadic, kVariadic, InferLoop, EvaluateLoop, QuantRule::kFloat},
    {"Scan", "", 8, 0, kVariadic, kVariadic, InferScan, EvaluateScan, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> ControlOps() { return kRows; }

}  // namespace requant
