// Sums, products, concatenations and pools as plain integer operators; the text, what stays, and
// FixedPointMultiply.
#include "base/error.h"
#include "passes/integers_case.h"

namespace requant {
namespace {

using testing::Case;
using testing::ExpectForms;
using testing::Fixed;
using testing::Pick;
using testing::RandomWindow;

TEST(Integers, SumsProductsAndConcatenations) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    Case c(seed);
    const DType a_type = c.RandomType(), b_type = c.RandomType(), y_type = c.RandomType();
    const int kind = Pick(c.random, 0, 2);
    const Shape a = {2, Pick(c.random, 1, 5), 3};
    const Shape b = kind != 2 && Pick(c.random, 0, 1) ? Shape{3} : a;
    Value* left = c.Input("a", a_type, a);
    Value* right = c.Input("b", b_type, b);
    std::vector<Value*> sides = {left, c.Scale(), c.Zero(a_type), right, c.Scale(), c.Zero(b_type)};
    std::vector<Value*> to = {c.Scale(), c.Zero(y_type)};
    AttributeMap attributes;
    if (kind == 2) {
      attributes.Set("axis", int64_t{1});
      sides.insert(sides.begin(), to.begin(), to.end());
    } else {
      sides.insert(sides.end(), to.begin(), to.end());
    }
    const Node* node = c.Finish(kind == 0   ? "QLinearAdd"
                                : kind == 1 ? "QLinearMul"
                                            : "QLinearConcat",
                                kMicrosoftDomain, sides, attributes);
    const std::vector<int64_t> got = ExpectForms(c, StrCat("seed ", seed, ": "));
    if (HasFailure()) return;
    if (kind == 2) continue;
    const auto of = [&](size_t slot) { return node->constant(slot)->AsDouble(0); };
    for (size_t i = 0; i < got.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t x = c.feeds["a"].AsInt64(at) - static_cast<int64_t>(of(2));
      const int64_t y =
          c.feeds["b"].AsInt64(at % c.feeds["b"].count()) - static_cast<int64_t>(of(5));
      if (kind == 1) {
        EXPECT_EQ(got[i], Fixed(x * y, of(1) * of(4) / of(6), static_cast<int64_t>(of(7)), y_type))
            << "seed " << seed;
        continue;
      }
      // The factors of a sum have 21 bits, so its result is at most a step off.
      const double real = (of(1) * static_cast<double>(x) + of(4) * static_cast<double>(y)) / of(6);
      const double lo = y_type == DType::kInt8 ? -128 : 0;
      EXPECT_NEAR(static_cast<double>(got[i]), std::clamp(real + of(7), lo, lo + 255), 0.51)
          << "seed " << seed;
    }
  }
}

TEST(Integers, AveragesOfWindowsAndPlanes) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    Case c(seed);
    const int spatial = seed % 6 == 0 ? 1 : seed % 6 == 1 ? 3 : 2;
    const bool global = seed % 4 == 0;
    std::vector<int64_t> kernel;
    AttributeMap attributes = RandomWindow(c.random, spatial, kernel, false);
    attributes.Set("count_include_pad", int64_t{Pick(c.random, 0, 1)});
    attributes.Set("ceil_mode", int64_t{Pick(c.random, 0, 1)});
    Shape x_shape = {Pick(c.random, 1, 2), Pick(c.random, 1, 4)};
    for (int i = 0; i < spatial; ++i) x_shape.push_back(Pick(c.random, 3, 7));
    const DType x_type = c.RandomType(), y_type = c.RandomType();
    c.Finish(global ? "QLinearGlobalAveragePool" : "QLinearAveragePool", kMicrosoftDomain,
             {c.Input("x", x_type, x_shape), c.Scale(), c.Zero(x_type), c.Scale(), c.Zero(y_type)},
             global ? AttributeMap() : attributes);
    ExpectForms(c, StrCat("seed ", seed, ": "));
    if (HasFailure()) return;
  }
}

