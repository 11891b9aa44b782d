// The quantizer's own convolutions. The oracle for outputs is the interpreter's convolution; for
// gradients it is the linearity of a layer, <dy, A x> = <A^T dy, x> by its input and by its
// weights.
#include "quant/sim/layer.h"

#include <gtest/gtest.h>

#include "ops/op.h"
#include "quant/model.h"

namespace requant {
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
      {{2, 4, 21}, {4, 1, 4}, 4, {3}, {2, 1}, {2}},                    // one dimension
      {{1, 2, 5, 4, 6}, {2, 1, 2, 3, 3}, 2, {1, 2, 1}, {1, 0, 1, 0, 1, 1}, {1, 1, 2}},
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
    for (int64_t i = 0; i < wanted.count(); ++i) {
      ASSERT_NEAR(got.AsDouble(i), wanted.AsDouble(i), 2e-5) << what << " " << i;
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

}  // namespace
}  // namespace requant
