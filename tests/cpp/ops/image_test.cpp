// CenterCropPad, Col2Im, AffineGrid, MaxRoiPool and DeformConv: known answers, types, and invalid
// uses.
#include <limits>

#include "run_op.h"

namespace requant {
namespace {

constexpr int64_t kGreatest = std::numeric_limits<int64_t>::max();

Tensor Sizes(std::vector<int64_t> values) { return Tensor::Vector<int64_t>(values); }

// --- CenterCropPad

const OpCase kCenter{.op = "CenterCropPad", .opset = 18};

TEST(CenterCropPad, AnOddElementMoreIsAtTheEnd) {
  ExpectTensor(RunOp(kCenter, {Floats({1, 2}), Sizes({5})}), {5}, {0, 1, 2, 0, 0});
  ExpectTensor(RunOp(kCenter, {Floats({1, 2, 3, 4, 5}), Sizes({2})}), {2}, {2, 3});
  ExpectTensor(
      RunOp(kCenter, {Floats({1, 2, 3, 4, 5, 6}, {2, 3}), Sizes({1})}, {{"axes", Ints({-1})}}),
      {2, 1}, {2, 5});
}

TEST(CenterCropPad, Types) {
  const ValueType x = FloatType({Named("n"), 3, 5});
  const ValueType two{DType::kInt64, SymbolicShape{2}};
  EXPECT_EQ(Infer(kCenter, {x, two}, {{"axes", Ints({1, 2})}}), "float32[n, ?, ?]");
  EXPECT_EQ(CodeOf([&] { Infer(kCenter, {x, two}); }), ErrorCode::kInvalidModel);
  EXPECT_EQ(CodeOf([&] {
              Infer(kCenter, {x, two}, {{"axes", Ints({1, -2})}});
            }),
            ErrorCode::kInvalidModel);
  EXPECT_EQ(CodeOf([&] { Infer(kCenter, {x, FloatType({3})}); }), ErrorCode::kTypeMismatch);
  EXPECT_EQ(CodeOf([] { RunOp(kCenter, {Floats({1}), Sizes({-1})}); }), ErrorCode::kInvalidModel);
  EXPECT_TRUE(CodeOf([] { RunOp(kCenter, {Floats({1}), Sizes({kGreatest})}); }).has_value());
}

// --- Col2Im

const OpCase kColumns{.op = "Col2Im", .opset = 18};

TEST(Col2Im, WindowsThatOverlapAreSummed) {
  // Windows of two elements at 0, 1, 2; each column holds the first tap, then the second.
  ExpectTensor(RunOp(kColumns, {Floats({1, 2, 3, 10, 20, 30}, {1, 2, 3}), Sizes({4}), Sizes({2})}),
               {1, 1, 4}, {1, 12, 23, 30});
  // A tap in the padding is dropped.
  ExpectTensor(RunOp(kColumns, {Floats({1, 2, 10, 20}, {1, 2, 2}), Sizes({2}), Sizes({2})},
                     {{"strides", Ints({2})}, {"pads", Ints({1, 1})}}),
               {1, 1, 2}, {10, 2});
}

TEST(Col2Im, Refuses) {
  const auto code = [](Shape x, std::vector<int64_t> image, std::vector<int64_t> block,
                       std::vector<AttributeMap::Entry> attributes = {}) {
    return CodeOf([&] {
      RunOp(
          kColumns,
          {Tensor(DType::kFloat32, std::move(x)), Sizes(std::move(image)), Sizes(std::move(block))},
          std::move(attributes));
    });
  };
  EXPECT_EQ(code({1, 4, 9}, {4, 4}, {2, 2}), std::nullopt);
  EXPECT_EQ(code({1, 4, 8}, {4, 4}, {2, 2}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({1, 3, 9}, {4, 4}, {2, 2}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({1, 4, 9}, {4}, {2, 2}), ErrorCode::kUnsupported);
  EXPECT_EQ(code({4, 9}, {4, 4}, {2, 2}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({1, 4, 9}, {4, 4}, {0, 2}), ErrorCode::kInvalidModel);
  EXPECT_EQ(code({1, 4, 9}, {-4, 4}, {2, 2}), ErrorCode::kUnsupported);
  EXPECT_EQ(code({1, 4, 9}, {4, 4}, {2, 2}, {{"strides", Ints({0, 1})}}), ErrorCode::kInvalidModel);
  EXPECT_EQ(code({1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}), ErrorCode::kUnsupported);
  EXPECT_TRUE(code({1, 1, 9}, {kGreatest, kGreatest}, {1, 1}).has_value());
  EXPECT_TRUE(code({1, 4, 9}, {4, 4}, {2, 2}, {{"pads", Ints({kGreatest, 0, 0, 0})}}).has_value());
  EXPECT_EQ(Infer(kColumns, {FloatType({Named("n"), 4, 9}),
                             {DType::kInt64, SymbolicShape{2}},
                             {DType::kInt64, SymbolicShape{2}}}),
            "float32[...]");
}

// --- AffineGrid

const OpCase kGrid{.op = "AffineGrid", .opset = 20};

TEST(AffineGrid, TheIdentityAndAnImageOfOnePixel) {
  const Tensor theta = Floats({1, 0, 0, 0, 1, 0}, {1, 2, 3});
  ExpectTensor(RunOp(kGrid, {theta, Sizes({1, 1, 2, 3})}), {1, 2, 3, 2},
               {-2.0 / 3, -0.5, 0, -0.5, 2.0 / 3, -0.5, -2.0 / 3, 0.5, 0, 0.5, 2.0 / 3, 0.5}, 1e-6);
  ExpectTensor(RunOp(kGrid, {theta, Sizes({1, 1, 2, 1})}, {{"align_corners", Int(1)}}),
               {1, 2, 1, 2}, {1, -1, 1, 1});
  ExpectTensor(RunOp(kGrid, {theta, Sizes({1, 1, 0, 3})}), {1, 0, 3, 2}, {});
  EXPECT_EQ(RunOp(kGrid, {theta, Sizes({1, 1, 0, int64_t{1} << 40})}).count(), 0);
}

TEST(AffineGrid, Refuses) {
  const auto code = [](Shape theta, std::vector<int64_t> size) {
    return CodeOf([&] {
      RunOp(kGrid, {Tensor(DType::kFloat32, std::move(theta)), Sizes(std::move(size))});
    });
  };
  EXPECT_EQ(code({2, 3, 4}, {2, 1, 3, 2, 1}), std::nullopt);
  EXPECT_EQ(code({2, 3, 4}, {2, 1, 3, 2}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({2, 2, 4}, {2, 1, 3, 2}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({2, 4, 5}, {2, 1, 3, 2, 1, 1}), ErrorCode::kInvalidModel);
  EXPECT_EQ(code({1, 2, 3}, {2, 1, 3, 2}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({2, 3}, {2, 1, 3, 2}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({2, 2, 3}, {2, 1, -3, 2}), ErrorCode::kInvalidModel);
  EXPECT_TRUE(code({2, 2, 3}, {2, 1, kGreatest, kGreatest}).has_value());
  EXPECT_EQ(Infer(kGrid, {FloatType({Named("n"), 2, 3}), {DType::kInt64, SymbolicShape{4}}}),
            "float32[...]");
}

// --- MaxRoiPool

const OpCase kRoiPool{.op = "MaxRoiPool"};

TEST(MaxRoiPool, BinsShareRowsAndEndAtTheImage) {
  const Tensor x = Floats({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3});
  const std::vector<AttributeMap::Entry> two = {{"pooled_shape", Ints({2, 2})}};
  // All of the image: bins of one and a half rows share the row in the middle.
  ExpectTensor(RunOp(kRoiPool, {x, Floats({0, 0, 0, 2, 2}, {1, 5})}, two), {1, 1, 2, 2},
               {5, 6, 8, 9});
  // One pixel, then a region half of which lies outside: its bins there are 0.
  ExpectTensor(RunOp(kRoiPool, {x, Floats({0, 1, 1, 1, 1, 0, 2, 0, 5, 2}, {2, 5})}, two),
               {2, 1, 2, 2}, {5, 5, 5, 5, 6, 0, 9, 0});
  ExpectTensor(RunOp(kRoiPool, {x, Floats({0, 0, 0, 4, 4}, {1, 5})},
                     {{"pooled_shape", Ints({1, 1})}, {"spatial_scale", 0.25F}}),
               {1, 1, 1, 1}, {5});
  ExpectTensor(RunOp(kRoiPool, {x, Floats({}, {0, 5})}, two), {0, 1, 2, 2}, {});
}

TEST(MaxRoiPool, Refuses) {
  const auto code = [](std::vector<float> roi, std::vector<int64_t> pooled) {
    return CodeOf([&] {
      const auto columns = static_cast<int64_t>(roi.size());
      RunOp(kRoiPool, {Floats({1, 2, 3, 4}, {1, 1, 2, 2}), Floats(std::move(roi), {1, columns})},
            {{"pooled_shape", Ints(std::move(pooled))}});
    });
  };
  EXPECT_EQ(code({0, 0, 0, 1, 1}, {2, 2}), std::nullopt);
  EXPECT_EQ(code({0, 1e30F, -1e30F, 1e30F, 1e30F}, {2, 2}), std::nullopt);
  EXPECT_EQ(code({1, 0, 0, 1, 1}, {2, 2}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({-1, 0, 0, 1, 1}, {2, 2}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({0, 0, INFINITY, 1, 1}, {2, 2}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({0, 0, 1, 1}, {2, 2}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({0, 0, 0, 1, 1}, {2}), ErrorCode::kInvalidModel);
  EXPECT_EQ(code({0, 0, 0, 1, 1}, {2, 0}), ErrorCode::kInvalidModel);
  EXPECT_TRUE(code({0, 0, 0, 1, 1}, {kGreatest, kGreatest}).has_value());
}

// --- DeformConv

const OpCase kDeform{.op = "DeformConv", .opset = 19};

TEST(DeformConv, OffsetsMoveTapsBetweenPixels) {
  const Tensor x = Floats({1, 2, 3, 4}, {1, 1, 2, 2});
  const Tensor one = Floats({2}, {1, 1, 1, 1});
  const auto run = [&](std::vector<float> offsets, std::vector<float> mask = {1, 1, 1, 1}) {
    return RunOp(kDeform, {x, one, Floats(std::move(offsets), {1, 2, 2, 2}), Floats({10}),
                           Floats(std::move(mask), {1, 1, 2, 2})});
  };
  // The offsets of each tap: first down, then to the right.
  ExpectTensor(run({0.5F, 0, 0, -9, 0.25F, -0.5F, 0, 0}), {1, 1, 2, 2},
               {10 + 2 * 2.25, 10 + 2 * 1.5, 10 + 2 * 3, 10});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ExpectTensor(run({1e30F, -1e30F, nan, 0, 0, 0, 0, 1}, {1, 1, 1, 0.5F}), {1, 1, 2, 2},
               {10, 10, 10, 10});
}

TEST(DeformConv, Refuses) {
  struct Case {
    Shape x{1, 4, 5, 5}, weight{6, 2, 3, 3}, offset{1, 36, 3, 3}, mask{1, 18, 3, 3};
    int64_t group = 2, offset_group = 2;
  };
  const auto code = [](const Case& c) {
    return CodeOf([&] {
      RunOp(kDeform,
            {Tensor(DType::kFloat32, c.x), Tensor(DType::kFloat32, c.weight),
             Tensor(DType::kFloat32, c.offset), Tensor(), Tensor(DType::kFloat32, c.mask)},
            {{"group", Int(c.group)}, {"offset_group", Int(c.offset_group)}});
    });
  };
  EXPECT_EQ(code({}), std::nullopt);
  EXPECT_EQ(code({.offset = {1, 18, 3, 3}}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({.offset = {1, 36, 3, 4}}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({.offset = {2, 36, 3, 3}}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({.offset = {36, 3, 3}}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({.mask = {1, 9, 3, 3}}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({.mask = {}}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({.weight = {6, 3, 3, 3}}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({.offset_group = 3}), ErrorCode::kInvalidModel);
  EXPECT_EQ(code({.offset_group = 0}), ErrorCode::kInvalidModel);
  EXPECT_EQ(code({.group = 0}), ErrorCode::kInvalidModel);
  EXPECT_TRUE(code({.offset_group = kGreatest}).has_value());
  EXPECT_EQ(code({.x = {1, 4, 5}, .weight = {6, 2, 3}}), ErrorCode::kUnsupported);
  EXPECT_EQ(Infer(kDeform, {FloatType({Named("n"), 4, Named("h"), 5}), FloatType({6, 4, 3, 3}),
                            FloatType({Named("n"), 18, Named("k"), 3})}),
            "float32[n, 6, ?, 3]");
}

TEST(DeformConv, OfAnImageWithoutPixels) {
  const Tensor y = RunOp(kDeform,
                         {Tensor(DType::kFloat32, {1, 1, 0, 2}), Floats({1}, {1, 1, 1, 1}),
                          Tensor(DType::kFloat32, {1, 2, 2, 2}), Floats({3})},
                         {{"pads", Ints({1, 0, 1, 0})}});
  ExpectTensor(y, {1, 1, 2, 2}, {3, 3, 3, 3});
}

}  // namespace
}  // namespace requant
