// The quantizer's own convolutions. The oracle for outputs is the interpreter's convolution; for
// gradients it is the linearity of a layer, <dy, A x> = <A^T dy, x> by its input and by its
// weights.
#include "quant/sim/layer.h"

#include <gtest/gtest.h>

#include "ops/op.h"
#include "quant/model.h"
#include "support/part_runner.h"

namespace requant {

using testing::PartRunner;

namespace {

struct Form {
  Shape input, weights;
  int64_t group = 1;
  std::vector<int64_t> strides, pads, dilations;
  bool transposed = false;
};

double Product(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) sum += a.AsDouble(i) * b.AsDouble(i);
  return sum;
}

TEST(LayerMath, AgainstTheInterpreter) {
  const std::vector<Form> forms = {
      {{2, 3, 9, 7}, {4, 3, 3, 3}, 1, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {{1, 6, 11, 10}, {6, 1, 3, 3}, 6, {1, 1}, {1, 1, 1, 1}, {1, 1}},  // depthwise
      {{1, 6, 11, 10}, {6, 1, 3, 3}, 6, {2, 2}, {0, 1, 2, 0}, {1, 1}},  // with a stride
      {{2, 5, 13, 12}, {5, 1, 5, 3}, 5, {3, 2}, {4, 2, 4, 3}, {2, 3}},  // and a dilation
      // windows reach beyond the image
      {{1, 4, 3, 2}, {4, 1, 5, 5}, 4, {1, 1}, {2, 2, 2, 2}, {1, 1}},
      {{1, 2, 4, 1}, {2, 1, 1, 4}, 2, {1, 2}, {0, 3, 0, 4}, {1, 1}},   // one column
      {{1, 6, 8, 8}, {12, 1, 3, 3}, 6, {2, 1}, {1, 0, 1, 0}, {1, 1}},  // two outputs per channel
      {{1, 8, 6, 6}, {1, 8, 3, 3}, 1, {1, 1}, {1, 1, 1, 1}, {1, 1}},   // one output
      {{1, 8, 6, 6}, {2, 4, 3, 1}, 2, {2, 2}, {1, 0, 0, 1}, {2, 1}},   // one output per group
      {{1, 8, 5, 7}, {6, 8, 1, 1}, 1, {1, 1}, {0, 0, 0, 0}, {1, 1}},   // pointwise
      {{2, 7, 5, 6}, {1, 7, 1, 1}, 1, {1, 1}, {0, 0, 0, 0}, {1, 1}},   // pointwise, one output
      {{2, 4, 21}, {4, 1, 4}, 4, {3}, {2, 1}, {2}},                    // one dimension
      {{1, 2, 5, 4, 6}, {2, 1, 2, 3, 3}, 2, {1, 2, 1}, {1, 0, 1, 0, 1, 1}, {1, 1, 2}},
      // by Winograd's filtering: odd sizes, every padding, several images and groups, bands of
      // tiles
      {{1, 4, 8, 8}, {4, 4, 3, 3}, 1, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {{2, 5, 9, 7}, {6, 5, 3, 3}, 1, {1, 1}, {0, 0, 0, 0}, {1, 1}},
      {{1, 9, 5, 11}, {4, 9, 3, 3}, 1, {1, 1}, {2, 1, 0, 2}, {1, 1}},
      {{1, 12, 6, 3}, {12, 4, 3, 3}, 3, {1, 1}, {0, 2, 2, 1}, {1, 1}},
      {{1, 4, 67, 50}, {5, 4, 3, 3}, 1, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {{1, 4, 3, 3}, {4, 4, 3, 3}, 1, {1, 1}, {0, 0, 0, 0}, {1, 1}},
      {{1, 4, 1, 2}, {4, 4, 3, 3}, 1, {1, 1}, {2, 2, 2, 2}, {1, 1}},
      {{1, 6, 5, 4}, {6, 1, 3, 3}, 6, {2, 2}, {1, 0, 1, 1}, {1, 1}, true},
      {{1, 6, 5, 4}, {6, 2, 3, 4}, 3, {2, 3}, {0, 1, 1, 0}, {2, 1}, true},
  };
  Noise noise(9);
  for (const Form& form : forms) {
    Builder builder;
    AttributeMap attributes;
    attributes.Set("group", form.group);
    attributes.Set("strides", form.strides);
    attributes.Set("pads", form.pads);
    attributes.Set("dilations", form.dilations);
    Value* x = builder.Input("x", form.input);
    const Tensor weights = noise.Make(form.weights, 0.3f);
    const Node& node = *builder
                            .Op(form.transposed ? "ConvTranspose" : "Conv",
                                {x, builder.Const("w", weights)}, "y", std::move(attributes))
                            ->producer;
    const Tensor input = noise.Make(form.input);
    const std::vector<const Tensor*> inputs = {&input, &weights};
    const Tensor wanted = EvaluateNode(builder.graph, node, inputs, RequantizeMode::kUpward)[0];
    LayerMath math(node, QuantRule::kConv);
    const Tensor got = math.Forward(input, weights.data<float>(), {});
    const std::string what = ShapeToString(form.input) + " by " + ShapeToString(form.weights);
    ASSERT_EQ(got.shape(), wanted.shape()) << what;
    math.FilterMinimally();
    const Tensor filtered = math.Forward(input, weights.data<float>(), {});
    for (int64_t i = 0; i < wanted.count(); ++i) {
      ASSERT_NEAR(got.AsDouble(i), wanted.AsDouble(i), 2e-5) << what << " " << i;
      // The sums of 4 x 4 tiles are multiplied by up to 8 before they cancel.
      ASSERT_NEAR(filtered.AsDouble(i), wanted.AsDouble(i), 6e-5) << what << " " << i;
    }

    const Tensor dy = noise.Make(wanted.shape());
    Tensor dw(DType::kFloat32, form.weights);
    std::vector<float> bias(static_cast<size_t>(math.view().rows));
    Tensor dx;
    math.Backward(input, weights.data<float>(), dy, dw.data<float>(), bias.data(), &dx);
    ASSERT_EQ(dx.shape(), form.input);
    const double value = Product(dy, wanted);
    const double close = 1e-5 * std::sqrt(Product(dy, dy) * Product(wanted, wanted)) + 1e-5;
    EXPECT_NEAR(Product(dx, input), value, close) << what;
    EXPECT_NEAR(Product(dw, weights), value, close) << what;
    // Use other inputs and weights than the forward pass, so that all elements of the gradients
    // count.
    const Tensor moved = noise.Make(form.input), other = noise.Make(form.weights);
    const std::vector<const Tensor*> with_input = {&moved, &weights}, with_other = {&input, &other};
    const auto run = [&](const std::vector<const Tensor*>& with) {
      return Product(dy, EvaluateNode(builder.graph, node, with, RequantizeMode::kUpward)[0]);
    };
    EXPECT_NEAR(Product(dx, moved), run(with_input), 4 * close) << what;
    EXPECT_NEAR(Product(dw, other), run(with_other), 12 * close) << what;
    double sum = 0, biases = 0;
    for (int64_t i = 0; i < dy.count(); ++i) sum += dy.AsDouble(i);
    for (const float one : bias) biases += static_cast<double>(one);
    EXPECT_NEAR(biases, sum, 1e-3) << what;
  }
}

/// Everything that a layer makes of a batch.
std::vector<Tensor> Learn(LayerMath& math, const std::vector<Tensor>& x, const Tensor& weights,
                          const std::vector<float>& bias) {
  std::vector<Tensor> out = math.Forward(x, weights.data<float>(), bias);
  Noise noise(4);
  std::vector<Tensor> dy, dx(x.size());
  for (const Tensor& y : out) dy.push_back(noise.Make(y.shape()));
  out.emplace_back(DType::kFloat32, weights.shape());
  out.emplace_back(DType::kFloat32, Shape{math.view().rows});
  float* dw = out[x.size()].data<float>();
  math.Backward(x, weights.data<float>(), dy, dw, out.back().data<float>(), dx);
  out.insert(out.end(), dx.begin(), dx.end());
  return out;
}

struct BatchForm {
  const char* op;
  Shape weights;
  std::vector<Shape> samples;
  int64_t group = 1;
};

const std::vector<BatchForm>& BatchForms() {
  static const std::vector<BatchForm> kForms = {
      {"Conv", {12, 10, 3, 3}, std::vector<Shape>(5, {1, 10, 13, 17})},
      {"Conv", {9, 3, 5, 3}, std::vector<Shape>(3, {2, 3, 30, 28})},
      {"Conv", {24, 1, 3, 3}, std::vector<Shape>(4, {1, 24, 59, 45}), 24},
      {"Conv", {18, 4, 3, 3}, std::vector<Shape>(2, {1, 12, 41, 40}), 3},
      {"Conv", {30, 17, 1, 1}, std::vector<Shape>(3, {1, 17, 29, 31})},
      // samples of several shapes
      {"Conv", {8, 8, 3, 3}, {{1, 8, 39, 29}, {1, 8, 39, 29}, {1, 8, 12, 5}, {1, 8, 39, 39}}},
      {"MatMul", {40, 52}, {{207, 40}, {207, 40}, {533, 40}}},
      {"MatMul", {300, 20}, std::vector<Shape>(9, {2, 15, 300})},
      {"ConvTranspose", {6, 4, 3, 3}, std::vector<Shape>(3, {1, 6, 37, 48})},
  };
  return kForms;
}

TEST(LayerMath, ABatchOnThreadsIsSampleBySample) {
  for (const BatchForm& form : BatchForms()) {
    const bool conv = std::string(form.op) != "MatMul";
    Noise noise(7);
    Builder builder;
    AttributeMap attributes;
    if (conv) {
      attributes.Set("group", form.group);
      const auto spatial = form.weights.size() - 2;
      attributes.Set("pads", std::vector<int64_t>(2 * spatial, 1));
    }
    const Tensor weights = noise.Make(form.weights, 0.3f);
    Value* input = builder.Input("x", form.samples[0]);
    const Node& node =
        *builder.Op(form.op, {input, builder.Const("w", weights)}, "y", std::move(attributes))
             ->producer;
    const QuantRule rule = conv ? QuantRule::kConv : QuantRule::kMatMul;
    std::vector<Tensor> x;
    for (const Shape& shape : form.samples) x.push_back(noise.Make(shape));
    for (const bool minimally : {false, true}) {
      LayerMath single(node, rule);
      if (minimally) single.FilterMinimally();
      std::vector<float> bias;
      for (int64_t i = 0; i < single.view().rows; ++i) bias.push_back(0.1f * static_cast<float>(i));
      // The outputs of a sample depend on no other sample.
      const std::vector<Tensor> wanted = Learn(single, x, weights, bias);
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_TRUE(wanted[i].SameBits(single.Forward(x[i], weights.data<float>(), bias)))
            << form.op << " " << ShapeToString(form.weights) << " " << i;
      }
      for (const int threads : {2, 3, 16}) {
        PartRunner runner(threads);
        LayerMath math(node, rule, std::make_shared<BatchRunner>(&runner));
        if (minimally) math.FilterMinimally();
        const std::vector<Tensor> got = Learn(math, x, weights, bias);
        ASSERT_EQ(got.size(), wanted.size());
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_TRUE(got[i].SameBits(wanted[i]))
              << form.op << " " << ShapeToString(form.weights) << ", " << threads << ": " << i;
        }
        EXPECT_GT(runner.runs, 0) << form.op << ShapeToString(form.weights);
      }
    }
  }
}

}  // namespace
}  // namespace requant
