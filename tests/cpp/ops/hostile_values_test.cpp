// Numbers at the ends of their types, NaN and empty tensors, in attributes and in data give a
// result or a typed error, and no access outside of a tensor (which the sanitizers check).
#include "run_op.h"

namespace requant {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kGreatest = std::numeric_limits<int64_t>::max();
const float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(HostileValues, CircularTensorScatterTurnsAround) {
  const auto write = [](int64_t first) {
    return RunOp(
        {.op = "TensorScatter", .opset = 24},
        {Floats({0, 0, 0}, {1, 3, 1}), Floats({1, 2}, {1, 2, 1}), Tensor::Vector<int64_t>({first})},
        {{"mode", Text("circular")}, {"axis", Int(1)}});
  };
  ExpectTensor(write(2), {1, 3, 1}, {2, 0, 1});
  ExpectTensor(write(kGreatest), {1, 3, 1}, {0, 1, 2});  // 2^63 - 1 is 1 modulo 3
  EXPECT_EQ(CodeOf([&] { write(-1); }), ErrorCode::kInvalidArgument);
}

TEST(HostileValues, PackedWeightsOfImpossibleBlocks) {
  for (const int64_t block : {int64_t{1} << 62, kGreatest}) {
    for (const int64_t k : {int64_t{4}, kGreatest}) {
      EXPECT_EQ(CodeOf([&] {
                  RunOp({.op = "UnpackBits", .opset = 1, .domain = kRequantDomain},
                        {Tensor(DType::kUint8, {1, 1, 0}), Floats({1}, {1})},
                        {{"K", Int(k)}, {"N", Int(1)}, {"block_size", Int(block)}});
                }),
                ErrorCode::kUnsupported);
    }
  }
}

TEST(HostileValues, TfIdfOfCountsOutsideOfThePool) {
  const auto run = [](std::vector<int64_t> counts, std::vector<int64_t> indexes, int64_t skips) {
    return RunOp({.op = "TfIdfVectorizer"}, {Tensor::Vector<int64_t>({1, 2, 1})},
                 {{"ngram_counts", Ints(std::move(counts))},
                  {"ngram_indexes", Ints(std::move(indexes))},
                  {"pool_int64s", Ints({1, 2, 1, 2})},
                  {"mode", Text("TF")},
                  {"max_gram_length", Int(2)},
                  {"max_skip_count", Int(skips)}});
  };
  ExpectTensor(run({0, 2}, {0, 1, 2}, kGreatest), {3}, {2, 1, 1});
  for (const int64_t count : {kGreatest, kLeast, int64_t{-1}, int64_t{5}}) {
    EXPECT_EQ(CodeOf([&] { run({count}, {0, 1, 2, 3}, 0); }), ErrorCode::kInvalidModel);
    EXPECT_EQ(CodeOf([&] { run({0, count}, {0, 1, 2, 3}, 0); }), ErrorCode::kInvalidModel);
  }
  EXPECT_TRUE(CodeOf([&] { run({0, 2}, {0, 1, kGreatest}, 0); }).has_value());
}

TEST(HostileValues, UniqueOfNothingNanAndLargeIntegers) {
  const std::vector<Tensor> none =
      RunOutputs({.op = "Unique", .outputs = 4}, {Floats({}, {2, 0})}, {{"axis", Int(0)}});
  EXPECT_EQ(none[0].shape(), (Shape{1, 0}));
  ExpectTensor(none[3], {1}, {2});
  const int64_t wide = int64_t{1} << 53;  // a double cannot distinguish it from its successor
  const Tensor sorted = RunOp({.op = "Unique"}, {Tensor::Vector<int64_t>({wide + 1, wide, wide})});
  EXPECT_EQ(sorted.ToInts(), (std::vector<int64_t>{wide, wide + 1}));
  ExpectTensor(RunOp({.op = "Unique"}, {Floats({kNan, 2, kNan, 1})}), {3}, {1, 2, kNan});
}

TEST(HostileValues, MaxUnpoolFromNowhere) {
  EXPECT_EQ(CodeOf([] {
              RunOp({.op = "MaxUnpool"},
                    {Floats({1}, {1, 1, 1}), Tensor::FromVector<int64_t>({0}, {1, 1, 1}),
                     Tensor::Vector<int64_t>({1, 1, 4})},
                    {{"kernel_shape", Ints({2})}, {"pads", Ints({1, 1})}});
            }),
            ErrorCode::kShapeMismatch);
}

TEST(HostileValues, RoiAlignOfNan) {
  for (const int64_t ratio : {0, 2}) {
    const Tensor out = RunOp(
        {.op = "RoiAlign", .opset = 16},
        {Noise({1, 1, 4, 4}, 1), Floats({kNan, 0, 2, 2, 0, kNan, 2, kNan}, {2, 4}),
         Tensor::Vector<int64_t>({0, 0})},
        {{"sampling_ratio", Int(ratio)}, {"output_height", Int(2)}, {"output_width", Int(1)}});
    ExpectTensor(out, {2, 1, 2, 1}, {0, 0, 0, 0});
  }
}

TEST(HostileValues, IntegersWrap) {
  const std::vector<int64_t> ends = {kGreatest, kLeast};
  const Tensor sums = RunOp(
      {.op = "ScatterElements", .opset = 16},
      {Tensor::Vector(ends), Tensor::Vector<int64_t>({0, 1}), Tensor::Vector<int64_t>({1, -1})},
      {{"reduction", Text("add")}});
  EXPECT_EQ(sums.ToInts(), (std::vector<int64_t>{kLeast, kGreatest}));
  const Tensor products = RunOp(
      {.op = "ScatterElements", .opset = 16},
      {Tensor::Vector(ends), Tensor::Vector<int64_t>({0, 1}), Tensor::Vector<int64_t>({2, -1})},
      {{"reduction", Text("mul")}});
  EXPECT_EQ(products.ToInts(), (std::vector<int64_t>{-2, kLeast}));
  const Tensor einsum = RunOp({.op = "Einsum"}, {Tensor::Vector(ends), Tensor::Vector(ends)},
                              {{"equation", Text("i,i->")}});
  EXPECT_EQ(einsum.ToInts(), (std::vector<int64_t>{1}));  // 1 + 2^126, modulo 2^64
}

TEST(HostileValues, ReverseSequenceAlongAxesThatOverflow) {
  EXPECT_EQ(CodeOf([] {
              RunOp({.op = "ReverseSequence"}, {Noise({2, 2}, 1), Tensor::Vector<int64_t>({1, 1})},
                    {{"batch_axis", Int(kGreatest)}, {"time_axis", Int(kLeast + 2)}});
            }),
            ErrorCode::kShapeMismatch);
}

}  // namespace
}  // namespace requant
