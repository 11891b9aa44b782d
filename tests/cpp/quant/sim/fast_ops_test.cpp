// The operators that the simulator computes itself. The oracle is the evaluators of src/ops, to the
// last bit.
#include "quant/sim/fast_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/op.h"
#include "quant/model.h"

namespace requant {
namespace {

void ExpectSame(const Graph& graph, const Node& node, const std::vector<const Tensor*>& inputs,
                const std::string& what) {
  const std::optional<Tensor> got = EvaluateFast(node, inputs);
  ASSERT_TRUE(got.has_value()) << what;
  const Tensor wanted = EvaluateNode(graph, node, inputs, RequantizeMode::kUpward)[0];
  ASSERT_EQ(got->shape(), wanted.shape()) << what;
  for (int64_t i = 0; i < wanted.count(); ++i) {
    const float a = got->data<float>()[i], b = wanted.data<float>()[i];
    EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << what << ": " << a << " " << b;
  }
}

TEST(FastOps, MaxPoolIsTheEvaluators) {
  struct Form {
    Shape input;
    std::vector<int64_t> kernel, strides, pads, dilations;
    int64_t ceil_mode = 0;
  };
  const std::vector<Form> forms = {
      {{2, 3, 9, 7}, {3, 3}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
      // the last window reaches beyond the image
      {{1, 5, 9, 8}, {3, 3}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1},
      {{1, 2, 6, 6}, {3, 2}, {1, 1}, {2, 1, 1, 0}, {1, 1}},
      {{1, 2, 11, 12}, {2, 3}, {3, 1}, {1, 0, 0, 2}, {2, 3}},
      {{3, 1, 17}, {4}, {3}, {2, 1}, {2}},
      {{1, 2, 5, 4, 6}, {2, 3, 2}, {1, 2, 2}, {1, 1, 0, 0, 1, 1}, {1, 1, 2}},
      {{1, 1, 4, 4}, {4, 4}, {1, 1}, {3, 3, 3, 3}, {1, 1}},
  };
  Noise noise(12);
  for (const Form& form : forms) {
    Builder b;
    AttributeMap attributes;
    attributes.Set("kernel_shape", form.kernel);
    attributes.Set("strides", form.strides);
    attributes.Set("pads", form.pads);
    attributes.Set("dilations", form.dilations);
    attributes.Set("ceil_mode", form.ceil_mode);
    const Node& node =
        *b.Op("MaxPool", {b.Input("x", form.input)}, "y", std::move(attributes))->producer;
    Tensor x = noise.Make(form.input);
    ExpectSame(b.graph, node, {&x}, ShapeToString(form.input));
    x.data<float>()[x.count() / 2] = std::numeric_limits<float>::quiet_NaN();
    x.data<float>()[0] = std::numeric_limits<float>::infinity();
    ExpectSame(b.graph, node, {&x}, ShapeToString(form.input) + " with NaN");
  }
}

TEST(FastOps, ElementsAreTheEvaluators) {
  Builder b;
  Noise noise(13);
  Value* x = b.Input("x", {2, 3, 5});
  Value* y = b.Input("y", {2, 3, 5});
  Value* low = b.Input("low", {});
  Value* high = b.Input("high", {});
  const Tensor a = noise.Make({2, 3, 5}), c = noise.Make({2, 3, 5});
  const Tensor least = Tensor::Scalar(-0.5f), most = Tensor::Scalar(0.75f);
  ExpectSame(b.graph, *b.Op("Relu", {x}, "r")->producer, {&a}, "Relu");
  ExpectSame(b.graph, *b.Op("Add", {x, y}, "s")->producer, {&a, &c}, "Add");
  ExpectSame(b.graph, *b.Op("Clip", {x, low, high}, "c")->producer, {&a, &least, &most}, "Clip");
}

TEST(FastOps, ProductsAreTheEvaluators) {
  Noise noise(15);
  struct Form {
    Shape a, b;
  };
  const std::vector<Form> forms = {{{4, 6}, {6, 16}},         {{5, 7}, {7, 19}},
                                   {{1, 3}, {3, 1}},          {{2, 3, 9, 5}, {2, 3, 5, 8}},
                                   {{3, 6, 33}, {3, 33, 17}}, {{2, 4, 0}, {2, 0, 8}},
                                   {{0, 4, 3}, {0, 3, 8}}};
  for (const Form& form : forms) {
    Builder b;
    const Node& node = *b.Op("MatMul", {b.Input("x", form.a), b.Input("y", form.b)}, "p")->producer;
    const Tensor x = noise.Make(form.a), y = noise.Make(form.b);
    ExpectSame(b.graph, node, {&x, &y}, ShapeToString(form.a) + ShapeToString(form.b));
  }
}

TEST(FastOps, SoftmaxOfRowsIsTheEvaluators) {
  Noise noise(16);
  for (const Shape& shape : {Shape{3, 7}, Shape{2, 3, 1}, Shape{2, 0, 4}, Shape{9}}) {
    Builder b;
    AttributeMap attributes;
    attributes.Set("axis", int64_t{-1});
    const Node& node =
        *b.Op("Softmax", {b.Input("x", shape)}, "y", std::move(attributes))->producer;
    Tensor x = noise.Make(shape);
    ExpectSame(b.graph, node, {&x}, ShapeToString(shape));
    if (x.count() == 0) continue;
    x.data<float>()[0] = -std::numeric_limits<float>::infinity();
    ExpectSame(b.graph, node, {&x}, ShapeToString(shape) + " with infinity");
  }
}

TEST(FastOps, LeavesTheRest) {
  Builder b;
  Noise noise(14);
  Value* x = b.Input("x", {2, 3});
  const Tensor a = noise.Make({2, 3}), row = noise.Make({3});
  EXPECT_FALSE(EvaluateFast(*b.Op("Sigmoid", {x}, "s")->producer, {&a}).has_value());
  EXPECT_FALSE(EvaluateFast(*b.Op("Add", {x, x}, "t")->producer, {&a, &row}).has_value());
  EXPECT_FALSE(EvaluateFast(*b.Op("Clip", {x}, "c")->producer, {&a}).has_value());
  const Tensor stack = noise.Make({4, 3, 2});
  EXPECT_FALSE(EvaluateFast(*b.Op("MatMul", {x, x}, "m")->producer, {&a, &stack}).has_value());
  AttributeMap first;
  first.Set("axis", int64_t{0});
  EXPECT_FALSE(
      EvaluateFast(*b.Op("Softmax", {x}, "f", std::move(first))->producer, {&a}).has_value());
}

}  // namespace
}  // namespace requant
