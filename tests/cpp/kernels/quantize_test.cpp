#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/quantize/table.h"
#include "kernels/random_data.h"
#include "numeric/affine.h"

namespace requant {
namespace {

using testing::ExpectSameBits;
using testing::kCanary;
using testing::kCanaryF32;
using testing::Random;

/// Multiples of half a step (ties), special values and ordinary ones.
std::vector<float> Inputs(Random& random, size_t n, float scale) {
  std::vector<float> values = random.WildFloats(n);
  for (float& value : values) {
    const int pick = random.Int(0, 3);
    if (pick == 0) value = static_cast<float>(random.Int(-600, 600)) * 0.5f * scale;
    if (pick == 1) value = random.Float(-200, 200) * scale;
  }
  return values;
}

struct Type {
  int32_t is_signed, lo, hi;
};
constexpr Type kTypes[] = {{0, 0, 255}, {1, -128, 127}, {0, 3, 200}, {1, 0, 6}};

TEST(Quantize, EveryRowFollowsQuantizeLinear) {
  Random random(1);
  for (const QuantizeKernel& kernel : QuantizeKernels()) {
    for (const Type& type : kTypes) {
      for (size_t cols = 1; cols <= 70; ++cols) {
        const bool per_channel = cols % 2 == 0;
        const bool zeros = cols % 4 == 0;
        const size_t rows = 1 + cols % 3;
        const int low = type.is_signed ? -128 : 0;
        QuantizeParams p{};
        p.scale = std::exp(random.Float(-6, 2));
        p.zero = random.Int(low, low + 255);
        p.rows = rows;
        p.cols = cols;
        p.in_row_stride = cols + 1;
        p.out_row_stride = cols + 2;
        p.lo = type.lo;
        p.hi = type.hi;
        std::vector<float> scales(cols);
        std::vector<int32_t> zero_points(cols);
        for (size_t c = 0; c < cols; ++c) {
          scales[c] = std::exp(random.Float(-6, 2));
          zero_points[c] = random.Int(low, low + 255);
        }
        if (per_channel) p.scales = scales.data();
        if (zeros) p.zeros = zero_points.data();
        const std::vector<float> in = Inputs(random, rows * (cols + 1) - 1, p.scale);
        std::vector<uint8_t> out(rows * (cols + 2) + 16, kCanary);
        std::vector<uint8_t> expected = out;
        p.in = in.data();
        p.out = out.data();
        kernel.run(&p);
        for (size_t r = 0; r < rows; ++r) {
          for (size_t c = 0; c < cols; ++c) {
            const float scale = per_channel ? scales[c] : p.scale;
            const int32_t zero = per_channel ? (zeros ? zero_points[c] : 0) : p.zero;
            expected[r * (cols + 2) + c] = static_cast<uint8_t>(
                QuantizeLinear(in[r * (cols + 1) + c], scale, zero, {type.lo, type.hi}));
          }
        }
        ASSERT_EQ(expected, out) << kernel.name << ", " << cols;
      }
    }
  }
}

TEST(Quantize, HandValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> in = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, NAN, infinity, -infinity, 3e38f};
  const std::vector<uint8_t> expected = {10, 12, 12, 10, 8, 10, 255, 0, 255};
  for (const QuantizeKernel& kernel : QuantizeKernels()) {
    std::vector<uint8_t> out(in.size());
    QuantizeParams p{};
    p.in = in.data();
    p.out = out.data();
    p.rows = 1;
    p.cols = in.size();
    p.scale = 1.0f;
    p.zero = 10;
    p.hi = 255;
    kernel.run(&p);
    EXPECT_EQ(out, expected) << kernel.name;
  }
}

TEST(Dequantize, EveryRowFollowsDequantizeLinear) {
  Random random(2);
  for (const DequantizeKernel& kernel : DequantizeKernels()) {
    for (size_t cols = 1; cols <= 70; ++cols) {
      for (int32_t is_signed = 0; is_signed < 2; ++is_signed) {
        const bool per_channel = cols % 2 == 1;
        const bool zeros = cols % 3 == 0;
        DequantizeParams p{};
        p.rows = 2;
        p.cols = cols;
        p.in_row_stride = cols + 3;
        p.out_row_stride = cols + 1;
        p.scale = std::exp(random.Float(-6, 2));
        p.zero = random.Int(is_signed ? -128 : 0, is_signed ? 127 : 255);
        p.in_signed = is_signed;
        const std::vector<float> scales = random.Floats(cols, 0.001f, 2);
        std::vector<int32_t> zero_points(cols);
        for (int32_t& zero : zero_points) zero = random.Int(-128, 255);
        if (per_channel) p.scales = scales.data();
        if (zeros) p.zeros = zero_points.data();
        const std::vector<uint8_t> in = random.Bytes(2 * cols + 3);
        std::vector<float> out(2 * (cols + 1) + 4, kCanaryF32);
        std::vector<float> expected = out;
        p.in = in.data();
        p.out = out.data();
        kernel.run(&p);
        for (size_t r = 0; r < 2; ++r) {
          for (size_t c = 0; c < cols; ++c) {
            const uint8_t byte = in[r * (cols + 3) + c];
            const int32_t q = is_signed ? static_cast<int8_t>(byte) : byte;
            expected[r * (cols + 1) + c] =
                DequantizeLinear(q, per_channel ? scales[c] : p.scale,
                                 per_channel ? (zeros ? zero_points[c] : 0) : p.zero);
          }
        }
        ExpectSameBits(expected, out);
      }
    }
  }
}

TEST(QuantizePlanes, EveryRowInterleavesChannels) {
  Random random(3);
  for (const QuantizePlanesKernel& kernel : QuantizePlanesKernels()) {
    for (size_t channels = 1; channels <= 4; ++channels) {
      for (size_t stride = channels; stride <= channels + 5; ++stride) {
        for (size_t pixels : {1, 2, 15, 16, 17, 31, 32, 49, 63}) {
          const Type& type = kTypes[pixels % 2];
          QuantizePlanesParams p{};
          p.channels = channels;
          p.pixels = pixels;
          p.in_plane_stride = pixels + pixels % 3;
          p.out_pixel_stride = stride;
          p.scale = 0.05f;
          p.zero = type.is_signed ? -4 : 117;
          p.lo = type.lo;
          p.hi = type.hi;
          const std::vector<float> in =
              Inputs(random, (channels - 1) * p.in_plane_stride + pixels, p.scale);
          std::vector<uint8_t> out(pixels * stride + 16, kCanary);
          std::vector<uint8_t> expected = out;
          p.in = in.data();
          p.out = out.data();
          kernel.run(&p);
          for (size_t c = 0; c < channels; ++c) {
            for (size_t i = 0; i < pixels; ++i) {
              expected[i * stride + c] = static_cast<uint8_t>(QuantizeLinear(
                  in[c * p.in_plane_stride + i], p.scale, p.zero, {type.lo, type.hi}));
            }
          }
          ASSERT_EQ(expected, out) << kernel.name << ", " << channels << "/" << stride;
        }
      }
    }
  }
}

}  // namespace
}  // namespace requant
