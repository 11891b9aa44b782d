#include "tflite/converter.h"

#include <algorithm>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ir/verify.h"
#include "ops/shape/select.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

/// The newest opset whose operators this reader writes.
constexpr int kOpset = 21;
/// The largest nesting of subgraphs; a file with more is refused.
constexpr int kDeepestBody = 16;
/// Bodies are converted once for each call, so a small file could have very many operators.
constexpr size_t kMostOperators = size_t{1} << 18;
/// A state of more bytes is refused; nothing in the file backs its size.
constexpr size_t kMostStateBytes = size_t{1} << 28;

constexpr size_t At(Order order) { return static_cast<size_t>(order); }
constexpr Order Other(Order order) {
  return order == Order::kPlain ? Order::kPlanar : Order::kPlain;
}

std::vector<int64_t> PlainOrder(size_t rank) {
  std::vector<int64_t> perm = {0};
  for (size_t i = 2; i < rank; ++i) perm.push_back(static_cast<int64_t>(i));
  perm.push_back(1);
  return perm;
}

std::vector<int64_t> OrderTo(Order order, size_t rank) {
  return order == Order::kPlanar ? PlanarOrder(rank) : PlainOrder(rank);
}

/// A constant in another order. One that was widened from 16 bits keeps them.
Tensor Reordered(const Tensor& tensor, const std::vector<int64_t>& perm) {
  if (tensor.half()) return Tensor::Widened(Permute(*tensor.half(), perm));
  return Permute(tensor, perm);
}

}  // namespace

std::vector<int64_t> PlanarOrder(size_t rank) {
  std::vector<int64_t> perm = {0, static_cast<int64_t>(rank) - 1};
  for (size_t i = 1; i + 1 < rank; ++i) perm.push_back(static_cast<int64_t>(i));
  return perm;
}

int64_t PlanarAxis(int64_t axis, size_t rank) {
  if (axis == 0) return 0;
  return axis == static_cast<int64_t>(rank) - 1 ? 1 : axis + 1;
}

Converter::Converter(const File& file, size_t subgraph)
    : file_(file),
      subgraph_(file.subgraphs()[subgraph]),
      left_(std::make_shared<size_t>(kMostOperators)),
      states_(subgraph_.tensors.size()),
      complex_(subgraph_.tensors.size()),
      constants_(subgraph_.tensors.size()),
      is_output_(subgraph_.tensors.size()) {
  graph_.opsets[""] = kOpset;
  graph_.name = subgraph_.name;
  for (size_t i = 0; i < subgraph_.tensors.size(); ++i) {
    constants_[i] = subgraph_.tensors[i].constant;
  }
  for (const int32_t output : subgraph_.outputs) is_output_[static_cast<size_t>(output)] = true;
}

void Converter::AddInputs(bool captured, const std::vector<Tensor>* arguments) {
  for (size_t i = 0; i < subgraph_.inputs.size(); ++i) {
    const int32_t index = subgraph_.inputs[i];
    const FileTensor& file = tensor(index);
    TensorState& state = states_[static_cast<size_t>(index)];
    if (state.defined) {
      InvalidTflite(StrCat(RQ_LATE_TEXT("input '"), file.name, RQ_LATE_TEXT("' is listed twice")),
                    {.value = file.name});
    }
    if (arguments && !(*arguments)[i].empty()) {
      DefineConstant(index, (*arguments)[i]);
      continue;
    }
    if (file.dtype == DType::kUndefined || DTypeBits(file.dtype) < 8) {
      Fail(ErrorCode::kUnsupported,
           StrCat(RQ_LATE_TEXT("input '"), file.name, RQ_LATE_TEXT("' has type "),
                  static_cast<int>(file.type), RQ_LATE_TEXT(" of TFLite's schema")),
           {.value = file.name, .hint = RQ_LATE_TEXT("convert the model with inputs of numbers")});
    }
    constants_[static_cast<size_t>(index)] = Tensor();
    ValueType type{file.dtype, file.shape};
    for (size_t axis = 0; axis < file.shape.size(); ++axis) {
      Dim& dim = (*type.shape)[axis];
      if (!dim.known()) dim = Dim(StrCat(file.name, "_", axis));
    }
    Value* value = graph_.AddValue(file.name, std::move(type));
    graph_.AddInput(value);
    if (captured) ++graph_.captured;
    state.codes[At(Order::kPlain)] = value;
    state.defined = true;
  }
}

