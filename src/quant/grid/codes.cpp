#include "quant/grid/codes.h"

#include <cmath>

#include "base/str_cat.h"
#include "numeric/affine.h"
#include "quant/grid/affine.h"

namespace requant {
namespace {

/// The codes that so many bits have, signed or not.
std::pair<int64_t, int64_t> CodesOf(int bits, bool is_signed) {
  const int64_t half = int64_t{1} << (bits - 1);
  if (is_signed) return {-half, half - 1};
  return {0, 2 * half - 1};
}

}  // namespace

bool IsBalanced(const TensorQuantizationConfig& config) {
  return config.quant_min == -config.quant_max || config.quant_min == -config.quant_max - 1;
}

DType CodeType(int bits, bool is_signed, bool weights) {
  // Only activations are stored in 16 bits.
  if (bits > 16 || (weights && bits > 8)) return DType::kInt32;
  if (is_signed) return bits > 8 ? DType::kInt16 : DType::kInt8;
  return bits > 8 ? DType::kUint16 : DType::kUint8;
}

std::optional<Refusal> WhyNoCodes(const TensorQuantizationConfig& config, bool weights) {
  const int64_t low = config.quant_min;
  const int64_t high = config.quant_max;
  const std::string codes = StrCat(low, "..", high);
  if (config.exponential()) {
    return Refusal{"a small float has no codes to choose", "quantMin",
                   "leave quantMin and quantMax out"};
  }
  if (config.bipolar()) {
    if (low == -1 && high == 1) return std::nullopt;
    return Refusal{StrCat("the codes ", codes, " are not -1 and 1"), "quantMin",
                   "leave quantMin and quantMax out"};
  }
  if (low >= high) {
    return Refusal{StrCat("quantMin ", low, " is not below quantMax ", high), "quantMin",
                   "choose two codes or more"};
  }
  // Integers of 32 bits store codes of either kind.
  const bool is_signed = config.dtype == DType::kInt32
                             ? config.symmetric() || low < 0 || config.bits == 32
                             : StorageMin(config.dtype) < 0;
  const auto [least, most] = CodesOf(config.bits, is_signed);
  if (low < least || high > most) {
    const char* sign = is_signed ? "signed " : "unsigned ";
    return Refusal{StrCat("the codes ", codes, " are none of ", config.bits, " ", sign, "bits"),
                   low < least ? "quantMin" : "quantMax",
                   StrCat("choose codes within ", least, "..", most,
                          is_signed || low >= 0 ? "" : ", or signed: true")};
  }
  if (!config.symmetric()) return std::nullopt;
  if (config.formula == ScaleFormula::kCambricon && (low != least || high != most)) {
    return Refusal{"the scales of cambricon follow from bits", "formula",
                   "use another formula, or other bits"};
  }
  if (low > 0 || high < 1) {
    return Refusal{StrCat("the symmetric codes ", codes, " are not around 0"), "quantMin",
                   "choose codes within -1..1 or more"};
  }
  if (IsBalanced(config)) return std::nullopt;
  if (weights || config.formula == ScaleFormula::kPpq) {
    return Refusal{StrCat("the symmetric codes ", codes, " have unequal sides"), "quantMin",
                   StrCat("choose codes within ", -high, "..", high)};
  }

  return std::nullopt;
}

std::optional<Refusal> WhyNoScales(const TensorQuantizationConfig& config) {
  const size_t count = config.scale.size();
  if (count == 0 || config.offset.size() != count) {
    return Refusal{StrCat(count, " scales do not fit ", config.offset.size(), " zero points"),
                   "zeroPoint", "give as many"};
  }
  if (count > 1 && !config.per_channel()) {
    return Refusal{StrCat(count, " scales do not fit 1 channels"), "scale", "give one scale"};
  }
  for (const float scale : config.scale) {
    if (!(scale > 0) || !std::isfinite(scale)) {
      return Refusal{StrCat("the scale ", scale, " is no positive finite number"), "scale",
                     "scales are positive numbers"};
    }
    int exponent = 0;
    if ((config.policy & kPowerOf2) != 0 && std::frexp(scale, &exponent) != 0.5f) {
      return Refusal{StrCat("the scale ", scale, " is no power of two"), "scale",
                     StrCat("give ", PowerOfTwoScale(scale))};
    }
  }
  for (const int32_t offset : config.offset) {
    if (config.bipolar() && offset == 1) continue;  // a threshold
    if (config.symmetric() && offset != 0) {
      return Refusal{StrCat("the zero point ", offset, " is not 0"), "zeroPoint",
                     "set 0, or symmetric: false"};
    }
    if (offset < config.quant_min || offset > config.quant_max) {
      return Refusal{StrCat("the zero point ", offset, " is none of the codes ", config.quant_min,
                            "..", config.quant_max),
                     "zeroPoint", "choose one of them"};
    }
  }
  return std::nullopt;
}

}  // namespace requant
