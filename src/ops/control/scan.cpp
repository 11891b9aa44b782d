// Scan (onnx docs/Operators.md).
//   inputs: states..., sequences...
//   body:   states, slices -> states, slices
// Opset 8 has lengths as its first input and a batch in front of every shape.
#include <algorithm>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/control/body.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

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
    {"Scan", "", 8, 0, kVariadic, kVariadic, InferScan, EvaluateScan, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> ScanOps() { return kRows; }

}  // namespace requant
