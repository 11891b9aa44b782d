// Operators of ops/recurrent, detection, einsum, signal, unique, bitwise, tf_idf, loss, qonnx and
// function: cases with known answers beyond ONNX's own test data.
#include "ir/text.h"
#include "ops/control/subgraph.h"
#include "run_op.h"

namespace requant {
namespace {

// --- recurrent

constexpr float kTanh1 = 0.76159416F;

TEST(Recurrent, ReverseStartsAtTheLastStepOfEachSequence) {
  // h = tanh(x + h): hidden size 1, weights 1.
  const Tensor x = Floats({1, 0, 0, 0, 0, 1}, {3, 2, 1});  // sequences 1 0 0 and 0 0 1
  const Tensor one = Floats({1}, {1, 1, 1});
  const Tensor lengths = Tensor::Vector<int32_t>({3, 1});
  const std::vector<Tensor> out =
      RunOutputs({.op = "RNN", .outputs = 2}, {x, one, one, Tensor(), lengths},
                 {{"hidden_size", Int(1)}, {"direction", Text("reverse")}});
  const double deep = std::tanh(1 + 0.0);
  ExpectTensor(out[0], {3, 1, 2, 1}, {deep, 0, 0, 0, 0, 0}, 1e-6);
  ExpectTensor(out[1], {1, 2, 1}, {kTanh1, 0}, 1e-6);
}

TEST(Recurrent, LayoutOneIsTheSameTransposed) {
  const Tensor x = Noise({4, 3, 2}, 1);  // steps, batch, input
  const Tensor w = Noise({2, 12, 2}, 2), r = Noise({2, 12, 3}, 3), b = Noise({2, 24}, 4);
  const std::vector<AttributeMap::Entry> both = {{"hidden_size", Int(3)},
                                                 {"direction", Text("bidirectional")}};
  const std::vector<Tensor> plain = RunOutputs({.op = "LSTM", .outputs = 3}, {x, w, r, b}, both);
  Tensor swapped(DType::kFloat32, {3, 4, 2});
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t n = 0; n < 3; ++n) {
      for (int64_t i = 0; i < 2; ++i) {
        swapped.data<float>()[(n * 4 + t) * 2 + i] = x.data<float>()[(t * 3 + n) * 2 + i];
      }
    }
  }
  std::vector<AttributeMap::Entry> first = both;
  first.emplace_back("layout", Int(1));
  const std::vector<Tensor> batched =
      RunOutputs({.op = "LSTM", .opset = 14, .outputs = 3}, {swapped, w, r, b}, first);
  EXPECT_EQ(batched[0].shape(), (Shape{3, 4, 2, 3}));
  EXPECT_EQ(batched[2].shape(), (Shape{3, 2, 3}));
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t d = 0; d < 2; ++d) {
      for (int64_t n = 0; n < 3; ++n) {
        for (int64_t h = 0; h < 3; ++h) {
          EXPECT_EQ(batched[0].data<float>()[((n * 4 + t) * 2 + d) * 3 + h],
                    plain[0].data<float>()[((t * 2 + d) * 3 + n) * 3 + h]);
        }
      }
    }
  }
}

TEST(Recurrent, NamedActivationsAndClip) {
  const Tensor x = Floats({10}, {1, 1, 1});
  const Tensor one = Floats({1}, {1, 1, 1});
  const auto run = [&](std::vector<AttributeMap::Entry> attributes) {
    attributes.emplace_back("hidden_size", Int(1));
    return RunOp({.op = "RNN"}, {x, one, one}, std::move(attributes)).data<float>()[0];
  };
  const Attribute affine = std::vector<std::string>{"Affine"};
  EXPECT_EQ(run({{"activations", affine},
                 {"activation_alpha", std::vector<float>{2}},
                 {"activation_beta", std::vector<float>{1}}}),
            21);
  EXPECT_EQ(run({{"activations", affine}, {"clip", 3.0F}}), 3);
  EXPECT_EQ(CodeOf([&] {
              run({{"activations", std::vector<std::string>{"Sinus"}}});
            }),
            ErrorCode::kUnsupported);
}

