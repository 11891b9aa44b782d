// The loops of operators over whole tensors (cast_loops.cpp, integer_loops.cpp, activation.cpp and
// others) against formulas for single elements.
#include <algorithm>
#include <random>

#include "ops/elementwise/cast.h"
#include "ops/run_op.h"

namespace requant {
namespace {

const float kNaN = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

/// An integer modulo the size of a type; whether a number is not 0 for bool.
int64_t Wrapped(int64_t x, DType to) {
  switch (to) {
    case DType::kBool:
      return x != 0 ? 1 : 0;
    case DType::kInt8:
      return static_cast<int8_t>(x);
    case DType::kUint8:
      return static_cast<uint8_t>(x);
    case DType::kInt32:
      return static_cast<int32_t>(x);
    default:
      return x;
  }
}

/// A float truncated towards 0, and moved to the nearer end of the type beyond it; NaN is 0.
int64_t Truncated(float x, DType to) {
  if (to == DType::kBool) return x != 0 ? 1 : 0;
  if (std::isnan(x)) return 0;
  const auto ends = [&](double lo, double hi) {
    return static_cast<int64_t>(std::clamp(std::trunc(double{x}), lo, hi));
  };
  if (to == DType::kInt8) return ends(-128, 127);
  if (to == DType::kUint8) return ends(0, 255);
  if (to == DType::kInt32) return ends(-2147483648.0, 2147483647.0);
  if (double{x} >= 9223372036854775808.0) return std::numeric_limits<int64_t>::max();
  if (double{x} <= -9223372036854775808.0) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}

constexpr DType kTypes[] = {DType::kFloat32, DType::kInt64, DType::kInt32,
                            DType::kInt8,    DType::kUint8, DType::kBool};

TEST(Loops, CastOfIntegersWraps) {
  std::vector<int64_t> numbers = {0, 1, -1, 127, 128, -128, -129, 255, 256, -256, 16777217};
  for (const int shift : {31, 32, 63}) {
    const auto power = static_cast<int64_t>(uint64_t{1} << shift);
    numbers.insert(numbers.end(), {power, power - 1, power + 1});
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 40; ++i) numbers.push_back(static_cast<int64_t>(random() >> (i % 64)));
  const Tensor wide = Tensor::Vector(numbers);
  for (const DType from : kTypes) {
    if (from == DType::kFloat32) continue;
    const Tensor x = CastTensor(wide, from);
    for (const DType to : kTypes) {
      const Tensor y = CastTensor(x, to);
      ASSERT_EQ(y.dtype(), to);
      for (int64_t i = 0; i < x.count(); ++i) {
        const int64_t number = Wrapped(numbers[static_cast<size_t>(i)], from);
        if (to == DType::kFloat32) {
          EXPECT_EQ(y.data<float>()[i], static_cast<float>(number));
        } else {
          EXPECT_EQ(y.AsInt64(i), Wrapped(number, to)) << DTypeName(from) << " " << number;
        }
      }
    }
  }
}

TEST(Loops, CastOfFloatsTruncatesAndSaturates) {
  std::vector<float> numbers = {0,
                                -0.0F,
                                0.5F,
                                -0.5F,
                                0.99F,
                                -0.99F,
                                1.5F,
                                127.5F,
                                -128.5F,
                                -129.0F,
                                255.5F,
                                256.0F,
                                1e-40F,
                                kNaN,
                                kInf,
                                -kInf,
                                1e30F,
                                -1e30F,
                                3e38F,
                                -3e38F,
                                2147483520.0F,
                                -2147483648.0F,
                                2147483648.0F,
                                9.223372e18F,
                                -9.223372e18F,
                                9.2233715e18F};
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    numbers.push_back(std::ldexp(static_cast<float>(random()) - 2147483648.0F, i % 70 - 35));
  }
  const Tensor x = Tensor::Vector(numbers);
  for (const DType to : kTypes) {
    if (to == DType::kFloat32) continue;
    const Tensor y = RunOp({"Cast"}, {x}, {{"to", Int(static_cast<int64_t>(to))}});
    ASSERT_EQ(y.dtype(), to);
    for (size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_EQ(y.AsInt64(static_cast<int64_t>(i)), Truncated(numbers[i], to))
          << numbers[i] << " to " << DTypeName(to);
    }
  }
}

template <typename T>
void CheckIntegers(DType dtype) {
  std::mt19937_64 random(3);
  const auto make = [&](Shape shape) {
    Tensor x(dtype, std::move(shape));
    for (int64_t i = 0; i < x.count(); ++i) {
      x.data<T>()[i] = static_cast<T>(random() >> (random() % 64));
      if (random() % 8 == 0) x.data<T>()[i] = std::numeric_limits<T>::min();
    }
    return x;
  };
  using U = std::make_unsigned_t<T>;
  struct Row {
    const char* op;
    T (*apply)(T, T);
  };
  const Row rows[] = {
      {"Add", [](T a, T b) { return static_cast<T>(U(a) + U(b)); }},
      {"Sub", [](T a, T b) { return static_cast<T>(U(a) - U(b)); }},
      {"Mul", [](T a, T b) { return static_cast<T>(U(a) * U(b)); }},
      {"Max", [](T a, T b) { return std::max(a, b); }},
      {"Min", [](T a, T b) { return std::min(a, b); }},
  };
  const Shape out = {3, 4, 5};
  for (const Row& row : rows) {
    for (const Shape& small : {Shape{3, 4, 5}, Shape{5}, Shape{4, 1}, Shape{3, 1, 5}, Shape{}}) {
      for (const bool first : {false, true}) {
        const Tensor a = make(first ? out : small), b = make(first ? small : out);
        const Tensor y = RunOp({row.op}, {a, b});
        ASSERT_EQ(y.shape(), out);
        const auto at = [&](const Tensor& x, int64_t i) {
          const int64_t index[] = {i / 20, i / 5 % 4, i % 5};
          int64_t offset = 0;
          const size_t skip = 3 - x.shape().size();
          for (size_t d = 0; d < x.shape().size(); ++d) {
            offset = offset * x.shape()[d] + (x.shape()[d] == 1 ? 0 : index[d + skip]);
          }
          return x.data<T>()[offset];
        };
        for (int64_t i = 0; i < 60; ++i) {
          EXPECT_EQ(y.data<T>()[i], row.apply(at(a, i), at(b, i))) << row.op;
        }
      }
    }
  }
}

TEST(Loops, ArithmeticOfIntegers) {
  CheckIntegers<int64_t>(DType::kInt64);
  CheckIntegers<int32_t>(DType::kInt32);
}

TEST(Loops, TestsOfFloats) {
  const Tensor x = Floats({0, kNaN, kInf, -kInf, 1, -kNaN, 3e38F, -1e-40F, kNaN});
  ExpectTensor(RunOp({"IsNaN"}, {x}), {9}, {0, 1, 0, 0, 0, 1, 0, 0, 1});
  ExpectTensor(RunOp({"IsInf"}, {x}), {9}, {0, 0, 1, 1, 0, 0, 0, 0, 0});
  ExpectTensor(RunOp({"IsInf"}, {x}, {{"detect_negative", Int(0)}}), {9},
               {0, 0, 1, 0, 0, 0, 0, 0, 0});
  ExpectTensor(RunOp({"IsInf"}, {x}, {{"detect_positive", Int(0)}}), {9},
               {0, 0, 0, 1, 0, 0, 0, 0, 0});
}

TEST(Loops, MishAndThresholdedRelu) {
  std::vector<float> numbers = {0, -0.0F, kInf, -kInf, kNaN, 1e-30F, -1e-30F, 3e38F, -3e38F};
  for (int i = -4000; i <= 4000; ++i) numbers.push_back(static_cast<float>(i) * 0.01F);
  const Tensor x = Tensor::Vector(numbers);
  const Tensor mish = RunOp({"Mish", 18}, {x}), cut = RunOp({"ThresholdedRelu"}, {x});
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double v = numbers[i];
    const float y = mish.data<float>()[i];
    if (std::isinf(v) || std::isnan(v)) {
      EXPECT_TRUE(v > 0 ? y == kInf : std::isnan(y) || y == 0) << v;
    } else {
      const double want = v * std::tanh(std::max(v, 0.0) + std::log1p(std::exp(-std::fabs(v))));
      EXPECT_NEAR(y, want, 1e-6 * std::fabs(want) + 1e-37) << v;
    }
    EXPECT_EQ(cut.data<float>()[i], v > 1 ? numbers[i] : 0.0F);
  }
}

