// Lowers Softmax, LayerNormalization and RMSNormalization between codes to the integer operators of
// ops/normalization/integer_normalizations.h, or to the float operators between DequantizeLinear
// and QuantizeLinear. Both give the same codes up to one step.
#include "quant/lower/normalization.h"

#include "ops/normalization/integer_normalizations.h"
#include "quant/lower/lowering.h"

namespace requant {
namespace {

/// Whether integers hold the results, as the scales are.
bool Fits(const Node& node, const Format& from, const Format& to, bool center) {
  const Tensor& gamma = node.inputs[1]->constant;
  return MakeLayerNorm(gamma, node.constant(2), gamma.count(),
                       {from.scale, from.offset, to.scale, to.offset}, to.dtype,
                       static_cast<double>(node.attributes.Float("epsilon", 1e-5F)), center)
      .has_value();
}

}  // namespace

void LowerNormalization(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  const Format from = lowering.FormatOfSlot(op.inputs[0]);
  const Format to = lowering.FormatOfSlot(op.outputs[0]);
  const Value* output = node.outputs[0];
  const bool softmax = node.Is(Op::kSoftmax);
  const bool center = node.Is(Op::kLayerNormalization);
  Value* integers = lowering.IntegerInput(node, op, 0);
  if (lowering.use_lut() && (softmax || Fits(node, from, to, center))) {
    std::vector<Value*> inputs = {integers, lowering.ScaleOf(from), lowering.ZeroPointOf(from),
                                  lowering.ScaleOf(to), lowering.ZeroPointOf(to)};
    AttributeMap attributes;
    attributes.Set("axis", node.attributes.Int("axis", -1));
    if (!softmax) {
      for (size_t slot = 1; slot < node.inputs.size() && slot < 3; ++slot) {
        if (node.inputs[slot]) inputs.push_back(lowering.Float(node.inputs[slot]));
      }
      attributes.Set("epsilon", node.attributes.Float("epsilon", 1e-5F));
      attributes.Set("center", int64_t{center});
    }
    lowering.EmitCompute(node, op, softmax ? "IntegerSoftmax" : "IntegerLayerNormalization",
                         kRequantDomain, std::move(inputs), std::move(attributes));
    return;
  }
  std::vector<Value*> inputs = {lowering.Dequantized(node.inputs[0], integers, from)};
  for (size_t slot = 1; slot < node.inputs.size(); ++slot) {
    inputs.push_back(node.inputs[slot] ? lowering.Float(node.inputs[slot]) : nullptr);
  }
  Value* real = lowering.graph().AddValue(output->name + "_raw", output->type);
  lowering.CopyNode(node, std::move(inputs), {real});
  lowering.SetInteger(output, lowering.Quantize(output, real, to), to);
}

}  // namespace requant
