// Operators of com.microsoft without a test file of their own: known answers, types, and invalid
// uses.
#include <limits>

#include "run_op.h"

namespace requant {
namespace {

constexpr int64_t kGreatest = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

OpCase Contrib(const char* op, size_t outputs = 1) {
  return {.op = op, .opset = 1, .domain = kMicrosoftDomain, .outputs = outputs};
}

// --- GatherBlockQuantized

TEST(GatherBlockQuantized, PacksItsZeroPointsRowByRow) {
  // Two rows of 20 numbers of four bits, blocks of 16: two scales and one byte of zero points each.
  std::vector<uint8_t> bytes(20, 0x21);  // 1, 2, 1, 2, ...
  const Tensor data = Tensor::FromVector<uint8_t>(bytes, {2, 10});
  const Tensor scales = Floats({1, 10, 100, 1000}, {2, 2});
  const Tensor zeros = Tensor::FromVector<uint8_t>({0x43, 0x10}, {2, 1});  // 3, 4 and 0, 1
  const auto at = [&](const Tensor& indices, const std::vector<Tensor>& more) {
    std::vector<Tensor> inputs = {data, indices, scales};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return RunOp(Contrib("GatherBlockQuantized"), inputs, {{"block_size", Int(16)}}).ToDoubles();
  };
  const std::vector<double> last = at(Tensor::Vector<int32_t>({-1}), {zeros});
  EXPECT_EQ(last[0], 100);
  EXPECT_EQ(last[1], 200);
  EXPECT_EQ(last[16], 0);
  EXPECT_EQ(last[19], 1000);
  EXPECT_EQ(at(Tensor::Scalar<int64_t>(0), {zeros})[17], -20);
  EXPECT_EQ(at(Tensor::Scalar<int64_t>(0), {})[0], -7);
  EXPECT_EQ(CodeOf([&] { at(Tensor::Scalar<int64_t>(2), {}); }), ErrorCode::kInvalidArgument);
}

TEST(GatherBlockQuantized, Refuses) {
  const auto code = [](DType dtype, Shape data, Shape scales,
                       std::vector<AttributeMap::Entry> attributes) {
    return CodeOf([&] {
      RunOp(Contrib("GatherBlockQuantized"),
            {Tensor(dtype, std::move(data)), Tensor::Vector<int64_t>({0}),
             Tensor(DType::kFloat32, std::move(scales))},
            std::move(attributes));
    });
  };
  const auto block = [](int64_t size) { return AttributeMap::Entry("block_size", Int(size)); };
  EXPECT_EQ(code(DType::kInt4, {3, 40}, {3, 2}, {block(32)}), std::nullopt);
  EXPECT_EQ(code(DType::kInt4, {3, 40}, {3, 1}, {block(32)}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code(DType::kInt4, {3, 40}, {3}, {block(32)}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code(DType::kInt8, {3, 40}, {3, 2}, {block(32)}), ErrorCode::kTypeMismatch);
  for (const int64_t size : {int64_t{0}, int64_t{8}, int64_t{24}, kLeast, kGreatest}) {
    EXPECT_EQ(code(DType::kInt4, {3, 40}, {3, 2}, {block(size)}), ErrorCode::kUnsupported);
  }
  for (const int64_t bits : {int64_t{0}, int64_t{3}, kLeast, kGreatest}) {
    EXPECT_EQ(code(DType::kUint8, {3, 40}, {3, 2}, {block(32), {"bits", Int(bits)}}),
              ErrorCode::kUnsupported);
  }
  EXPECT_EQ(code(DType::kUint8, {40, 3}, {2, 3}, {block(32), {"quantize_axis", Int(0)}}),
            ErrorCode::kUnsupported);
  EXPECT_EQ(code(DType::kInt4, {3, 40}, {3, 2}, {block(32), {"gather_axis", Int(2)}}),
            ErrorCode::kInvalidModel);
  EXPECT_EQ(code(DType::kInt4, {0, 40}, {0, 2}, {block(32)}), ErrorCode::kInvalidArgument);
}

TEST(GatherBlockQuantized, Types) {
  const ValueType indices{DType::kInt64, SymbolicShape{Named("b"), Named("s")}};
  const ValueType table{DType::kUint8, SymbolicShape{1000, 64}};
  EXPECT_EQ(Infer(Contrib("GatherBlockQuantized"), {table, indices, FloatType({1000, 1})}),
            "float32[b, s, 128]");
  EXPECT_EQ(CodeOf([&] {
              Infer(Contrib("GatherBlockQuantized"), {table, indices, FloatType({999, 1})});
            }),
            ErrorCode::kShapeMismatch);
}

// --- Inverse

TEST(Inverse, WithPivots) {
  ExpectTensor(RunOp(Contrib("Inverse"), {Floats({0, 2, 4, 0}, {2, 2})}), {2, 2},
               {0, 0.25, 0.5, 0});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ExpectTensor(RunOp(Contrib("Inverse"), {Floats({1, 2, 2, 4, 2, 0, 0, 2}, {2, 2, 2})}), {2, 2, 2},
               {nan, nan, nan, nan, 0.5, 0, 0, 0.5});
  EXPECT_EQ(RunOp(Contrib("Inverse"), {Floats({}, {3, 0, 0})}).shape(), (Shape{3, 0, 0}));
  const Shape none{0, int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_EQ(RunOp(Contrib("Inverse"), {Floats({}, none)}).shape(), none);
  EXPECT_EQ(CodeOf([] {
              RunOp(Contrib("Inverse"), {Noise({2, 3}, 1)});
            }),
            ErrorCode::kShapeMismatch);
  EXPECT_EQ(CodeOf([] { RunOp(Contrib("Inverse"), {Noise({2}, 1)}); }), ErrorCode::kShapeMismatch);
}

// --- Trilu

TEST(ContribTrilu, IsTheOneOfOnnx) {
  ExpectTensor(RunOp(Contrib("Trilu"), {Floats({1, 2, 3, 4}, {2, 2})}), {2, 2}, {1, 2, 0, 4});
}

// --- functions

TEST(EmbedLayerNormalization, NeedsItsTables) {
  const Tensor ids = Tensor::FromVector<int32_t>({0, 1}, {1, 2});
  const Tensor table = Noise({4, 3}, 1), vector = Floats({1, 1, 1});
  const auto code = [&](const Tensor& words, const Tensor& segments, const Tensor& kinds) {
    return CodeOf([&] {
      RunOutputs(Contrib("EmbedLayerNormalization", 2),
                 {ids, segments, words, table, kinds, vector, vector});
    });
  };
  EXPECT_EQ(code(table, Tensor(), Tensor()), std::nullopt);
  EXPECT_EQ(code(Tensor(), Tensor(), Tensor()), ErrorCode::kInvalidModel);
  EXPECT_EQ(code(table, ids, Tensor()), ErrorCode::kInvalidModel);
  EXPECT_EQ(code(vector, Tensor(), Tensor()), ErrorCode::kShapeMismatch);
}

TEST(NhwcMaxPool, Refuses) {
  const Tensor x = Tensor::FromVector<uint8_t>({1, 2, 3, 4}, {1, 2, 2, 1});
  ExpectTensor(RunOp(Contrib("NhwcMaxPool"), {x}, {{"kernel_shape", Ints({2, 2})}}), {1, 1, 1, 1},
               {4});
  EXPECT_EQ(CodeOf([&] { RunOp(Contrib("NhwcMaxPool"), {x}); }), ErrorCode::kInvalidModel);
  EXPECT_TRUE(CodeOf([&] {
                RunOp(Contrib("NhwcMaxPool"), {x}, {{"kernel_shape", Ints({2})}});
              }).has_value());
  EXPECT_EQ(
      CodeOf([] {
        RunOp(Contrib("NhwcMaxPool"), {Noise({1, 2, 2, 1}, 1)}, {{"kernel_shape", Ints({2, 2})}});
      }),
      ErrorCode::kTypeMismatch);
}

TEST(QLinearReduceMean, Rounds) {
  const Tensor x = Tensor::FromVector<uint8_t>({10, 12, 20, 23}, {2, 2});
  const Tensor half = Tensor::Scalar(0.5F), one = Tensor::Scalar(1.0F);
  const Tensor zero = Tensor::Scalar<uint8_t>(8), three = Tensor::Scalar<uint8_t>(3);
  const auto run = [&](std::vector<AttributeMap::Entry> attributes) {
    return RunOp(Contrib("QLinearReduceMean"), {x, half, zero, one, three}, std::move(attributes));
  };
  // (1 + 2) / 2 = 1.5 and (6 + 7.5) / 2 = 6.75
  ExpectTensor(run({{"axes", Ints({1})}, {"keepdims", Int(0)}}), {2}, {5, 10});
  EXPECT_EQ(CodeOf([&] { run({}); }), ErrorCode::kInvalidModel);
  EXPECT_EQ(CodeOf([&] { run({{"axes", Ints({2})}}); }), ErrorCode::kInvalidModel);
}

TEST(QLinearWhere, BothOperandsAreRequantized) {
  const Tensor condition = Tensor::FromVector<bool>({true, false}, {2});
  const auto bytes = [](std::vector<int8_t> values) { return Tensor::Vector<int8_t>(values); };
  const Tensor zero = Tensor::Scalar<int8_t>(0), ten = Tensor::Scalar<int8_t>(10);
  const auto run = [&](const Tensor& y) {
    return RunOp(Contrib("QLinearWhere"),
                 {condition, bytes({100, 100}), Tensor::Scalar(0.5F), zero, y, Tensor::Scalar(2.0F),
                  ten, Tensor::Scalar(1.0F), ten});
  };
  ExpectTensor(run(bytes({40, 40})), {2}, {60, 70});
  EXPECT_EQ(CodeOf([&] { run(Tensor::Vector<uint8_t>({1, 1})); }), ErrorCode::kTypeMismatch);
  EXPECT_EQ(CodeOf([&] { run(bytes({1, 1, 1})); }), ErrorCode::kShapeMismatch);
}

TEST(QAttention, WaitsForItsWeights) {
  const ValueType x{DType::kUint8, SymbolicShape{1, 2, 4}}, w{DType::kInt8, SymbolicShape{4, 12}};
  const ValueType bias = FloatType({12}), scale = FloatType({});
  const std::vector<AttributeMap::Entry> heads = {{"num_heads", Int(2)}};
  EXPECT_EQ(Infer(Contrib("QAttention"), {x, w, bias, scale, scale}, heads), "float32[1, 2, 4]");
  EXPECT_EQ(Infer(Contrib("QAttention"), {x, {DType::kInt8, {}}, bias, scale, scale}, heads),
            "undefined[...]");
  EXPECT_EQ(CodeOf([&] {
              Infer(Contrib("QAttention"), {x, w, bias, scale, scale});
            }),
            ErrorCode::kInvalidModel);
}

}  // namespace
}  // namespace requant