void Converter::AddOutputs() {
  for (const int32_t index : subgraph_.outputs) {
    const FileTensor& file = tensor(index);
    label_ = file.name;
    Value* value = Codes(index, Order::kPlain);
    if (value->is_constant() || graph_.IsInput(value) || graph_.IsOutput(value)) {
      value = Add("Identity", {value});
      graph_.RenameValue(value, StrCat(file.name, RQ_LATE_TEXT("/output")));
    }
    value->type = {file.dtype, file.shape};
    graph_.AddOutput(value);
  }
}

void Converter::ConvertOperators() {
  for (size_t i = 0; i < subgraph_.operators.size(); ++i) {
    const FileOperator& op = subgraph_.operators[i];
    const auto named = std::find_if(op.outputs.begin(), op.outputs.end(),
                                    [](int32_t index) { return index >= 0; });
    label_ = named == op.outputs.end() ? StrCat(RQ_LATE_TEXT("operator_"), i) : tensor(*named).name;
    if ((*left_)-- == 0) InvalidTflite(RQ_LATE_TEXT("the file has too many operators"));
    ConvertOperator(*this, op);
  }
}

Graph Converter::ConvertModel() {
  AddInputs(false, nullptr);
  ConvertOperators();
  AddOutputs();
  graph_.RemoveUnusedValues();
  graph_.SortTopologically();
  VerifyGraph(graph_);
  return std::move(graph_);
}

Subgraph Converter::ConvertBody(size_t subgraph, const std::vector<Tensor>& arguments,
                                std::vector<size_t>& captured) const {
  if (depth_ >= kDeepestBody) InvalidTflite(RQ_LATE_TEXT("subgraphs are nested too deeply"));
  Converter body(file_, subgraph);
  body.depth_ = depth_ + 1;
  body.left_ = left_;
  if (arguments.size() != body.subgraph_.inputs.size()) {
    InvalidTflite(StrCat(RQ_LATE_TEXT("a call gives "), arguments.size(),
                         RQ_LATE_TEXT(" arguments to a subgraph of "),
                         body.subgraph_.inputs.size()));
  }
  body.AddInputs(true, &arguments);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].empty()) captured.push_back(i);
  }
  body.ConvertOperators();
  body.AddOutputs();
  body.graph_.RemoveUnusedValues();
  body.graph_.SortTopologically();
  VerifyGraph(body.graph_);
  return std::make_shared<Graph>(std::move(body.graph_));
}

void Converter::Inline(size_t subgraph, const FileOperator& op) {
  if (depth_ >= kDeepestBody) InvalidTflite(RQ_LATE_TEXT("subgraphs are nested too deeply"));
  Converter body(file_, subgraph);
  body.depth_ = depth_ + 1;
  body.left_ = left_;
  const FileSubgraph& called = body.subgraph_;
  if (called.inputs.size() != op.inputs.size() || called.outputs.size() != op.outputs.size()) {
    InvalidTflite(StrCat("'", label_,
                         RQ_LATE_TEXT("' calls a subgraph of another number of inputs or outputs")),
                  {.node = label_});
  }
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] < 0) continue;
    const auto from = static_cast<size_t>(op.inputs[i]);
    const auto to = static_cast<size_t>(called.inputs[i]);
    Defined(op.inputs[i]);
    body.states_[to] = states_[from];
    body.constants_[to] = constants_[from];
  }
  std::swap(graph_, body.graph_);
  body.ConvertOperators();
  std::vector<Ordered> results;
  for (const int32_t output : called.outputs) {
    const Order order = body.OrderOf(output);
    body.label_ = body.tensor(output).name;
    results.push_back({body.Codes(output, order), order});
  }
  std::swap(graph_, body.graph_);
  for (size_t i = 0; i < results.size(); ++i) {
    if (op.outputs[i] < 0) continue;
    DefineCodes(op.outputs[i], Add("Identity", {results[i].value}), results[i].order);
  }
}

