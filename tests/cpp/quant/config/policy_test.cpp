#include "quant/config/policy.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "quant/config/state.h"
#include "quant/grid/affine.h"

namespace requant {
namespace {

std::string MessageOf(QuantizationPolicy policy) {
  try {
    CheckPolicy(policy, "conv1");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidQuantization);
    return error.message();
  }
  return "";
}

TEST(Policy, LegalOnesPass) {
  EXPECT_EQ(MessageOf(kPerTensor | kLinear | kAsymmetrical), "");
  EXPECT_EQ(MessageOf(kPerChannel | kLinear | kSymmetrical), "");
  EXPECT_EQ(MessageOf(kPerChannel | kLinear | kAsymmetrical), "");
  EXPECT_EQ(MessageOf(kPerTensor | kLinear | kAsymmetrical | kPowerOf2), "");
  EXPECT_EQ(MessageOf(kPerTensor | kExponential | kSymmetrical), "");
}

TEST(Policy, ContradictionsAreNamed) {
  const std::string both = MessageOf(kPerTensor | kPerChannel | kLinear | kSymmetrical);
  EXPECT_NE(both.find("PER_TENSOR|PER_CHANNEL"), std::string::npos);
  EXPECT_NE(both.find("conv1"), std::string::npos);
  EXPECT_NE(MessageOf(kPerTensor | kLinear).find("SYMMETRICAL|ASYMMETRICAL is missing"),
            std::string::npos);
  EXPECT_NE(MessageOf(kPerTensor | kSymmetrical).find("LINEAR|EXPONENTIAL is missing"),
            std::string::npos);
  EXPECT_NE(MessageOf(kPerTensor | kExponential | kAsymmetrical).find("no zero point"),
            std::string::npos);
  EXPECT_NE(MessageOf(kPerTensor | kExponential | kSymmetrical | kPowerOf2).find("POWER_OF_2"),
            std::string::npos);
  EXPECT_NE(MessageOf(1u << 20).find("unknown"), std::string::npos);
}

TEST(State, TheTable) {
  using S = QuantizationState;
  // Every legal transition, written down a second time.
  const std::vector<std::pair<S, std::vector<S>>> legal = {
      {S::kInitial, {S::kActivated, S::kOverlapped, S::kPassiveInit, S::kSoi, S::kFp32}},
      {S::kBaked, {S::kActivated, S::kDeactivated, S::kDequantized}},
      {S::kOverlapped, {S::kDeactivated, S::kDequantized, S::kFp32}},
      {S::kDeactivated, {S::kActivated, S::kBaked, S::kOverlapped, S::kPassive, S::kPassiveBaked}},
      {S::kActivated, {S::kBaked, S::kOverlapped, S::kDeactivated, S::kDequantized}},
      {S::kDequantized, {S::kActivated, S::kBaked, S::kOverlapped, S::kPassive, S::kPassiveBaked}},
      {S::kSoi, {}},
      {S::kPassive, {S::kPassiveBaked, S::kDeactivated, S::kDequantized}},
      {S::kPassiveInit, {S::kPassive, S::kOverlapped, S::kFp32}},
      {S::kPassiveBaked, {S::kPassive, S::kDeactivated, S::kDequantized}},
      {S::kFp32, {}},
  };
  ASSERT_EQ(legal.size(), static_cast<size_t>(kQuantizationStates));
  for (const auto& [from, next] : legal) {
    for (int i = 0; i < kQuantizationStates; ++i) {
      const S to = static_cast<S>(i);
      const bool wanted = from == to || std::find(next.begin(), next.end(), to) != next.end();
      EXPECT_EQ(CanTransit(from, to), wanted) << StateName(from) << " -> " << StateName(to);
      S state = from;
      if (wanted) {
        Transit(state, to);
        EXPECT_EQ(state, to);
      } else {
        EXPECT_THROW(Transit(state, to, "conv1"), Error);
        EXPECT_EQ(state, from);
      }
    }
  }
}

TensorQuantizationConfig ConfigOf(TensorSettings settings, bool weights = false) {
  TensorQuantizationConfig config;
  ApplySettings(settings, weights, config);
  return config;
}

TEST(Affine, RangesByHand) {
  // [-1, 3] over 255 steps: s = 4/255; z = round(1 / s) = round(63.75) = 64.
  Affine affine = AffineFromRange(-1, 3, ConfigOf({}));
  EXPECT_FLOAT_EQ(affine.scale, 4.0f / 255);
  EXPECT_EQ(affine.offset, 64);
  // 0 is always inside; behind a Relu the zero point is qmin.
  affine = AffineFromRange(2, 3, ConfigOf({}));
  EXPECT_FLOAT_EQ(affine.scale, 3.0f / 255);
  EXPECT_EQ(affine.offset, 0);
  affine = AffineFromRange(-3, -2, ConfigOf({}));
  EXPECT_EQ(affine.offset, 255);
  affine = AffineFromRange(0, 0, ConfigOf({}));
  EXPECT_EQ(affine.scale, 1.0f);
  affine = AffineFromRange(-2, 1, ConfigOf({.symmetric = true}));
  EXPECT_FLOAT_EQ(affine.scale, 2.0f / 127);
  EXPECT_EQ(affine.offset, 0);
  affine = AffineFromRange(-1, 3, ConfigOf({.power_of_2 = true}));
  EXPECT_EQ(affine.scale, 1.0f / 32);  // 4/255 = 1/63.75
  EXPECT_EQ(affine.offset, 32);
  const TensorQuantizationConfig seven = ConfigOf({.bits = 7, .symmetric = true}, true);
  EXPECT_EQ(seven.quant_min, -63);
  EXPECT_EQ(seven.quant_max, 63);
}

TEST(Affine, ParametersPerChannel) {
  TensorQuantizationConfig config = ConfigOf({.symmetric = true, .per_channel = true}, true);
  config.axis = 1;
  config.scale = {0.5f, 2};
  config.offset = {0, 0};
  const Tensor values = Tensor::FromVector<float>({1, 1, -1.25f, 5, 0.75f, -1000}, {3, 2});
  const Tensor integers = QuantizeParameter(values, config);
  EXPECT_EQ(integers.ToInts(), (std::vector<int64_t>{2, 0, -2, 2, 2, -127}));
  EXPECT_EQ(DequantizeParameter(integers, config).ToFloats(),
            (std::vector<float>{1, 0, -1, 4, 1, -254}));
}

TEST(Affine, BadSettingsAreRefused) {
  EXPECT_THROW(CheckSettings({.bits = 0}, false, "x"), Error);
  EXPECT_THROW(CheckSettings({.bits = 33}, false, "x"), Error);
  EXPECT_THROW(CheckSettings({.percentile = 0}, false, "x"), Error);
  EXPECT_THROW(CheckSettings({.momentum = 1}, false, "x"), Error);
  EXPECT_THROW(CheckSettings({.formula = ScaleFormula::kCambricon}, true, "x"), Error);
}

}  // namespace
}  // namespace requant
