// Sequences and optional values: their bytes, and types in bodies.
#include "ops/container/container.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/error.h"
#include "run_op.h"

namespace requant {
namespace {

std::vector<Tensor> SomeItems() {
  return {Tensor::Vector<float>({1, 2, 3}), Tensor::Scalar<int64_t>(5),
          Tensor(DType::kUint8, {0, 4}), Tensor::Vector<uint8_t>({7, 8, 9})};
}

TEST(Container, HoldsTensors) {
  const std::vector<Tensor> items = SomeItems();
  const Tensor sequence = ContainerOf(SequenceOf(DType::kFloat32), items);
  EXPECT_EQ(sequence.bytes() % 8, 0U);
  const std::vector<Tensor> read = ItemsOf(sequence);
  ASSERT_EQ(read.size(), items.size());
  for (size_t i = 0; i < items.size(); ++i) EXPECT_TRUE(read[i].SameBits(items[i])) << i;
  const Tensor optional = ContainerOf(OptionalOf(sequence.dtype()), {sequence});
  EXPECT_TRUE(IsOptional(optional.dtype()));
  EXPECT_EQ(ContentOf(optional.dtype()), SequenceOf(DType::kFloat32));
  EXPECT_EQ(ItemsOf(ItemsOf(optional)[0]).size(), items.size());
}

/// Bytes of a feed may be anything.
TEST(Container, DamagedBytesAreRefused) {
  const Tensor whole = ContainerOf(SequenceOf(DType::kFloat32), SomeItems());
  const auto read = [](const std::vector<uint8_t>& bytes) {
    try {
      ItemsOf(Tensor::Vector(bytes));
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  const auto* from = static_cast<const uint8_t*>(whole.raw());
  const std::vector<uint8_t> all(from, from + whole.bytes());
  for (size_t size = 0; size < all.size(); ++size) {
    EXPECT_EQ(read({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size)}),
              ErrorCode::kInvalidArgument)
        << size;
  }
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint8_t> bytes = all;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    read(bytes);  // no more than an error
  }
}

TEST(Container, TypesFollow) {
  const ValueType floats{DType::kFloat32, SymbolicShape{Dim("n"), 3}};
  const ValueType sequence{SequenceOf(DType::kFloat32), SymbolicShape{Dim()}};
  const ValueType position{DType::kInt64, SymbolicShape{}};
  EXPECT_EQ(Infer({"SequenceAt", 11}, {sequence, position}).substr(0, 7), "float32");
  EXPECT_THROW(Infer({"SequenceAt", 11}, {floats, position}), Error);
  EXPECT_EQ(Infer({"SequenceLength", 11}, {sequence}), "int64[]");
  EXPECT_EQ(Infer({"OptionalHasElement", 18}, {floats}), "bool[]");
  EXPECT_EQ(Infer({"OptionalGetElement", 18}, {floats}), "float32[n, 3]");
}

}  // namespace
}  // namespace requant
