#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "base/error.h"
#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "quant/model.h"
#include "quant/rotate/hadamard.h"
#include "quant/rotate/weight_rotation.h"

namespace requant {
namespace {

TEST(HadamardRotation, IsOrthogonalAndTheMatrixThatItMultipliesBy) {
  for (const int64_t size : {2, 8, 64, 512}) {
    const HadamardRotation rotation(size);
    const Tensor matrix = rotation.Matrix();
    const auto q = [&](int64_t i, int64_t j) {
      return static_cast<double>(matrix.data<float>()[i * size + j]);
    };
    for (const int64_t i : {int64_t{0}, int64_t{1}, size - 1}) {
      for (int64_t j = 0; j < size; ++j) {
        double product = 0;
        for (int64_t k = 0; k < size; ++k) product += q(i, k) * q(j, k);
        EXPECT_NEAR(product, i == j ? 1 : 0, 1e-6) << size << ": " << i << ", " << j;
      }
    }
    std::vector<double> x;
    Noise noise(3);
    for (int64_t i = 0; i < 2 * size; ++i) x.push_back(static_cast<double>(noise.Normal()));
    std::vector<double> rotated = x;
    rotation.Apply(rotated.data(), rotated.size());
    for (int64_t j = 0; j < 2 * size; ++j) {
      double wanted = 0;
      const int64_t begin = j / size * size;
      for (int64_t i = 0; i < size; ++i) {
        wanted += x[static_cast<size_t>(begin + i)] * q(i, j - begin);
      }
      EXPECT_NEAR(rotated[static_cast<size_t>(j)], wanted, 1e-5);
    }
  }
}

TEST(HadamardRotation, HasTheLargestPowerOfTwoThatDivides) {
  EXPECT_EQ(RotationSize(256, 128), 128);
  EXPECT_EQ(RotationSize(96, 128), 32);
  EXPECT_EQ(RotationSize(96, 16), 16);
  EXPECT_EQ(RotationSize(35, 128), 1);
  EXPECT_TRUE(IsRotation(HadamardRotation(64).Matrix()));
  EXPECT_FALSE(IsRotation(Noise(1).Make({64, 64})));
  EXPECT_FALSE(IsRotation(Tensor(DType::kFloat32, {64, 64})));
}

TEST(InputProducts, AreThoseOfMappedRows) {
  Noise noise(5);
  const Tensor rows = noise.Make({40, 24});
  const HadamardRotation rotation(8);
  InputProducts mapped(24), wanted(24);
  mapped.Add(rows.data<float>(), 40);
  mapped.Map(8, [&](double* run) { rotation.Apply(run, 8); });
  Tensor rotated(DType::kFloat32, rows.shape());
  for (int64_t row = 0; row < 40; ++row) {
    std::vector<double> x(rows.data<float>() + row * 24, rows.data<float>() + (row + 1) * 24);
    rotation.Apply(x.data(), x.size());
    for (int64_t i = 0; i < 24; ++i) {
      rotated.data<float>()[row * 24 + i] = static_cast<float>(x[static_cast<size_t>(i)]);
    }
  }
  wanted.Add(rotated.data<float>(), 40);
  for (int64_t i = 0; i < 24; ++i) {
    for (int64_t j = 0; j < 24; ++j) {
      EXPECT_NEAR(mapped.Moment(i, j), wanted.Moment(i, j), 1e-5) << i << ", " << j;
    }
  }
}

/// Pseudo-random numbers as a constant of a text.
std::string Constant(const std::string& name, const Shape& shape, uint32_t seed, float scale = 0.3F,
                     float shift = 0) {
  const Tensor numbers = Noise(seed).Make(shape, scale, shift);
  std::string out = StrCat("const %", name, ": float32[");
  for (size_t i = 0; i < shape.size(); ++i) out += StrCat(i > 0 ? ", " : "", shape[i]);
  out += "] = {";
  for (int64_t i = 0; i < numbers.count(); ++i) {
    out += StrCat(i > 0 ? ", " : "", numbers.AsDouble(i));
  }
  return out + "}\n";
}

/// A Llama's layer behind a product, with two heads of values and a gated block. `after` is what
/// else reads the stream, `norm` the normalization's operators from %s to %h.
Graph Block(const std::string& after = "") {
  return ParseGraph(StrCat(
      R"(graph "block" opset 17
input %x: float32[1, 6, 20]
const %two: float32[] = {2.0}
const %eps: float32[] = {0.00001}
const %heads: int64[4] = {1, 6, 2, 24}
const %flat: int64[3] = {1, 6, 48}
)",
      Constant("we", {20, 48}, 1), Constant("be", {48}, 2), Constant("g1", {48}, 3, 0.2F, 1),
      Constant("g2", {48}, 4, 0.2F, 1), Constant("wq", {48, 6}, 5), Constant("wv", {48, 48}, 6),
      Constant("wo", {48, 48}, 7), Constant("wg", {48, 35}, 8), Constant("wu", {48, 35}, 9),
      Constant("wd", {35, 48}, 10), Constant("wh", {48, 10}, 11), R"(
%e0 = MatMul(%x, %we) "embed"
%e = Add(%e0, %be) "bias"
%p1 = Pow(%e, %two)
%m1 = ReduceMean(%p1) {axes = [-1]}
%a1 = Add(%m1, %eps)
%r1 = Sqrt(%a1)
%n1 = Div(%e, %r1)
%h1 = Mul(%n1, %g1) "norm1"
%q = MatMul(%h1, %wq) "q"
%qt = Transpose(%q) {perm = [0, 2, 1]}
%scores = MatMul(%q, %qt)
%weights = Softmax(%scores) {axis = -1}
%v = MatMul(%h1, %wv) "v"
%v4 = Reshape(%v, %heads)
%vh = Transpose(%v4) {perm = [0, 2, 1, 3]}
%mixed = MatMul(%weights, %vh)
%back = Transpose(%mixed) {perm = [0, 2, 1, 3]}
%joined = Reshape(%back, %flat)
%o = MatMul(%joined, %wo) "o"
%s = Add(%e, %o) "stream"
%p2 = Mul(%s, %s)
%m2 = ReduceMean(%p2) {axes = [-1]}
%a2 = Add(%m2, %eps)
%r2 = Sqrt(%a2)
%n2 = Div(%s, %r2)
%h2 = Mul(%g2, %n2) "norm2"
%g = MatMul(%h2, %wg) "gate"
%sg = Sigmoid(%g)
%u = MatMul(%h2, %wu) "up"
%gated = Mul(%sg, %u)
%d = MatMul(%gated, %wd) "down"
%t = Add(%s, %d) "stream2"
%y = MatMul(%t, %wh) "head"
output %y
)",
      after));
}

