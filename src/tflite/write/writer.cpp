#include "tflite/write/writer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/tensor_types.h"
#include "tflite/write/operators.h"

namespace requant::tflite {
namespace {

/// Whether a value's consumers through such an operator keep its order of dimensions.
bool KeepsOrder(const Node& node) {
  static constexpr const char* kNames[] = {"QuantizeLinear",
                                           "DequantizeLinear",
                                           "Add",
                                           "Sub",
                                           "Mul",
                                           "Div",
                                           "Relu",
                                           "Clip",
                                           "Sigmoid",
                                           "HardSwish",
                                           "LeakyRelu",
                                           "PRelu",
                                           "Concat",
                                           "Pad",
                                           "Slice",
                                           "Split",
                                           "Identity",
                                           "Cast",
                                           "Tanh",
                                           "Elu",
                                           "Min",
                                           "Max",
                                           "HardSigmoid"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const char* name) { return node.Is(name); });
}

bool IsSpatial(const Node& node) {
  static constexpr const char* kNames[] = {
      "Conv",          "ConvTranspose", "MaxPool",      "AveragePool",  "GlobalAveragePool",
      "GlobalMaxPool", "Resize",        "DepthToSpace", "SpaceToDepth", "Upsample"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const char* name) { return node.Is(name); });
}

/// The clip of a Relu or Clip: {low, high}. nullopt for others and for computed bounds.
std::optional<std::pair<double, double>> ClipOf(const Node& node) {
  std::pair<double, double> range{-INFINITY, INFINITY};
  if (node.Is("Relu")) return std::pair<double, double>{0, INFINITY};
  if (!node.Is("Clip")) return std::nullopt;
  if (node.attributes.Has("min")) range.first = node.attributes.Float("min", 0);
  if (node.attributes.Has("max")) range.second = node.attributes.Float("max", 0);
  for (const size_t slot : {1, 2}) {
    if (node.input(slot) == nullptr) continue;
    const Tensor* bound = node.constant(slot);
    if (bound == nullptr) return std::nullopt;
    (slot == 1 ? range.first : range.second) = bound->AsDouble(0);
  }
  return range;
}

/// The fused activation that is this clip, if there is one.
std::optional<Activation> ActivationOf(std::pair<double, double> clip) {
  if (clip == std::pair<double, double>{0, INFINITY}) return Activation::kRelu;
  if (clip == std::pair<double, double>{0, 6}) return Activation::kRelu6;
  if (clip == std::pair<double, double>{-1, 1}) return Activation::kReluN1To1;
  return std::nullopt;
}

/// Whether all codes of the grid are numbers within the clip.
bool Implies(const Grid& grid, std::pair<double, double> clip) {
  const int64_t least = grid.type == TensorType::kInt8    ? -128
                        : grid.type == TensorType::kUint8 ? 0
                                                          : -32768;
  const int64_t most = least + (grid.type == TensorType::kInt16 ? 65535 : 255);
  const double step = grid.scales[0];
  return step * static_cast<double>(least - grid.zeros[0]) >= clip.first - 1e-6 * step &&
         step * static_cast<double>(most - grid.zeros[0]) <= clip.second + 1e-6 * step;
}

}  // namespace

Shape Writer::ShapeOf(const Value* value) const {
  if (value->is_constant()) return value->constant.shape();
  if (!value->type.IsStatic()) {
    Refuse(
        StrCat("'", value->name, RQ_LATE_TEXT("' has the open shape "), TypeToString(value->type)),
        RQ_LATE_TEXT("give the sizes with the option `shapes`"), value);
  }
  return value->type.StaticShape();
}

TensorType Writer::FileType(DType dtype, const std::string& name, const Value* value) const {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kBool:
    case DType::kInt8:
    case DType::kUint8:
    case DType::kInt16:
      return *TensorTypeOf(dtype);
    default:
      Refuse(StrCat("'", name, "' has the type ", DTypeName(dtype)),
             RQ_LATE_TEXT("use float32, int32 or int64 there"), value);
  }
}

TensorType Writer::TypeOf(const Value* value) const {
  return FileType(value->type.dtype, value->name, value);
}

