// MatMulNBits of 2 to 8 bits, with g_idx or without, as products of 4 or 8 bits: against sums in
// double.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/control/subgraph.h"
#include "ops/matrix/matmul_nbits.h"
#include "ops/op.h"

namespace requant {
namespace {

constexpr int64_t kRows = 2, kColumns = 3;

/// A node of random weights, and the matrix that they stand for.
struct Product {
  Product(int64_t bits, int64_t k, int64_t block, bool has_zeros, bool has_groups, uint32_t seed,
          int64_t level = 0)
      : random(seed) {
    const int64_t blocks = (k + block - 1) / block;
    const std::vector<int> codes = Codes(kColumns * blocks * block, bits);
    const std::vector<int> zeros = Codes(kColumns * blocks, bits);
    std::vector<float> scales;
    for (int64_t i = 0; i < kColumns * blocks; ++i) {
      scales.push_back(0.01F + static_cast<float>(random() % 100));
    }
    std::vector<int32_t> groups;
    for (int64_t i = 0; i < k; ++i) groups.push_back(static_cast<int32_t>(random() % blocks));
    for (int64_t row = 0; row < k; ++row) {
      for (int64_t n = 0; n < kColumns; ++n) {
        const int64_t b = has_groups ? groups[row] : row / block;
        const int zero = has_zeros ? zeros[n * blocks + b] : 1 << (bits - 1);
        matrix.push_back((codes[n * blocks * block + row] - zero) *
                         static_cast<double>(scales[n * blocks + b]));
      }
    }
    graph.opsets = {{"", 17}, {kMicrosoftDomain, 1}};
    Value* x = graph.AddValue("x", {DType::kFloat32, SymbolicShape{kRows, k}});
    graph.AddInput(x);
    std::vector<Value*> inputs = {
        x, graph.AddConstant("w", Pack(codes, bits, block, {kColumns, blocks, -1})),
        graph.AddConstant("s", Tensor::Vector(scales)),
        has_zeros ? graph.AddConstant("z", Pack(zeros, bits, blocks, {-1})) : nullptr,
        has_groups ? graph.AddConstant("g", Tensor::Vector(groups)) : nullptr};
    AttributeMap attributes;
    attributes.Set("K", k);
    attributes.Set("N", kColumns);
    attributes.Set("bits", bits);
    attributes.Set("block_size", block);
    if (level > 0) attributes.Set("accuracy_level", level);
    node = graph.AddNode("MatMulNBits", kMicrosoftDomain, inputs, {graph.AddValue("y")},
                         std::move(attributes));
  }
  std::vector<int> Codes(int64_t count, int64_t bits) {
    std::vector<int> codes;
    for (int64_t i = 0; i < count; ++i) codes.push_back(static_cast<int>(random() % (1 << bits)));
    return codes;
  }
  /// Runs of `run` codes, each in whole bytes, the first code in the lowest bits.
  static Tensor Pack(const std::vector<int>& codes, int64_t bits, int64_t run, Shape shape) {
    const int64_t run_bytes = (run * bits + 7) / 8;
    std::vector<uint8_t> bytes(codes.size() / run * run_bytes);
    for (size_t i = 0; i < codes.size(); ++i) {
      for (int64_t bit = 0; bit < bits; ++bit) {
        const int64_t at = static_cast<int64_t>(i) % run * bits + bit;
        if (codes[i] >> bit & 1) bytes[i / run * run_bytes + at / 8] |= 1 << (at % 8);
      }
    }
    int64_t left = static_cast<int64_t>(bytes.size());
    for (const int64_t dim : shape) left = dim > 0 ? left / dim : left;
    for (int64_t& dim : shape) dim = dim < 0 ? left : dim;
    return Tensor::FromVector(bytes, shape);
  }
  std::unique_ptr<Graph> Expand() const { return FindOp(*node)->expand(graph, *node); }

  std::mt19937 random;
  Graph graph;
  Node* node = nullptr;
  std::vector<double> matrix;  // [k][n]
};

int CountOf(const Graph& graph, const std::string& op) {
  int count = 0;
  for (const auto& node : graph.nodes()) count += node->op_type == op ? 1 : 0;
  return count;
}

/// Holds the body of a product against sums in double; `products` is how many MatMulNBits it has.
void CheckFormula(const Product& product, int64_t k, int products) {
  const auto body = product.Expand();
  EXPECT_EQ(CountOf(*body, "MatMulNBits"), products);
  EXPECT_EQ(CountOf(*body, "Gather"), product.node->input(4) ? 1 : 0);
  Tensor x(DType::kFloat32, {kRows, k});
  std::mt19937 random(1);
  for (int64_t i = 0; i < x.count(); ++i) {
    x.data<float>()[i] = static_cast<float>(random() % 201) - 100.0F;
  }
  std::vector<const Tensor*> given;
  for (const Value* input : product.node->inputs) {
    if (input) given.push_back(input->is_constant() ? &input->constant : &x);
  }
  const auto got = EvaluateGraph(*body, given, RequantizeMode::kFloat);
  ASSERT_EQ(got[0].shape(), (Shape{kRows, kColumns}));
  for (int64_t i = 0; i < got[0].count(); ++i) {
    double sum = 0, most = 0;
    for (int64_t row = 0; row < k; ++row) {
      const double term =
          x.data<float>()[i / kColumns * k + row] * product.matrix[row * kColumns + i % kColumns];
      sum += term;
      most += std::fabs(term);
    }
    EXPECT_NEAR(got[0].AsDouble(i), sum, most * 1e-6);
  }
}

TEST(RepackNBits, ProductsAreTheFormula) {
  uint32_t seed = 0;
  for (const int64_t bits : {2, 3, 4, 5, 6, 7, 8}) {
    for (const int form : {0, 1, 2, 3, 4, 5, 6, 7}) {
      const bool zeros = (form & 1) != 0, groups = (form & 2) != 0, bytes = (form & 4) != 0;
      // The kernels take these as they are.
      if (!groups && (bits == 4 || (bits == 8 && !bytes))) continue;
      SCOPED_TRACE(testing::Message() << bits << " bits, form " << form);
      const int64_t k = groups ? 128 : 70;
      CheckFormula(Product(bits, k, 16, zeros, groups, ++seed, bytes ? 4 : 0), k,
                   bytes && bits > 4 ? 2 : 1);
    }
  }
}

TEST(RepackNBits, UnevenGroupsArePadded) {
  Product product(4, 64, 16, false, true, 1);
  std::vector<int32_t> groups(64);
  groups[20] = 1;
  groups[40] = 3;
  product.node->inputs[4]->constant = Tensor::Vector(groups);
  const auto body = product.Expand();
  for (const auto& node : body->nodes()) {
    // 62 rows of block 0 take four blocks, the single ones one each.
    if (node->op_type != "MatMulNBits") continue;
    EXPECT_EQ(node->attributes.Int("K", 0), 6 * 16);
  }
}

TEST(RepackNBits, GroupsThatDoNotExistAreRefused) {
  Product product(4, 32, 16, false, true, 1);
  product.node->inputs[4]->constant = Tensor::Vector(std::vector<int32_t>(32, 7));
  EXPECT_THROW(product.Expand(), Error);
}

}  // namespace
}  // namespace requant
