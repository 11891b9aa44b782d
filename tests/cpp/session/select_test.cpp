// Gather and Split in a session against the interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/text.h"
#include "session/session.h"

namespace requant {
namespace {

Tensor Noise(std::mt19937& random, DType dtype, Shape shape) {
  Tensor out(dtype, std::move(shape));
  auto* bytes = static_cast<uint8_t*>(out.raw());
  for (size_t i = 0; i < out.bytes(); ++i) bytes[i] = static_cast<uint8_t>(random() & 63U);
  return out;
}

template <typename Index>
Tensor Picks(std::mt19937& random, Shape shape, int64_t size) {
  Tensor out(sizeof(Index) == 8 ? DType::kInt64 : DType::kInt32, std::move(shape));
  for (int64_t i = 0; i < out.count(); ++i) {
    out.data<Index>()[i] = static_cast<Index>(static_cast<int64_t>(random() % (2 * size)) - size);
  }
  return out;
}

/// Runs the graph both ways; every result must have the same bits. Returns the steps' kernels.
std::vector<std::string> Check(const std::string& text, const TensorMap& feeds) {
  SCOPED_TRACE(text);
  const Graph graph = ParseGraph(text);
  const std::vector<Tensor> wanted = Interpret(graph, feeds);
  Session session(graph, {});
  const std::vector<Tensor> got = session.Run(feeds);
  EXPECT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(got[i].shape(), wanted[i].shape());
    EXPECT_TRUE(got[i].SameBits(wanted[i])) << "output " << i;
  }
  std::vector<std::string> kernels;
  for (const auto& step : session.plan()->steps) kernels.push_back(step->kernel);
  return kernels;
}

TEST(Select, GatherOfAnyAxisAndType) {
  std::mt19937 random(7);
  const Shape shape{3, 5, 4};
  for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kUint8, DType::kFloat16}) {
    for (const int axis : {0, 1, 2, -1, -3}) {
      const int64_t size = shape[static_cast<size_t>(axis < 0 ? axis + 3 : axis)];
      for (const Shape& picks : {Shape{}, Shape{1}, Shape{2, 3}}) {
        for (const bool wide : {false, true}) {
          const TensorMap feeds{{"x", Noise(random, dtype, shape)},
                                {"i", wide ? Picks<int64_t>(random, picks, size)
                                           : Picks<int32_t>(random, picks, size)}};
          const auto kernels = Check(
              StrCat("graph \"\" opset 13\ninput %x: ", DTypeName(dtype), ShapeToString(shape),
                     "\ninput %i: ", wide ? "int64" : "int32", ShapeToString(picks),
                     "\n%y = Gather(%x, %i) {axis = ", axis, "}\noutput %y\n"),
              feeds);
          EXPECT_EQ(kernels, std::vector<std::string>{"copy"});
        }
      }
    }
  }
}

TEST(Select, GatherNamesTheNodeOfAWrongIndex) {
  Session session(ParseGraph("graph \"\" opset 13\ninput %x: float32[4, 2]\ninput %i: int64[1]\n"
                             "%y = Gather(%x, %i) {axis = 0} \"lookup\"\noutput %y\n"),
                  {});
  for (const int64_t index : {int64_t{4}, int64_t{-5}, INT64_MAX, INT64_MIN}) {
    try {
      session.Run(
          {{"x", Tensor(DType::kFloat32, {4, 2})}, {"i", Tensor::Vector<int64_t>({index})}});
      ADD_FAILURE() << index;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(error.context().node, "lookup");
    }
  }
}

TEST(Select, SplitOfAnyAxisAndType) {
  std::mt19937 random(8);
  for (const DType dtype : {DType::kFloat32, DType::kUint8, DType::kInt64}) {
    for (const int axis : {0, 1, 3, -1, -4}) {
      const auto kernels = Check(
          StrCat("graph \"\" opset 13\ninput %x: ", DTypeName(dtype), "[6, 6, 3, 6]\n",
                 "const %sizes: int64[3] = {1, 3, 2}\n%a, %b, %c = Split(%x, %sizes) {axis = ",
                 axis, "}\noutput %a\noutput %b\noutput %c\n"),
          {{"x", Noise(random, dtype, {6, 6, 3, 6})}});
      EXPECT_EQ(kernels, std::vector<std::string>(3, "strided_copy"));
    }
  }
}

/// Between convolutions the pixels stay as they are.
TEST(Select, SplitOfChannelsOfPixels) {
  std::mt19937 random(9);
  std::string weights;
  for (int i = 0; i < 48; ++i) weights += StrCat(i > 0 ? ", " : "", (i * 7) % 5 - 2);
  const auto kernels = Check(
      StrCat(
          "graph \"\" opset 13\ninput %x: float32[1, 8, 3, 3]\nconst %w: float32[6, 8, 1, 1] = {",
          weights, "}\n%c = Conv(%x, %w)\n%a, %b = Split(%c) {axis = 1}\n%y = Sub(%a, %b)\n",
          "output %y\n"),
      {{"x", Tensor(DType::kFloat32, {1, 8, 3, 3})}});
  EXPECT_EQ(std::count(kernels.begin(), kernels.end(), "strided_copy"), 2);
  EXPECT_EQ(std::count(kernels.begin(), kernels.end(), "reference"), 0);
}

}  // namespace
}  // namespace requant
