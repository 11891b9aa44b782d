// Expected values: the examples of Resize in onnx docs/Operators.md (opset 19) if the numbers are
// fractions, hand-computed values otherwise.
#include "ops/run_op.h"

namespace requant {
namespace {

const Tensor kNone;

Tensor Square() { return Floats({1, 2, 3, 4}, {1, 1, 2, 2}); }
Tensor Row(std::vector<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Floats(std::move(values), {1, 1, 1, count});
}

std::vector<double> ResizeRow(const std::vector<float>& row, float scale, const char* mode,
                              const char* coordinates, const char* nearest = "round_prefer_floor") {
  return RunOp({"Resize", 19}, {Row(row), kNone, Floats({1, 1, 1, scale})},
               {{"mode", Text(mode)},
                {"coordinate_transformation_mode", Text(coordinates)},
                {"nearest_mode", Text(nearest)}})
      .ToDoubles();
}

void ExpectRow(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;
}

TEST(Resize, LinearCoordinates) {
  ExpectRow(ResizeRow({1, 2}, 2, "linear", "half_pixel"), {1, 1.25, 1.75, 2});
  ExpectRow(ResizeRow({1, 2}, 2, "linear", "align_corners"), {1, 4.0 / 3, 5.0 / 3, 2});
  ExpectRow(ResizeRow({1, 2}, 2, "linear", "asymmetric"), {1, 1.5, 2, 2});
  ExpectRow(ResizeRow({1, 2, 3, 4}, 0.25F, "linear", "half_pixel"), {2.5});
  ExpectRow(ResizeRow({1, 2, 3, 4}, 0.25F, "linear", "pytorch_half_pixel"), {1});
}

TEST(Resize, NearestRoundings) {
  // Coordinates -0.25, 0.25, 0.75, 1.25; asymmetric with 2/3: 0, 1.5, 3, 4.5.
  ExpectRow(ResizeRow({1, 2}, 2, "nearest", "half_pixel"), {1, 1, 2, 2});
  const std::vector<float> six = {1, 2, 3, 4, 5, 6};
  const float third = 2.0F / 3;
  ExpectRow(ResizeRow(six, third, "nearest", "asymmetric", "round_prefer_floor"), {1, 2, 4, 5});
  ExpectRow(ResizeRow(six, third, "nearest", "asymmetric", "round_prefer_ceil"), {1, 3, 4, 6});
  ExpectRow(ResizeRow(six, third, "nearest", "asymmetric", "floor"), {1, 2, 4, 5});
  ExpectRow(ResizeRow(six, third, "nearest", "asymmetric", "ceil"), {1, 3, 4, 6});
}

TEST(Resize, HalfPixelSymmetric) {
  const Tensor y = RunOp(
      {"Resize", 19}, {Square(), kNone, Floats({1, 1, 2.3F, 2.94F})},
      {{"mode", Text("linear")}, {"coordinate_transformation_mode", Text("half_pixel_symmetric")}});
  ExpectTensor(y, {1, 1, 4, 5},
               {1,          1.15986395, 1.5,        1.84013605, 2,          1.56521738, 1.72508133,
                2.06521738, 2.40535343, 2.56521738, 2.43478262, 2.59464657, 2.93478262, 3.27491867,
                3.43478262, 3,          3.15986395, 3.5,        3.84013605, 4},
               1e-6);
}

TEST(Resize, Cubic) {
  // Upsampling by 2 with half_pixel and a = -0.75: weights at 0.25 are -0.10546875, 0.87890625,
  // 0.26171875, -0.03515625 (Keys' kernel).
  const std::vector<double> y = ResizeRow({0, 0, 1, 0, 0, 0}, 2, "cubic", "half_pixel");
  EXPECT_NEAR(y[5], 0.87890625, 1e-6);   // coordinate 2.25
  EXPECT_NEAR(y[3], 0.26171875, 1e-6);   // 1.25: the element one to the right
  EXPECT_NEAR(y[7], -0.10546875, 1e-6);  // 3.25: one to the left of its floor
  EXPECT_NEAR(y[1], -0.03515625, 1e-6);  // 0.25: two to the right
}

TEST(Resize, CropAndExtrapolate) {
  const Tensor y = RunOp({"Resize", 13},
                         {Row({0, 1, 2, 3}), Floats({0, 0, 0, 0.5F, 1, 1, 1, 1.5F}), kNone,
                          Tensor::Vector<int64_t>({1, 1, 1, 3})},
                         {{"mode", Text("linear")},
                          {"coordinate_transformation_mode", Text("tf_crop_and_resize")},
                          {"extrapolation_value", Attribute(10.0F)}});
  ExpectTensor(y, {1, 1, 1, 3}, {1.5, 3, 10}, 1e-6);
}

TEST(Resize, AspectRatioAndAxes) {
  const Tensor sizes = Tensor::Vector<int64_t>({7, 8});
  const auto resize = [&](const char* policy) {
    return RunOp({"Resize", 18}, {Square(), kNone, kNone, sizes},
                 {{"axes", Ints({2, 3})}, {"keep_aspect_ratio_policy", Text(policy)}});
  };
  const Tensor small = resize("not_larger");
  ASSERT_EQ(small.shape(), (Shape{1, 1, 7, 7}));
  EXPECT_EQ(small.AsDouble(3), 1);  // coordinate 0.5 prefers the floor
  EXPECT_EQ(small.AsDouble(4), 2);
  EXPECT_EQ(resize("not_smaller").shape(), (Shape{1, 1, 8, 8}));
  EXPECT_EQ(resize("stretch").shape(), (Shape{1, 1, 7, 8}));
}

TEST(Resize, OldForms) {
  ExpectTensor(RunOp({"Upsample", 9}, {Square(), Floats({1, 1, 1, 2})}), {1, 1, 2, 4},
               {1, 1, 2, 2, 3, 3, 4, 4});
  ExpectTensor(
      RunOp({"Upsample", 7}, {Square()}, {{"scales", Attribute(std::vector<float>{1, 1, 2, 1})}}),
      {1, 1, 4, 2}, {1, 2, 1, 2, 3, 4, 3, 4});
  ExpectTensor(RunOp({"Resize", 10}, {Row({1, 2, 3, 4}), Floats({1, 1, 1, 0.5F})}), {1, 1, 1, 2},
               {1, 3});
}

TEST(Resize, BytesAndErrors) {
  const Tensor bytes = Tensor::FromVector<uint8_t>({10, 20}, {1, 1, 1, 2});
  ExpectTensor(RunOp({"Resize", 13}, {bytes, kNone, Floats({1, 1, 1, 2})}), {1, 1, 1, 4},
               {10, 10, 20, 20});
  EXPECT_EQ(CodeOf([] {
              RunOp({"Resize", 13}, {Square(), kNone, Floats({1, 1, 0, 1})});
            }),
            ErrorCode::kInvalidModel);
  EXPECT_EQ(CodeOf([] {
              RunOp({"Resize", 13}, {Square(), kNone, Floats({1, 1})});
            }),
            ErrorCode::kShapeMismatch);
  EXPECT_EQ(CodeOf([] { RunOp({"Resize", 13}, {Square(), kNone}); }), ErrorCode::kInvalidModel);
  EXPECT_EQ(CodeOf([&] {
              RunOp({"Resize", 18}, {bytes, kNone, Floats({1, 1, 1, 0.5F})},
                    {{"mode", Text("linear")}, {"antialias", Int(1)}});
            }),
            ErrorCode::kUnsupported);
}

/// Outputs of ONNX's backend tests (test_resize_downsample_..._antialias).
TEST(Resize, Antialias) {
  const Tensor x = Floats({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {1, 1, 4, 4});
  const auto run = [&](const char* mode, const Tensor& scales, const Tensor& sizes) {
    return RunOp({"Resize", 18}, {x, kNone, scales, sizes},
                 {{"mode", Text(mode)}, {"antialias", Int(1)}});
  };
  const Tensor scales = Floats({1, 1, 0.6F, 0.6F});
  const Tensor sizes = Tensor::Vector<int64_t>({1, 1, 3, 3});
  ExpectTensor(run("linear", scales, kNone), {1, 1, 2, 2}, {2.875, 4.5, 9.375, 11}, 1e-5);
  ExpectTensor(run("cubic", scales, kNone), {1, 1, 2, 2},
               {2.5180721, 4.2858863, 9.589329, 11.357142}, 1e-5);
  ExpectTensor(
      run("linear", kNone, sizes), {1, 1, 3, 3},
      {2.3636363, 3.590909, 4.818182, 7.2727275, 8.5, 9.727273, 12.181818, 13.409091, 14.636364},
      1e-5);
  ExpectTensor(
      run("cubic", kNone, sizes), {1, 1, 3, 3},
      {1.7750092, 3.1200073, 4.4650054, 7.1550016, 8.5, 9.844998, 12.534994, 13.8799925, 15.224991},
      1e-5);
  // antialias has no effect along an axis that grows.
  ExpectTensor(RunOp({"Resize", 18}, {Row({1, 2}), kNone, Floats({1, 1, 1, 2})},
                     {{"mode", Text("linear")}, {"antialias", Int(1)}}),
               {1, 1, 1, 4}, {1, 1.25, 1.75, 2});
}

TEST(Resize, KeepsSymbols) {
  Graph graph;
  graph.opsets[""] = 13;
  Node* node = graph.AddNode("Resize", "",
                             {graph.AddValue("x", FloatType({Named("N"), 3, 5, Named("W")})),
                              nullptr, graph.AddConstant("s", Floats({1, 1, 2, 2}))},
                             {graph.AddValue("y")});
  EXPECT_EQ(TypeToString(InferNode(graph, *node)[0]), "float32[N, 3, 10, ?]");
}

}  // namespace
}  // namespace requant
