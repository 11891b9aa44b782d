// GatherCodes
//   Before: y = Gather(DequantizeLinear(w [rows, ...], s, z) {axis = 0}, i) {axis = 0}
//   After:  y = (Cast(Gather(w, i)) - Cast(Gather(z, i))) * Gather(s, i)
//   Conditions: w int8 or uint8 of 256 numbers or more, constant like s and z, which are scalars
//     (and not gathered) or have one number for each row; i no constant; no QuantizeLinear alone
//     reads y, since integer operators gather codes by themselves.
//   Formula: DequantizeLinear computes (w - z) * s for each number (onnx docs/Operators.md); only
//     the rows that are gathered become floats.
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

constexpr int64_t kLeastTable = 256;

struct Table {
  const Node* dequantize;
  const Tensor* codes;
  bool by_row;  // scales and zero points
};

std::optional<Table> TableOf(const Graph& graph, const Node& gather) {
  const Value* floats = gather.input(0);
  const Node* dequantize = floats ? floats->producer : nullptr;
  if (!gather.Is(Op::kGather) || dequantize == nullptr || !dequantize->Is(Op::kDequantizeLinear) ||
      dequantize->attributes.Int("block_size", 0) != 0 || !IsFloat32(floats)) {
    return {};
  }
  const Tensor* codes = dequantize->constant(0);
  const Tensor* scales = dequantize->constant(1);
  if (codes == nullptr || !IsByte(codes->dtype()) || codes->count() < kLeastTable ||
      scales == nullptr || scales->dtype() != DType::kFloat32 ||
      (dequantize->input(2) && !dequantize->constant(2)) || gather.constant(1)) {
    return {};
  }
  const int64_t axis = gather.attributes.Int("axis", 0);
  if (axis != 0 && axis != -codes->rank()) return {};
  const bool by_row = scales->count() != 1;
  const int64_t along = dequantize->attributes.Int("axis", 1);
  if (by_row && along != 0 && along != -codes->rank()) return {};
  const Node* reader = graph.SoleConsumer(gather.outputs[0]);
  if (reader && reader->Is(Op::kQuantizeLinear)) return {};
  return Table{dequantize, codes, by_row};
}

bool Rewrite(Graph& graph, Node* gather) {
  const auto table = TableOf(graph, *gather);
  if (!table) return false;
  const auto rank = static_cast<size_t>(table->codes->rank());
  Value* indices = gather->inputs[1];
  const ValueType type = gather->outputs[0]->type;
  const auto pick = [&](Value* from) {
    return AddNear(graph, gather, "Gather", {from, indices}, {from->type.dtype, std::nullopt});
  };
  const auto real = [&](Value* integers) {
    AttributeMap to;
    to.Set("to", static_cast<int64_t>(DType::kFloat32));
    return AddNear(graph, gather, "Cast", {integers}, {DType::kFloat32, std::nullopt},
                   std::move(to));
  };
  /// The numbers of the gathered rows, or the only number.
  const auto parameter = [&](const Tensor& tensor) {
    Shape shape(table->by_row ? rank : 0, 1);
    if (table->by_row) shape[0] = tensor.count();
    Value* value = AddNear(graph, gather, tensor.Reshaped(std::move(shape)));
    return table->by_row ? pick(value) : value;
  };
  Value* y = real(pick(table->dequantize->inputs[0]));
  if (const Tensor* zeros = table->dequantize->constant(2)) {
    y = AddNear(graph, gather, "Sub", {y, real(parameter(*zeros))}, type);
  }
  y = AddNear(graph, gather, "Mul", {y, parameter(*table->dequantize->constant(1))}, type);
  return Bypass(graph, gather, y);
}

}  // namespace

bool GatherCodes(Graph& graph, PassContext&) { return RewriteNodes(graph, Rewrite); }

}  // namespace requant
