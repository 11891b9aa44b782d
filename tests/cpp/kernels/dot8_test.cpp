#include <gtest/gtest.h>

#include "kernels/conv/table.h"
#include "kernels/dot8_forms.h"
#include "kernels/list.h"
#include "kernels/variant/kernel.h"
#include "kernels/variant/missing.h"
#include "kernels/variant/probe_dot8.h"

namespace requant {
namespace {

TEST(ProbeDot8, TellsTheExactFormsApart) {
  EXPECT_EQ(ProbeDot8<dot8_forms::Unsigned>(), 1);
  EXPECT_EQ(ProbeDot8<dot8_forms::Signed>(), 2);
}

TEST(ProbeDot8, TakesPairsThatWrapForTheSignedForm) {
  EXPECT_EQ(ProbeDot8<dot8_forms::WrappingPairs>(), 2);
  EXPECT_EQ(LeastDot8Weight(2), -127);
  EXPECT_EQ(LeastDot8Weight(1), -128);
}

TEST(ProbeDot8, RejectsEverythingElse) {
  using namespace dot8_forms;
  EXPECT_EQ(ProbeDot8<ByLanes<SaturatingPairsLane>>(), 0);
  EXPECT_EQ(ProbeDot8<ByLanes<SaturatingSumLane>>(), 0);
  EXPECT_EQ(ProbeDot8<ByLanes<SaturatingSignedPairsLane>>(), 0);
  EXPECT_EQ(ProbeDot8<ByLanes<SevenBitsLane>>(), 0);
  EXPECT_EQ(ProbeDot8<HalfSaturating>(), 0);
}

TEST(ProbeDot8, NativeBuildsEmulateTheUnsignedForm) {
  EXPECT_EQ(rq_dot8(), 1);
  for (const KernelInfo& kernel : ListKernels()) EXPECT_EQ(kernel.missing, nullptr) << kernel.name;
}

}  // namespace
}  // namespace requant