std::optional<Grid> Writer::GridOfPair(const Node& pair) const {
  const Tensor* scale = pair.constant(1);
  const Tensor* zero = pair.constant(2);
  if (scale == nullptr || scale->count() != 1 || (pair.input(2) && !zero)) return std::nullopt;
  const Value* codes = pair.Is("QuantizeLinear") ? pair.output() : pair.inputs[0];
  Grid grid{code_type_, {static_cast<float>(scale->AsDouble(0))}, {zero ? zero->AsInt64(0) : 0}};
  switch (codes->type.dtype) {
    case DType::kInt8:
      if (code_type_ == TensorType::kUint8) grid.zeros[0] += 128;
      return grid;
    case DType::kUint8:
      if (code_type_ == TensorType::kInt8) grid.zeros[0] -= 128;
      return grid;
    case DType::kInt16:
      grid.type = TensorType::kInt16;
      if (grid.zeros[0] != 0) return std::nullopt;
      return grid;
    default:
      return std::nullopt;
  }
}

bool Writer::HasCodes(const Value* value) const {
  if (IsConstant(value)) {
    const auto codes = CodesOf(value);
    return codes && codes->scales.size() == 1 && IsByte(codes->codes.dtype());
  }
  const auto held = held_.find(value);
  if (held == held_.end()) return false;
  return std::any_of(held->second.begin(), held->second.end(), [this](const Held& one) {
    return one.form == Form::kCodes && tensor(one.tensor).type == code_type_;
  });
}

Grid Writer::GridOf(const Value* value) const {
  if (IsConstant(value)) {
    const ConstantCodes codes = *CodesOf(value);
    return {code_type_, codes.scales, codes.zeros, static_cast<int32_t>(codes.axis)};
  }
  for (const Held& one : held_.at(value)) {
    if (one.form == Form::kCodes) return tensor(one.tensor).grid;
  }
  return {};
}

Form Writer::NativeForm(const Value* value) const {
  if (IsConstant(value)) return HasCodes(value) ? Form::kCodes : Form::kNumbers;
  return held_.at(value).front().form;
}

Order Writer::NativeOrder(const Value* value) const {
  const auto held = held_.find(value);
  return held == held_.end() ? PlainOrder(RankOf(value)) : held->second.front().order;
}

Order Writer::OrderFor(const std::vector<Value*>& values, int64_t rank) const {
  Order plain = PlainOrder(rank);
  for (const Value* value : values) {
    if (value == nullptr || IsConstant(value) || RankOf(value) != rank) continue;
    if (NativeOrder(value) != plain) return NativeOrder(value);
  }
  return plain;
}

int32_t Writer::Need(const Value* value, const Order& order, Form form) {
  if (IsConstant(value)) return NeedConstant(value, order, form);
  const auto found = held_.find(value);
  if (found == held_.end()) {
    Refuse(StrCat("'", value->name, "' is not held"), RQ_LATE_TEXT("report this as a bug"), value);
  }
  const Held* best = nullptr;
  for (const Held& one : found->second) {
    if (one.form != form) continue;
    if (one.order == order) return one.tensor;
    if (best == nullptr) best = &one;
  }
  for (const Held& one : found->second) {
    if (form == Form::kNumbers && one.form == Form::kCodes && best == nullptr) best = &one;
  }
  if (best == nullptr) {
    Refuse(StrCat("'", value->name, "' has no codes"), RQ_LATE_TEXT("report this as a bug"), value);
  }
  Held made = *best;
  if (made.form != form) {
    made.tensor = Dequantized(made.tensor, value->name);
    made.form = form;
    if (node_ != nullptr && !node_->Is("DequantizeLinear") && !node_->Is("QuantizeLinear")) {
      floats_.insert(node_->name);
    }
  }
  if (made.order != order) {
    Order moves;
    for (const int64_t axis : order) moves.push_back(PlaceOf(made.order, axis));
    made.tensor = Transposed(made.tensor, moves, value->name);
    made.order = order;
  }
  held_[value].push_back(made);
  return made.tensor;
}

int32_t Writer::NeedPlain(const Value* value, Form form) {
  return Need(value, PlainOrder(RankOf(value)), form);
}

void Writer::Hold(const Value* value, int32_t index, Order order, Form form) {
  held_[value].push_back({index, std::move(order), form});
}

void Writer::Alias(const Value* value, const Value* from, const Order& permutation) {
  const std::vector<Held> list = held_.at(from);
  for (const Held& one : list) {
    Order order;
    for (const int64_t axis : one.order) order.push_back(PlaceOf(permutation, axis));
    held_[value].push_back({one.tensor, order, one.form});
  }
}

std::optional<Grid> Writer::GridBehind(const Value* value) const {
  if (value->consumers.empty() || graph_.IsOutput(value)) return std::nullopt;
  std::optional<Grid> grid;
  for (const Node* reader : value->consumers) {
    if (!reader->Is("QuantizeLinear") || reader->inputs[0] != value) return std::nullopt;
    const auto one = GridOfPair(*reader);
    if (!one || (grid && *grid != *one)) return std::nullopt;
    grid = one;
  }
  return grid;
}

