#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/pool/table.h"
#include "kernels/random_data.h"
#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

using testing::kCanary;
using testing::kCanaryF32;
using testing::Random;

/// A random window: odd sizes, strides, dilation, padding on all sides, pixel strides with gaps.
struct Case {
  ConvGeometry geometry;
  PoolCount count;
  size_t in_size, out_size;
};

Case MakeCase(Random& random) {
  Case test{};
  ConvGeometry& g = test.geometry;
  g.batch = random.Int(1, 2);
  g.in_c = g.out_c = random.Int(1, 70);
  g.in_h = random.Int(1, 9);
  g.in_w = random.Int(1, 9);
  g.kernel_h = random.Int(1, 4);
  g.kernel_w = random.Int(1, 4);
  g.dilation_h = random.Int(1, 2);
  g.dilation_w = random.Int(1, 2);
  g.stride_h = random.Int(1, 3);
  g.stride_w = random.Int(1, 3);
  g.pad_top = random.Int(0, g.kernel_h - 1);
  g.pad_left = random.Int(0, g.kernel_w - 1);
  test.count.pad_bottom = random.Int(0, g.kernel_h - 1);
  test.count.pad_right = random.Int(0, g.kernel_w - 1);
  test.count.include_pad = random.Int(0, 1);
  const int span_h = g.in_h + g.pad_top + test.count.pad_bottom - (g.kernel_h - 1) * g.dilation_h;
  const int span_w = g.in_w + g.pad_left + test.count.pad_right - (g.kernel_w - 1) * g.dilation_w;
  const int ceil_mode = random.Int(0, 1);  // the last window may reach beyond the padding
  g.out_h = std::max(1, (span_h - 1 + ceil_mode * (g.stride_h - 1)) / g.stride_h + 1);
  g.out_w = std::max(1, (span_w - 1 + ceil_mode * (g.stride_w - 1)) / g.stride_w + 1);
  g.input_stride = g.in_c + random.Int(0, 3);
  g.output_stride = g.in_c + random.Int(0, 3);
  test.in_size = static_cast<size_t>(g.batch * g.in_h * g.in_w - 1) * g.input_stride + g.in_c;
  test.out_size = static_cast<size_t>(ConvRows(g)) * g.output_stride + 16;
  return test;
}

/// The window's input elements of an output element, and the divisor, by the definition: it tests
/// every tap instead of computing ranges.
struct Naive {
  std::vector<size_t> taps;
  int count = 0;
};

Naive NaiveWindow(const Case& test, int row, int c) {
  const ConvGeometry& g = test.geometry;
  Naive naive;
  const int x0 = row % g.out_w * g.stride_w - g.pad_left;
  const int y0 = row / g.out_w % g.out_h * g.stride_h - g.pad_top;
  const int batch = row / g.out_w / g.out_h;
  for (int ky = 0; ky < g.kernel_h; ++ky) {
    for (int kx = 0; kx < g.kernel_w; ++kx) {
      const int y = y0 + ky * g.dilation_h;
      const int x = x0 + kx * g.dilation_w;
      const bool inside = y >= 0 && y < g.in_h && x >= 0 && x < g.in_w;
      const bool padded = y < g.in_h + test.count.pad_bottom && x < g.in_w + test.count.pad_right;
      if (inside || (test.count.include_pad && padded)) ++naive.count;
      if (!inside) continue;
      const int pixel = (batch * g.in_h + y) * g.in_w + x;
      naive.taps.push_back(static_cast<size_t>(pixel) * g.input_stride + c);
    }
  }
  return naive;
}

template <typename Function>
void ForEachOutput(const Case& test, int begin, int end, Function&& function) {
  for (int row = begin; row < end; ++row) {
    for (int c = 0; c < test.geometry.in_c; ++c) {
      function(NaiveWindow(test, row, c),
               static_cast<size_t>(row) * test.geometry.output_stride + c);
    }
  }
}

template <typename Params>
void Fill(Random& random, const Case& test, Params& p) {
  p.geometry = test.geometry;
  p.row_begin = random.Int(0, 1) ? 0 : random.Int(0, ConvRows(test.geometry) - 1);
  p.row_end = random.Int(p.row_begin, ConvRows(test.geometry));
}

