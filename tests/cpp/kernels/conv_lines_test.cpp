// Tests which layers kernels that read lines in place support, and for which they are preferred.
#include <gtest/gtest.h>

#include "kernels/conv/pack.h"
#include "kernels/conv_testing.h"

namespace requant {
namespace {

using namespace window_testing;

TEST(ConvLines, SupportOneGroupWithoutDilation) {
  std::mt19937 random(14);
  const auto supports = [&](const ConvGeometry& g) {
    const Q8Case test(random, g, 2, false);
    const bool supported = conv::LinesSupports(test.view, g);
    EXPECT_EQ(conv::LinesF32Supports(g), supported);
    return supported;
  };
  EXPECT_TRUE(supports(Geometry(9, 9, 11, 8, 3, 3, 1, 1)));
  EXPECT_TRUE(supports(Geometry(9, 9, 3, 8, 1, 1, 1, 0)));
  EXPECT_FALSE(supports(Geometry(9, 9, 3, 8, 3, 3, 1, 1, 2)));
  EXPECT_FALSE(supports(Geometry(9, 9, 6, 6, 3, 3, 1, 1, 1, 3)));
}

TEST(ConvLines, ArePreferredWhereGatheringCostsMore) {
  struct Layer {
    const char* what;
    ConvGeometry g;
    bool pairs, dot7, bytes, floats;
  };
  const Layer layers[] = {
      {"a first layer", Geometry(16, 16, 3, 32, 3, 3, 1, 1), true, false, true, true},
      {"a first layer with a stride", Geometry(9, 9, 3, 8, 3, 3, 2, 1), true, false, true, true},
      {"64 channels of 8 columns", Geometry(8, 8, 3, 64, 3, 3, 1, 1), false, false, false, true},
      {"64 channels of 7 columns", Geometry(7, 7, 3, 64, 3, 3, 1, 1), false, false, false, false},
      {"the longest short run", Geometry(9, 9, 10, 8, 3, 3, 1, 1), true, true, true, true},
      {"a longer run", Geometry(9, 9, 11, 8, 3, 3, 1, 1), false, false, false, false},
      {"16 pixels", Geometry(16, 16, 48, 64, 3, 3, 1, 1), true, true, true, true},
      {"16 pixels, 72 channels", Geometry(16, 16, 48, 72, 3, 3, 1, 1), false, false, false, false},
      {"columns of three", Geometry(18, 16, 48, 48, 3, 1, 1, 0), true, true, true, true},
      {"a first layer of runs of 12", Geometry(16, 16, 4, 32, 3, 3, 1, 1), true, true, true, true},
      {"columns of few channels", Geometry(18, 16, 8, 48, 3, 1, 1, 0), true, false, true, true},
      {"lines of three", Geometry(16, 18, 48, 48, 1, 3, 1, 0), true, true, true, true},
      {"8 pixels", Geometry(8, 8, 48, 64, 3, 3, 1, 1), false, false, false, true},
      {"7 pixels", Geometry(7, 7, 48, 64, 3, 3, 1, 1), false, false, false, false},
      {"every other pixel", Geometry(32, 32, 16, 32, 1, 1, 2, 0), true, false, false, true},
      {"many channels of these", Geometry(32, 32, 64, 32, 1, 1, 2, 0), false, false, false, false},
      {"every pixel", Geometry(16, 16, 16, 16, 1, 1, 1, 0), false, false, false, false},
  };
  std::mt19937 random(15);
  for (const auto& [what, g, pairs, dot7, bytes, floats] : layers) {
    SCOPED_TRACE(what);
    Q8Case test(random, g, 0, true);
    test.weights[0] = 127;  // too large for the kernels on 7 bits
    EXPECT_EQ(conv::LinesIsPreferred(test.view, g), pairs);
    EXPECT_EQ(conv::Dot8LinesIsPreferred(test.view, g), bytes);
    EXPECT_EQ(conv::LinesF32IsPreferred(g), floats);
    test.weights[0] = 1;
    const bool one_pixel = g.kernel_h == 1 && g.kernel_w == 1;
    EXPECT_EQ(conv::LinesIsPreferred(test.view, g), pairs && !one_pixel);
    EXPECT_EQ(conv::Dot7LinesIsPreferred(test.view, g), dot7);
  }
}

}  // namespace
}  // namespace requant
