// Layer normalization, col2im and linear resizing: the vector rows have the scalar rows' bits. That
// the results are right is held against the references in tests/cpp/session.
#include <gtest/gtest.h>

#include "kernels/col2im/table.h"
#include "kernels/layer_norm/table.h"
#include "kernels/random_data.h"
#include "kernels/resize/table.h"

namespace requant {
namespace {

using testing::kCanaryF32;
using testing::Random;

/// Runs every row of a family on outputs of `size` floats and guard floats behind them.
template <typename Kernels, typename Params>
void ExpectEqualRows(const Kernels& kernels, Params params, float* Params::*output, size_t size) {
  std::vector<float> first;
  for (const auto& kernel : kernels) {
    std::vector<float> out(size + 8, kCanaryF32);
    params.*output = out.data();
    kernel.run(&params);
    for (size_t i = size; i < out.size(); ++i) ASSERT_EQ(out[i], kCanaryF32) << kernel.name;
    if (first.empty()) first = out;
    testing::ExpectSameBits(first, out);
  }
}

TEST(LayerNorm, RowsAgreeBitForBit) {
  Random random(11);
  for (size_t cols = 1; cols < 40; ++cols) {
    const bool wild = cols % 3 == 0;
    const std::vector<float> in =
        wild ? random.WildFloats(3 * cols) : random.Floats(3 * cols, -9, 9);
    const std::vector<float> scale = random.Floats(cols, -2, 2);
    const std::vector<float> bias = random.Floats(cols, -2, 2);
    LayerNormF32Params p;
    p.in = in.data();
    p.scale = scale.data();
    p.bias = cols % 2 ? bias.data() : nullptr;
    p.rows = 3;
    p.cols = cols;
    p.epsilon = 1e-5f;
    p.center = cols % 4 == 0 ? 0 : 1;
    ExpectEqualRows(LayerNormF32Kernels(), p, &LayerNormF32Params::out, 3 * cols);
  }
}

TEST(Col2Im, RowsAgreeBitForBit) {
  Random random(12);
  for (int round = 0; round < 60; ++round) {
    Col2ImF32Params p;
    ConvGeometry& g = p.geometry;
    g.batch = random.Int(1, 2);
    g.in_h = random.Int(1, 5);
    g.in_w = random.Int(1, 5);
    g.groups = random.Int(1, 3);
    g.out_c = g.groups * random.Int(1, 9);
    g.output_stride = g.out_c;
    g.kernel_h = random.Int(1, 4);
    g.kernel_w = random.Int(1, 4);
    g.stride_h = random.Int(1, 3);
    g.stride_w = random.Int(1, 3);
    g.dilation_h = random.Int(1, 2);
    g.pad_top = random.Int(-1, 2);
    g.pad_left = random.Int(-1, 2);
    g.out_h = random.Int(1, 12);
    g.out_w = random.Int(1, 12);
    const size_t pixels = static_cast<size_t>(g.batch * g.in_h * g.in_w);
    const std::vector<float> products =
        random.WildFloats(pixels * static_cast<size_t>(g.kernel_h * g.kernel_w * g.out_c));
    const std::vector<float> bias = random.Floats(static_cast<size_t>(g.out_c), -1, 1);
    p.products = products.data();
    p.bias = round % 2 ? bias.data() : nullptr;
    p.row_end = ConvRows(g);
    p.lo = round % 3 ? -5 : 0;
    p.hi = 5;
    ExpectEqualRows(Col2ImF32Kernels(), p, &Col2ImF32Params::output,
                    static_cast<size_t>(p.row_end) * static_cast<size_t>(g.out_c));
  }
}

TEST(ResizeLinear, RowsAgreeBitForBit) {
  Random random(13);
  for (size_t channels = 1; channels < 20; ++channels) {
    ResizeLinearF32Params p;
    const size_t images = 2;
    p.in_h = static_cast<size_t>(random.Int(1, 5));
    p.in_w = static_cast<size_t>(random.Int(1, 5));
    p.out_h = static_cast<size_t>(random.Int(1, 7));
    p.out_w = static_cast<size_t>(random.Int(1, 7));
    p.channels = channels;
    p.row_begin = random.Int(0, 1);
    p.row_end = static_cast<int32_t>(images * p.out_h);
    const auto taps = [&random](size_t in, size_t out) {
      std::vector<LinearTap> list;
      const int last = static_cast<int>(in) - 1;
      for (size_t i = 0; i < out; ++i) {
        const float weight = random.Float(0, 1);
        list.push_back({random.Int(0, last), random.Int(0, last), 1 - weight, weight});
      }
      return list;
    };
    const std::vector<LinearTap> ys = taps(p.in_h, p.out_h);
    const std::vector<LinearTap> xs = taps(p.in_w, p.out_w);
    const std::vector<float> in = random.WildFloats(images * p.in_h * p.in_w * channels);
    p.in = in.data();
    p.ys = ys.data();
    p.xs = xs.data();
    ExpectEqualRows(ResizeLinearF32Kernels(), p, &ResizeLinearF32Params::out,
                    images * p.out_h * p.out_w * channels);
  }
}

}  // namespace
}  // namespace requant
