// BitPack against TVM's definition, written from the side of the output: for every word, the
// elements k = 0, 1, ... are shifted in from the right (topi.nn.bitpack, _bitpack).
#include <gtest/gtest.h>

#include <random>

#include "run_op.h"

namespace requant {
namespace {

Tensor Pack(const Tensor& x, int64_t axis, int64_t bit_axis, int64_t bits, int64_t width) {
  return RunOp({.op = "BitPack", .opset = 1, .domain = kRequantDomain}, {x},
               {{"axis", Int(axis)},
                {"bit_axis", Int(bit_axis)},
                {"bits", Int(bits)},
                {"pack_type", Int(width)}});
}

uint64_t WordAt(const Tensor& tensor, int64_t i, int64_t width) {
  switch (width) {
    case 8:
      return tensor.data<uint8_t>()[i];
    case 16:
      return tensor.data<uint16_t>()[i];
    case 32:
      return tensor.data<uint32_t>()[i];
    default:
      return tensor.data<uint64_t>()[i];
  }
}

TEST(BitPack, EveryAxisAndWord) {
  std::mt19937 random(1);
  const Shape shape = {3, 70, 2};
  Tensor x(DType::kUint8, shape);
  for (int64_t i = 0; i < x.count(); ++i) x.data<uint8_t>()[i] = static_cast<uint8_t>(random());
  for (const int64_t width : {8, 16, 32, 64}) {
    for (int64_t axis = 0; axis < 3; ++axis) {
      for (int64_t bit_axis = 0; bit_axis < 4; ++bit_axis) {
        const int64_t bits = 1 + static_cast<int64_t>(random() % 8);
        const Tensor packed = Pack(x, axis, bit_axis, bits, width);
        Shape expected = shape;
        expected[static_cast<size_t>(axis)] =
            (shape[static_cast<size_t>(axis)] + width - 1) / width;
        expected.insert(expected.begin() + bit_axis, bits);
        ASSERT_EQ(packed.shape(), expected);
        for (int64_t i = 0; i < packed.count(); ++i) {
          std::vector<int64_t> index(4);
          for (int64_t d = 3, rest = i; d >= 0; --d) {
            index[static_cast<size_t>(d)] = rest % expected[static_cast<size_t>(d)];
            rest /= expected[static_cast<size_t>(d)];
          }
          const int64_t plane = index[static_cast<size_t>(bit_axis)];
          index.erase(index.begin() + bit_axis);
          const int64_t first = index[static_cast<size_t>(axis)] * width;
          uint64_t word = 0;
          for (int64_t k = 0; k < width; ++k) {
            index[static_cast<size_t>(axis)] = first + k;
            uint64_t bit = 0;
            if (first + k < shape[static_cast<size_t>(axis)]) {
              const int64_t at = (index[0] * shape[1] + index[1]) * shape[2] + index[2];
              bit = x.data<uint8_t>()[at] >> plane & 1;
            }
            word = word << 1 | bit;
          }
          ASSERT_EQ(WordAt(packed, i, width), word)
              << "width " << width << " axis " << axis << " planes at " << bit_axis;
        }
      }
    }
  }
}

TEST(BitPack, SignedCodesAreTheirBits) {
  Tensor x(DType::kInt8, {8});
  for (int64_t i = 0; i < 8; ++i) x.data<int8_t>()[i] = static_cast<int8_t>(i % 2 ? -1 : 1);
  const Tensor packed = Pack(x, 0, 0, 2, 8);
  EXPECT_EQ(packed.shape(), (Shape{2, 1}));
  EXPECT_EQ(packed.data<uint8_t>()[0], 0xFF);
  EXPECT_EQ(packed.data<uint8_t>()[1], 0x55);
}

TEST(BitPack, RefusesWhatCannotBe) {
  const Tensor x(DType::kUint8, {4});
  EXPECT_EQ(CodeOf([&] { Pack(x, 0, 0, 9, 8); }), ErrorCode::kInvalidModel);
  EXPECT_EQ(CodeOf([&] { Pack(x, 0, 0, 1, 24); }), ErrorCode::kInvalidModel);
  EXPECT_EQ(CodeOf([&] { Pack(x, 1, 0, 1, 8); }), ErrorCode::kInvalidModel);
  EXPECT_EQ(CodeOf([&] { Pack(x, 0, 2, 1, 8); }), ErrorCode::kInvalidModel);
}

}  // namespace
}  // namespace requant