Tail Writer::TailOf(bool activations) const {
  Tail tail;
  tail.value = node_->output();
  const Node* next = graph_.SoleConsumer(tail.value);
  if (next != nullptr && next->inputs[0] == tail.value) {
    if (const auto clip = ClipOf(*next)) {
      const auto grid = GridBehind(next->output());
      const auto activation = ActivationOf(*clip);
      const bool implied = grid && Implies(*grid, *clip);
      if (implied || (activations && activation)) {
        tail.activation = implied ? Activation::kNone : *activation;
        // Readers of the file see the activation of the network where there is one.
        if (activations && activation) tail.activation = *activation;
        tail.value = next->output();
        tail.nodes.push_back(next);
      }
    }
  }
  tail.grid = GridBehind(tail.value);
  if (tail.grid && tail.grid->type != code_type_) tail.grid.reset();
  return tail;
}

bool Writer::OnCodes(const Tail& tail, const std::vector<const Value*>& values) const {
  return tail.grid && std::all_of(values.begin(), values.end(), [this](const Value* value) {
           return value == nullptr || HasCodes(value);
         });
}

Form Writer::FormOnOneGrid(const Tail& tail, const Value* value) const {
  const bool codes =
      OnCodes(tail, {value}) && tail.grid->scales[0] >= 0.999F * GridOf(value).scales[0];
  return codes ? Form::kCodes : Form::kNumbers;
}

void Writer::Finish(const Tail& tail, int32_t index, Order order, Form form) {
  for (const Node* node : tail.nodes) done_.insert(node);
  Hold(tail.value, index, std::move(order), form);
}

void Writer::Refuse(const std::string& what, const std::string& hint, const Value* value) const {
  ErrorContext context;
  context.hint = StrCat(RQ_LATE_TEXT("A TFLite file cannot hold it: "), hint, ".");
  if (value != nullptr) context.value = value->name;
  if (node_ == nullptr) Fail(ErrorCode::kUnsupported, what, std::move(context));
  context.node = node_->name;
  Fail(ErrorCode::kUnsupported, StrCat(node_->op_type, " '", node_->name, "': ", what),
       std::move(context));
}

void Writer::ChooseCodeType() {
  const auto may_move = [](const Node& pair) {
    const Value* codes = pair.inputs[0];
    if (codes->type.dtype != DType::kUint8 || !codes->is_constant()) return true;
    const Tensor* zero = pair.constant(2);
    if (zero == nullptr) return false;
    const auto zeros = zero->ToInts();
    return std::all_of(zeros.begin(), zeros.end(), [](int64_t one) { return one == 128; });
  };
  for (const auto& node : graph_.nodes()) {
    const bool product =
        node->Is("Conv") || node->Is("ConvTranspose") || node->Is("Gemm") || node->Is("MatMul");
    if (!product) continue;
    const Node* pair = node->inputs[1]->producer;
    if (pair != nullptr && pair->Is("Transpose")) pair = pair->inputs[0]->producer;
    if (pair == nullptr || !pair->Is("DequantizeLinear") || may_move(*pair)) continue;
    code_type_ = TensorType::kUint8;
    Note(StrCat(RQ_LATE_TEXT("codes are uint8, since the weights of '"), node->name,
                "' have a zero point"));
    return;
  }
}

bool Writer::WantsChannelsLast(const Value* value, std::unordered_set<const Value*>& seen) const {
  if (!seen.insert(value).second) return false;
  for (const Node* reader : value->consumers) {
    if (reader->inputs[0] == value && IsSpatial(*reader)) return true;
    if (!KeepsOrder(*reader)) continue;
    for (const Value* output : reader->outputs) {
      if (output != nullptr && WantsChannelsLast(output, seen)) return true;
    }
  }
  return false;
}

TfliteFile Writer::Run() {
  ChooseCodeType();
  AddInputs();
  for (const auto& node : graph_.nodes()) {
    if (done_.count(node.get()) != 0) continue;
    node_ = node.get();
    const WriteRow* row = FindWriteRow(*node);
    if (row == nullptr) {
      Refuse(RQ_LATE_TEXT("LiteRT has no such operator"),
             RQ_LATE_TEXT("run the model as ONNX, or cut it there"));
    }
    row->write(*this);
  }
  AddOutputs();
  NameTensors();
  TfliteFile file;
  file.bytes = Serialize(net_);
  file.report = Report();
  return file;
}

}  // namespace requant::tflite

namespace requant {

TfliteFile WriteTflite(const Graph& graph, const TfliteOptions& options) {
  return tflite::Writer(graph, options).Run();
}

}  // namespace requant