TEST(Recurrent, ShapesFollowFromTheWeights) {
  const ValueType x = FloatType({Named("T"), Named("N"), 5});
  EXPECT_EQ(Infer({.op = "GRU"}, {x, FloatType({1, 12, 5}), FloatType({1, 12, 4})}),
            "float32[T, 1, N, 4]");
  EXPECT_EQ(CodeOf([&] {
              Infer({.op = "GRU"}, {x, FloatType({1, 12, 5}), FloatType({1, 16, 4})});
            }),
            ErrorCode::kShapeMismatch);
}

// --- detection

TEST(GridSample, ReflectionAndBorder) {
  const Tensor x = Floats({0, 1, 2, 3}, {1, 1, 1, 4});
  // With aligned corners -1 and 1 are the first and the last pixel; 5/3 lies one pixel further.
  const Tensor grid = Floats({5.0F / 3, 0}, {1, 1, 1, 2});
  const auto at = [&](const char* padding) {
    return RunOp({.op = "GridSample", .opset = 16}, {x, grid},
                 {{"align_corners", Int(1)}, {"padding_mode", Text(padding)}})
        .data<float>()[0];
  };
  EXPECT_NEAR(at("zeros"), 0, 1e-5);
  EXPECT_NEAR(at("border"), 3, 1e-5);
  EXPECT_NEAR(at("reflection"), 2, 1e-5);
}

TEST(NonMaxSuppression, NothingIsSelectedWithoutARoom) {
  const Tensor boxes = Floats({0, 0, 1, 1}, {1, 1, 4});
  const Tensor scores = Floats({0.9F}, {1, 1, 1});
  const Tensor none = RunOp({.op = "NonMaxSuppression"}, {boxes, scores});
  EXPECT_EQ(none.shape(), (Shape{0, 3}));
  const Tensor one =
      RunOp({.op = "NonMaxSuppression"}, {boxes, scores, Tensor::Scalar<int64_t>(4)});
  EXPECT_EQ(one.ToInts(), (std::vector<int64_t>{0, 0, 0}));
}

// --- Einsum

TEST(Einsum, EllipsisDiagonalAndImplicitOutput) {
  const Tensor a = Noise({2, 3, 4}, 1);
  const Tensor b = Noise({4, 5}, 2);
  const Tensor product = RunOp({.op = "Einsum"}, {a, b}, {{"equation", Text("...j,jk->...k")}});
  const Tensor wanted = RunOp({.op = "MatMul"}, {a, b});
  ExpectTensor(product, {2, 3, 5}, wanted.ToDoubles(), 1e-6);
  const Tensor m = Floats({1, 2, 3, 4}, {2, 2});
  ExpectTensor(RunOp({.op = "Einsum"}, {m}, {{"equation", Text("ii")}}), {}, {5});
  ExpectTensor(RunOp({.op = "Einsum"}, {m}, {{"equation", Text("ij -> ji")}}), {2, 2},
               {1, 3, 2, 4});
  ExpectTensor(RunOp({.op = "Einsum"}, {m}, {{"equation", Text("ba")}}), {2, 2}, {1, 3, 2, 4});
  EXPECT_EQ(CodeOf([&] {
              RunOp({.op = "Einsum"}, {m}, {{"equation", Text("ijk->i")}});
            }),
            ErrorCode::kInvalidModel);
  EXPECT_EQ(Infer({.op = "Einsum"},
                  {FloatType({Named("B"), 3, 4}), FloatType({Named("B"), 4, Named("K")})},
                  {{"equation", Text("bij,bjk->bik")}}),
            "float32[B, 3, K]");
}

// --- bits

