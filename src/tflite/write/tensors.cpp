// Adds tensors and the operators that change their form; writes the report.
#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tensor/half.h"
#include "tflite/tensor_types.h"
#include "tflite/write/writer.h"

namespace requant::tflite {
namespace {

/// "NHWC" where channels are last, "NCHW" where they are second, "" for other ranks.
const char* LayoutName(const Order& order) {
  if (order.size() != 4) return "";
  return order == ChannelsLast(4) ? "NHWC" : "NCHW";
}

void WriteNames(JsonWriter& json, const char* key, const std::vector<std::string>& names) {
  json.Key(key).BeginArray();
  for (const std::string& name : names) json.String(name);
  json.EndArray();
}

}  // namespace

int32_t Writer::AddTensor(std::string name, TensorType type, Shape shape, Grid grid) {
  if (!grid.scales.empty()) type = grid.type;
  net_.tensors.push_back({std::move(name), type, std::move(shape), std::move(grid), {}});
  return static_cast<int32_t>(net_.tensors.size()) - 1;
}

int32_t Writer::AddConstant(std::string name, Tensor data, Grid grid) {
  // AddFloats makes halves, which only constants may be.
  const TensorType type =
      data.dtype() == DType::kFloat16 ? TensorType::kFloat16 : FileType(data.dtype(), name);
  const int32_t index = AddTensor(std::move(name), type, data.shape(), std::move(grid));
  NetTensor& made = net_.tensors.back();
  made.type = type;
  made.data = std::move(data);
  return index;
}

int32_t Writer::AddFloats(std::string name, Tensor data) {
  if (!options_.half_weights || data.count() < 16) return AddConstant(std::move(name), data);
  Tensor halves(DType::kFloat16, data.shape());
  auto* bits = static_cast<uint16_t*>(halves.raw());
  const auto* floats = data.data<float>();
  for (int64_t i = 0; i < data.count(); ++i) {
    bits[i] = FloatToHalf(floats[i]);
    if (std::isinf(HalfToFloat(bits[i])) && std::isfinite(floats[i])) {
      Refuse(StrCat("'", name, "' has the value ", static_cast<double>(floats[i]),
                    RQ_LATE_TEXT(", which float16 has not")),
             RQ_LATE_TEXT("write it with weights of 32 bits"));
    }
  }
  const int32_t half = AddConstant(StrCat(name, "_half"), halves);
  return Add(Builtin::kDEQUANTIZE, {half}, name, TensorType::kFloat32, data.shape());
}

int32_t Writer::AddInts(const std::vector<int64_t>& numbers) {
  std::vector<int32_t> narrow;
  for (const int64_t number : numbers) {
    narrow.push_back(static_cast<int32_t>(std::clamp<int64_t>(number, INT32_MIN, INT32_MAX)));
  }
  return AddConstant("numbers", Tensor::Vector(narrow));
}

void Writer::AddOperator(Builtin op, std::vector<int32_t> inputs, std::vector<int32_t> outputs,
                         std::vector<Option> options) {
  net_.operators.push_back({op, std::move(inputs), std::move(outputs), std::move(options)});
}

int32_t Writer::Add(Builtin op, std::vector<int32_t> inputs, const std::string& name,
                    TensorType type, Shape shape, std::vector<Option> options, Grid grid) {
  const int32_t index = AddTensor(name, type, std::move(shape), std::move(grid));
  AddOperator(op, std::move(inputs), {index}, std::move(options));
  return index;
}

int32_t Writer::Reshaped(int32_t index, const Shape& shape, const std::string& name) {
  if (tensor(index).shape == shape) return index;
  Option list{static_cast<uint16_t>(field::ReshapeOptions::kNewShape), Option::Kind::kInts};
  for (const int64_t dim : shape) list.list.push_back(static_cast<int32_t>(dim));
  const NetTensor from = tensor(index);
  const int32_t dims = AddInts(shape);
  return Add(Builtin::kRESHAPE, {index, dims}, name, from.type, shape, {list}, from.grid);
}

int32_t Writer::Transposed(int32_t index, const Order& order, const std::string& name) {
  const NetTensor from = tensor(index);
  if (order == PlainOrder(static_cast<int64_t>(order.size()))) return index;
  const auto known = transposed_.find({index, order});
  if (known != transposed_.end()) return known->second;
  const Shape shape = Ordered(from.shape, order);
  int64_t last = -1;
  bool moves = false;  // whether elements move: dimensions of 1 do not count
  for (const int64_t axis : order) {
    if (from.shape[static_cast<size_t>(axis)] == 1) continue;
    moves |= axis < last;
    last = axis;
  }
  int32_t made = 0;
  if (moves) {
    if (order.size() > 6) {
      Refuse(StrCat("'", name, "' has ", order.size(), RQ_LATE_TEXT(" dimensions to transpose")),
             RQ_LATE_TEXT("use at most 6 dimensions"));
    }
    const int32_t permutation = AddInts(order);
    made = Add(Builtin::kTRANSPOSE, {index, permutation}, StrCat(name, "_transposed"), from.type,
               shape, {}, from.grid);
    transposes_.push_back(name);
  } else {
    made = Reshaped(index, shape, StrCat(name, "_reshaped"));
  }
  transposed_[{index, order}] = made;
  return made;
}

int32_t Writer::Dequantized(int32_t index, const std::string& name) {
  const auto known = dequantized_.find(index);
  if (known != dequantized_.end()) return known->second;
  const Shape shape = tensor(index).shape;
  const int32_t made =
      Add(Builtin::kDEQUANTIZE, {index}, StrCat(name, "_floats"), TensorType::kFloat32, shape);
  dequantized_[index] = made;
  return made;
}

int32_t Writer::Quantized(int32_t index, const Grid& grid, const std::string& name) {
  const Shape shape = tensor(index).shape;
  return Add(Builtin::kQUANTIZE, {index}, name, grid.type, shape, {}, grid);
}

std::string Writer::Report() const {
  JsonWriter json;
  json.BeginObject();
  const auto ends = [&](const char* key, const std::vector<Value*>& values,
                        const std::vector<int32_t>& tensors) {
    json.Key(key).BeginArray();
    size_t i = 0;
    for (const Value* value : values) {
      if (value->is_constant() && graph_.IsInput(value)) continue;
      const NetTensor& end = tensor(tensors[i++]);
      json.BeginObject()
          .Key("name")
          .String(value->name)
          .Key("type")
          .String(DTypeName(DTypeOf(end.type)));
      json.Key("dims").BeginArray();
      for (const int64_t dim : end.shape) json.Int(dim);
      json.EndArray().Key("layout").String(LayoutName(ends_.at(value)));
      json.Key("axes").BeginArray();
      for (const int64_t axis : ends_.at(value)) json.Int(axis);
      json.EndArray();
      if (!end.grid.scales.empty()) {
        json.Key("scale").Number(end.grid.scales[0]).Key("zeroPoint").Int(end.grid.zeros[0]);
      }
      json.EndObject();
    }
    json.EndArray();
  };
  ends("inputs", graph_.inputs(), net_.inputs);
  ends("outputs", graph_.outputs(), net_.outputs);
  std::map<std::string, int64_t> counts;
  for (const NetOperator& op : net_.operators) ++counts[BuiltinName(op.op)];
  json.Key("operators").BeginObject();
  for (const auto& [name, count] : counts) json.Key(name).Int(count);
  json.EndObject();
  WriteNames(json, "transposes", transposes_);
  WriteNames(json, "pads", {pads_.begin(), pads_.end()});
  WriteNames(json, "requantized", requantized_);
  WriteNames(json, "floats", {floats_.begin(), floats_.end()});
  WriteNames(json, "notes", notes_);
  json.EndObject();
  return json.text();
}

}  // namespace requant::tflite
