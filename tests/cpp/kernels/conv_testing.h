#pragma once
// Random convolutions of 8-bit values, and their results by the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/conv/table.h"
#include "kernels/window_testing.h"

namespace requant::window_testing {

inline std::vector<ConvGeometry> Geometries() {
  std::vector<ConvGeometry> all;
  for (int32_t c = 1; c <= 67; c += c < 20 ? 1 : 9) {
    all.push_back(Geometry(3, 5, c, 68 - c, 1, 1, 1, 0));  // pointwise
    all.push_back(Geometry(5, 4, c, c % 11 + 1, 3, 3, 1, 1));
  }
  for (const int32_t out : {8, 9, 16, 17, 24, 35}) {  // one row, blocks two by two
    all.push_back(Geometry(1, 1, 2 * out - 3, out, 1, 1, 1, 0));
  }
  all.push_back(Geometry(1, 1, 15, 60, 1, 1, 1, 0, 1, 3));
  all.push_back(Geometry(1, 71, 16, 24, 1, 1, 1, 0));           // a matrix product
  all.push_back(Geometry(9, 7, 3, 8, 3, 3, 2, 1));              // first layer
  all.push_back(Geometry(11, 13, 5, 9, 5, 3, 3, 2));            // odd everything
  all.push_back(Geometry(9, 9, 4, 5, 3, 3, 1, 2, 2));           // dilated
  all.push_back(Geometry(10, 9, 6, 7, 2, 4, 2, 3, 3));          // dilated, strided, wide padding
  all.push_back(Geometry(7, 7, 12, 18, 3, 3, 1, 1, 1, 3));      // groups
  all.push_back(Geometry(6, 7, 10, 30, 3, 3, 2, 1, 1, 10));     // channel multiplier 3
  all.push_back(Geometry(7, 6, 8, 8, 1, 1, 2, 0));              // strided pointwise
  all.push_back(Geometry(5, 5, 7, 9, 1, 1, 1, 1));              // padded pointwise
  all.push_back(Geometry(2, 2, 3, 4, 5, 5, 1, 2));              // window larger than the image
  all.push_back(Geometry(1, 3, 2, 3, 1, 3, 1, 5));              // windows wholly in the padding
  all.push_back(Geometry(4, 5, 9, 10, 3, 3, 1, 1, 1, 1, 3));    // batch
  all.push_back(Geometry(21, 23, 8, 11, 1, 1, 1, 0, 1, 1, 2));  // several panels
  all.push_back(Geometry(24, 21, 9, 8, 3, 3, 1, 1));
  all.push_back(Geometry(4, 4, 260, 9, 3, 3, 1, 1));    // deep
  all.push_back(Geometry(9, 9, 1027, 12, 1, 1, 1, 0));  // many rows of a matrix
  // Lines with more channels: runs that are no multiple of a step, several strips, strides,
  // batches.
  all.push_back(Geometry(5, 19, 13, 20, 3, 3, 1, 1));
  all.push_back(Geometry(3, 70, 11, 9, 2, 4, 1, 2));
  all.push_back(Geometry(6, 37, 17, 32, 3, 3, 2, 1, 1, 1, 2));
  return all;
}

inline std::string Describe(const ConvGeometry& g) {
  return std::to_string(g.in_h) + "x" + std::to_string(g.in_w) + "x" + std::to_string(g.in_c) +
         " -> " + std::to_string(g.out_c) + " kernel " + std::to_string(g.kernel_h) + "x" +
         std::to_string(g.kernel_w) + " stride " + std::to_string(g.stride_h) + " pad " +
         std::to_string(g.pad_top) + " dilation " + std::to_string(g.dilation_h) + " groups " +
         std::to_string(g.groups);
}

/// Calls f(input index, weight index in OIHW) for the taps inside of the image.
template <typename F>
void ForEachTap(const ConvGeometry& g, int32_t row, int32_t o, F f) {
  const int32_t in_c = g.in_c / g.groups, group = o / (g.out_c / g.groups);
  const int32_t ox = row % g.out_w, oy = row / g.out_w % g.out_h, n = row / g.out_w / g.out_h;
  for (int32_t i = 0; i < in_c; ++i) {
    for (int32_t ky = 0; ky < g.kernel_h; ++ky) {
      for (int32_t kx = 0; kx < g.kernel_w; ++kx) {
        const int32_t y = oy * g.stride_h + ky * g.dilation_h - g.pad_top;
        const int32_t x = ox * g.stride_w + kx * g.dilation_w - g.pad_left;
        if (y < 0 || y >= g.in_h || x < 0 || x >= g.in_w) continue;
        f(((n * g.in_h + y) * g.in_w + x) * g.input_stride + group * in_c + i,
          ((o * in_c + i) * g.kernel_h + ky) * g.kernel_w + kx);
      }
    }
  }
}

inline size_t WeightCount(const ConvGeometry& g) {
  return static_cast<size_t>(g.out_c) * (g.in_c / g.groups) * g.kernel_h * g.kernel_w;
}

struct Q8Case {
  ConvGeometry g;
  bool input_signed = false, weight_signed = true;
  int32_t input_zero_point = 0;
  std::vector<int32_t> weight_zero_points, bias;
  std::vector<uint8_t> input, weights;
  ConvQ8Weights view;

