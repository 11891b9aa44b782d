// Softmax over any axis, and Transpose of any axes, in sessions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/str_cat.h"
#include "ir/text.h"
#include "session/session.h"

namespace requant {
namespace {

std::string ListOf(const std::vector<int64_t>& numbers) {
  std::string out = "[";
  for (const int64_t number : numbers) out += StrCat(out.size() > 1 ? ", " : "", number);
  return out + "]";
}

Shape RandomShape(std::mt19937& random, size_t rank, int64_t most) {
  Shape shape;
  for (size_t i = 0; i < rank; ++i) {
    shape.push_back(random() % 4 == 0 ? 1 : 1 + static_cast<int64_t>(random() % most));
  }
  return shape;
}

Tensor Noise(std::mt19937& random, const Shape& shape) {
  Tensor x(DType::kFloat32, shape);
  for (int64_t i = 0; i < x.count(); ++i) {
    x.data<float>()[i] = std::uniform_real_distribution<float>(-9, 9)(random);
  }
  return x;
}

/// Softmax or its logarithm along one axis, in double.
std::vector<double> Softmax(const Tensor& x, size_t axis, bool log) {
  int64_t inner = 1;
  for (size_t i = axis + 1; i < x.shape().size(); ++i) inner *= x.shape()[i];
  const int64_t count = x.shape()[axis];
  std::vector<double> out(static_cast<size_t>(x.count()));
  for (int64_t line = 0; line < x.count() / count; ++line) {
    const int64_t first = line / inner * inner * count + line % inner;
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; ++i) most = std::max(most, x.AsDouble(first + i * inner));
    for (int64_t i = 0; i < count; ++i) sum += std::exp(x.AsDouble(first + i * inner) - most);
    for (int64_t i = 0; i < count; ++i) {
      const double d = x.AsDouble(first + i * inner) - most;
      out[static_cast<size_t>(first + i * inner)] = log ? d - std::log(sum) : std::exp(d) / sum;
    }
  }
  return out;
}

TEST(Axes, SoftmaxOverAny) {
  std::mt19937 random(11);
  for (int round = 0; round < 120; ++round) {
    const size_t rank = 2 + random() % 3;
    Shape shape = RandomShape(random, rank, 9);
    if (round % 10 == 0) shape.back() = 700;  // several blocks of columns
    const auto axis = static_cast<size_t>(random() % rank);
    if (round % 20 == 0) shape[axis == rank - 1 ? 0 : axis] = 40;
    const bool log = random() % 2 == 0;
    const int64_t written =
        static_cast<int64_t>(axis) - (random() % 2 == 0 ? static_cast<int64_t>(rank) : 0);
    const Graph graph = ParseGraph(StrCat("graph \"g\" opset 13\ninput %x: float32", ListOf(shape),
                                          "\n%y = ", log ? "LogSoftmax" : "Softmax",
                                          "(%x) {axis = ", written, "}\noutput %y\n"));
    const Tensor x = Noise(random, shape);
    Session session(graph, {});
    const Tensor y = session.Run({{"x", x}})[0];
    EXPECT_NE(session.plan()->steps[0]->kernel, std::string("reference"));
    const std::vector<double> want = Softmax(x, axis, log);
    for (int64_t i = 0; i < y.count(); ++i) {
      ASSERT_NEAR(y.AsDouble(i), want[static_cast<size_t>(i)],
                  3e-6 * (1 + std::fabs(want[static_cast<size_t>(i)])))
          << ListOf(shape) << " along " << axis << ", element " << i;
    }
  }
}

/// Channels that a convolution wrote last in memory stay there.
TEST(Axes, SoftmaxOverChannels) {
  std::mt19937 random(12);
  const Graph graph = ParseGraph(
      "graph \"g\" opset 13\ninput %x: float32[2, 3, 5, 7]\n"
      "const %w: float32[4, 3, 1, 1] = {1, 0, -1, 0.5, 1, 1, -1, 0.25, 0, 1, 2, -2}\n"
      "%c = Conv(%x, %w)\n%y = Softmax(%c) {axis = 1}\noutput %y\n");
  const Tensor x = Noise(random, {2, 3, 5, 7});
  const Tensor convolved = Interpret(
      ParseGraph("graph \"g\" opset 13\ninput %x: float32[2, 3, 5, 7]\n"
                 "const %w: float32[4, 3, 1, 1] = {1, 0, -1, 0.5, 1, 1, -1, 0.25, 0, 1, 2, -2}\n"
                 "%c = Conv(%x, %w)\noutput %c\n"),
      {{"x", x}})[0];
  Session session(graph, {});
  const Tensor y = session.Run({{"x", x}})[0];
  size_t transposes = 0;
  for (const auto& step : session.plan()->steps) transposes += step->op.starts_with("ToChannels");
  EXPECT_EQ(transposes, 2U);  // of the input and of the output
  const std::vector<double> want = Softmax(convolved, 1, false);
  for (int64_t i = 0; i < y.count(); ++i) {
    ASSERT_NEAR(y.AsDouble(i), want[static_cast<size_t>(i)], 3e-6);
  }
}

TEST(Axes, RowsOfNaNAndInfinity) {
  const Graph graph = ParseGraph(
      "graph \"g\" opset 13\ninput %x: float32[3, 2]\n"
      "%y = Softmax(%x) {axis = 0}\noutput %y\n");
  Session session(graph, {});
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor y =
      session.Run({{"x", Tensor::FromVector<float>({1, NAN, -infinity, 2, 1, 3}, {3, 2})}})[0];
  EXPECT_EQ(y.data<float>()[2], 0);
  EXPECT_FLOAT_EQ(y.data<float>()[0], 0.5F);
  for (const int i : {1, 3, 5}) EXPECT_TRUE(std::isnan(y.data<float>()[i])) << i;
}

TEST(Axes, TransposeOfAny) {
  std::mt19937 random(13);
  for (int round = 0; round < 300; ++round) {
    const size_t rank = 1 + random() % 5;
    const Shape shape =
        RandomShape(random, rank, round % 3 == 0 ? 40 / static_cast<int64_t>(rank) : 5);
    std::vector<int64_t> perm(rank);
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), random);
    const DType dtype = round % 2 == 0 ? DType::kFloat32 : DType::kUint8;
    const Graph graph =
        ParseGraph(StrCat("graph \"g\" opset 13\ninput %x: ", DTypeName(dtype), ListOf(shape),
                          "\n%y = Transpose(%x) {perm = ", ListOf(perm), "}\noutput %y\n"));
    Tensor x(dtype, shape);
    for (int64_t i = 0; i < x.count(); ++i) {
      if (dtype == DType::kFloat32) {
        x.data<float>()[i] = static_cast<float>(i);
      } else {
        x.data<uint8_t>()[i] = static_cast<uint8_t>(i * 7);
      }
    }
    Session session(graph, {});
    const Tensor y = session.Run({{"x", x}})[0];
    EXPECT_TRUE(y.SameBits(Interpret(graph, {{"x", x}})[0])) << ListOf(shape) << ListOf(perm);
  }
}

}  // namespace
}  // namespace requant
