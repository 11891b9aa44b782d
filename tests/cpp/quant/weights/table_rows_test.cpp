#include "quant/weights/table_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "interpret/interpreter.h"
#include "ir/verify.h"
#include "quant/lower/lower.h"
#include "quant/model.h"
#include "quant/weights/weight_only.h"

namespace requant {
namespace {

/// rows = table[ids] and y = rows * w, ids: int64 [2, 3].
Graph Embedding(const Tensor& table, uint32_t seed) {
  Builder b;
  Noise noise(seed);
  Value* ids = b.graph.AddValue("ids", {DType::kInt64, ToSymbolic({2, 3})});
  b.graph.AddInput(ids);
  Value* rows = b.Op("Gather", {b.Const("table", table), ids}, "rows");
  b.graph.AddOutput(rows);
  b.graph.AddOutput(b.Op("MatMul", {rows, b.Const("w", noise.Make({table.dim(1), 5}, 0.2f))}, "y"));
  return std::move(b.graph);
}

Tensor Ids(const std::vector<int64_t>& ids) { return Tensor::Vector(ids).Reshaped({2, 3}); }

/// Compares gathered rows with the table, number by number.
void ExpectRows(const Tensor& table, const Tensor& rows, const std::vector<int64_t>& ids,
                int64_t block, double codes) {
  const int64_t length = table.dim(1);
  ASSERT_EQ(rows.shape(), (Shape{2, 3, length}));
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t row = ids[i] < 0 ? ids[i] + table.dim(0) : ids[i];
    for (int64_t begin = 0; begin < length; begin += block) {
      const int64_t end = std::min(length, begin + block);
      double largest = 0;
      for (int64_t j = begin; j < end; ++j) {
        largest = std::max(largest, std::fabs(table.AsDouble(row * length + j)));
      }
      for (int64_t j = begin; j < end; ++j) {
        EXPECT_NEAR(rows.AsDouble(static_cast<int64_t>(i) * length + j),
                    table.AsDouble(row * length + j), largest / codes * 1.0001)
            << row << " " << j;
      }
    }
  }
}

TEST(TableRows, KeepRowsWithinHalfAStep) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Noise noise(static_cast<uint32_t>(seed));
    const int64_t length = 33 + static_cast<int64_t>(seed) * 7;
    Tensor table = noise.Make({130, length}, 0.3f);
    // Rows of very different sizes, and zeros.
    for (int64_t row = 0; row < 130; ++row) {
      for (int64_t j = 0; j < length; ++j) {
        float& x = table.data<float>()[row * length + j];
        x = row == 0   ? 0
            : row == 1 ? x * 1e-40f
                       : x * std::pow(2.0f, static_cast<float>(row % 40 - 20));
      }
    }
    const std::vector<int64_t> ids = {0, 3, 129, -2, 17, 64};
    const Graph graph = Embedding(table, 7);
    for (const bool dynamic : {false, true}) {
      const Graph made = dynamic ? QuantizeDynamically(graph) : QuantizeWeightsOnly(graph, {});
      VerifyGraph(made);
      EXPECT_EQ(made.FindNode("rows_node")->op_type, "Mul");
      ExpectRows(table, Interpret(made, {{"ids", Ids(ids)}})[0], ids, length, 254);
    }
    const Graph four = QuantizeWeightsOnly(graph, {.matmul_nbits = true, .embedding_bits = 4});
    VerifyGraph(four);
    EXPECT_EQ(four.FindNode("rows_node")->op_type, "GatherBlockQuantized");
    ExpectRows(table, Interpret(four, {{"ids", Ids(ids)}})[0], ids, 32, 5);
  }
}