TEST(Bitwise, EveryWidth) {
  const Tensor a = Tensor::Vector<int8_t>({-128, 5, 127});
  const Tensor b = Tensor::Vector<int8_t>({-1, 3, 1});
  const auto run = [&](const char* op) { return RunOp({.op = op, .opset = 18}, {a, b}).ToInts(); };
  EXPECT_EQ(run("BitwiseAnd"), (std::vector<int64_t>{-128, 1, 1}));
  EXPECT_EQ(run("BitwiseOr"), (std::vector<int64_t>{-1, 7, 127}));
  EXPECT_EQ(run("BitwiseXor"), (std::vector<int64_t>{127, 6, 126}));
  EXPECT_EQ(RunOp({.op = "BitwiseNot", .opset = 18}, {a}).ToInts(),
            (std::vector<int64_t>{127, -6, -128}));
}

TEST(PackedTypes, TwoBitsFourToAByte) {
  Tensor zero(DType::kInt2, {});
  const Tensor x = Floats({-3, -2, -1, 0, 1, 2, 0.6F});
  const Tensor q = RunOp({.op = "QuantizeLinear", .opset = 25}, {x, Tensor::Scalar(1.0F), zero});
  EXPECT_EQ(q.dtype(), DType::kInt2);
  EXPECT_EQ(q.bytes(), 2U);
  EXPECT_EQ(q.ToInts(), (std::vector<int64_t>{-2, -2, -1, 0, 1, 1, 1}));
  const Tensor back =
      RunOp({.op = "DequantizeLinear", .opset = 25}, {q, Tensor::Scalar(0.5F), zero});
  ExpectTensor(back, {7}, {-1, -1, -0.5, 0, 0.5, 0.5, 0.5});
  Graph graph;
  graph.opsets[""] = 25;
  graph.AddOutput(graph.AddOp("Identity", "", {graph.AddConstant("c", q)}, "y", {}));
  const std::string text = PrintGraph(graph);
  EXPECT_EQ(PrintGraph(ParseGraph(text)), text);
}

TEST(PackedTypes, BlocksOfFourBits) {
  const Tensor codes = Tensor::FromVector<int8_t>({1, 2, 3, 4, -8, 7, 0, -1}, {4, 2});
  const Tensor q = RunOp({.op = "Cast", .opset = 21}, {codes}, {{"to", Int(22)}});
  const Tensor scales = Floats({1, 2, 10, 20}, {2, 2});
  const Tensor out = RunOp({.op = "DequantizeLinear", .opset = 21}, {q, scales},
                           {{"axis", Int(0)}, {"block_size", Int(2)}});
  ExpectTensor(out, {4, 2}, {1, 4, 3, 8, -80, 140, 0, -20});
}

// --- QONNX

double Quantized(double x, double scale, double zero, double bits,
                 std::vector<AttributeMap::Entry> attributes) {
  return RunOp({.op = "Quant", .opset = 1, .domain = "qonnx.custom_op.general"},
               {Floats({static_cast<float>(x)}), Tensor::Scalar(static_cast<float>(scale)),
                Tensor::Scalar(static_cast<float>(zero)), Tensor::Scalar(static_cast<float>(bits))},
               std::move(attributes))
      .AsDouble(0);
}

TEST(Qonnx, RoundingModes) {
  const auto at = [](double x, const char* mode) {
    return Quantized(x, 1, 0, 8, {{"signed", Int(1)}, {"rounding_mode", Text(mode)}});
  };
  for (const auto& [mode, wanted] :
       std::vector<std::pair<const char*, std::vector<double>>>{{"ROUND", {2, 2, -2}},
                                                                {"CEIL", {2, 3, -1}},
                                                                {"FLOOR", {1, 2, -2}},
                                                                {"UP", {2, 3, -2}},
                                                                {"DOWN", {1, 2, -1}},
                                                                {"HALF_UP", {2, 3, -2}},
                                                                {"HALF_DOWN", {1, 2, -1}}}) {
    EXPECT_EQ(at(1.5, mode), wanted[0]) << mode;
    EXPECT_EQ(at(2.5, mode), wanted[1]) << mode;
    EXPECT_EQ(at(-1.5, mode), wanted[2]) << mode;
  }
  EXPECT_EQ(CodeOf([&] { at(1, "SIDEWAYS"); }), ErrorCode::kUnsupported);
}

