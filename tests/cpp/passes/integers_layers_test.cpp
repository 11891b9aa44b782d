// QLinearConv, QLinearMatMul and QGemm as plain integer operators: both decompositions give the
// codes of the quantized operator in every fixed mode, and those of loops in 64 bits that this file
// has.
#include "passes/integers_case.h"

namespace requant {
namespace {

using testing::Case;
using testing::ExpectForms;
using testing::Fixed;
using testing::Pick;
using testing::RandomWindow;

/// QLinearConv of an image without auto_pad, by loops over everything.
std::vector<int64_t> ConvByLoops(const Node& node, const Tensor& x) {
  const Tensor &w = *node.constant(3), &sw = *node.constant(4), &zw = *node.constant(5);
  const int64_t zx = node.constant(2)->AsInt64(0), zy = node.constant(7)->AsInt64(0);
  const double sx = node.constant(1)->AsDouble(0), sy = node.constant(6)->AsDouble(0);
  const DType dtype = node.constant(7)->dtype();
  const Tensor* bias = node.constant(8);
  const std::vector<int64_t> pads = node.attributes.Ints("pads");
  const std::vector<int64_t> strides = node.attributes.Ints("strides");
  const std::vector<int64_t> dilations = node.attributes.Ints("dilations", {1, 1});
  const int64_t height = x.dim(2), width = x.dim(3), depth = w.dim(1);
  const int64_t kh = w.dim(2), kw = w.dim(3);
  const int64_t out_h = (height + pads[0] + pads[2] - (kh - 1) * dilations[0] - 1) / strides[0] + 1;
  const int64_t out_w = (width + pads[1] + pads[3] - (kw - 1) * dilations[1] - 1) / strides[1] + 1;
  const int64_t per_group = w.dim(0) / node.attributes.Int("group", 1);
  std::vector<int64_t> out;
  for (int64_t n = 0; n < x.dim(0); ++n) {
    for (int64_t m = 0; m < w.dim(0); ++m) {
      const int64_t zero = zw.AsInt64(zw.count() == 1 ? 0 : m);
      const double scale = sw.AsDouble(sw.count() == 1 ? 0 : m);
      for (int64_t oy = 0; oy < out_h; ++oy) {
        for (int64_t ox = 0; ox < out_w; ++ox) {
          int64_t sum = bias ? bias->AsInt64(m) : 0;
          for (int64_t c = 0; c < depth; ++c) {
            for (int64_t ky = 0; ky < kh; ++ky) {
              for (int64_t kx = 0; kx < kw; ++kx) {
                const int64_t iy = oy * strides[0] - pads[0] + ky * dilations[0];
                const int64_t ix = ox * strides[1] - pads[1] + kx * dilations[1];
                if (iy < 0 || iy >= height || ix < 0 || ix >= width) continue;
                const int64_t channel = m / per_group * depth + c;
                const int64_t at = ((n * x.dim(1) + channel) * height + iy) * width + ix;
                sum += (x.AsInt64(at) - zx) *
                       (w.AsInt64(((m * depth + c) * kh + ky) * kw + kx) - zero);
              }
            }
          }
          out.push_back(Fixed(sum, sx * scale / sy, zy, dtype));
        }
      }
    }
  }
  return out;
}

TEST(Integers, ConvolutionsOfAllKinds) {
  int by_loops = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Case c(seed);
    const int spatial = seed % 8 == 0 ? 1 : seed % 8 == 1 ? 3 : 2;
    const int group = Pick(c.random, 1, 3), depth = Pick(c.random, 1, 3);
    const int channels = group * Pick(c.random, 1, 3);
    std::vector<int64_t> kernel;
    AttributeMap attributes = RandomWindow(c.random, spatial, kernel, true);
    attributes.Set("group", int64_t{group});
    Shape x_shape = {Pick(c.random, 1, 2), group * depth}, w_shape = {channels, depth};
    for (const int64_t k : kernel) {
      w_shape.push_back(k);
      x_shape.push_back(Pick(c.random, 5, 8));
    }
    const DType x_type = c.RandomType(), w_type = c.RandomType(), y_type = c.RandomType();
    const int scales = Pick(c.random, 0, 1) ? channels : 1;
    const int zeros = Pick(c.random, 0, 1) ? channels : 1;
    std::vector<Value*> inputs = {c.Input("x", x_type, x_shape),
                                  c.Scale(),
                                  c.Zero(x_type),
                                  c.Constant(c.Codes(w_type, w_shape)),
                                  c.Scale(scales),
                                  c.Zero(w_type, zeros),
                                  c.Scale(),
                                  c.Zero(y_type)};
    if (Pick(c.random, 0, 1)) inputs.push_back(c.Bias({channels}));
    const Node* node = c.Finish("QLinearConv", "", inputs, attributes);
    const std::vector<int64_t> got = ExpectForms(c, StrCat("seed ", seed, ": "));
    if (spatial == 2 && node->attributes.Has("pads")) {
      EXPECT_EQ(got, ConvByLoops(*node, c.feeds["x"])) << "seed " << seed;
      ++by_loops;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(by_loops, 100);
}

/// The reference of QLinearConvTranspose is held against sums in double by conv_transpose_test.cpp.
TEST(Integers, TransposedConvolutions) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Case c(seed);
    c.graph.opsets[kRequantDomain] = 1;
    const int spatial = seed % 8 == 0 ? 1 : seed % 8 == 1 ? 3 : 2;
    const int group = Pick(c.random, 1, 3), depth = Pick(c.random, 1, 3);
    const int width = Pick(c.random, 1, 3), channels = group * width;
    std::vector<int64_t> kernel, strides, dilations, begin, end, extra;
    Shape x_shape = {Pick(c.random, 1, 2), group * depth}, w_shape = {group * depth, width};
    for (int axis = 0; axis < spatial; ++axis) {
      kernel.push_back(Pick(c.random, 1, 4));
      strides.push_back(Pick(c.random, 1, 3));
      dilations.push_back(Pick(c.random, 1, 2));
      const auto reach = static_cast<int>((kernel.back() - 1) * dilations.back());
      begin.push_back(Pick(c.random, 0, std::min(reach, 2)));
      end.push_back(Pick(c.random, 0, std::min(reach - static_cast<int>(begin.back()), 2)));
      extra.push_back(Pick(c.random, 0, static_cast<int>(strides.back()) - 1));
      w_shape.push_back(kernel.back());
      x_shape.push_back(Pick(c.random, 1, 4));
    }
    AttributeMap attributes;
    begin.insert(begin.end(), end.begin(), end.end());
    attributes.Set("group", int64_t{group});
    attributes.Set("strides", strides);
    attributes.Set("dilations", dilations);
    attributes.Set("output_padding", extra);
    if (Pick(c.random, 0, 2) == 0) {
      attributes.Set("auto_pad", std::string(seed % 2 ? "SAME_UPPER" : "SAME_LOWER"));
    } else {
      attributes.Set("pads", begin);
    }
    const DType x_type = c.RandomType(), w_type = c.RandomType(), y_type = c.RandomType();
    const int kind = Pick(c.random, 0, 2);
    const int scales = kind == 0 ? 1 : kind == 1 ? channels : width;
    std::vector<Value*> inputs = {c.Input("x", x_type, x_shape),
                                  c.Scale(),
                                  c.Zero(x_type),
                                  c.Constant(c.Codes(w_type, w_shape)),
                                  c.Scale(scales),
                                  c.Zero(w_type, scales),
                                  c.Scale(),
                                  c.Zero(y_type)};
    if (Pick(c.random, 0, 1)) inputs.push_back(c.Bias({channels}));
    c.Finish("QLinearConvTranspose", kRequantDomain, inputs, attributes);
    ExpectForms(c, StrCat("seed ", seed, ": "));
    if (HasFailure()) return;
  }
}

TEST(Integers, ProductsOfMatrices) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Case c(seed);
    const int rows = Pick(c.random, 1, 4), inner = Pick(c.random, 1, 9);
    const int columns = Pick(c.random, 1, 5), kind = Pick(c.random, 0, 3);
    Shape a = {rows, inner}, b = {inner, columns};
    if (kind == 1) a.insert(a.begin(), 2);
    if (kind == 2) b.insert(b.begin(), 3);
    if (kind == 3 && Pick(c.random, 0, 1)) a = {inner};
    const bool vector = kind == 3 && Pick(c.random, 0, 1);
    if (vector) b = {inner};
    const DType a_type = c.RandomType(), b_type = c.RandomType(), y_type = c.RandomType();
    const int wide = vector ? 1 : columns;
    const int scales = Pick(c.random, 0, 1) ? wide : 1, zeros = Pick(c.random, 0, 1) ? wide : 1;
    Value* right = Pick(c.random, 0, 1) ? c.Constant(c.Codes(b_type, b)) : nullptr;
    Value* left = c.Input("a", a_type, a);
    if (right == nullptr) right = c.Input("b", b_type, b);
    const Node* node = c.Finish("QLinearMatMul", "",
                                {left, c.Scale(), c.Zero(a_type), right, c.Scale(scales),
                                 c.Zero(b_type, zeros), c.Scale(), c.Zero(y_type)});
    const std::vector<int64_t> got = ExpectForms(c, StrCat("seed ", seed, ": "));
    if (HasFailure()) return;
    if (a.size() != 2 || b.size() != 2) continue;
    const Tensor& first = c.feeds["a"];
    const Tensor& second = right->is_constant() ? right->constant : c.feeds["b"];
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        const auto of = [&](size_t slot) {
          const Tensor& tensor = *node->constant(slot);
          return tensor.AsDouble(tensor.count() == 1 ? 0 : column);
        };
        int64_t sum = 0;
        for (int k = 0; k < inner; ++k) {
          sum += (first.AsInt64(row * inner + k) - static_cast<int64_t>(of(2))) *
                 (second.AsInt64(k * columns + column) - static_cast<int64_t>(of(5)));
        }
        EXPECT_EQ(got[static_cast<size_t>(row * columns + column)],
                  Fixed(sum, of(1) * of(4) / of(6), static_cast<int64_t>(of(7)), y_type))
            << "seed " << seed;
      }
    }
  }
}