TEST(TableRows, KeepTheLargestAndTheLeastNumbersFinite) {
  Tensor table = Noise(5).Make({128, 32});
  for (int64_t i = 0; i < 64; ++i) {
    float& x = table.data<float>()[i];
    x = std::copysign(
        i < 32 ? std::numeric_limits<float>::max() : std::numeric_limits<float>::denorm_min(), x);
  }
  Builder b;
  Value* ids = b.graph.AddValue("ids", {DType::kInt64, ToSymbolic({2, 3})});
  b.graph.AddInput(ids);
  b.graph.AddOutput(b.Op("Gather", {b.Const("table", table), ids}, "rows"));
  const Tensor rows =
      Interpret(QuantizeDynamically(b.graph), {{"ids", Ids({0, 1, 0, 1, 2, 3})}})[0];
  for (int64_t i = 0; i < rows.count(); ++i) EXPECT_TRUE(std::isfinite(rows.AsDouble(i))) << i;
  EXPECT_NEAR(std::fabs(rows.AsDouble(0)) / std::numeric_limits<float>::max(), 1, 1e-6);
}

TEST(TableRows, StayWhereNothingIsGained) {
  Noise noise(3);
  const Tensor table = noise.Make({70, 64});
  const auto unchanged = [](const Graph& graph, const WeightOnlyOptions& options = {}) {
    return QuantizeWeightsOnly(graph, options).FindNode("rows_node")->op_type == "Gather";
  };
  EXPECT_FALSE(unchanged(Embedding(table, 1)));
  EXPECT_TRUE(unchanged(Embedding(table, 1), {.embedding_bits = 0}));
  EXPECT_TRUE(unchanged(Embedding(noise.Make({63, 65}), 1)));  // 4095 numbers
  Tensor broken = table.Clone();
  broken.data<float>()[1000] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(unchanged(Embedding(broken, 1)));
  EXPECT_THROW(QuantizeWeightsOnly(Embedding(table, 1), {.embedding_bits = 4}), Error);
  EXPECT_THROW(
      QuantizeWeightsOnly(Embedding(table, 1), {.matmul_nbits = true, .embedding_bits = 2}), Error);
  FloatWeights left;
  QuantizeWeightsOnly(Embedding(table, 1), {.embedding_bits = 0}, &left);
  EXPECT_EQ(left.Summary(),
            "1 of 2 weights stay float: those of 'rows_node', as the options keep embeddings in "
            "float");
}

/// quantize() gives tables eight bits, too, and files and integers keep their values.
TEST(TableRows, OfAStaticNetwork) {
  Noise noise(4);
  const Graph graph = Embedding(noise.Make({70, 64}), 2);
  const auto quantize = [&](bool embeddings) {
    QuantizeOptions options;
    options.embeddings = embeddings;
    Quantizer quantizer(FloatModel(graph), options);
    for (int pass = 0; pass < quantizer.passes(); ++pass) {
      TensorMap seen;
      InterpretOptions watch;
      watch.observe = [&](const Value& value, const Tensor& tensor) { seen[value.name] = tensor; };
      Interpret(quantizer.graph(), {{"ids", Ids({1, 2, 3, 4, 5, 6})}}, watch);
      for (const std::string& name : quantizer.observed_values(pass)) {
        quantizer.Observe(pass, name, seen.at(name));
      }
      quantizer.EndSample(pass);
    }
    return LowerToInteger(quantizer.Finish()).Release();
  };
  const TensorMap feeds{{"ids", Ids({1, 2, 3, 4, 5, 6})}};
  const Graph with = quantize(true);
  const Graph without = quantize(false);
  EXPECT_EQ(CountOps(without, "Cast"), 0);
  EXPECT_EQ(CountOps(with, "Cast"), 1);
  const Tensor a = Interpret(with, feeds)[0];
  const Tensor b = Interpret(without, feeds)[0];
  double signal = 0, error = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    signal += b.AsDouble(i) * b.AsDouble(i);
    error += std::pow(a.AsDouble(i) - b.AsDouble(i), 2);
  }
  EXPECT_GT(10 * std::log10(signal / error), 40);
}

}  // namespace
}  // namespace requant