TEST(Qonnx, Ranges) {
  const auto limit = [](double x, double bits, int64_t is_signed, int64_t narrow) {
    return Quantized(x, 1, 0, bits, {{"signed", Int(is_signed)}, {"narrow", Int(narrow)}});
  };
  EXPECT_EQ(limit(100, 3, 1, 0), 3);
  EXPECT_EQ(limit(-100, 3, 1, 0), -4);
  EXPECT_EQ(limit(-100, 3, 1, 1), -3);
  EXPECT_EQ(limit(100, 3, 0, 0), 7);
  EXPECT_EQ(limit(100, 3, 0, 1), 6);
  EXPECT_EQ(limit(-100, 3, 0, 0), 0);
  EXPECT_EQ(limit(-0.25, 1, 1, 1), -1);
  EXPECT_EQ(limit(0, 1, 1, 1), 1);
  EXPECT_EQ(Quantized(1.3, 0.5, 2, 4, {{"signed", Int(0)}}), 1.5);
}

TEST(Qonnx, BipolarAndTrunc) {
  ExpectTensor(RunOp({.op = "BipolarQuant", .opset = 1, .domain = "onnx.brevitas"},
                     {Floats({-2, 0, 3}), Tensor::Scalar(0.5F)}),
               {3}, {-0.5, 0.5, 0.5});
  const auto scalar = [](float value) { return Tensor::Scalar(value); };
  // From 8 to 4 bits: the lowest 4 are dropped.
  ExpectTensor(RunOp({.op = "Trunc", .opset = 1, .domain = "qonnx.custom_op.general"},
                     {Floats({100, 15, -1}), scalar(1), scalar(0), scalar(8), scalar(4)}),
               {3}, {6, 0, -1});
  // With an output scale the result is clamped to the output's range.
  ExpectTensor(
      RunOp({.op = "Trunc", .opset = 2, .domain = "qonnx.custom_op.general"},
            {Floats({100, 15, -1}), scalar(1), scalar(0), scalar(8), scalar(16), scalar(3)},
            {{"signed", Int(1)}}),
      {3}, {48, 0, -16});
}

// --- functions

/// The function's body on constants against the formula.
TEST(Functions, MatMulNBitsUnpacksBlocks) {
  // K 4, N 2, blocks of 2: codes 0..15 in nibbles, zero point 8 unless given.
  const Tensor b = Tensor::FromVector<uint8_t>({0x98, 0x0f, 0x88, 0x17}, {2, 2, 1});
  const Tensor scales = Floats({1, 2, 10, 20});
  const Tensor a = Floats({1, 1, 1, 1}, {1, 4});
  const std::vector<AttributeMap::Entry> form = {
      {"K", Int(4)}, {"N", Int(2)}, {"bits", Int(4)}, {"block_size", Int(2)}};
  const OpCase op{.op = "MatMulNBits", .opset = 1, .domain = kMicrosoftDomain};
  // column 0: (8-8) (9-8) | (15-8)*2 (0-8)*2; column 1: 0 0 | (7-8)*20 (1-8)*20
  ExpectTensor(RunOp(op, {a, b, scales}, form), {1, 2}, {1 + 14 - 16, -20 - 140});
  const Tensor zeros = Tensor::Vector<uint8_t>({0x09, 0x10});  // 9, 0 and 0, 1
  ExpectTensor(RunOp(op, {a, b, scales, zeros}, form), {1, 2}, {-1 + 0 + 30, 80 + 80 + 120});
}

