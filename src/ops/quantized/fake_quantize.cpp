// ai.requant::FakeQuantize(x, scale, offset) quantizes and dequantizes in float where no integer
// form exists: 2..32 bits, every rounding policy, scales per channel, small floats.
#include <algorithm>

#include "base/error.h"
#include "numeric/affine.h"
#include "numeric/small_float.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

RoundingPolicy RoundingOf(const Node& node) {
  RoundingPolicy policy = RoundingPolicy::kHalfEven;
  const std::string name = node.attributes.String("rounding", "HALF_EVEN");
  if (!ParseName(name, &policy)) {
    Fail(ErrorCode::kInvalidModel, "there is no rounding policy '" + name + "'",
         {.node = node.name});
  }
  return policy;
}

void InferFakeQuantize(InferContext& context) {
  RequireDType(context, 0, {DType::kFloat32});
  RoundingOf(context.node);
  SameAsInput(context);
}

void EvaluateFakeQuantize(EvalContext& context) {
  const Tensor& x = context.input(0);
  const std::vector<float> scale = context.input(1).ToFloats();
  const std::vector<int64_t> offset = context.input(2).ToInts();
  const AttributeMap& attributes = context.attributes();
  const RoundingPolicy rounding = RoundingOf(context.node);
  const auto low = static_cast<double>(attributes.Int("quant_min", -128));
  const auto high = static_cast<double>(attributes.Int("quant_max", 127));
  const SmallFloat format{static_cast<int>(attributes.Int("exponent_bits", 0)),
                          static_cast<int>(attributes.Int("mantissa_bits", 0))};
  int64_t inner = 1;
  if (scale.empty() || scale.size() != offset.size()) {
    Fail(ErrorCode::kShapeMismatch, "as many offsets as scales are needed");
  }
  if (scale.size() > 1) {
    const auto axis = static_cast<size_t>(NormalizeAxis(attributes.Int("axis", 1), x.rank()));
    if (x.shape()[axis] != static_cast<int64_t>(scale.size())) {
      Fail(ErrorCode::kShapeMismatch, "the scales do not fit the axis");
    }
    for (size_t i = axis + 1; i < x.shape().size(); ++i) inner *= x.shape()[i];
  }
  Tensor out(DType::kFloat32, x.shape());
  const float* from = x.data<float>();
  auto* to = out.data<float>();
  for (int64_t i = 0; i < x.count(); ++i) {
    const size_t channel =
        scale.size() > 1 ? static_cast<size_t>(i / inner) % scale.size() : size_t{0};
    const auto s = static_cast<double>(scale[channel]);
    // The quotient is a float32, as in QuantizeLinear.
    const auto scaled = static_cast<double>(from[i] / scale[channel]);
    if (format.exponent_bits > 0) {
      to[i] = static_cast<float>(RoundToSmallFloat(scaled, format) * s);
      continue;
    }
    const auto z = static_cast<double>(offset[channel]);
    const double q = std::clamp(RoundTo(scaled, rounding) + z, low, high);
    to[i] = static_cast<float>((q - z) * s);
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kFakeQuantizeOps[] = {
    {"FakeQuantize", kRequantDomain, 1, 3, 3, 1, InferFakeQuantize, EvaluateFakeQuantize,
     QuantRule::kFloat, FusionRule::kBroadcast},
};

}  // namespace

std::span<const OpDef> FakeQuantizeOps() { return kFakeQuantizeOps; }

}  // namespace requant
