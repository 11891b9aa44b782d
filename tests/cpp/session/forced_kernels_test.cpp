// The report of a plan on forced kernels that its steps cannot use.
#include <string>

#include "kernels/elementwise/table.h"
#include "programs.h"

namespace requant {
namespace {

std::vector<std::string> WarningsOf(const char* text, std::vector<ForcedKernel> forced) {
  SessionOptions options;
  options.plan.force_kernels = std::move(forced);
  Session session(ParseGraph(text), options);
  session.Prepare();
  return session.plan()->warnings;
}

constexpr const char* kPools = R"(graph "" opset 17
input %x: float32[1, 4, 6, 6]
%p = MaxPool(%x) {kernel_shape = [2, 2]} "first"
%q = MaxPool(%p) {kernel_shape = [2, 2]} "second"
output %q
)";

TEST(ForcedKernels, ThatRunSayNothing) {
  EXPECT_TRUE(WarningsOf(kPools, {}).empty());
  EXPECT_TRUE(WarningsOf(kPools, {{"maxpool_f32", "maxpool_f32_scalar"}}).empty());
}

TEST(ForcedKernels, OfAFamilyThatNoStepHas) {
  const auto warnings = WarningsOf(kPools, {{"avgpool_f32", "avgpool_f32_scalar"}});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0],
            "the forced kernel avgpool_f32_scalar has no effect: no step of this plan has a kernel "
            "of the family avgpool_f32");
}

TEST(ForcedKernels, ThatNoStepCanTake) {
  constexpr const char* kSigmoid = R"(graph "" opset 17
input %x: float32[8]
%y = Sigmoid(%x) "only"
output %y
)";
  std::string other;
  for (const UnaryF32Kernel& row : UnaryF32Kernels()) {
    if (row.op == UnaryF32Op::kTanh) other = row.name;
  }
  const auto warnings = WarningsOf(kSigmoid, {{"unary_f32", other}});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].find("the forced kernel " + other +
                             " has no effect: 1 of 1 steps of the family unary_f32"),
            0U)
      << warnings[0];
  EXPECT_NE(warnings[0].find("'only' by "), std::string::npos) << warnings[0];
}

}  // namespace
}  // namespace requant