TEST(Functions, FusedMatMulTransposes) {
  const Tensor a = Noise({2, 4, 3}, 1), b = Noise({2, 5, 4}, 2);
  const Tensor got = RunOp({.op = "FusedMatMul", .opset = 1, .domain = kMicrosoftDomain}, {a, b},
                           {{"transA", Int(1)}, {"transB", Int(1)}, {"alpha", 2.0F}});
  const Tensor wanted = RunOp({.op = "Einsum"}, {a, b}, {{"equation", Text("bki,bjk->bij")}});
  std::vector<double> doubled = wanted.ToDoubles();
  for (double& value : doubled) value *= 2;
  ExpectTensor(got, {2, 3, 5}, doubled, 1e-5);
  const OpCase old{.op = "TransposeMatMul", .opset = 1, .domain = kMicrosoftDomain};
  EXPECT_TRUE(
      RunOp(old, {a, b}, {{"transA", Int(1)}, {"transB", Int(1)}, {"alpha", 2.0F}}).SameBits(got));
  // a [rows, batch, columns]
  const Tensor batches = RunOp({.op = "FusedMatMul", .opset = 1, .domain = kMicrosoftDomain},
                               {Noise({4, 2, 3}, 1), Noise({3, 2, 5}, 2)},
                               {{"transBatchA", Int(1)}, {"transBatchB", Int(1)}});
  const Tensor einsum = RunOp({.op = "Einsum"}, {Noise({4, 2, 3}, 1), Noise({3, 2, 5}, 2)},
                              {{"equation", Text("ibk,kbj->bij")}});
  ExpectTensor(batches, {2, 4, 5}, einsum.ToDoubles(), 1e-5);
}

TEST(Functions, SkipLayerNormalizationGivesTheSum) {
  const Tensor x = Noise({1, 2, 4}, 1), skip = Noise({1, 2, 4}, 2);
  const Tensor gamma = Floats({1, 2, 3, 4}), beta = Floats({0, 1, 0, 1});
  Graph graph;
  graph.opsets = {{"", 17}, {kMicrosoftDomain, 1}};
  std::vector<Value*> inputs;
  std::vector<const Tensor*> tensors = {&x, &skip, &gamma, &beta};
  for (const Tensor* tensor : tensors) inputs.push_back(graph.AddConstant("in", *tensor));
  Node* node = graph.AddNode("SkipLayerNormalization", kMicrosoftDomain, inputs,
                             {graph.AddValue("y"), nullptr, nullptr, graph.AddValue("sum")});
  InferNode(graph, *node);
  const std::vector<Tensor> out = EvaluateNode(graph, *node, tensors, RequantizeMode::kFloat);
  Tensor sum(DType::kFloat32, x.shape());
  for (int64_t i = 0; i < x.count(); ++i) {
    sum.data<float>()[i] = x.data<float>()[i] + skip.data<float>()[i];
  }
  EXPECT_TRUE(out[3].SameBits(sum));
  const Tensor wanted =
      RunOp({.op = "LayerNormalization", .opset = 17}, {sum, gamma, beta}, {{"epsilon", 1e-12F}});
  ExpectTensor(out[0], x.shape(), wanted.ToDoubles(), 1e-6);
}

TEST(Functions, WhatCannotBeSpelledOutIsRefused) {
  const Tensor x = Noise({1, 2, 4}, 1), w = Noise({4, 12}, 2);
  const OpCase op{.op = "Attention", .opset = 1, .domain = kMicrosoftDomain};
  EXPECT_EQ(RunOp(op, {x, w}, {{"num_heads", Int(2)}}).shape(), (Shape{1, 2, 4}));
  const auto code = [&](const char* attribute) {
    return CodeOf([&] { RunOp(op, {x, w}, {{"num_heads", Int(2)}, {attribute, Int(1)}}); });
  };
  EXPECT_EQ(code("do_rotary"), ErrorCode::kUnsupported);
  EXPECT_EQ(code("past_present_share_buffer"), ErrorCode::kInvalidModel);
}

TEST(Functions, RmsNormalization) {
  const Tensor x = Floats({3, 4}, {1, 2});
  const double scale = 1 / std::sqrt(12.5);
  ExpectTensor(
      RunOp({.op = "RMSNormalization", .opset = 23}, {x, Floats({1, 2})}, {{"epsilon", 0.0F}}),
      {1, 2}, {3 * scale, 8 * scale}, 1e-6);
}

}  // namespace
}  // namespace requant