  Q8Case(std::mt19937& random, const ConvGeometry& geometry, int variant, bool seven_bits) {
    g = geometry;
    const int32_t slack_in = variant % 3, slack_out = variant % 2 * 5;
    g.input_stride += slack_in;
    g.output_stride += slack_out;
    input_signed = variant & 1;
    weight_signed = seven_bits || (variant & 2) != 0;
    const int32_t ends[] = {0, 255, 128, 77, -128, 127, 0, -5};
    input_zero_point = ends[(variant / 2) % 4 + (input_signed ? 4 : 0)];
    const Fill fills[] = {Fill::kRandom, Fill::kLowest, Fill::kHighest, Fill::kRandom};
    input = Bytes(random, Elements(g.batch * g.in_h * g.in_w, g.input_stride, g.in_c),
                  fills[variant / 3 % 4], input_signed);
    weights = Bytes(random, WeightCount(g), fills[variant / 5 % 4], weight_signed);
    if (seven_bits) {
      for (uint8_t& w : weights) w = static_cast<uint8_t>(static_cast<int8_t>(w) >> 1);
    }
    if (!seven_bits && variant % 4 != 0) {
      for (int32_t o = 0; o < g.out_c; ++o) {
        const int32_t z = variant % 8 == 7 ? 128 : static_cast<int32_t>(random() % 256);
        weight_zero_points.push_back(weight_signed ? z - 128 : z);
      }
    }
    if (variant % 5 != 0) {
      for (int32_t o = 0; o < g.out_c; ++o) {
        bias.push_back(static_cast<int32_t>(random() % 20001) - 10000);
      }
    }
    view.layout = OihwLayout(g.out_c, g.in_c / g.groups, g.kernel_h, g.kernel_w, g.groups);
    view.data = weights.data();
    view.is_signed = weight_signed;
    view.zero_points = weight_zero_points.empty() ? nullptr : weight_zero_points.data();
    view.bias = bias.empty() ? nullptr : bias.data();
  }

  int32_t Input(int i) const {
    return (input_signed ? static_cast<int8_t>(input[i]) : input[i]) - input_zero_point;
  }
  int32_t Weight(int32_t o, int i) const {
    return (weight_signed ? static_cast<int8_t>(weights[i]) : weights[i]) -
           (weight_zero_points.empty() ? 0 : weight_zero_points[o]);
  }

  /// The accumulator of one output, by the definition.
  int64_t Accumulator(int32_t row, int32_t o) const {
    int64_t sum = bias.empty() ? 0 : bias[o];
    ForEachTap(g, row, o, [&](int i, int w) { sum += Input(i) * Weight(o, w); });
    return sum;
  }

