#include "passes/shape/shape_values.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

#include "base/checked_math.h"

namespace requant {
namespace {

using Entries = std::vector<ShapeEntry>;
using Known = std::map<Value*, Entries>;

constexpr int64_t kMaxEntries = 64;  // a longer value is no shape

ShapeEntry Number(int64_t value) { return {true, value, ""}; }

std::optional<Entries> EntriesOf(const Known& known, Value* value) {
  if (value == nullptr) return {};
  const auto found = known.find(value);
  if (found != known.end()) return found->second;
  if (!value->is_constant()) return {};
  const Tensor& tensor = value->constant;
  const DType dtype = tensor.dtype();
  const bool integer = dtype == DType::kInt64 || dtype == DType::kInt32 || dtype == DType::kBool;
  if (!integer || tensor.rank() > 1 || tensor.count() > kMaxEntries) return {};
  Entries out;
  for (const int64_t item : tensor.ToInts()) out.push_back(Number(item));
  return out;
}

/// Numpy's bounds of a slice with step 1.
int64_t ClampIndex(int64_t index, int64_t size) {
  if (index < 0) index = index < -size ? 0 : index + size;
  return std::min(index, size);
}

std::optional<Entries> OfShape(const Node& node) {
  const Value* x = node.input(0);
  if (x == nullptr || !x->type.shape) return {};
  const auto rank = static_cast<int64_t>(x->type.shape->size());
  const int64_t begin = ClampIndex(node.attributes.Int("start", 0), rank);
  const int64_t end =
      ClampIndex(node.attributes.Int("end", std::numeric_limits<int64_t>::max()), rank);
  Entries out;
  for (int64_t i = begin; i < end; ++i) {
    const Dim& dim = (*x->type.shape)[static_cast<size_t>(i)];
    out.push_back(dim.known() ? Number(dim.value) : ShapeEntry{false, 0, dim.symbol});
  }
  return out;
}

std::optional<Entries> OfSize(const Node& node) {
  const Value* x = node.input(0);
  if (x == nullptr || !x->type.IsStatic()) return {};
  return Entries{Number(NumElements(x->type.StaticShape()))};
}

std::optional<Entries> OfGather(const Known& known, const Node& node) {
  const auto data = EntriesOf(known, node.input(0));
  const Tensor* indices = node.constant(1);
  const Value* source = node.input(0);
  const bool vector = source->type.shape && source->type.shape->size() == 1;
  if (!data || !vector || indices == nullptr || indices->rank() > 1) return {};
  if (node.attributes.Int("axis", 0) != 0) return {};
  const auto size = static_cast<int64_t>(data->size());
  Entries out;
  for (int64_t index : indices->ToInts()) {
    if (index < 0) index += size;
    if (index < 0 || index >= size) return {};
    out.push_back((*data)[static_cast<size_t>(index)]);
  }
  return out;
}

std::optional<Entries> OfSlice(const Known& known, const Node& node) {
  const auto data = EntriesOf(known, node.input(0));
  if (!data) return {};
  // Starts, ends, axes and steps are inputs from opset 10 on, attributes before.
  const bool inputs = node.inputs.size() > 1;
  const auto list =
      [&](const char* name, size_t slot,
          const std::vector<int64_t>& fallback) -> std::optional<std::vector<int64_t>> {
    if (!inputs) return node.attributes.Ints(name, fallback);
    if (node.input(slot) == nullptr) return fallback;
    if (node.constant(slot) == nullptr) return {};
    return node.constant(slot)->ToInts();
  };
  const auto starts = list("starts", 1, {});
  const auto ends = list("ends", 2, {});
  const auto axes = list("axes", 3, {0});
  const auto steps = list("steps", 4, {1});
  if (!starts || !ends || !axes || !steps || starts->size() != 1 || ends->size() != 1) return {};
  if (*axes != std::vector<int64_t>{0} && *axes != std::vector<int64_t>{-1}) return {};
  if (*steps != std::vector<int64_t>{1}) return {};
  const auto size = static_cast<int64_t>(data->size());
  const int64_t begin = ClampIndex((*starts)[0], size);
  const int64_t end = std::max(begin, ClampIndex((*ends)[0], size));
  return Entries(data->begin() + begin, data->begin() + end);
}

std::optional<Entries> OfConcat(const Known& known, const Node& node) {
  Entries out;
  for (Value* input : node.inputs) {
    const auto part = EntriesOf(known, input);
    if (!part || static_cast<int64_t>(out.size() + part->size()) > kMaxEntries) return {};
    out.insert(out.end(), part->begin(), part->end());
  }
  return out;
}

/// Squeeze and Unsqueeze between a scalar and a 1-D value keep the entries.
std::optional<Entries> OfSameCount(const Known& known, const Node& node) {
  const Value* output = node.outputs[0];
  if (!output->type.shape || output->type.shape->size() > 1) return {};
  return EntriesOf(known, node.input(0));
}

/// ConstantOfShape of a known shape repeats its number.
std::optional<Entries> OfFill(const Node& node) {
  const Value* output = node.outputs[0];
  if (!output->type.IsStatic()) return {};
  const Tensor* value = node.attributes.TensorValue("value");
  const int64_t count = NumElements(output->type.StaticShape());
  if (value == nullptr || value->count() != 1 || count > kMaxEntries) return {};
  return Entries(static_cast<size_t>(count), Number(value->AsInt64(0)));
}

/// Computes an entry from two, or nullopt.
std::optional<ShapeEntry> Combine(std::string_view op, const ShapeEntry& a, const ShapeEntry& b) {
  const bool both = a.known && b.known;
  if (op == "Equal") {
    if (both) return Number(a.value == b.value ? 1 : 0);
    // A symbol stands for a dimension, which is never negative.
    const bool differ = (a.known && a.value < 0 && !b.symbol.empty()) ||
                        (b.known && b.value < 0 && !a.symbol.empty());
    if (differ) return Number(0);
    return {};
  }
  const bool product = op == "Mul";
  if (both) {
    const int64_t limit = int64_t{1} << 31;  // the range of possible sizes
    if (a.value > limit || b.value > limit || a.value < -limit || b.value < -limit) return {};
    if (product) return Number(a.value * b.value);
    if (op == "Add") return Number(a.value + b.value);
    if (op == "Sub") return Number(a.value - b.value);
    if (b.value == 0) return {};
    return Number(a.value / b.value);
  }
  const int64_t neutral = product || op == "Div" ? 1 : 0;
  if (b.known && b.value == neutral) return a;
  const bool commutes = product || op == "Add";
  if (commutes && a.known && a.value == neutral) return b;
  return {};
}

std::optional<Entries> OfArithmetic(const Known& known, const Node& node) {
  const auto a = EntriesOf(known, node.input(0));
  const auto b = EntriesOf(known, node.input(1));
  if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1)) return {};
  Entries out;
  for (size_t i = 0; i < (a->size() == 1 ? b->size() : a->size()); ++i) {
    const auto entry =
        Combine(node.op_type, (*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]);
    // An unknown entry still takes a position.
    out.push_back(entry.value_or(ShapeEntry{}));
  }
  return out;
}

