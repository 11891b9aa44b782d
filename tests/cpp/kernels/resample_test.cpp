// Layer normalization and linear resizing: the vector rows have the bits of the scalar rows.
// tests/cpp/session compares them with the references.
#include <gtest/gtest.h>

#include "kernels/layer_norm/table.h"
#include "kernels/random_data.h"
#include "kernels/resize/table.h"

namespace requant {
namespace {

using testing::kCanaryF32;
using testing::Random;

/// Runs every row of a family on outputs of `size` floats, followed by guard floats.
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
