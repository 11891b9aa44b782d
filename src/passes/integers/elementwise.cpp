// QLinearAdd, QLinearMul, QLinearConcat
// Before: QLinearAdd(a, b), QLinearMul(a, b), QLinearConcat(x...)
// After:  FixedPointMultiply((qa - za) * ma + (qb - zb) * mb), FixedPointMultiply((qa - za) * (qb -
//         zb)), Concat(Lut(x)...)
// Conditions: all parameters are constant.
// Formula: ma = round(s_a / s_y * 2^t), mb = round(s_b / s_y * 2^t) with one exponent t
//   (MakeQAddMultipliers, numeric/qadd.h), and the sum is divided by 2^t, ties upward, as 2^30 *
//   2^-(30 + t). Mul is requantized once, by s_a * s_b / s_y. Concat changes the scale of each
//   input by a table of 256 entries before it joins them.
#include <cmath>
#include <cstring>

#include "base/str_cat.h"
#include "numeric/lut.h"
#include "numeric/multiplier.h"
#include "numeric/qadd.h"
#include "passes/integers/writer.h"

namespace requant::integers {
namespace {

struct Operands {
  Operand a, b;
  Output to;
};

std::optional<Operands> ReadOperands(const Node& node) {
  const std::optional<Operand> a = ConstantOperand(node, 1, 2);
  const std::optional<Operand> b = ConstantOperand(node, 4, 5);
  const std::optional<Output> to = ConstantOutput(node, 6, 7);
  if (!a || !b || !to) return {};
  return Operands{*a, *b, *to};
}

}  // namespace

Reason LegalizeAdd(Writer& writer) {
  const Node& node = writer.node();
  const std::optional<Operands> in = ReadOperands(node);
  if (!in) return kParametersNotConstant;
  const double ratio_a = static_cast<double>(in->a.scales[0]) / in->to.scale;
  const double ratio_b = static_cast<double>(in->b.scales[0]) / in->to.scale;
  const double most = std::fmax(std::fabs(ratio_a), std::fabs(ratio_b));
  if (!(most < 1048576)) return "a scale of its inputs is 2^20 times that of its output";
  const QAddMultipliers multipliers = MakeQAddMultipliers(ratio_a, ratio_b);
  Value* a = writer.Centered(node.inputs[0], in->a.zeros[0], "a");
  Value* b = writer.Centered(node.inputs[3], in->b.zeros[0], "b");
  a = writer.Add("Mul", {a, writer.Scalar("a_multiplier", multipliers.a)}, "a_rescaled",
                 DType::kInt32);
  b = writer.Add("Mul", {b, writer.Scalar("b_multiplier", multipliers.b)}, "b_rescaled",
                 DType::kInt32);
  Value* sums = writer.Add("Add", {a, b}, "sums", DType::kInt32);
  writer.FinishShift(sums, {1 << 30, 30 + multipliers.shift}, in->to);
  return {};
}

Reason LegalizeMul(Writer& writer) {
  const Node& node = writer.node();
  const std::optional<Operands> in = ReadOperands(node);
  if (!in) return kParametersNotConstant;
  Value* a = writer.Centered(node.inputs[0], in->a.zeros[0], "a");
  Value* b = writer.Centered(node.inputs[3], in->b.zeros[0], "b");
  Value* products = writer.Add("Mul", {a, b}, "products", DType::kInt32);
  writer.Finish(
      products,
      {ProductMultiplier(writer.form().requantize, in->a.scales[0], in->b.scales[0], in->to.scale)},
      {}, in->to);
  return {};
}

Reason LegalizeConcat(Writer& writer) {
  const Node& node = writer.node();
  const std::optional<Output> to = ConstantOutput(node, 0, 1);
  if (!to || node.inputs.size() < 5) return kParametersNotConstant;
  std::vector<Operand> operands;
  for (size_t slot = 2; slot + 1 < node.inputs.size(); slot += 3) {
    const std::optional<Operand> operand = ConstantOperand(node, slot + 1, slot + 2);
    if (!operand || !IsByte(node.inputs[slot]->type.dtype)) return kParametersNotConstant;
    operands.push_back(*operand);
  }
  const ByteScale target{to->scale, to->zero, to->dtype == DType::kInt8};
  std::vector<Value*> parts;
  for (size_t i = 0; i < operands.size(); ++i) {
    Value* x = node.inputs[2 + 3 * i];
    const ByteScale from{operands[i].scales[0], operands[i].zeros[0],
                         x->type.dtype == DType::kInt8};
    if (from.scale != target.scale || from.zero_point != target.zero_point ||
        from.is_signed != target.is_signed) {
      const ByteTable table = MakeRescaleTable(from, target);
      Tensor entries(to->dtype, {256});
      std::memcpy(entries.raw(), table.data(), table.size());
      x = writer.Lookup(x, std::move(entries), StrCat("part", i, "_rescaled").c_str());
    }
    parts.push_back(x);
  }
  AttributeMap attributes;
  attributes.Set("axis", node.attributes.Int("axis", 1));
  writer.FinishWith("Concat", std::move(parts), std::move(attributes));
  return {};
}

}  // namespace requant::integers
