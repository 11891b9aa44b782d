#include "codegen/emit.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/select.h"

namespace requant {

void EmitContext::Unsupported(std::string_view what) const {
  Fail(ErrorCode::kUnsupported, StrCat(what, " has no form in C"),
       {.node = node.name,
        .hint = "Leave it to the engine: partition() gives the parts that C can compute."});
}

const Tensor& EmitContext::Constant(size_t slot) const {
  const Tensor* constant = node.constant(slot);
  if (constant == nullptr) {
    Unsupported(StrCat(node.op_type, " whose input ", slot, " is computed"));
  }
  return *constant;
}

void EmitContext::RequireFloat(size_t slot) const {
  if (InputType(slot) == DType::kFloat32) return;
  Unsupported(StrCat(node.op_type, " of ", DTypeName(InputType(slot))));
}

void EmitContext::RequireByte(size_t slot) const {
  if (IsByte(InputType(slot))) return;
  Unsupported(StrCat(node.op_type, " of ", DTypeName(InputType(slot))));
}

void EmitContext::Call(const char* kernel, const char* type, const Fields& members) const {
  file.Call(kernel, Fields() << In(0) << Out() << file.Struct(type, members));
}

QuantOperand EmitContext::Operand(size_t scale_slot, size_t zero_slot, ScaleRule rule) const {
  const Tensor& scales = Constant(scale_slot);
  if (scales.count() == 0) Unsupported(StrCat(node.op_type, " without a scale"));
  CheckScales(node, scale_slot, scales, rule);
  return {scales.ToFloats(), Zeros(zero_slot)};
}

std::vector<int32_t> EmitContext::Zeros(size_t slot) const {
  std::vector<int32_t> zeros = has(slot) ? IntsOf(Constant(slot)) : std::vector<int32_t>{0};
  if (zeros.empty()) Unsupported(StrCat(node.op_type, " without a zero point"));
  return zeros;
}

int32_t EmitContext::Zero(size_t slot) const {
  const std::vector<int32_t> zeros = Zeros(slot);
  if (zeros.size() != 1) Unsupported(StrCat(node.op_type, " with zero points of rows"));
  return zeros[0];
}

std::vector<int32_t> EmitContext::ForChannels(std::vector<int32_t> zeros, int64_t channels) const {
  if (zeros.size() == 1) zeros.resize(static_cast<size_t>(channels), zeros[0]);
  if (static_cast<int64_t>(zeros.size()) != channels) {
    Unsupported(StrCat(node.op_type, " with ", zeros.size(), " zero points"));
  }
  return zeros;
}

std::vector<int32_t> IntsOf(const Tensor& tensor) {
  std::vector<int32_t> out;
  for (const int64_t value : tensor.ToInts()) out.push_back(static_cast<int32_t>(value));
  return out;
}

ByteReading ReadingOf(DType dtype, int32_t zero_point) {
  return dtype == DType::kUint8 ? ByteReading{128, zero_point - 128} : ByteReading{0, zero_point};
}

Fields WindowFields(const Geometry& g, int64_t batch, int64_t in_channels, int64_t out_channels,
                    int64_t groups) {
  Fields out;
  out << batch << in_channels << out_channels << groups;
  for (const auto* list : {&g.input, &g.output, &g.kernel, &g.stride, &g.dilation, &g.pad_begin}) {
    out << std::span<const int64_t>(*list);
  }
  return out;
}

Fields OutputFields(EmitContext& context, const std::vector<double>& multipliers,
                    int32_t zero_point, DType dtype) {
  const int32_t lo = ByteMin(dtype), hi = ByteMax(dtype);
  return context.file.Scales(PrepareRequantize(context.file.requantize(), multipliers,
                                               {kAnyAccumulator}, zero_point, lo, hi))
         << zero_point << lo << hi;
}

Fields NoOutput() { return Fields() << "NULL" << 0 << 0 << 0 << 0; }

Fields WeightsFields(EmitContext& context, const std::vector<int32_t>& codes,
                     const std::vector<int32_t>& zeros) {
  context.file.Use("weight");
  int32_t least = 0, most = 0;
  if (!codes.empty()) {
    const auto ends = std::minmax_element(codes.begin(), codes.end());
    least = *ends.first;
    most = *ends.second;
  }
  const bool two_values = std::all_of(codes.begin(), codes.end(),
                                      [&](int32_t code) { return code == least || code == most; });
  const int32_t range = most - least;
  const int bits = two_values ? 1 : range < 4 ? 2 : range < 16 ? 4 : 8;
  // Bytes are stored as int8: the codes and zero points of uint8 are decreased by 128.
  const int32_t shift = bits == 8 && most > 127 ? 128 : 0;
  const int32_t step = bits == 1 && range > 0 ? range : 1;
  const size_t per_byte = 8 / static_cast<size_t>(bits);
  std::vector<uint8_t> packed((codes.size() + per_byte - 1) / per_byte);
  for (size_t i = 0; i < codes.size(); ++i) {
    const int32_t code = bits == 8 ? codes[i] - shift : (codes[i] - least) / step;
    const auto place = static_cast<size_t>(bits) * (i % per_byte);
    packed[i / per_byte] |= static_cast<uint8_t>(static_cast<uint32_t>(code) << place);
  }
  std::vector<int32_t> shifted = zeros;
  for (int32_t& zero : shifted) zero -= shift;
  const bool centered =
      std::all_of(shifted.begin(), shifted.end(), [](int32_t zero) { return zero == 0; });
  return Fields() << context.file.Bytes(packed) << bits << (bits == 8 ? 0 : least) << step
                  << (centered ? "NULL" : context.file.Ints(shifted));
}

Fields PairsFields(EmitContext& context, const Shape& a, const Shape& b, const Shape& out) {
  constexpr size_t kAxes = 6;  // of broadcast.c
  const auto strides = [&out](const Shape& shape) {
    const Shape own = RowMajorStrides(shape);
    std::vector<int64_t> all(out.size(), 0);
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] != 1) all[out.size() - shape.size() + i] = own[i];
    }
    return all;
  };
  const std::vector<int64_t> steps_a = strides(a), steps_b = strides(b);
  // Merge neighboring axes that both operands walk as one; innermost first.
  std::vector<int64_t> dims, by_a, by_b;
  for (size_t i = out.size(); i-- > 0;) {
    if (out[i] == 1) continue;
    if (!dims.empty() && steps_a[i] == by_a.back() * dims.back() &&
        steps_b[i] == by_b.back() * dims.back()) {
      dims.back() *= out[i];
      continue;
    }
    dims.push_back(out[i]);
    by_a.push_back(steps_a[i]);
    by_b.push_back(steps_b[i]);
  }
  if (dims.size() > kAxes) {
    context.Unsupported(StrCat(context.node.op_type, " of ", dims.size(), " axes"));
  }
  dims.resize(kAxes, 1);
  by_a.resize(kAxes, 0);
  by_b.resize(kAxes, 0);
  Fields pairs;
  for (auto* list : {&dims, &by_a, &by_b}) {
    std::reverse(list->begin(), list->end());
    pairs << *list;
  }
  return pairs;
}

}  // namespace requant