std::map<std::string, std::string> DetailsOf(const std::vector<RotatedLayer>& layers) {
  std::map<std::string, std::string> out;
  for (const RotatedLayer& layer : layers) out[layer.name] = layer.detail;
  return out;
}

TEST(WeightRotation, KeepsTheFunctionAndRotatesBefore) {
  const Graph graph = Block();
  std::vector<RotatedLayer> layers;
  const Graph rotated = RotateWeights(graph, {.always = true}, layers);
  VerifyGraph(rotated);
  EXPECT_GT(Snr(graph, rotated), 110);
  std::map<std::string, std::string> details = DetailsOf(layers);
  for (const char* name : {"q", "v", "gate", "up", "head"}) {
    EXPECT_TRUE(details[name].starts_with("rotated by 16 in the layers before")) << details[name];
  }
  // A head has 24 channels.
  EXPECT_TRUE(details["o"].starts_with("rotated by 8 in the layers before")) << details["o"];
  EXPECT_EQ(details["down"], "not rotated: 35 rows have no power of two as a divisor");
  EXPECT_TRUE(details["embed"].starts_with("rotated by 4 at run time")) << details["embed"];
  // The factors of the normalizations are in the products; only the input is rotated at run time.
  EXPECT_EQ(CountOps(rotated, "Mul"), CountOps(graph, "Mul") - 2);
  EXPECT_EQ(CountOps(rotated, "Reshape"), CountOps(graph, "Reshape") + 2);
  EXPECT_EQ(CountOps(rotated, "MatMul"), CountOps(graph, "MatMul") + 1);
}

TEST(WeightRotation, RotatesAtRunTimeWhereAnotherOperatorReadsTheStream) {
  const Graph graph = Block("%other = Relu(%s) \"relu\"\noutput %other\n");
  std::vector<RotatedLayer> layers;
  const Graph rotated = RotateWeights(graph, {.size = 16, .always = true}, layers);
  VerifyGraph(rotated);
  EXPECT_GT(Snr(graph, rotated), 110);
  std::map<std::string, std::string> details = DetailsOf(layers);
  EXPECT_TRUE(details["gate"].starts_with("rotated by 16 at run time")) << details["gate"];
  EXPECT_NE(details["gate"].find("Relu 'relu' does not commute"), std::string::npos);
  EXPECT_TRUE(details["o"].starts_with("rotated by 8 in the layers before")) << details["o"];
  // Both products that read a value share its rotation, and equal sizes share their matrix.
  EXPECT_EQ(CountOps(rotated, "MatMul"), CountOps(graph, "MatMul") + 4);
  int matrices = 0;
  for (const auto& value : rotated.values()) {
    matrices += value->is_constant() && IsRotation(value->constant);
  }
  EXPECT_EQ(matrices, 2);
  // Rotations stay float, and are no weights.
  FloatWeights left;
  const Graph quantized = QuantizeWeightsOnly(rotated, {.bits = 8, .block = 16}, &left);
  EXPECT_TRUE(left.layers.empty()) << left.Summary();
  EXPECT_GT(Snr(graph, quantized), 30);
}