const Tensor* Converter::Constant(int32_t index) const {
  const Tensor& constant = constants_[static_cast<size_t>(index)];
  return constant.empty() ? nullptr : &constant;
}

TensorState& Converter::Defined(int32_t index) {
  TensorState& state = states_[static_cast<size_t>(index)];
  if (state.defined) return state;
  const FileTensor& file = tensor(index);
  const auto i = static_cast<size_t>(index);
  if (file.dtype == DType::kUndefined) {
    Fail(ErrorCode::kUnsupported,
         StrCat(RQ_LATE_TEXT("tensor '"), file.name, RQ_LATE_TEXT("' has type "),
                static_cast<int>(file.type), RQ_LATE_TEXT(" of TFLite's schema")),
         {.node = label_,
          .value = file.name,
          .hint = RQ_LATE_TEXT("convert the model without that type")});
  }
  if (constants_[i].empty()) {
    const ValueType type{file.dtype, file.shape};
    // A list without elements has no bytes, and a state is zero when a run begins.
    const bool empty = type.IsStatic() && (file.variable || NumElements(type.StaticShape()) == 0);
    if (!empty) {
      InvalidTflite(StrCat("'", label_, RQ_LATE_TEXT("' reads tensor '"), file.name,
                           RQ_LATE_TEXT("', which nothing defines")),
                    {.node = label_, .value = file.name});
    }
    const Shape shape = type.StaticShape();
    if (DTypeBytes(file.dtype, static_cast<size_t>(NumElements(shape))) > kMostStateBytes) {
      Fail(ErrorCode::kOutOfMemory,
           StrCat(RQ_LATE_TEXT("state '"), file.name, RQ_LATE_TEXT("' is too large")),
           {.node = label_, .value = file.name, .hint = RQ_LATE_TEXT("make it an input")});
    }
    constants_[i] = Tensor(file.dtype, shape);
  }
  state.codes[At(Order::kPlain)] = graph_.AddConstant(file.name, constants_[i]);
  state.defined = true;
  return state;
}

Value* Converter::Codes(int32_t index, Order order) {
  TensorState& state = Defined(index);
  const size_t rank = tensor(index).shape.size();
  if (state.codes[At(order)]) return state.codes[At(order)];
  if (rank < 3) return state.codes[At(Other(order))];
  Value* from = state.codes[At(Other(order))];
  const std::string& name = tensor(index).name;
  if (from->is_constant()) {
    state.codes[At(order)] = graph_.AddConstant(StrCat(name, RQ_LATE_TEXT("/planar")),
                                                Reordered(from->constant, OrderTo(order, rank)));
    return state.codes[At(order)];
  }
  if (quantized(index)) {
    // Q/DQ pairs are around all operators, as in a QDQ file.
    Value* moved = Transposed(Reals(index, Other(order)), OrderTo(order, rank));
    state.codes[At(order)] = Quantize(moved, index, order);
  } else {
    state.codes[At(order)] = Transposed(from, OrderTo(order, rank));
  }
  NameValue(state.codes[At(order)], index, order);
  return state.codes[At(order)];
}

Value* Converter::Reals(int32_t index, Order order) {
  if (!quantized(index)) return Codes(index, order);
  const FileTensor& file = tensor(index);
  if (file.shape.size() < 3) order = Order::kPlain;
  Value* codes = Codes(index, order);
  Value*& wanted = states_[static_cast<size_t>(index)].reals[At(order)];
  if (wanted == nullptr) {
    const int64_t axis = order == Order::kPlain
                             ? file.quantization.axis
                             : PlanarAxis(file.quantization.axis, file.shape.size());
    wanted = Dequantize(codes, file.quantization, file.dtype, axis);
    graph_.RenameValue(wanted, StrCat(file.name, RQ_LATE_TEXT("/real")));
  }
  return wanted;
}

