// The inputs and outputs of a TFLite file.
#include <set>
#include <string>
#include <unordered_set>

#include "base/str_cat.h"
#include "tflite/write/writer.h"

namespace requant::tflite {

void Writer::AddInput(const Value* value) {
  const Shape shape = ShapeOf(value);
  const auto rank = static_cast<int64_t>(shape.size());
  std::unordered_set<const Value*> seen;
  const bool last = !options_.onnx_layout && rank >= 3 && WantsChannelsLast(value, seen);
  const Order order = last ? ChannelsLast(rank) : PlainOrder(rank);
  ends_[value] = order;
  TensorType type = TypeOf(value);
  Grid grid;
  Form form = Form::kNumbers;
  if (options_.codes && value->type.dtype == DType::kFloat32) {
    if (const auto behind = GridBehind(value)) {
      grid = *behind;
      type = grid.type;
      form = Form::kCodes;
    }
  }
  std::optional<Grid> moved;
  const bool read = !value->consumers.empty() && value->consumers[0]->Is("DequantizeLinear");
  if (read && type != TensorType::kInt32) {
    if (const auto behind = GridOfPair(*value->consumers[0])) {
      grid = *behind;
      form = Form::kCodes;
      if (grid.type != type) {
        moved = grid;
        grid.type = type;
        grid.zeros[0] += type == TensorType::kUint8 ? 128 : -128;
      }
    }
  }
  // LiteRT.js has no int64 at the ends.
  const bool wide = type == TensorType::kInt64;
  int32_t index =
      AddTensor(value->name, wide ? TensorType::kInt32 : type, Ordered(shape, order), grid);
  net_.inputs.push_back(index);
  if (wide) index = Add(Builtin::kCAST, {index}, value->name, type, Ordered(shape, order));
  if (moved) index = Quantized(index, *moved, value->name);
  Hold(value, index, order, form);
}

void Writer::AddInputs() {
  for (const Value* value : graph_.inputs()) {
    if (!value->is_constant()) AddInput(value);
  }
}

int32_t Writer::OutputTensor(const Value* value, std::set<int32_t>& taken) {
  const int64_t rank = RankOf(value);
  const DType dtype = value->type.dtype;
  Form form = Form::kNumbers;
  if (HasCodes(value) && (IsByte(dtype) || options_.codes)) form = Form::kCodes;
  Order order = PlainOrder(rank);
  if (!options_.onnx_layout && rank >= 3 && NativeOrder(value) == ChannelsLast(rank)) {
    order = ChannelsLast(rank);
  }
  ends_[value] = order;
  int32_t index = Need(value, order, form);
  const TensorType type = TypeOf(value);
  if (form == Form::kCodes && IsByte(dtype) && tensor(index).type != type) {
    Grid grid = tensor(index).grid;
    grid.zeros[0] += type == TensorType::kUint8 ? 128 : -128;
    grid.type = type;
    index = Quantized(index, grid, value->name);
  }
  if (type == TensorType::kInt64) {
    index = Add(Builtin::kCAST, {index}, value->name, TensorType::kInt32, tensor(index).shape);
  }
  if (taken.count(index) != 0 || !tensor(index).data.empty()) {
    const Shape shape = tensor(index).shape;
    Option list{static_cast<uint16_t>(field::ReshapeOptions::kNewShape), Option::Kind::kInts};
    for (const int64_t dim : shape) list.list.push_back(static_cast<int32_t>(dim));
    index = Add(Builtin::kRESHAPE, {index, AddInts(shape)}, value->name, tensor(index).type, shape,
                {list}, tensor(index).grid);
  }
  taken.insert(index);
  net_.tensors[static_cast<size_t>(index)].name = value->name;
  return index;
}

void Writer::AddOutputs() {
  node_ = nullptr;
  std::set<int32_t> taken(net_.inputs.begin(), net_.inputs.end());
  for (const Value* value : graph_.outputs()) {
    net_.outputs.push_back(OutputTensor(value, taken));
  }
}

void Writer::NameTensors() {
  std::set<int32_t> ends(net_.inputs.begin(), net_.inputs.end());
  ends.insert(net_.outputs.begin(), net_.outputs.end());
  std::set<std::string> names;
  for (const int32_t index : ends) names.insert(tensor(index).name);
  for (size_t i = 0; i < net_.tensors.size(); ++i) {
    if (ends.count(static_cast<int32_t>(i)) != 0) continue;
    std::string& name = net_.tensors[i].name;
    if (!names.insert(name).second) name = StrCat(name, "_", i);
    names.insert(name);
  }
}

}  // namespace requant::tflite
