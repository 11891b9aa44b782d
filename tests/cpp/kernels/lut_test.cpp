#include <gtest/gtest.h>

#include <cmath>

#include "kernels/lut/table.h"
#include "kernels/random_data.h"
#include "numeric/lut.h"

namespace requant {
namespace {

using testing::kCanary;
using testing::Random;

TEST(Lut, EveryRowLooksUpEveryByte) {
  Random random(1);
  const std::vector<uint8_t> table = random.Bytes(256);
  for (const LutKernel& kernel : LutKernels()) {
    for (size_t cols = 1; cols <= 70; ++cols) {
      const size_t rows = 1 + cols % 4;
      const size_t in_stride = cols + cols % 3;
      const size_t out_stride = cols + cols % 5;
      const std::vector<uint8_t> in = random.Bytes((rows - 1) * in_stride + cols);
      std::vector<uint8_t> out(rows * out_stride + 16, kCanary);
      std::vector<uint8_t> expected = out;
      for (size_t r = 0; r < rows; ++r) {
        for (size_t c = 0; c < cols; ++c) {
          expected[r * out_stride + c] = table[in[r * in_stride + c]];
        }
      }
      const LutParams p{in.data(), out.data(), table.data(), rows, cols, in_stride, out_stride};
      kernel.run(&p);
      ASSERT_EQ(expected, out) << kernel.name << ", " << cols;
    }
  }
}

TEST(Lut, WorksInPlace) {
  const ByteTable table =
      MakeByteTable({1, 0, false}, {1, 0, false}, [](float x) { return 255 - x; });
  std::vector<uint8_t> data(50, 7);
  const LutParams p{data.data(), data.data(), table.data(), 1, data.size(), 0, 0};
  rq_lut(&p);
  EXPECT_EQ(data, std::vector<uint8_t>(50, 248));
}

TEST(ByteTable, RescaleRoundsHalfToEvenAndSaturates) {
  // Rescales real values q / 2 to steps of 1: 0.5 -> 0, 1.5 -> 2, 2.5 -> 2.
  const ByteTable table = MakeRescaleTable({0.5f, 0, true}, {1.0f, 0, false});
  EXPECT_EQ(table[1], 0);
  EXPECT_EQ(table[3], 2);
  EXPECT_EQ(table[5], 2);
  EXPECT_EQ(table[127], 64);
  EXPECT_EQ(table[0x80], 0);  // -64 saturates
  const ByteTable same = MakeRescaleTable({0.1f, 3, true}, {0.1f, 3, true});
  for (int i = 0; i < 256; ++i) EXPECT_EQ(same[i], i);
}

TEST(ByteTable, SigmoidByHand) {
  // Output scale 1/256, zero point 0: q = half_even(256 / (1 + e^-x)).
  const ByteTable table = MakeByteTable({0.125f, 128, false}, {1.0f / 256, 0, false},
                                        [](float x) { return 1 / (1 + std::exp(-x)); });
  EXPECT_EQ(table[128], 128);
  EXPECT_EQ(table[136], 187);  // x = 1: 0.731059 * 256 = 187.15
  EXPECT_EQ(table[120], 69);   // x = -1: 68.85
  EXPECT_EQ(table[255], 255);
  EXPECT_EQ(table[0], 0);
}

TEST(ByteTable, ClampAndNaN) {
  const ByteScale q{1.0f, 0, true};
  const ByteTable relu6 = MakeByteTable(
      q, q, [](float x) { return x; }, 0, 6);
  EXPECT_EQ(relu6[0xff], 0);  // -1
  EXPECT_EQ(relu6[100], 6);
  const ByteTable nan = MakeByteTable(q, {1.0f, 5, true}, [](float) { return NAN; });
  EXPECT_EQ(nan[17], 5);
}

}  // namespace
}  // namespace requant
