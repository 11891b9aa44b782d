// ArgMax, ArgMin and TopK order NaN as NumPy does: argmax and argmin find the first NaN, and
// sorting puts NaN above every number.
#include <cmath>

#include "ops/run_op.h"

namespace requant {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(NanOrder, ArgMaxAndArgMin) {
  struct Case {
    std::vector<float> x;
    int64_t most, least, last_most, last_least;
  };
  const Case cases[] = {
      {{1, kNan, 3}, 1, 1, 1, 1}, {{kNan, 1, 3}, 0, 0, 0, 0},
      {{1, 3, kNan}, 2, 2, 2, 2}, {{1, kNan, 3, kNan, 0}, 1, 1, 3, 3},
      {{kNan, kNan}, 0, 0, 1, 1}, {{kInf, kNan, -kInf}, 1, 1, 1, 1},
      {{2, 1, 2, 1}, 0, 1, 2, 3}, {{kInf, -kInf, kInf, -kInf}, 0, 1, 2, 3},
  };
  for (const Case& c : cases) {
    const auto size = static_cast<int64_t>(c.x.size());
    const auto at = [&](const char* op, const Tensor& x, int64_t axis, bool last) {
      return RunOp({op}, {x},
                   {{"axis", Int(axis)}, {"keepdims", Int(0)}, {"select_last_index", Int(last)}});
    };
    for (const bool last : {false, true}) {
      EXPECT_EQ(at("ArgMax", Floats(c.x), 0, last).AsInt64(0), last ? c.last_most : c.most);
      EXPECT_EQ(at("ArgMin", Floats(c.x), 0, last).AsInt64(0), last ? c.last_least : c.least);
      // Neighboring lines, more than are processed at once, and in double.
      constexpr int64_t kLines = 70;
      Tensor columns(DType::kFloat32, {size, kLines});
      Tensor doubles(DType::kFloat64, {kLines, size});
      for (int64_t i = 0; i < size; ++i) {
        for (int64_t line = 0; line < kLines; ++line) {
          const float number = c.x[static_cast<size_t>(i)];
          columns.data<float>()[i * kLines + line] = number;
          doubles.data<double>()[line * size + i] = number;
        }
      }
      for (const char* op : {"ArgMax", "ArgMin"}) {
        const bool most = op == std::string("ArgMax");
        const int64_t wanted =
            last ? (most ? c.last_most : c.last_least) : (most ? c.most : c.least);
        for (const int64_t found : at(op, columns, 0, last).ToInts()) EXPECT_EQ(found, wanted);
        for (const int64_t found : at(op, doubles, 1, last).ToInts()) EXPECT_EQ(found, wanted);
      }
    }
  }
}

TEST(NanOrder, TopK) {
  const auto picks = [](const Tensor& x, int64_t k, bool largest) {
    return RunOutputs({"TopK", 11, "", 2}, {x, Tensor::Vector<int64_t>({k})},
                      {{"largest", Int(largest)}})[1]
        .ToInts();
  };
  const std::vector<float> numbers = {1, kNan, 3, -kInf, kNan, kInf, 2};
  const std::vector<int64_t> falling = {1, 4, 5, 2, 6, 0, 3};
  const std::vector<int64_t> rising = {3, 0, 6, 2, 5, 1, 4};
  Tensor doubles(DType::kFloat64, {7});
  for (size_t i = 0; i < 7; ++i) doubles.data<double>()[i] = numbers[i];
  for (int64_t k = 1; k <= 7; ++k) {
    for (const Tensor& x : {Floats(numbers), doubles}) {
      EXPECT_EQ(picks(x, k, true), std::vector(falling.begin(), falling.begin() + k));
      EXPECT_EQ(picks(x, k, false), std::vector(rising.begin(), rising.begin() + k));
    }
  }
}

}  // namespace
}  // namespace requant