TEST(Loops, BestElementsOfRowsAndColumns) {
  std::mt19937 random(4);
  for (const char* op : {"ArgMax", "ArgMin"}) {
    for (const int64_t last : {0, 1}) {
      for (int round = 0; round < 20; ++round) {
        const auto count = static_cast<int64_t>(1 + random() % 9);
        Tensor rows(DType::kFloat32, {6, count}), columns(DType::kFloat32, {count, 6});
        for (int64_t i = 0; i < rows.count(); ++i) {
          const auto draw = random() % 8;  // few numbers, so that there are ties
          const float x = draw == 7 ? kNaN : draw == 6 ? -0.0F : static_cast<float>(draw) - 3;
          rows.data<float>()[i] = columns.data<float>()[i % count * 6 + i / count] = x;
        }
        const AttributeMap::Entry keep{"select_last_index", Int(last)};
        const Tensor a = RunOp({op}, {rows}, {{"axis", Int(1)}, keep});
        const Tensor b = RunOp({op}, {columns}, {{"axis", Int(0)}, keep});
        EXPECT_EQ(a.ToInts(), b.ToInts());
      }
    }
  }
}

TEST(Loops, ScatterAlongAnyAxis) {
  std::mt19937 random(5);
  const Shape shape = {3, 4, 5}, part = {2, 3, 4};
  for (int64_t axis = 0; axis < 3; ++axis) {
    for (const bool wide : {false, true}) {
      Tensor data(wide ? DType::kInt64 : DType::kFloat32, shape);
      Tensor updates(data.dtype(), part), indices(DType::kInt64, part);
      std::vector<double> want(static_cast<size_t>(data.count()), 0);
      for (int64_t i = 0; i < updates.count(); ++i) {
        if (wide) {
          updates.data<int64_t>()[i] = i + 1;
        } else {
          updates.data<float>()[i] = static_cast<float>(i + 1);
        }
        const int64_t dim = shape[static_cast<size_t>(axis)];
        const auto drawn = static_cast<int64_t>(random() % static_cast<uint64_t>(2 * dim)) - dim;
        indices.data<int64_t>()[i] = drawn;
        int64_t at[3] = {i / 12, i / 4 % 3, i % 4};
        at[axis] = drawn < 0 ? drawn + dim : drawn;
        want[static_cast<size_t>((at[0] * 4 + at[1]) * 5 + at[2])] = static_cast<double>(i + 1);
      }
      const Tensor y =
          RunOp({"ScatterElements", 16}, {data, indices, updates}, {{"axis", Int(axis)}});
      EXPECT_EQ(y.ToDoubles(), want);
    }
  }
}

TEST(Loops, ExpandRepeatsElements) {
  Tensor x = Floats({1, 2, kNaN, 4, -0.0F, 6}, {2, 3, 1});
  const Tensor y = RunOp({"Expand"}, {x, Tensor::Vector<int64_t>({2, 3, 7})});
  ASSERT_EQ(y.shape(), (Shape{2, 3, 7}));
  for (int64_t i = 0; i < y.count(); ++i) {
    EXPECT_EQ(std::memcmp(&y.data<float>()[i], &x.data<float>()[i / 7], 4), 0) << i;
  }
}

}  // namespace
}  // namespace requant