Order Converter::OrderOf(int32_t index) const {
  const TensorState& state = states_[static_cast<size_t>(index)];
  return state.codes[At(Order::kPlanar)] && !graph_.IsInput(state.codes[At(Order::kPlain)]) &&
                 constants_[static_cast<size_t>(index)].empty()
             ? Order::kPlanar
             : Order::kPlain;
}

void Converter::NameValue(Value* value, int32_t index, Order order) {
  const std::string& name = tensor(index).name;
  const bool own = !is_output_[static_cast<size_t>(index)] || order == Order::kPlain;
  const bool taken = graph_.FindValue(name) && graph_.FindValue(name) != value;
  graph_.RenameValue(value, own && !taken
                                ? name
                                : StrCat(name, order == Order::kPlain ? RQ_LATE_TEXT("/plain")
                                                                      : RQ_LATE_TEXT("/planar")));
}

void Converter::DefineCodes(int32_t index, Value* value, Order order) {
  TensorState& state = states_[static_cast<size_t>(index)];
  const FileTensor& file = tensor(index);
  if (state.defined || !constants_[static_cast<size_t>(index)].empty()) {
    InvalidTflite(StrCat(RQ_LATE_TEXT("tensor '"), file.name, RQ_LATE_TEXT("' is defined twice")),
                  {.node = label_, .value = file.name});
  }
  if (file.shape.size() < 3) order = Order::kPlain;
  // Another tensor's value, or a constant, keeps its own name.
  if (value->producer == nullptr || value->type.dtype != DType::kUndefined) {
    value = Add("Identity", {value});
  }
  value->type.dtype = file.dtype;
  NameValue(value, index, order);
  state.codes[At(order)] = value;
  state.defined = true;
}

void Converter::DefineReals(int32_t index, Value* value, Order order) {
  DefineCodes(index, quantized(index) ? Quantize(value, index, order) : value, order);
}

void Converter::DefineConstant(int32_t index, Tensor constant) {
  TensorState& state = states_[static_cast<size_t>(index)];
  const FileTensor& file = tensor(index);
  if (state.defined || !constants_[static_cast<size_t>(index)].empty()) {
    InvalidTflite(StrCat(RQ_LATE_TEXT("tensor '"), file.name, RQ_LATE_TEXT("' is defined twice")),
                  {.node = label_, .value = file.name});
  }
  constants_[static_cast<size_t>(index)] = std::move(constant);
}

Value* Converter::Complex(int32_t index) const {
  Value* value = complex_[static_cast<size_t>(index)];
  if (value) return value;
  const std::string& name = tensor(index).name;
  Fail(ErrorCode::kUnsupported,
       StrCat(RQ_LATE_TEXT("tensor '"), name, RQ_LATE_TEXT("' has complex numbers")),
       {.node = label_,
        .value = name,
        .hint = RQ_LATE_TEXT("only results of RFFT2D may be complex")});
}

Value* Converter::Add(const char* op, std::vector<Value*> inputs, AttributeMap attributes) {
  return AddMany(op, std::move(inputs), 1, std::move(attributes))[0];
}

std::vector<Value*> Converter::AddMany(const char* op, std::vector<Value*> inputs, size_t outputs,
                                       AttributeMap attributes) {
  std::vector<Value*> made;
  for (size_t i = 0; i < outputs; ++i) made.push_back(graph_.AddValue(StrCat(label_, "/", op)));
  graph_.AddNode(op, "", std::move(inputs), made, std::move(attributes), label_);
  return made;
}

Value* Converter::AddConstant(Tensor tensor) {
  return graph_.AddConstant(StrCat(label_, RQ_LATE_TEXT("/constant")), std::move(tensor));
}

Value* Converter::Transposed(Value* value, const std::vector<int64_t>& perm) {
  return Add("Transpose", {value}, With("perm", perm));
}

AttributeMap With(std::string name, Attribute value) {
  AttributeMap map;
  map.Set(std::move(name), std::move(value));
  return map;
}

AttributeMap With(std::string name, Attribute value, std::string second, Attribute other) {
  AttributeMap map = With(std::move(name), std::move(value));
  map.Set(std::move(second), std::move(other));
  return map;
}

}  // namespace requant::tflite