TEST(MaxPool, Float32) {
  Random random(1);
  for (int round = 0; round < 150; ++round) {
    const Case test = MakeCase(random);
    const std::vector<float> in = random.WildFloats(test.in_size);
    MaxPoolF32Params p;
    Fill(random, test, p);
    p.input = in.data();
    std::vector<float> expected(test.out_size, kCanaryF32);
    ForEachOutput(test, p.row_begin, p.row_end, [&](const Naive& naive, size_t at) {
      // A window of nothing but padding gives the least number, as in ONNX Runtime.
      float most = naive.taps.empty() ? std::numeric_limits<float>::lowest()
                                      : -std::numeric_limits<float>::infinity();
      bool nan = false;
      for (size_t tap : naive.taps) {
        nan = nan || std::isnan(in[tap]);
        most = std::max(most, in[tap]);
      }
      expected[at] = nan ? NAN : most;
    });
    for (const MaxPoolF32Kernel& kernel : MaxPoolF32Kernels()) {
      SCOPED_TRACE(kernel.name);
      std::vector<float> out(test.out_size, kCanaryF32);
      p.output = out.data();
      kernel.run(&p);
      for (size_t i = 0; i < out.size(); ++i) {
        // Compare as numbers: a maximum of -0 and +0 may be either.
        ASSERT_TRUE(out[i] == expected[i] || (std::isnan(out[i]) && std::isnan(expected[i])))
            << i << ": " << out[i] << " instead of " << expected[i];
      }
    }
  }
}

TEST(MaxPool, Bytes) {
  Random random(2);
  for (int round = 0; round < 150; ++round) {
    const Case test = MakeCase(random);
    const std::vector<uint8_t> in = random.Bytes(test.in_size);
    MaxPoolQ8Params p;
    Fill(random, test, p);
    p.input = in.data();
    p.is_signed = random.Int(0, 1);
    p.lo = p.is_signed ? -128 : 0;
    p.hi = p.lo + 255;
    const int least = p.lo;
    if (round % 3 == 0) {
      p.lo += random.Int(0, 100);
      p.hi -= random.Int(0, 100);
    }
    std::vector<uint8_t> expected(test.out_size, kCanary);
    ForEachOutput(test, p.row_begin, p.row_end, [&](const Naive& naive, size_t at) {
      int most = least;
      for (size_t tap : naive.taps) {
        most = std::max<int>(most, p.is_signed ? static_cast<int8_t>(in[tap]) : in[tap]);
      }
      expected[at] = static_cast<uint8_t>(std::clamp(most, p.lo, p.hi));
    });
    for (const MaxPoolQ8Kernel& kernel : MaxPoolQ8Kernels()) {
      std::vector<uint8_t> out(test.out_size, kCanary);
      p.output = out.data();
      kernel.run(&p);
      ASSERT_EQ(expected, out) << kernel.name;
    }
  }
}