TEST(Integers, GemmsTransposedNegatedAndOfFloatOutput) {
  for (uint32_t seed = 0; seed < 120; ++seed) {
    Case c(seed);
    const int rows = Pick(c.random, 1, 4), inner = Pick(c.random, 1, 9);
    const int columns = Pick(c.random, 1, 5);
    const bool trans_a = Pick(c.random, 0, 1), trans_b = Pick(c.random, 0, 1);
    AttributeMap attributes;
    attributes.Set("transA", int64_t{trans_a});
    attributes.Set("transB", int64_t{trans_b});
    constexpr float kAlphas[] = {1, -1, 0.5, -0.75};
    attributes.Set("alpha", kAlphas[Pick(c.random, 0, 3)]);
    const Shape a = trans_a ? Shape{inner, rows} : Shape{rows, inner};
    const Shape b = trans_b ? Shape{columns, inner} : Shape{inner, columns};
    const DType a_type = c.RandomType(), b_type = c.RandomType(), y_type = c.RandomType();
    const int scales = Pick(c.random, 0, 1) ? columns : 1;
    Value* left = c.Input("a", a_type, a);
    Value* right = Pick(c.random, 0, 2) ? c.Constant(c.Codes(b_type, b)) : c.Input("b", b_type, b);
    const int bias = Pick(c.random, 0, 3);
    std::vector<Value*> inputs = {left,
                                  c.Scale(),
                                  c.Zero(a_type),
                                  right,
                                  c.Scale(scales),
                                  c.Zero(b_type, scales),
                                  bias == 0   ? nullptr
                                  : bias == 1 ? c.Bias({columns})
                                  : bias == 2 ? c.Bias({rows, columns})
                                              : c.Bias({rows, 1})};
    if (Pick(c.random, 0, 2)) {
      inputs.push_back(c.Scale());
      inputs.push_back(c.Zero(y_type));
    }
    c.Finish("QGemm", kMicrosoftDomain, inputs, attributes);
    ExpectForms(c, StrCat("seed ", seed, ": "));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace requant
