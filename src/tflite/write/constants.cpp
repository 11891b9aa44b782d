// Constants of a graph, behind DequantizeLinear or not.
#include <cstring>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/op.h"
#include "tflite/write/writer.h"

namespace requant::tflite {
namespace {

/// The codes in the file's type: int8 and uint8 are moved by 128.
Tensor MovedCodes(const Tensor& codes, TensorType type) {
  const bool from_signed = codes.dtype() == DType::kInt8;
  if (!IsByte(codes.dtype()) || from_signed == (type == TensorType::kInt8)) return codes;
  Tensor out(from_signed ? DType::kUint8 : DType::kInt8, codes.shape());
  const auto* in = static_cast<const uint8_t*>(codes.raw());
  auto* moved = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < codes.count(); ++i) moved[i] = in[i] ^ 0x80;
  return out;
}

/// Codes of 4 and 2 bits as int8 or uint8.
Tensor Widened(const Tensor& codes) {
  const int bits = DTypeBits(codes.dtype());
  if (bits >= 8) return codes;
  const bool is_signed = codes.dtype() == DType::kInt4 || codes.dtype() == DType::kInt2;
  Tensor out(is_signed ? DType::kInt8 : DType::kUint8, codes.shape());
  auto* bytes = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < codes.count(); ++i) bytes[i] = static_cast<uint8_t>(codes.AsInt64(i));
  return out;
}

}  // namespace

Order PlainOrder(int64_t rank) {
  Order order;
  for (int64_t i = 0; i < rank; ++i) order.push_back(i);
  return order;
}

Order ChannelsLast(int64_t rank) {
  Order order = PlainOrder(rank);
  if (rank < 3) return order;
  order.erase(order.begin() + 1);
  order.push_back(1);
  return order;
}

Shape Ordered(const Shape& shape, const Order& order) {
  Shape out;
  for (const int64_t axis : order) out.push_back(shape[static_cast<size_t>(axis)]);
  return out;
}

int64_t PlaceOf(const Order& order, int64_t axis) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] == axis) return static_cast<int64_t>(i);
  }
  return -1;
}

Tensor TransposedData(const Tensor& data, const Order& order) {
  if (order == PlainOrder(data.rank())) return data;
  const Shape& from = data.shape();
  Tensor out(data.dtype(), Ordered(from, order));
  Shape strides(from.size(), 1);
  for (size_t i = from.size(); i-- > 1;) strides[i - 1] = strides[i] * from[i];
  const auto size = static_cast<size_t>(DTypeBits(data.dtype()) / 8);
  const auto* bytes = static_cast<const uint8_t*>(data.raw());
  auto* to = static_cast<uint8_t*>(out.raw());
  Shape index(from.size(), 0);
  for (int64_t i = 0; i < out.count(); ++i) {
    int64_t place = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      place += index[d] * strides[static_cast<size_t>(order[d])];
    }
    std::memcpy(to + static_cast<size_t>(i) * size, bytes + static_cast<size_t>(place) * size,
                size);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < out.shape()[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

std::optional<ConstantCodes> Writer::CodesOf(const Value* value) const {
  if (value == nullptr || value->producer == nullptr) return std::nullopt;
  const Node& node = *value->producer;
  if (node.Is("Transpose")) {
    auto codes = CodesOf(node.inputs[0]);
    if (!codes) return std::nullopt;
    Order order = PlainOrder(codes->codes.rank());
    order = node.attributes.Ints("perm", Order(order.rbegin(), order.rend()));
    codes->codes = TransposedData(codes->codes, order);
    codes->axis = PlaceOf(order, codes->axis);
    return codes;
  }
  if (!node.Is("DequantizeLinear")) return std::nullopt;
  const Tensor* codes = node.constant(0);
  const Tensor* scale = node.constant(1);
  const Tensor* zero = node.constant(2);
  if (codes == nullptr || scale == nullptr || (node.input(2) != nullptr && zero == nullptr)) {
    return std::nullopt;
  }
  if (node.attributes.Int("block_size", 0) != 0 || scale->rank() > 1) return std::nullopt;
  const bool whole = codes->dtype() == DType::kInt32;
  const Tensor wide = Widened(*codes);
  if (!whole && !IsByte(wide.dtype())) return std::nullopt;
  ConstantCodes out;
  out.scales = scale->ToFloats();
  out.zeros = zero ? zero->ToInts() : std::vector<int64_t>(out.scales.size(), 0);
  out.zeros.resize(out.scales.size(), out.zeros.empty() ? 0 : out.zeros[0]);
  out.axis = node.attributes.Int("axis", 1);
  if (out.axis < 0) out.axis += codes->rank();
  if (out.scales.size() == 1) out.axis = 0;
  out.codes = whole ? wide : MovedCodes(wide, code_type_);
  if (out.codes.dtype() != wide.dtype()) {
    const int64_t step = code_type_ == TensorType::kInt8 ? -128 : 128;
    for (int64_t& moved : out.zeros) moved += step;
  }
  return out;
}

bool Writer::IsConstant(const Value* value) const {
  if (value->is_constant()) return true;
  const Node* node = value->producer;
  if (node == nullptr) return false;
  if (node->Is("Transpose")) return IsConstant(node->inputs[0]);
  return node->Is("DequantizeLinear") && node->constant(0) != nullptr &&
         node->constant(1) != nullptr && (node->input(2) == nullptr || node->constant(2));
}

Tensor Writer::ConstantOf(const Value* value, const char* what) const {
  if (value->is_constant()) return value->constant;
  if (!IsConstant(value)) {
    Refuse(StrCat("its ", what, RQ_LATE_TEXT(" are computed while the model runs")),
           RQ_LATE_TEXT("make them a constant of the model"), value);
  }
  const Node& node = *value->producer;
  if (node.Is("Transpose")) {
    const Tensor data = ConstantOf(node.inputs[0], what);
    const Order plain = PlainOrder(data.rank());
    return TransposedData(data, node.attributes.Ints("perm", Order(plain.rbegin(), plain.rend())));
  }
  const Tensor* arguments[] = {node.constant(0), node.constant(1), node.constant(2)};
  const size_t count = node.input(2) == nullptr ? 2 : 3;
  return EvaluateNode(graph_, node, {arguments, count}, RequantizeMode::kFloat)[0];
}

std::optional<std::vector<int64_t>> Writer::Ints(size_t slot, const char* attribute) const {
  if (attribute != nullptr && node_->attributes.Has(attribute)) {
    return node_->attributes.Ints(attribute);
  }
  const Value* value = node_->input(slot);
  if (value == nullptr) return std::nullopt;
  return ConstantOf(value, "numbers").ToInts();
}

int32_t Writer::NeedConstant(const Value* value, const Order& order, Form form) {
  if (form == Form::kCodes) {
    const ConstantCodes codes = *CodesOf(value);
    return AddConstant(value->name, TransposedData(codes.codes, order), GridOf(value));
  }
  const Tensor data = TransposedData(ConstantOf(value, "values"), order);
  return data.dtype() == DType::kFloat32 ? AddFloats(value->name, data)
                                         : AddConstant(value->name, data);
}

}  // namespace requant::tflite