  /// Runs a row of the table on [0, rows), divided at the cuts.
  void Run(const ConvQ8Kernel& kernel, ConvQ8Output type, const RequantizeParams& requantize,
           const std::vector<int32_t>& cuts, void* output, const FloatSums& sums = {}) const {
    std::vector<uint8_t> packed(kernel.packed_size(view));
    kernel.pack_weights(view, packed.data());
    ConvQ8Params p;
    p.geometry = g;
    p.input = input.data();
    p.input_signed = input_signed;
    p.input_zero_point = input_zero_point;
    p.weights = packed.data();
    p.output = output;
    p.output_type = type;
    p.requantize = requantize;
    p.sums = sums;
    RunRanges(kernel, p, cuts);
  }
};

/// Limits codes to [lo, hi]. `ends`: use only the ends of the range, and which of them.
enum class Ends { kNone, kBoth, kLow, kHigh };
inline void Limit(std::mt19937& random, std::vector<uint8_t>& codes, int32_t lo, int32_t hi,
                  Ends ends) {
  for (uint8_t& code : codes) {
    int32_t value = lo + static_cast<int32_t>(random() % static_cast<uint32_t>(hi - lo + 1));
    if (ends == Ends::kBoth) value = random() % 2 == 0 ? lo : hi;
    if (ends == Ends::kLow) value = lo;
    if (ends == Ends::kHigh) value = hi;
    code = static_cast<uint8_t>(value);
  }
}

/// A case with inputs of `input_bits` and weights of `weight_bits` bits.
inline Q8Case NarrowCase(std::mt19937& random, const ConvGeometry& geometry, int variant,
                         int32_t input_bits, int32_t weight_bits) {
  Q8Case test(random, geometry, variant, true);
  const bool is_signed = test.input_signed;
  const int32_t count = 1 << input_bits;
  // Some ranges do not begin where their type does.
  const int32_t lo = is_signed ? -(count / 2) : variant % 7 == 0 ? std::min(100, 256 - count) : 0;
  const int32_t hi = lo + count - 1;
  constexpr Ends kEnds[] = {Ends::kNone, Ends::kBoth, Ends::kHigh, Ends::kLow, Ends::kNone};
  Limit(random, test.input, lo, hi, kEnds[variant % 5]);
  test.input_zero_point = variant % 4 == 0   ? lo
                          : variant % 4 == 1 ? hi
                                             : lo + static_cast<int32_t>(random() % count);
  const int32_t half = 1 << (weight_bits - 1);
  Limit(random, test.weights, -half, half - 1, kEnds[variant / 2 % 5]);
  if (variant % 6 == 5 && weight_bits < 8) {  // all codes are shifted, and shifted back
    const int32_t zero = static_cast<int32_t>(random() % 100) - 50;
    for (uint8_t& weight : test.weights) weight = static_cast<uint8_t>(weight + zero);
    test.weight_zero_points.assign(static_cast<size_t>(test.g.out_c), zero);
    if (weight_bits == 7) test.weight_zero_points.assign(test.weight_zero_points.size(), 0);
    if (weight_bits == 7) Limit(random, test.weights, -half, half - 1, Ends::kBoth);
    test.view.zero_points = test.weight_zero_points.data();
  }
  test.view.input_lo = lo;
  test.view.input_hi = hi;
  return test;
}

struct Widths {
  int32_t inputs, weights;
};

/// The accumulators of all outputs, by the definition; gaps between pixels hold 0x5A5A5A5A.
inline std::vector<int32_t> Definition(const Q8Case& test) {
  const ConvGeometry& g = test.g;
  const int32_t pixels = ConvRows(g);
  std::vector<int32_t> all(Elements(pixels, g.output_stride, g.out_c), 0x5A5A5A5A);
  for (int32_t r = 0; r < pixels; ++r) {
    for (int32_t o = 0; o < g.out_c; ++o) {
      all[static_cast<size_t>(r) * g.output_stride + o] =
          static_cast<int32_t>(test.Accumulator(r, o));
    }
  }
  return all;
}

/// The row of that name.
inline const ConvQ8Kernel& Row(const char* name) {
  for (const ConvQ8Kernel& kernel : ConvQ8Kernels()) {
    if (std::strcmp(kernel.name, name) == 0) return kernel;
  }
  ADD_FAILURE() << name;
  return ConvQ8Kernels()[0];
}

}  // namespace requant::window_testing
