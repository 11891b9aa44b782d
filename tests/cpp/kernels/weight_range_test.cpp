// The range and the levels of weights do not depend on the order in which memory holds a matrix.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/conv/levels.h"
#include "kernels/conv/pack_walk.h"

namespace requant {
namespace {

TEST(WeightRange, RowsAndColumnsAgree) {
  std::mt19937 random(19);
  for (int round = 0; round < 200; ++round) {
    const auto inputs = static_cast<int32_t>(2 + random() % 40);
    const auto outputs = static_cast<int32_t>(2 + random() % 40);
    const bool is_signed = random() % 2 == 0;
    const unsigned values = 1U << (1 + random() % 8);
    const unsigned least = random() % (257 - values);
    std::vector<uint8_t> rows(static_cast<size_t>(inputs * outputs)), columns(rows.size());
    for (int32_t i = 0; i < inputs; ++i) {
      for (int32_t o = 0; o < outputs; ++o) {
        const unsigned code = least + random() % values;
        const auto byte = static_cast<uint8_t>(is_signed ? code ^ 0x80U : code);
        rows[static_cast<size_t>(i * outputs + o)] = byte;
        columns[static_cast<size_t>(o * inputs + i)] = byte;
      }
    }
    ConvQ8Weights a{}, b{};
    a.layout.out_c = b.layout.out_c = outputs;
    a.layout.in_c_per_group = b.layout.in_c_per_group = inputs;
    a.layout.kernel_h = a.layout.kernel_w = b.layout.kernel_h = b.layout.kernel_w = 1;
    a.layout.groups = b.layout.groups = 1;
    a.layout.stride_o = 1;
    a.layout.stride_i = outputs;
    b.layout.stride_o = inputs;
    b.layout.stride_i = 1;
    a.data = rows.data();
    b.data = columns.data();
    a.is_signed = b.is_signed = is_signed;
    EXPECT_TRUE(conv::AreRows(a));
    EXPECT_EQ(ConvQ8WeightBits(a), ConvQ8WeightBits(b));
    for (const int32_t enough : {63, 127, 255}) {
      const conv::WeightRange x = conv::RangeOf(a, enough), y = conv::RangeOf(b, enough);
      EXPECT_EQ(x.hi - x.lo <= enough, y.hi - y.lo <= enough);
      if (x.hi - x.lo > enough) continue;
      EXPECT_EQ(x.lo, y.lo);
      EXPECT_EQ(x.hi, y.hi);
    }
    for (const size_t most : {2, 4, 256}) {
      const auto x = conv::LevelsOf(a, most), y = conv::LevelsOf(b, most);
      ASSERT_EQ(x.has_value(), y.has_value());
      if (!x) continue;
      EXPECT_EQ(x->offset, y->offset);
      EXPECT_EQ(x->scale, y->scale);
      EXPECT_EQ(x->planes, y->planes);
    }
  }
}

}  // namespace
}  // namespace requant