/// Pools on planes of bits instead of bytes, for few codes or all; the maxima have as few codes.
TEST(MaxPool, PlanesOfBits) {
  Random random(4);
  int runs[9] = {};
  for (int round = 0; round < 200; ++round) {
    Case test = MakeCase(random);
    test.geometry.in_c = test.geometry.out_c = 32 * random.Int(1, 3);
    test.geometry.input_stride = test.geometry.in_c + 16 * random.Int(0, 1);
    test.geometry.output_stride = test.geometry.in_c;
    const ConvGeometry& g = test.geometry;
    MaxPoolQ8Params p;
    Fill(random, test, p);
    const int planes = 1 + round % 8;
    p.is_signed = random.Int(0, 1);
    const int first = p.is_signed ? -128 : 0;
    p.lo = first + random.Int(0, 256 - (1 << planes));
    p.hi = p.lo + (1 << planes) - 1 - random.Int(0, planes > 1 ? 1 : 0);
    const auto pixels = static_cast<size_t>(g.batch) * g.in_h * g.in_w;
    std::vector<uint8_t> in(pixels * g.input_stride);
    for (uint8_t& code : in) code = static_cast<uint8_t>(random.Int(p.lo - (p.lo > first), p.hi));
    p.input = in.data();
    std::vector<uint8_t> bytes(static_cast<size_t>(ConvRows(g)) * g.in_c, kCanary);
    p.output = bytes.data();
    MaxPoolQ8Kernels()[0].run(&p);
    const size_t step = g.in_c / 8, pixel = step * planes;
    std::vector<uint8_t> expected(ConvRows(g) * pixel, kCanary);
    for (int row = p.row_begin; row < p.row_end; ++row) {
      for (int plane = 0; plane < planes; ++plane) {
        for (int byte = 0; byte < g.in_c / 8; ++byte) {
          int bits = 0;
          for (int c = 0; c < 8; ++c) {
            const uint8_t code = bytes[static_cast<size_t>(row) * g.in_c + 8 * byte + c];
            bits |= (static_cast<uint8_t>(code - p.lo) >> plane & 1) << c;
          }
          expected[row * pixel + plane * step + byte] = static_cast<uint8_t>(bits);
        }
      }
    }
    p.output_planes = planes;
    for (const MaxPoolQ8Kernel& kernel : MaxPoolQ8Kernels()) {
      std::vector<uint8_t> out(expected.size(), kCanary);
      p.output = out.data();
      kernel.run(&p);
      ASSERT_EQ(expected, out) << kernel.name << ", " << planes << " planes";
    }
    ++runs[planes];
  }
  EXPECT_GT(*std::min_element(runs + 1, runs + 9), 20);
}

TEST(AvgPool, Float32) {
  Random random(3);
  for (int round = 0; round < 150; ++round) {
    const Case test = MakeCase(random);
    const std::vector<float> in = random.Floats(test.in_size, -10, 10);
    AvgPoolF32Params p;
    Fill(random, test, p);
    p.count = test.count;
    p.input = in.data();
    if (round % 2) {
      p.lo = 0;
      p.hi = 6;
    }
    std::vector<std::vector<float>> results;
    for (const AvgPoolF32Kernel& kernel : AvgPoolF32Kernels()) {
      SCOPED_TRACE(kernel.name);
      std::vector<float> out(test.out_size, kCanaryF32);
      p.output = out.data();
      kernel.run(&p);
      std::vector<bool> written(test.out_size);
      ForEachOutput(test, p.row_begin, p.row_end, [&](const Naive& naive, size_t at) {
        double sum = 0;
        for (size_t tap : naive.taps) sum += in[tap];
        double mean = naive.count > 0 ? sum / naive.count : 0;
        mean = std::clamp<double>(mean, p.lo, p.hi);
        ASSERT_NEAR(out[at], mean, 1e-5);
        written[at] = true;
      });
      for (size_t i = 0; i < out.size(); ++i) {
        if (!written[i]) {
          ASSERT_EQ(out[i], kCanaryF32);
        }
      }
      results.push_back(out);
    }
    testing::ExpectSameBits(results[0], results[1]);
  }
}