TEST(WeightRotation, KeepsTheFunctionOfGemmAndFusedOperators) {
  const Graph graph = ParseGraph(StrCat(
      R"(graph "fused" opset 23
input %ids: int64[5]
)",
      Constant("table", {30, 32}, 1), Constant("g", {32}, 2, 1, 1), Constant("wk", {8, 32}, 3),
      Constant("wv", {32, 32}, 4), Constant("bv", {32}, 5), Constant("wo", {32, 32}, 6),
      Constant("bo", {32}, 7), Constant("wy", {9, 32}, 8), Constant("g2", {32}, 9, 1, 1), R"(
%e = Gather(%table, %ids) "embed"
%h = RMSNormalization(%e, %g) "norm"
%v = Gemm(%h, %wv, %bv) {alpha = 0.5} "v"
%k = Gemm(%h, %wk) {transB = 1} "k"
%kt = Transpose(%k) {perm = [1, 0]}
%s = MatMul(%k, %kt)
%w = Softmax(%s)
%m = MatMul(%w, %v)
%o = Gemm(%m, %wo, %bo) "o"
%t = Add(%e, %o) "stream"
%h2 = RMSNormalization(%t, %g2) "norm2"
%y = Gemm(%h2, %wy) {transB = 1} "y"
output %y
)"));
  std::vector<RotatedLayer> layers;
  const Graph rotated = RotateWeights(graph, {.always = true}, layers);
  VerifyGraph(rotated);
  for (const RotatedLayer& layer : layers) {
    EXPECT_TRUE(layer.detail.starts_with("rotated by 32 in the layers before")) << layer.detail;
  }
  const TensorMap feeds{{"ids", Tensor::Vector<int64_t>({3, 29, 0, 7, 3})}};
  const Tensor wanted = Interpret(graph, feeds)[0];
  const Tensor got = Interpret(rotated, feeds)[0];
  for (int64_t i = 0; i < wanted.count(); ++i) {
    EXPECT_NEAR(wanted.AsDouble(i), got.AsDouble(i), 1e-4);
  }
}

TEST(WeightRotation, LeavesSharedWeightsAndOutputsAlone) {
  const Graph graph = ParseGraph(StrCat(R"(graph "shared" opset 17
input %x: float32[4, 32]
)",
                                        Constant("w", {32, 32}, 1), Constant("u", {32, 32}, 2),
                                        Constant("z", {32, 32}, 3), R"(
%a = MatMul(%x, %w) "first"
%b = MatMul(%a, %w) "second"
%c = MatMul(%b, %u) "third"
%d = MatMul(%c, %z) "fourth"
output %c
output %d
)"));
  std::vector<RotatedLayer> layers;
  const Graph rotated = RotateWeights(graph, {.always = true}, layers);
  EXPECT_GT(Snr(graph, rotated), 110);
  std::map<std::string, std::string> details = DetailsOf(layers);
  EXPECT_EQ(details["first"], "not rotated: other operators read its weights");
  EXPECT_NE(details["third"].find("MatMul 'second' shares its weights"), std::string::npos);
  EXPECT_NE(details["fourth"].find("'c' is an output of the model"), std::string::npos);
}

TEST(WeightRotation, ChoosesByTheError) {
  // A row of large weights spoils no block of a column: k runs along blocks, and one of 16 rows
  // takes the scale of its block. White noise gains nothing.
  Tensor spiky = Noise(1).Make({64, 32}, 0.1F);
  for (int64_t n = 0; n < 32; ++n) {
    for (int64_t k = n % 16; k < 64; k += 16) spiky.data<float>()[k * 32 + n] *= 12;
  }
  Builder b;
  Value* x = b.Input("x", {3, 64});
  b.graph.AddOutput(b.Op("MatMul", {x, b.Const("a", spiky)}, "spiky"));
  b.graph.AddOutput(
      b.Op("MatMul", {b.Op("Relu", {x}, "r"), b.Const("b", Noise(2).Make({64, 32}))}, "noise"));
  std::vector<RotatedLayer> layers;
  const RotationOptions options{.weights = {.bits = 3, .block = 16}};
  const Graph rotated = RotateWeights(b.graph, options, layers);
  std::map<std::string, std::string> details = DetailsOf(layers);
  EXPECT_TRUE(details["spiky_node"].starts_with("rotated by 64 at run time"))
      << details["spiky_node"];
  EXPECT_TRUE(details["noise_node"].starts_with("not rotated, error ")) << details["noise_node"];
  EXPECT_GT(Snr(b.graph, rotated), 110);
  EXPECT_LT(layers[0].after, 0.9 * layers[0].before);
}

TEST(WeightRotation, RefusesOtherSizes) {
  std::vector<RotatedLayer> layers;
  for (const int64_t size : {0, 1, 24, 2048}) {
    EXPECT_THROW(RotateWeights(Block(), {.size = size}, layers), Error) << size;
  }
}

}  // namespace
}  // namespace requant