TEST(Integers, FourTermsOfALayerInText) {
  Graph graph = ParseGraph(R"(graph "" opset 13
input %x: uint8[1, 1, 2, 2]
const %sx: float32[] = {0.5}
const %zx: uint8[] = {3}
const %w: uint8[1, 1, 1, 1] = {7}
const %sw: float32[] = {0.25}
const %zw: uint8[] = {2}
const %zy: uint8[] = {10}
const %b: int32[1] = {100}
%y: uint8[1, 1, 2, 2] = QLinearConv(%x, %sx, %zx, %w, %sw, %zw, %sx, %zy, %b) "layer"
output %y
)");
  LegalizeToIntegers(graph, {Decomposition::kFourTerms, RequantizeMode::kUpward});
  // 100 - 3 * 7 + 1 * 3 * 2 = 85; the multiplier is 0.25 = 2^30 * 2^-32.
  EXPECT_EQ(PrintGraph(graph), R"(graph "" opset 13, ai.requant 1
input %x: uint8[1, 1, 2, 2]
const %w: uint8[1, 1, 1, 1] = {7}
const %layer/ones: int8[1, 1, 1, 1] = {1}
const %layer/weight_zeros: int32[] = {2}
const %layer/bias: int32[] = {85}
const %layer/multiplier: int32[] = {1073741824}
const %layer/shift: int32[] = {32}
const %layer/lo: int32[] = {-10}
const %layer/hi: int32[] = {245}
const %layer/zero: int32[] = {10}
%layer/products: int32[1, 1, 2, 2] = ConvInteger(%x, %w) "layer/products"
%layer/input_sums: int32[1, 1, 2, 2] = ConvInteger(%x, %layer/ones) "layer/input_sums"
%layer/input_term: int32[1, 1, 2, 2] = Mul(%layer/input_sums, %layer/weight_zeros) "layer/input_term"
%layer/products_less_term: int32[1, 1, 2, 2] = Sub(%layer/products, %layer/input_term) "layer/products_less_term"
%layer/plus_bias: int32[1, 1, 2, 2] = Add(%layer/products_less_term, %layer/bias) "layer/plus_bias"
%layer/requantize: int32[1, 1, 2, 2] = ai.requant::FixedPointMultiply(%layer/plus_bias, %layer/multiplier, %layer/shift) {rounding = "upward"} "layer/requantize"
%layer/clamp: int32[1, 1, 2, 2] = Clip(%layer/requantize, %layer/lo, %layer/hi) "layer/clamp"
%layer/code: int32[1, 1, 2, 2] = Add(%layer/clamp, %layer/zero) "layer/code"
%y: uint8[1, 1, 2, 2] = Cast(%layer/code) {to = 2} "layer"
output %y
)");
}

TEST(Integers, ListsWhatStays) {
  Graph graph = ParseGraph(R"(graph "" opset 13, com.microsoft 1
input %x: uint8[1, 2]
input %s: float32[]
const %one: float32[] = {1}
const %z: uint8[] = {3}
%a: uint8[1, 2] = com.microsoft::QLinearAdd(%x, %s, %z, %x, %one, %z, %one, %z) "sum"
%y: uint8[1, 2] = com.microsoft::QLinearSigmoid(%a, %one, %z, %one, %z) "gate"
output %y
)");
  const IntegerReport report = LegalizeToIntegers(graph, {});
  EXPECT_TRUE(report.legalized.empty());
  ASSERT_EQ(report.left.size(), 2U);
  EXPECT_EQ(report.left[0].name, "sum");
  EXPECT_NE(report.left[0].reason.find("not constant"), std::string::npos);
  EXPECT_EQ(report.left[1].op, "QLinearSigmoid");
  EXPECT_NE(report.left[1].reason, "");
  Graph old = graph.Clone();
  old.opsets[""] = 10;
  EXPECT_THROW(LegalizeToIntegers(old, {}), Error);
  EXPECT_THROW(LegalizeToIntegers(graph, {Decomposition::kFourTerms, RequantizeMode::kFloat}),
               Error);
}

/// FixedPointMultiply of one number, or the error.
std::string Multiplied(int32_t x, int32_t multiplier, int32_t shift, const char* rounding) {
  const Graph graph = ParseGraph(StrCat(R"(graph "" opset 13, ai.requant 1
input %x: int32[1]
const %m: int32[] = {)",
                                        multiplier, R"(}
const %s: int32[] = {)",
                                        shift, R"(}
%y: int32[1] = ai.requant::FixedPointMultiply(%x, %m, %s) {rounding = ")",
                                        rounding, R"("} "layer"
output %y
)"));
  try {
    return StrCat(Interpret(graph, {{"x", Tensor::Vector<int32_t>({x})}})[0].AsInt64(0));
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(Integers, FixedPointMultiplyAtTies) {
  constexpr int32_t kOne = 1 << 30;  // 2^30 * 2^-31 is a half
  EXPECT_EQ(Multiplied(-3, kOne, 31, "upward"), "-1");
  EXPECT_EQ(Multiplied(-3, kOne, 31, "nearest"), "-2");
  EXPECT_EQ(Multiplied(3, kOne, 31, "nearest"), "2");
  // Two roundings: 5 / 2 gives 3, and 3 / 2 gives 2, where 5 / 4 is 1.
  EXPECT_EQ(Multiplied(5, kOne, 32, "gemmlowp"), "2");
  EXPECT_EQ(Multiplied(5, kOne, 32, "upward"), "1");
  EXPECT_EQ(Multiplied(INT32_MAX, INT32_MAX, 1, "upward"), StrCat(INT32_MAX));
  EXPECT_EQ(Multiplied(INT32_MIN, INT32_MAX, 1, "nearest"), StrCat(INT32_MIN));
  EXPECT_EQ(Multiplied(INT32_MIN, INT32_MAX, 62, "upward"), "-1");
  EXPECT_NE(Multiplied(1, -1, 31, "upward").find("multiplier"), std::string::npos);
  EXPECT_NE(Multiplied(1, 1, 63, "upward").find("shift"), std::string::npos);
  EXPECT_NE(Multiplied(1, 1, 31, "downward").find("rounding"), std::string::npos);
}

}  // namespace
}  // namespace requant