TEST(AvgPool, BytesGiveTheNormativeIntegers) {
  Random random(4);
  for (int round = 0; round < 300; ++round) {
    const Case test = MakeCase(random);
    const ConvGeometry& g = test.geometry;
    const std::vector<uint8_t> in = random.Bytes(test.in_size);
    AvgPoolQ8Params p;
    Fill(random, test, p);
    p.count = test.count;
    p.input = in.data();
    p.in_signed = random.Int(0, 1);
    p.out_signed = random.Int(0, 1);
    p.lo = p.out_signed ? -128 : 0;
    p.hi = p.lo + 255;
    p.input_zero_point = (p.in_signed ? -128 : 0) + random.Int(0, 255);
    p.output_zero_point = p.lo + random.Int(0, 255);
    if (round % 4 == 0) p.hi = random.Int(p.lo, p.hi);
    p.input_scale = round % 5 == 0 ? 0.5f : std::exp(random.Float(-6, 2));
    p.output_scale = round % 5 == 0 ? 0.5f : std::exp(random.Float(-6, 2));
    if (round % 50 == 0) p.input_scale = 1e7f * p.output_scale;  // outside of the vector form
    const auto multipliers =
        AvgPoolMultipliers(p.input_scale, p.output_scale, 1, g.kernel_h * g.kernel_w);
    p.multipliers = multipliers.data();
    for (const AvgPoolQ8Kernel& kernel : AvgPoolQ8Kernels()) {
      std::vector<uint8_t> expected(test.out_size, kCanary);
      ForEachOutput(test, p.row_begin, p.row_end, [&](const Naive& naive, size_t at) {
        int sum = 0;
        for (size_t tap : naive.taps) {
          sum += (p.in_signed ? static_cast<int8_t>(in[tap]) : in[tap]) - p.input_zero_point;
        }
        int64_t value = 0;
        if (naive.count > 0 && kernel.mode == RequantizeMode::kFloat) {
          value = RequantizeFloat(
              sum, p.input_scale / (p.output_scale * static_cast<float>(naive.count)));
        } else if (naive.count > 0) {
          value = RequantizeUpward(sum, multipliers[static_cast<size_t>(naive.count - 1)]);
        }
        value = std::clamp<int64_t>(value + p.output_zero_point, p.lo, p.hi);
        expected[at] = static_cast<uint8_t>(value);
      });
      std::vector<uint8_t> out(test.out_size, kCanary);
      p.output = out.data();
      kernel.run(&p);
      ASSERT_EQ(expected, out) << kernel.name << ", round " << round;
    }
  }
}

TEST(AvgPool, GlobalOverMoreTapsThanOneAccumulatorHolds) {
  // 31 x 31 = 961 taps of an extreme value: the 16-bit sums are widened three times.
  for (int is_signed = 0; is_signed < 2; ++is_signed) {
    for (int extreme : {0, 255}) {
      AvgPoolQ8Params p;
      p.geometry.in_h = p.geometry.kernel_h = 31;
      p.geometry.in_w = p.geometry.kernel_w = 31;
      p.geometry.in_c = p.geometry.out_c = p.geometry.input_stride = p.geometry.output_stride = 37;
      p.row_end = 1;
      p.in_signed = p.out_signed = is_signed;
      p.lo = is_signed ? -128 : 0;
      p.hi = p.lo + 255;
      p.input_zero_point = p.output_zero_point = p.lo + 255 - extreme;
      const uint8_t byte = static_cast<uint8_t>(p.lo + extreme);
      const std::vector<uint8_t> in(31 * 31 * 37, byte);
      const auto multipliers = AvgPoolMultipliers(1, 1, 961, 961);
      p.multipliers = multipliers.data();
      p.first_count = 961;
      p.input = in.data();
      for (const AvgPoolQ8Kernel& kernel : AvgPoolQ8Kernels()) {
        std::vector<uint8_t> out(37);
        p.output = out.data();
        kernel.run(&p);
        EXPECT_EQ(out, std::vector<uint8_t>(37, byte)) << kernel.name;
      }
    }
  }
}

TEST(AvgPool, TiesByHand) {
  // 1 and 2 average to 1.5: 2 in fixed point (up) and 2 in float (to even); -1 and -2 give -1 and
  // -2; 2 and 3 give 3 and 2.
  const std::vector<int8_t> in = {1, -1, 2, 2, -2, 3};
  for (const AvgPoolQ8Kernel& kernel : AvgPoolQ8Kernels()) {
    AvgPoolQ8Params p;
    p.geometry.in_w = p.geometry.kernel_w = 2;
    p.geometry.in_c = p.geometry.out_c = p.geometry.input_stride = p.geometry.output_stride = 3;
    p.row_end = 1;
    p.in_signed = p.out_signed = 1;
    p.lo = -128;
    p.hi = 127;
    const auto multipliers = AvgPoolMultipliers(1, 1, 2, 2);
    p.multipliers = multipliers.data();
    p.first_count = 2;
    p.input = in.data();
    std::vector<int8_t> out(3);
    p.output = out.data();
    kernel.run(&p);
    const bool fixed = kernel.mode == RequantizeMode::kUpward;
    EXPECT_EQ(out, fixed ? (std::vector<int8_t>{2, -1, 3}) : (std::vector<int8_t>{2, -2, 2}))
        << kernel.name;
  }
}

}  // namespace
}  // namespace requant