std::optional<Entries> OfWhere(const Known& known, const Node& node) {
  const auto condition = EntriesOf(known, node.input(0));
  const auto yes = EntriesOf(known, node.input(1));
  const auto no = EntriesOf(known, node.input(2));
  if (!condition || !yes || !no || yes->size() != condition->size() ||
      no->size() != condition->size()) {
    return {};
  }
  Entries out;
  for (size_t i = 0; i < condition->size(); ++i) {
    const ShapeEntry& which = (*condition)[i];
    out.push_back(!which.known ? ShapeEntry{} : which.value != 0 ? (*yes)[i] : (*no)[i]);
  }
  return out;
}

std::optional<Entries> OfCast(const Known& known, const Node& node) {
  std::optional<Entries> entries = OfSameCount(known, node);
  if (!entries) return {};
  const DType to = node.outputs[0]->type.dtype;
  for (ShapeEntry& entry : *entries) {
    if (to == DType::kBool) {
      entry = entry.known ? Number(entry.value != 0 ? 1 : 0) : ShapeEntry{};
    } else if (to == DType::kInt32 && entry.known &&
               entry.value != static_cast<int32_t>(entry.value)) {
      entry = {};
    }
  }
  return entries;
}

std::optional<Entries> OfNode(const Known& known, const Node& node) {
  if (!node.domain.empty() || node.outputs.size() != 1 || !node.outputs[0]) return {};
  const DType dtype = node.outputs[0]->type.dtype;
  if (dtype != DType::kInt64 && dtype != DType::kInt32 && dtype != DType::kBool) return {};
  if (node.op_type == "ConstantOfShape") return OfFill(node);
  if (node.op_type == "Where") return OfWhere(known, node);
  if (node.op_type == "Add" || node.op_type == "Sub" || node.op_type == "Mul" ||
      node.op_type == "Div" || node.op_type == "Equal") {
    return OfArithmetic(known, node);
  }
  if (auto entries = EntriesOfType(node)) return entries;
  if (node.op_type == "Gather") return OfGather(known, node);
  if (node.op_type == "Slice") return OfSlice(known, node);
  if (node.op_type == "Concat") return OfConcat(known, node);
  if (node.op_type == "Cast") return OfCast(known, node);
  if (node.op_type == "Squeeze" || node.op_type == "Unsqueeze" || node.op_type == "Identity") {
    return OfSameCount(known, node);
  }
  return {};
}

}  // namespace

std::optional<std::vector<ShapeEntry>> EntriesOfType(const Node& node) {
  if (!node.domain.empty()) return {};
  if (node.op_type == "Shape") return OfShape(node);
  if (node.op_type == "Size") return OfSize(node);
  return {};
}

std::map<Value*, std::vector<ShapeEntry>> FindShapeValues(const Graph& graph) {
  Known known;
  for (const auto& node : graph.nodes()) {
    std::optional<Entries> entries = OfNode(known, *node);
    if (entries) known[node->outputs[0]] = std::move(*entries);
  }
  return known;
}

std::optional<Tensor> TensorOf(const Value& value, const std::vector<ShapeEntry>& entries) {
  if (!value.type.IsStatic()) return {};
  Tensor tensor(value.type.dtype, value.type.StaticShape());
  if (tensor.count() != static_cast<int64_t>(entries.size())) return {};
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].known) return {};
    if (tensor.dtype() == DType::kInt64) {
      tensor.data<int64_t>()[i] = entries[i].value;
    } else if (tensor.dtype() == DType::kInt32) {
      tensor.data<int32_t>()[i] = static_cast<int32_t>(entries[i].value);
    } else {
      static_cast<uint8_t*>(tensor.raw())[i] = entries[i].value != 0 ? 1 : 0;
    }
  }
  return tensor;
}

}  // namespace requant
