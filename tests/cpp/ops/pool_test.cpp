#include "ops/pooling/pool_windows.h"
#include "ops/run_op.h"

namespace requant {
namespace {

const OpCase kMax{"MaxPool", 12};
const OpCase kAverage{"AveragePool", 19};

TEST(MaxPool, CeilModeOverhangsButNeverStartsInThePadding) {
  const Tensor x = Floats({1, 2, 3, 4, 5, 6}, {1, 1, 6});
  const auto run = [&](int64_t kernel, int64_t stride, std::vector<int64_t> pads) {
    return RunOp(kMax, {x},
                 {{"kernel_shape", Ints({kernel})},
                  {"strides", Ints({stride})},
                  {"pads", Ints(std::move(pads))},
                  {"ceil_mode", Int(1)}});
  };
  ExpectTensor(run(3, 2, {0, 0}), {1, 1, 3}, {3, 5, 6});
  ExpectTensor(run(2, 3, {1, 1}), {1, 1, 3}, {1, 4, 6});
  // A second window would start at element 7 - 1 = 6, in the padding.
  ExpectTensor(run(2, 7, {1, 1}), {1, 1, 1}, {1});
  // A window larger than the image overhangs by less than a stride.
  ExpectTensor(run(8, 3, {0, 0}), {1, 1, 1}, {6});
  EXPECT_EQ(CodeOf([&] { run(9, 3, {0, 0}); }), ErrorCode::kShapeMismatch);
}

TEST(MaxPool, DilatedBytesWithIndices) {
  const Tensor x = Tensor::FromVector<int8_t>({-5, -128, -3, -7, -1, -9, -8, -2, -6}, {1, 1, 3, 3});
  const std::vector<Tensor> y = RunOutputs(
      {"MaxPool", 12, "", 2}, {x},
      {{"kernel_shape", Ints({2, 2})}, {"dilations", Ints({2, 2})}, {"pads", Ints({0, 0, 0, 1})}});
  ExpectTensor(y[0], {1, 1, 1, 2}, {-3, -2});
  ExpectTensor(y[1], {1, 1, 1, 2}, {2, 7});
  const std::vector<Tensor> columns = RunOutputs(
      {"MaxPool", 12, "", 2}, {x},
      {{"kernel_shape", Ints({2, 2})}, {"dilations", Ints({2, 2})}, {"storage_order", Int(1)}});
  ExpectTensor(columns[1], {1, 1, 1, 1}, {6});  // row 0, column 2 of 3 rows
}

TEST(MaxPool, NaNWins) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ExpectTensor(RunOp(kMax, {Floats({1, nan, 3, 4}, {1, 1, 4})},
                     {{"kernel_shape", Ints({2})}, {"strides", Ints({2})}}),
               {1, 1, 2}, {nan, 4});
}

TEST(AveragePool, PaddingCountsOnlyWhenAsked) {
  const Tensor x = Floats({1, 2, 3, 4, 5}, {1, 1, 5});
  const auto run = [&](int64_t include) {
    return RunOp(kAverage, {x},
                 {{"kernel_shape", Ints({3})},
                  {"strides", Ints({2})},
                  {"pads", Ints({1, 0})},
                  {"ceil_mode", Int(1)},
                  {"count_include_pad", Int(include)}});
  };
  ExpectTensor(run(0), {1, 1, 3}, {1.5, 3, 4.5});
  // The overhang of ceil_mode is no padding: the last window has 2 elements.
  ExpectTensor(run(1), {1, 1, 3}, {1, 3, 4.5});
}

TEST(AveragePool, SameLower) {
  ExpectTensor(RunOp(kAverage, {Floats({2, 4, 6, 8}, {1, 1, 2, 2})},
                     {{"kernel_shape", Ints({2, 2})}, {"auto_pad", Text("SAME_LOWER")}}),
               {1, 1, 2, 2}, {2, 3, 4, 5});
}

TEST(Pools, RefuseTheImpossible) {
  const auto code = [](std::vector<AttributeMap::Entry> attributes) {
    return CodeOf([&] { Infer(kMax, {FloatType({1, 1, 8, 8})}, attributes); });
  };
  EXPECT_EQ(code({}), ErrorCode::kInvalidModel);
  EXPECT_EQ(code({{"kernel_shape", Ints({2})}}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({{"kernel_shape", Ints({9, 2})}}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({{"kernel_shape", Ints({2, 2})}, {"pads", Ints({2, 0, 0, 0})}}),
            ErrorCode::kInvalidModel);
  EXPECT_EQ(code({{"kernel_shape", Ints({int64_t{1} << 62, int64_t{1} << 62})}}),
            ErrorCode::kInvalidModel);
  EXPECT_EQ(code({{"kernel_shape", Ints({2, 2})}, {"auto_pad", Text("MIDDLE")}}),
            ErrorCode::kInvalidModel);
}

TEST(GlobalPools, Values) {
  const Tensor x = Floats({1, 2, 3, 6, -1, -2, -3, -6}, {1, 2, 2, 2});
  ExpectTensor(RunOp({"GlobalAveragePool"}, {x}), {1, 2, 1, 1}, {3, -3});
  ExpectTensor(RunOp({"GlobalMaxPool"}, {x}), {1, 2, 1, 1}, {6, -1});
  ExpectTensor(RunOp({"GlobalLpPool"}, {x}, {{"p", Int(1)}}), {1, 2, 1, 1}, {12, 12});
  EXPECT_EQ(Infer({"GlobalAveragePool"}, {FloatType({Named("N"), 8, Named("H"), Named("W")})}),
            "float32[N, 8, 1, 1]");
}

TEST(LpPool, SquareRootOfSquares) {
  ExpectTensor(RunOp({"LpPool", 11}, {Floats({3, -4, 0, 5}, {1, 1, 4})},
                     {{"kernel_shape", Ints({2})}, {"strides", Ints({2})}}),
               {1, 1, 2}, {5, 5});
}

TEST(WindowsHoldData, AsFarAsSizesAreKnown) {
  AttributeMap pool;
  pool.Set("kernel_shape", std::vector<int64_t>{2, 2});
  EXPECT_TRUE(WindowsHoldData(pool, std::nullopt));
  EXPECT_TRUE(WindowsHoldData(pool, SymbolicShape{1, 2, 4, Dim()}));
  pool.Set("dilations", std::vector<int64_t>{5, 5});
  pool.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
  EXPECT_FALSE(WindowsHoldData(pool, std::nullopt));
  EXPECT_FALSE(WindowsHoldData(pool, SymbolicShape{1, 2, 4, 4}));
  EXPECT_TRUE(WindowsHoldData(pool, SymbolicShape{1, 2, 12, 12}));
}

}  // namespace
}  // namespace requant
