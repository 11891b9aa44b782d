#include "codegen/move.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ops/shape/select.h"
#include "support/random_graphs/dice.h"
#include "tensor/tensor.h"

namespace requant {
namespace {

std::vector<int32_t> Walk(const std::vector<Axis>& axes, int32_t first) {
  std::vector<int64_t> places = {first};
  for (const Axis& axis : axes) {
    std::vector<int64_t> next;
    for (const int64_t place : places) {
      for (int64_t i = 0; i < axis.length; ++i) next.push_back(place + i * axis.step);
    }
    places = std::move(next);
  }
  return {places.begin(), places.end()};
}

TEST(Move, FindsTheAxesOfPermutationsAndSlices) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    Shape shape;
    for (int64_t rank = dice.In(1, 5); rank > 0; --rank) shape.push_back(dice.In(1, 5));
    Tensor numbers(DType::kInt32, shape);
    std::iota(numbers.data<int32_t>(), numbers.data<int32_t>() + numbers.count(), 0);
    std::vector<std::vector<int64_t>> chosen;
    for (const int64_t dim : shape) {
      const int64_t step = dice.Of<int64_t>({1, 1, 2, -1});
      const int64_t from = step < 0 ? dim - 1 : dice.In(0, dim - 1);
      const int64_t most = step < 0 ? dim : (dim - 1 - from) / step + 1;
      chosen.push_back(Sequence(dice.In(1, most), from, step));
    }
    std::vector<int64_t> perm = Sequence(static_cast<int64_t>(shape.size()));
    for (size_t i = perm.size(); i-- > 1;) {
      std::swap(perm[i], perm[static_cast<size_t>(dice.In(0, static_cast<int64_t>(i)))]);
    }
    const Tensor moved = Permute(SelectByAxis(numbers, chosen), perm);
    const std::vector<int32_t> wanted(moved.values<int32_t>().begin(),
                                      moved.values<int32_t>().end());
    const std::vector<Axis> axes = AxesOf(wanted);
    if (axes.empty()) {
      // The guess of the axes may be wrong; then the numbers are listed.
      continue;
    }
    EXPECT_EQ(Walk(axes, wanted[0]), wanted);
  }
}

TEST(Move, KnownOrders) {
  const auto lengths = [](const std::vector<Axis>& axes) {
    std::vector<int64_t> out;
    for (const Axis& axis : axes) out.push_back(axis.length);
    return out;
  };
  EXPECT_EQ(lengths(AxesOf({0, 1, 2, 3, 4, 5})), (std::vector<int64_t>{6}));
  EXPECT_EQ(lengths(AxesOf({0, 3, 1, 4, 2, 5})), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(lengths(AxesOf({7})), (std::vector<int64_t>{1}));
  EXPECT_EQ(lengths(AxesOf({4, 4, 4, 4})), (std::vector<int64_t>{4}));
  EXPECT_TRUE(AxesOf({0, 1, 3, 2}).empty());
  EXPECT_TRUE(AxesOf({0, -1, 1}).empty());
}

}  // namespace
}  // namespace requant
