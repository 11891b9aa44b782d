// Operators of ai.onnx.ml, random numbers and packed weights: known answers and refusals.
#include <gtest/gtest.h>

#include "ops/ml/scores.h"
#include "ops/random/generator.h"
#include "ops/run_op.h"

namespace requant {
namespace {

const OpCase kMl(const std::string& op, size_t outputs = 1) { return {op, 3, kMlDomain, outputs}; }

Attribute Reals(std::vector<float> values) { return values; }
Attribute Strings(std::vector<std::string> values) { return values; }

TEST(Ml, ScalerOffsetsAndScalesColumns) {
  const Tensor y = RunOp(kMl("Scaler"), {Floats({1, 2, 3, 4}, {2, 2})},
                         {{"offset", Reals({1, 0})}, {"scale", Reals({2, 10})}});
  ExpectTensor(y, {2, 2}, {0, 20, 4, 40});
  EXPECT_EQ(CodeOf([] {
              RunOp(kMl("Scaler"), {Floats({1, 2}, {1, 2})}, {{"scale", Reals({1, 2, 3})}});
            }),
            ErrorCode::kShapeMismatch);
}

/// One tree: x0 <= 1 ? 10 : (x1 <= 2 ? 20 : 30).
std::vector<AttributeMap::Entry> Tree(const std::string& kind,
                                      const std::string& modes = "BRANCH_LEQ") {
  return {{"nodes_treeids", Ints({0, 0, 0, 0, 0})},
          {"nodes_nodeids", Ints({0, 1, 2, 3, 4})},
          {"nodes_featureids", Ints({0, 0, 1, 0, 0})},
          {"nodes_values", Reals({1, 0, 2, 0, 0})},
          {"nodes_modes", Strings({modes, "LEAF", modes, "LEAF", "LEAF"})},
          {"nodes_truenodeids", Ints({1, 0, 3, 0, 0})},
          {"nodes_falsenodeids", Ints({2, 0, 4, 0, 0})},
          {kind + "_treeids", Ints({0, 0, 0})},
          {kind + "_nodeids", Ints({1, 3, 4})},
          {kind + "_ids", Ints({0, 0, 0})},
          {kind + "_weights", Reals({10, 20, 30})}};
}

TEST(Ml, TreesWalkToTheirLeaves) {
  const Tensor x = Floats({1, 9, 2, 2, 2, 3}, {3, 2});
  ExpectTensor(RunOp(kMl("TreeEnsembleRegressor"), {x}, Tree("target")), {3, 1}, {10, 20, 30});
  // The newer form of the same tree, whose leaves have a list of their own.
  OpCase newer = kMl("TreeEnsemble");
  newer.opset = 5;
  const Tensor modes = Tensor::FromVector<uint8_t>({0, 0}, {2});
  const Tensor y = RunOp(newer, {x},
                         {{"nodes_featureids", Ints({0, 1})},
                          {"nodes_splits", Floats({1, 2})},
                          {"nodes_modes", modes},
                          {"nodes_truenodeids", Ints({0, 1})},
                          {"nodes_falsenodeids", Ints({1, 2})},
                          {"nodes_trueleafs", Ints({1, 1})},
                          {"nodes_falseleafs", Ints({0, 1})},
                          {"leaf_targetids", Ints({0, 0, 0})},
                          {"leaf_weights", Floats({10, 20, 30})},
                          {"tree_roots", Ints({0})}});
  ExpectTensor(y, {3, 1}, {10, 20, 30});
  // A set of members ends at a NaN.
  const Tensor member = Tensor::FromVector<uint8_t>({6}, {1});
  const Tensor sets = RunOp(newer, {Floats({1, 2, 3}, {3, 1})},
                            {{"nodes_featureids", Ints({0})},
                             {"nodes_splits", Floats({0})},
                             {"nodes_modes", member},
                             {"nodes_truenodeids", Ints({0})},
                             {"nodes_falsenodeids", Ints({1})},
                             {"nodes_trueleafs", Ints({1})},
                             {"nodes_falseleafs", Ints({1})},
                             {"leaf_targetids", Ints({0, 0})},
                             {"leaf_weights", Floats({5, 7})},
                             {"membership_values", Floats({1, 3, NAN})},
                             {"tree_roots", Ints({0})}});
  ExpectTensor(sets, {3, 1}, {5, 7, 5});
}

TEST(Ml, BrokenTreesAreRefused) {
  const auto refused = [](const std::string& name, Attribute value) {
    std::vector<AttributeMap::Entry> tree = Tree("target");
    for (auto& entry : tree) {
      if (entry.first == name) entry.second = value;
    }
    return CodeOf([&] { RunOp(kMl("TreeEnsembleRegressor"), {Floats({1, 2}, {1, 2})}, tree); });
  };
  EXPECT_EQ(refused("nodes_truenodeids", Ints({0, 0, 3, 0, 0})),
            ErrorCode::kInvalidModel);  // cycle
  EXPECT_EQ(refused("nodes_truenodeids", Ints({9, 0, 3, 0, 0})), ErrorCode::kInvalidModel);
  EXPECT_EQ(refused("nodes_featureids", Ints({0, 0, 7, 0, 0})), ErrorCode::kShapeMismatch);
  EXPECT_EQ(refused("nodes_featureids", Ints({0, 0, -1, 0, 0})), ErrorCode::kInvalidModel);
  EXPECT_EQ(refused("target_ids", Ints({0, 0, 1})), ErrorCode::kInvalidModel);
  EXPECT_EQ(refused("target_ids", Ints({0, 0})), ErrorCode::kInvalidModel);
  EXPECT_EQ(refused("nodes_modes", Strings({"NO", "LEAF", "LEAF", "LEAF", "LEAF"})),
            ErrorCode::kInvalidModel);
}

TEST(Ml, TheLargestScoreIsTheLabelOfTwoClasses) {
  std::vector<AttributeMap::Entry> tree = Tree("class");
  for (auto& [name, value] : tree) {
    if (name == "class_treeids") value = Ints({0, 0, 0, 0});
    if (name == "class_nodeids") value = Ints({1, 1, 3, 4});
    if (name == "class_ids") value = Ints({0, 1, 0, 1});
    if (name == "class_weights") value = Reals({0.9F, 0.1F, 0.5F, 0.5F});
  }
  tree.emplace_back("classlabels_int64s", Ints({5, 8}));
  const std::vector<Tensor> y =
      RunOutputs(kMl("TreeEnsembleClassifier", 2), {Floats({1, 0, 2, 3}, {2, 2})}, tree);
  EXPECT_EQ(y[0].ToInts(), (std::vector<int64_t>{5, 8}));
  ExpectTensor(y[1], {2, 2}, {0.9, 0.1, 0, 0.5}, 1e-6);
}

TEST(Ml, StringsMeetStringsOnly) {
  const auto code = [](const std::string& op, std::vector<AttributeMap::Entry> attributes) {
    return CodeOf([&] { RunOp(kMl(op), {Floats({1, 2}, {1, 2})}, std::move(attributes)); });
  };
  EXPECT_EQ(code("LabelEncoder", {{"keys_strings", Strings({"a"})}, {"values_int64s", Ints({1})}}),
            ErrorCode::kTypeMismatch);
  EXPECT_EQ(code("LabelEncoder", {{"keys_int64s", Ints({1})}}), ErrorCode::kInvalidModel);
  EXPECT_EQ(code("OneHotEncoder", {{"cats_strings", Strings({"a"})}}), ErrorCode::kTypeMismatch);
  EXPECT_EQ(code("ZipMap", {{"classlabels_strings", Strings({"a"})}}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code("ZipMap", {{"classlabels_strings", Ints({1, 2})}}), ErrorCode::kInvalidModel);
}

// --- random numbers

TEST(RandomNumbers, AreThoseOfPhilox) {
  // Random123's known answers of philox4x32-10 for a counter and a key of zeros.
  RandomStream stream(0, 0);
  for (const uint32_t want : {0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}) {
    EXPECT_EQ(stream.Bits(), want);
  }
}

TEST(RandomNumbers, NormalOnesInvertTheDistribution) {
  // Quantiles of the standard normal distribution.
  EXPECT_EQ(InverseNormal(0.5), 0);
  EXPECT_NEAR(InverseNormal(0.975), 1.959963984540054, 1e-14);
  EXPECT_NEAR(InverseNormal(0.01), -2.3263478740408408, 1e-14);
  EXPECT_NEAR(InverseNormal(1e-9), -5.997807015007686, 1e-13);
  EXPECT_NEAR(InverseNormal(1e-12), -7.034483825301131, 1e-13);
  EXPECT_NEAR(PortableExp(-1), 0.36787944117144233, 1e-16);
  EXPECT_EQ(PortableExp(0), 1);
  EXPECT_EQ(PortableExp(-800), 0);
}

TEST(RandomNumbers, SeedsRepeatThemAndNothingElseDoes) {
  const auto draw = [](const std::string& op, std::vector<AttributeMap::Entry> attributes) {
    attributes.emplace_back("shape", Ints({1000}));
    return RunOp({op}, {}, std::move(attributes));
  };
  const Tensor one = draw("RandomNormal", {{"seed", 1.0F}, {"mean", 3.0F}, {"scale", 2.0F}});
  EXPECT_TRUE(
      one.SameBits(draw("RandomNormal", {{"seed", 1.0F}, {"mean", 3.0F}, {"scale", 2.0F}})));
  double sum = 0;
  double squares = 0;
  for (const float x : one.ToFloats()) {
    sum += x;
    squares += (x - 3) * (x - 3);
  }
  EXPECT_NEAR(sum / 1000, 3, 0.2);
  EXPECT_NEAR(squares / 1000, 4, 0.5);
  EXPECT_FALSE(draw("RandomNormal", {}).SameBits(draw("RandomNormal", {})));
  for (const float x : draw("RandomUniform", {{"low", -1.0F}, {"high", 2.0F}}).ToFloats()) {
    EXPECT_TRUE(x >= -1 && x < 2);
  }
  const Tensor like = RunOp({"RandomUniformLike"}, {Noise({3, 4}, 1)}, {{"dtype", Int(11)}});
  EXPECT_EQ(like.dtype(), DType::kFloat64);
  EXPECT_EQ(like.shape(), (Shape{3, 4}));
}

TEST(RandomNumbers, SamplesFollowTheirProbabilities) {
  const Tensor p = Floats({0, 1, 0.25F, 0.25F}, {4});
  const std::vector<double> drawn = RunOp({"Bernoulli", 15}, {p}).ToDoubles();
  EXPECT_EQ(drawn[0], 0);
  EXPECT_EQ(drawn[1], 1);
  const Tensor classes = RunOp({"Multinomial"}, {Floats({0, std::log(3.0F), -INFINITY}, {1, 3})},
                               {{"sample_size", Int(4000)}, {"seed", 7.0F}});
  EXPECT_EQ(classes.dtype(), DType::kInt32);
  std::vector<int> counts(3);
  for (const int64_t index : classes.ToInts()) ++counts[static_cast<size_t>(index)];
  EXPECT_NEAR(counts[1], 3000, 120);
  EXPECT_EQ(counts[2], 0);
  EXPECT_EQ(CodeOf([] { RunOp({"RandomNormal"}, {}, {}); }), ErrorCode::kInvalidModel);
}

// --- others

TEST(PackedWeights, GroupsNameTheirScalesAndZeroPoints) {
  // Two blocks of 16; rows alternate between them.
  std::vector<uint8_t> codes(16, 0x99);
  std::vector<int32_t> groups;
  for (int i = 0; i < 32; ++i) groups.push_back(i % 2);
  const OpCase unpack = {"UnpackBits", 1, kRequantDomain};
  const std::vector<AttributeMap::Entry> form = {
      {"K", Int(32)}, {"N", Int(1)}, {"bits", Int(4)}, {"block_size", Int(16)}};
  const auto run = [&](const std::vector<int32_t>& g) {
    return RunOp(unpack,
                 {Tensor::FromVector(codes, {1, 2, 8}), Floats({1, 10}),
                  Tensor::FromVector<uint8_t>({0x58}, {1}), Tensor::Vector(g)},
                 form)
        .ToFloats();
  };
  const std::vector<float> w = run(groups);
  EXPECT_EQ(w[0], 1);   // (9 - 8) * 1
  EXPECT_EQ(w[1], 40);  // (9 - 5) * 10
  EXPECT_EQ(w[31], 40);
  groups[3] = 2;
  EXPECT_EQ(CodeOf([&] { run(groups); }), ErrorCode::kInvalidModel);
  groups.resize(31);
  EXPECT_EQ(CodeOf([&] { run(groups); }), ErrorCode::kShapeMismatch);
}

TEST(CumProd, MultipliesAlongAnAxis) {
  const Tensor x = Floats({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor axis = Tensor::Scalar<int64_t>(1);
  ExpectTensor(RunOp({"CumProd", 26}, {x, axis}), {2, 3}, {1, 2, 6, 4, 20, 120});
  ExpectTensor(RunOp({"CumProd", 26}, {x, axis}, {{"exclusive", Int(1)}, {"reverse", Int(1)}}),
               {2, 3}, {6, 3, 1, 30, 6, 1});
  ExpectTensor(RunOp({"CumProd", 26}, {x, Tensor::Scalar<int64_t>(0)}), {2, 3},
               {1, 2, 3, 4, 10, 18});
}

TEST(BitCast, KeepsBits) {
  const Tensor y = RunOp({"BitCast", 26}, {Floats({1, -2})}, {{"to", Int(6)}});
  EXPECT_EQ(y.ToInts(), (std::vector<int64_t>{0x3f800000, static_cast<int32_t>(0xc0000000)}));
  EXPECT_EQ(CodeOf([] {
              RunOp({"BitCast", 26}, {Floats({1})}, {{"to", Int(7)}});
            }),
            ErrorCode::kInvalidModel);
}

}  // namespace
}  // namespace requant
