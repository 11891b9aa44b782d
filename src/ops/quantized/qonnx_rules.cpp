#include "ops/quantized/qonnx_rules.h"

#include <cmath>
#include <string>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/elementwise.h"

namespace requant::qonnx {

float RoundHalfEven(float x) {
  const float low = std::floor(x);
  const float part = x - low;
  if (part != 0.5F) return part < 0.5F ? low : low + 1;
  return 2 * std::floor(low / 2 + 0.5F);
}

namespace {

struct RoundingRow {
  const char* name;
  Rounding round;
};

constexpr RoundingRow kRoundings[] = {
    {"ROUND", RoundHalfEven},
    {"HALF_EVEN", RoundHalfEven},
    {"CEIL", [](float x) { return std::ceil(x); }},
    {"FLOOR", [](float x) { return std::floor(x); }},
    {"UP", [](float x) { return std::copysign(std::ceil(std::fabs(x)), x); }},
    {"DOWN", [](float x) { return std::trunc(x); }},
    {"ROUND_TO_ZERO", [](float x) { return std::trunc(x); }},
    {"HALF_UP", [](float x) { return std::copysign(std::floor(std::fabs(x) + 0.5F), x); }},
    {"HALF_DOWN", [](float x) { return std::copysign(std::ceil(std::fabs(x) - 0.5F), x); }},
};

}  // namespace

Rounding RoundingOf(const Node& node, const char* fallback) {
  const std::string name = node.attributes.String("rounding_mode", fallback);
  for (const RoundingRow& row : kRoundings) {
    if (name == row.name) return row.round;
  }
  Fail(ErrorCode::kUnsupported, StrCat("rounding_mode '", name, "' of ", node.op_type));
}

Limits LimitsOf(const Node& node, float bits) {
  if (!(bits >= 1 && bits <= 64)) {
    Fail(ErrorCode::kInvalidQuantization, StrCat(node.op_type, " of ", bits, " bits"));
  }
  const bool is_signed = node.attributes.Int("signed", 1) != 0;
  const bool narrow = node.attributes.Int("narrow", 0) != 0;
  const double values = std::exp2(static_cast<double>(bits) - (is_signed ? 1 : 0));
  if (is_signed) return {static_cast<float>(-values + narrow), static_cast<float>(values - 1)};
  return {0, static_cast<float>(values - 1 - narrow)};
}

Along::Along(const Tensor& tensor, const Shape& shape) : values_(tensor.ToFloats()) {
  if (values_.size() == 1) return;
  const RowPlan plan = PlanRows(shape, {&tensor.shape()});
  at_.resize(static_cast<size_t>(plan.count));
  ForEachRow(plan, [this](const RowStep& row) {
    for (int64_t i = 0; i < row.length; ++i) {
      at_[static_cast<size_t>(row.output + i)] =
          static_cast<uint32_t>(row.input[0] + i * row.step[0]);
    }
  });
}

}  // namespace requant::qonnx
