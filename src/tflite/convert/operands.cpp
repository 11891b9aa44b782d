#include "tflite/convert/operands.h"

#include <algorithm>

#include "ops/shape/select.h"

namespace requant::tflite {
namespace {

/// A constant of fewer dimensions, per tensor or without scales, in planar order.
Value* PlanarConstant(Context& context, size_t slot, size_t rank) {
  Converter& graph = context.graph();
  const Tensor& constant = *context.constant(slot);
  Shape shape(rank - constant.shape().size(), 1);
  shape.insert(shape.end(), constant.shape().begin(), constant.shape().end());
  Value* codes = graph.AddConstant(Permute(constant.Reshaped(shape), PlanarOrder(rank)));
  const FileTensor& file = context.input(slot);
  if (file.quantization.scales.empty()) return codes;
  return graph.Dequantize(codes, file.quantization, file.dtype, 0);
}

}  // namespace

Operands BroadcastOperands(Context& context, size_t first, size_t last) {
  size_t rank = 0;
  for (size_t slot = first; slot < last; ++slot) rank = std::max(rank, context.rank(slot));
  bool planar = false;
  bool possible = rank >= 3;
  for (size_t slot = first; slot < last; ++slot) {
    const size_t own = context.rank(slot);
    if (own == rank) {
      planar = planar || context.order(slot) == Order::kPlanar;
    } else if (own > 0) {
      possible = possible && context.constant(slot) != nullptr &&
                 context.input(slot).quantization.scales.size() < 2;
    }
  }
  Operands out;
  if (planar && possible) out.order = Order::kPlanar;
  for (size_t slot = first; slot < last; ++slot) {
    const size_t own = context.rank(slot);
    out.values.push_back(out.order == Order::kPlain || own == rank || own == 0
                             ? context.Reals(slot, out.order)
                             : PlanarConstant(context, slot, rank));
  }
  return out;
}

}  // namespace requant::tflite
