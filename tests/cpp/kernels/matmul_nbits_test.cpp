// Rows for weights of 4 and 8 bits in blocks: integer rows bit for bit among each other, all rows
// against sums in double.
#include "kernels/matmul_nbits/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/entry.h"

namespace requant {
namespace {

struct Case {
  int32_t rows, k, n, block;
  bool zeros;
  int32_t bits = 4;

  int32_t blocks() const { return (k + block - 1) / block; }
  int32_t zero_bytes() const { return (blocks() * bits + 7) / 8; }
};

struct Data {
  explicit Data(const Case& c, uint32_t seed) : random(seed) {
    const int32_t blocks = c.blocks();
    const auto bytes = static_cast<size_t>(c.block) * c.bits / 8;
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> byte(0, 255);
    for (size_t i = 0; i < static_cast<size_t>(c.rows) * c.k; ++i) a.push_back(normal(random));
    for (size_t i = 0; i < static_cast<size_t>(c.n) * blocks * bytes; ++i) {
      codes.push_back(static_cast<uint8_t>(byte(random)));
    }
    for (int32_t i = 0; i < c.n * blocks; ++i) scales.push_back(0.01f + std::fabs(normal(random)));
    for (int32_t i = 0; i < c.n * c.zero_bytes(); ++i) {
      zeros.push_back(static_cast<uint8_t>(byte(random)));
    }
  }
  std::mt19937 random;
  std::vector<float> a, scales;
  std::vector<uint8_t> codes, zeros;
};

int Code(const std::vector<uint8_t>& bytes, size_t i, int32_t bits) {
  return bits == 8 ? bytes[i] : bytes[i / 2] >> (i % 2 * 4) & 15;
}

/// The weight as a double.
double Weight(const Case& c, const Data& d, int32_t n, int32_t k) {
  const size_t block = static_cast<size_t>(n) * c.blocks() + k / c.block;
  const int code = Code(d.codes, block * c.block + k % c.block, c.bits);
  const size_t zero_at = static_cast<size_t>(n) * c.zero_bytes() * 8 / c.bits + k / c.block;
  const int zero = c.zeros ? Code(d.zeros, zero_at, c.bits) : 1 << (c.bits - 1);
  return (code - zero) * static_cast<double>(d.scales[block]);
}

/// Runs the kernel in parts of `groups` groups of columns.
std::vector<float> Multiply(const MatMulNBitsKernel& kernel, const Case& c, const Data& d,
                            int32_t groups) {
  const MatMulNBitsWeights weights{c.k,
                                   c.n,
                                   c.block,
                                   c.bits,
                                   d.codes.data(),
                                   d.scales.data(),
                                   c.zeros ? d.zeros.data() : nullptr};
  std::vector<uint8_t> packed(kernel.packed_size(weights));
  kernel.pack_weights(weights, packed.data());
  std::vector<float> out(static_cast<size_t>(c.rows) * c.n, -1);
  MatMulNBitsParams p;
  p.a = d.a.data();
  p.weights = packed.data();
  p.out = out.data();
  p.rows = c.rows, p.k = c.k, p.n = c.n, p.block = c.block;
  p.bits = c.bits;
  p.has_zero_points = c.zeros ? 1 : 0;
  std::vector<float> workspace(kernel.workspace_size(p) / 4 + 4);
  p.workspace = workspace.data();
  const int32_t all = (c.n + 7) / 8;
  for (p.begin = 0; p.begin < all; p.begin = p.end) {
    p.end = std::min(p.begin + groups, all);
    kernel.run(&p);
  }
  return out;
}

const MatMulNBitsKernel& Row(std::string_view name) {
  for (const auto& row : MatMulNBitsKernels()) {
    if (name == row.name) return row;
  }
  throw std::runtime_error("no such row");
}

std::vector<Case> Cases() {
  std::vector<Case> cases{{1, 32, 8, 32, false}, {4, 64, 16, 32, true}, {5, 1, 1, 16, true}};
  std::mt19937 random(7);
  const auto upto = [&random](int32_t most) {
    return std::uniform_int_distribution<int32_t>(1, most)(random);
  };
  for (int i = 0; i < 60; ++i) {
    cases.push_back({upto(i % 10 == 0 ? 70 : 9), upto(300), upto(40), 16 << (i % 5), i % 3 == 0});
  }
  return cases;
}

TEST(MatMulNBits, IntegerRowsAreTheSameBits) {
  uint32_t seed = 0;
  for (const Case& c : Cases()) {
    const Data d(c, ++seed);
    const auto wanted = Multiply(Row("matmul_nbits_q8_scalar"), c, d, 1 << 20);
    for (const int32_t groups : {1, 3, 1 << 20}) {
      ASSERT_EQ(Multiply(Row("matmul_nbits_q8_vector"), c, d, groups), wanted)
          << c.rows << " x " << c.k << " x " << c.n << " in " << c.block << ", " << c.zeros;
      ASSERT_EQ(Multiply(Row("matmul_nbits_q8_dot8"), c, d, groups), wanted)
          << c.rows << " x " << c.k << " x " << c.n << " in " << c.block << ", " << c.zeros;
    }
  }
}

TEST(MatMulNBits, RowsAreTheFormula) {
  uint32_t seed = 100;
  std::vector<Case> cases = Cases();
  for (Case c : Cases()) {
    c.bits = 8;
    cases.push_back(c);
  }
  for (const Case& c : cases) {
    const Data d(c, ++seed);
    for (const MatMulNBitsKernel& kernel : MatMulNBitsKernels()) {
      if (kernel.integer && c.bits != 4) continue;
      const auto got = Multiply(kernel, c, d, 1 << 20);
      for (int32_t m = 0; m < c.rows; ++m) {
        for (int32_t n = 0; n < c.n; ++n) {
          double sum = 0, most = 0, rounding = 0;
          for (int32_t first = 0; first < c.k; first += std::min(c.block, 32)) {
            // Rounding a value changes it by at most half a step of its chunk.
            double largest = 0, weights = 0;
            for (int32_t k = first; k < std::min(c.k, first + std::min(c.block, 32)); ++k) {
              const double a = d.a[static_cast<size_t>(m) * c.k + k], w = Weight(c, d, n, k);
              sum += a * w;
              most += std::fabs(a * w);
              largest = std::max(largest, std::fabs(a));
              weights += std::fabs(w);
            }
            rounding += largest / 127 / 2 * weights;
          }
          const double bound = most * 1e-5 + (kernel.integer ? rounding * 1.001 : 0);
          ASSERT_NEAR(got[static_cast<size_t>(m) * c.n + n], sum, bound)
              << kernel.name << " " << c.bits << " bits, " << c.rows << " x " << c.k << " x " << c.n
              << " in " << c.block;
        }
      }
    }
  }
}

TEST(MatMulNBits, ExtremeCodesDoNotOverflow) {
  const Case c{4, 256, 16, 128, true};
  Data d(c, 1);
  for (float& value : d.a) value = value < 0 ? -3 : 3;
  std::fill(d.codes.begin(), d.codes.end(), uint8_t{0xff});
  std::fill(d.zeros.begin(), d.zeros.end(), uint8_t{0});
  std::fill(d.a.begin(), d.a.begin() + c.k, 3.0f);
  const auto scalar = Multiply(Row("matmul_nbits_q8_scalar"), c, d, 9);
  EXPECT_EQ(Multiply(Row("matmul_nbits_q8_vector"), c, d, 9), scalar);
  double sum = 0;
  for (int32_t k = 0; k < c.k; ++k) sum += 3 * Weight(c, d, 0, k);
  EXPECT_NEAR(scalar[0], sum, sum * 1e-6);
}

TEST(MatMulNBits, ExtremeCodesOf8BitsAreExact) {
  for (const uint8_t code : {0, 255}) {
    for (const int32_t rows : {1, 4}) {
      const Case c{rows, 64, 8, 32, true, 8};
      Data d(c, 1);
      std::fill(d.a.begin(), d.a.end(), 2.0f);
      std::fill(d.scales.begin(), d.scales.end(), 0.5f);
      std::fill(d.codes.begin(), d.codes.end(), code);
      std::fill(d.zeros.begin(), d.zeros.end(), static_cast<uint8_t>(255 - code));
      for (const auto* name : {"matmul_nbits_f32_scalar", "matmul_nbits_f32_vector"}) {
        for (const float y : Multiply(Row(name), c, d, 1)) {
          EXPECT_EQ(y, code == 0 ? -64 * 255 : 64 * 255) << name;
        }
      }
    }
  }
}

TEST(MatMulNBits, NotANumberAndInfinityReachTheirRowOnly) {
  const Case c{3, 40, 9, 16, false};
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Data d(c, 3);
    d.a[static_cast<size_t>(c.k) + 37] = bad;
    for (const MatMulNBitsKernel& kernel : MatMulNBitsKernels()) {
      const auto got = Multiply(kernel, c, d, 9);
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(std::isfinite(got[i]), i / 9 != 1) << kernel.name << " " << bad << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace requant
