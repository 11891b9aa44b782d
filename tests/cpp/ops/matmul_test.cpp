#include "ops/run_op.h"

namespace requant {
namespace {

const OpCase kMatMul{"MatMul", 13};
const OpCase kGemm{"Gemm", 13};

TEST(MatMul, VectorsAreRowsAndColumns) {
  const Tensor v = Floats({1, 2});
  const Tensor m = Floats({1, 2, 3, 4, 5, 6}, {2, 3});
  ExpectTensor(RunOp(kMatMul, {v, m}), {3}, {9, 12, 15});
  ExpectTensor(RunOp(kMatMul, {m, Floats({1, 0, 2})}), {2}, {7, 16});
  ExpectTensor(RunOp(kMatMul, {v, v}), {}, {5});
}

TEST(MatMul, BatchesBroadcast) {
  const Tensor a = Floats({1, 2, 3, 4}, {2, 1, 1, 2});     // batch [2, 1]
  const Tensor b = Floats({1, 0, 0, 1, 1, 1}, {3, 2, 1});  // batch [3]
  ExpectTensor(RunOp(kMatMul, {a, b}), {2, 3, 1, 1}, {1, 2, 3, 3, 4, 7});
}

TEST(MatMul, IntegersWrap) {
  const Tensor a = Tensor::FromVector<int32_t>({1 << 30, 3}, {1, 2});
  const Tensor b = Tensor::FromVector<int32_t>({4, 5}, {2, 1});
  ExpectTensor(RunOp(kMatMul, {a, b}), {1, 1}, {15});
}

TEST(MatMul, SumsAreKeptInDouble) {
  // In float32, 1 would be lost beside 2^30.
  const float big = 1073741824.0F;
  ExpectTensor(RunOp(kMatMul, {Floats({big, 1, -big}, {1, 3}), Floats({1, 1, 1}, {3, 1})}), {1, 1},
               {1});
}

TEST(MatMul, Inference) {
  EXPECT_EQ(Infer(kMatMul, {FloatType({Named("N"), 7, 4}), FloatType({4, Named("M")})}),
            "float32[N, 7, M]");
  EXPECT_EQ(Infer(kMatMul, {FloatType({Named("B"), 1, 2, 4}), FloatType({5, 4, 3})}),
            "float32[B, 5, 2, 3]");
  EXPECT_EQ(CodeOf([] {
              Infer(kMatMul, {FloatType({2, 3}), FloatType({4, 2})});
            }),
            ErrorCode::kShapeMismatch);
  EXPECT_EQ(CodeOf([] {
              Infer(kMatMul, {FloatType({}), FloatType({4, 2})});
            }),
            ErrorCode::kShapeMismatch);
  EXPECT_EQ(CodeOf([] {
              Infer(kMatMul, {{DType::kFloat16, SymbolicShape{2, 3}}, FloatType({3, 2})});
            }),
            ErrorCode::kUnsupported);
}

TEST(MatMul, NothingToSumIsZero) {
  ExpectTensor(RunOp(kMatMul, {Floats({}, {2, 0}), Floats({}, {0, 2})}), {2, 2}, {0, 0, 0, 0});
}

TEST(Gemm, TransposesAndScales) {
  const Tensor a = Floats({1, 2, 3, 4, 5, 6}, {3, 2});  // A' is 2 x 3
  const Tensor b = Floats({1, 0, 1, 0, 1, 0}, {2, 3});  // B' is 3 x 2
  const std::vector<AttributeMap::Entry> attributes = {
      {"transA", Int(1)}, {"transB", Int(1)}, {"alpha", 2.0F}, {"beta", 0.5F}};
  // A' B' = [1+5, 3; 2+6, 4]
  ExpectTensor(RunOp(kGemm, {a, b, Floats({10, 20}, {2, 1})}, attributes), {2, 2},
               {17, 11, 26, 18});
  ExpectTensor(RunOp(kGemm, {a, b, Floats({10, 20})}, attributes), {2, 2}, {17, 16, 21, 18});
  ExpectTensor(RunOp(kGemm, {a, b}, attributes), {2, 2}, {12, 6, 16, 8});
}

TEST(Gemm, RefusesWhatCannotBroadcast) {
  EXPECT_EQ(CodeOf([] {
              Infer(kGemm, {FloatType({Named("N"), 4}), FloatType({4, 3}), FloatType({4})});
            }),
            ErrorCode::kShapeMismatch);
  EXPECT_EQ(CodeOf([] {
              Infer(kGemm, {FloatType({1, 2, 4}), FloatType({4, 3})});
            }),
            ErrorCode::kShapeMismatch);
  EXPECT_EQ(Infer(kGemm, {FloatType({Named("N"), 4}), FloatType({4, 3})}), "float32[N, 3]");
}

}  // namespace
}  // namespace requant
