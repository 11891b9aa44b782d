// Weights of two values are packed to one bit each: the results stay the same, with an eighth of
// the bytes.
#include "quant/weights/pack_weights.h"

#include <gtest/gtest.h>

#include <random>

#include "api/requant.h"
#include "base/str_cat.h"

namespace requant {
namespace {

std::string Choices(std::mt19937& random, int count, const std::vector<const char*>& values) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) {
    text += StrCat(i == 0 ? "" : ", ", values[random() % values.size()]);
  }
  return text + "}";
}

Tensor Noise(std::mt19937& random, const Value& input) {
  Tensor tensor(input.type.dtype, input.type.StaticShape());
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (tensor.dtype() == DType::kFloat32) {
      tensor.data<float>()[i] = std::uniform_real_distribution<float>(-2, 2)(random);
    } else {
      static_cast<uint8_t*>(tensor.raw())[i] = static_cast<uint8_t>(random());
    }
  }
  return tensor;
}

/// Compares the results before and after packing, and after a file and the optimizer. Returns the
/// bytes of the packed graph's constants.
size_t Check(const std::string& text, size_t most_bytes) {
  std::mt19937 random(3);
  const Graph source(ParseGraph(text));
  const Graph& graph = source;
  TensorMap feeds;
  for (const Value* input : graph.inputs()) feeds[input->name] = Noise(random, *input);
  const std::vector<Tensor> expected = Interpret(graph, feeds);
  const Graph packed = PackWeights(source);
  const Tensor result = Interpret(packed, feeds)[0];
  for (int64_t i = 0; i < result.count(); ++i) {
    EXPECT_NEAR(result.AsDouble(i), expected[0].AsDouble(i), 1e-4) << i;
  }
  size_t bytes = 0;
  for (const auto& value : packed.values()) {
    if (value->is_constant()) bytes += value->constant.bytes();
  }
  EXPECT_LE(bytes, most_bytes);
  const auto run = [&](const Graph& source) {
    const Graph clone(source.Clone());
    Session session(PrepareForRun(std::move(clone)), {});
    return session.Run(feeds)[0];
  };
  EXPECT_TRUE(run(packed).SameBits(run(graph)));
  return packed.nodes().size() - graph.nodes().size();
}

TEST(PackWeights, IntegersOfTwoValues) {
  std::mt19937 random(1);
  for (const auto& [type, low, high] :
       {std::tuple{"int8", "-1", "1"}, {"uint8", "3", "7"}, {"int8", "-128", "127"}}) {
    for (const int channels : {33, 64}) {  // 33 * 7 * 9 is no multiple of 8
      const std::string text = StrCat(
          "graph \"\" opset 13\ninput %x: uint8[2, 7, 5, 5]\nconst %w: ", type, "[", channels,
          ", 7, 3, 3] = ", Choices(random, channels * 63, {low, high}),
          "\nconst %s: float32[] = {1.0}\nconst %ys: float32[] = {900.0}\nconst %z: uint8[] = "
          "{100}\nconst %wz: ",
          type, "[] = {0}\n%y = QLinearConv(%x, %s, %z, %w, %s, %wz, %ys, %z)\noutput %y\n");
      EXPECT_EQ(Check(text, static_cast<size_t>(channels * 63 / 8 + 150)),
                channels == 33 ? 7U : 5U);
    }
  }
}

TEST(PackWeights, FloatsOfTwoValuesAndNoOthers) {
  std::mt19937 random(2);
  const std::string head =
      "graph \"\" opset 13\ninput %x: float32[3, 40]\nconst %w: float32[40, 30] = ";
  const std::string tail = "\n%y = MatMul(%x, %w)\noutput %y\n";
  EXPECT_EQ(Check(head + Choices(random, 1200, {"-0.25", "0.25"}) + tail, 300), 5U);
  EXPECT_EQ(Check(head + Choices(random, 1200, {"0.0", "-0.0"}) + tail, 300), 5U);
  EXPECT_EQ(Check(head + Choices(random, 1200, {"-0.25", "0.0", "0.25"}) + tail, 4900), 0U);
  EXPECT_EQ(Check(head + Choices(random, 1200, {"0.5"}) + tail, 4900), 0U);
}

TEST(PackWeights, BipolarWeightsOfQonnx) {
  std::mt19937 random(4);
  const std::string text =
      "graph \"\" opset 13, qonnx.custom_op.general 1\ninput %x: float32[3, 40]\n"
      "const %w: float32[40, 32] = " +
      Choices(random, 1280, {"-0.3", "0.7", "1.5", "-2.0"}) +
      "\nconst %one: float32[] = {1.0}\nconst %zero: float32[] = {0.0}\nconst %two: float32[] = "
      "{2.0}\n%q = qonnx.custom_op.general::Quant(%x, %one, %zero, %two) {signed = 1, narrow = 0, "
      "rounding_mode = \"ROUND\"}\n%b = qonnx.custom_op.general::BipolarQuant(%w, %one)\n"
      "%y = MatMul(%q, %b)\noutput %y\n";
  Check(text, 700);
}

TEST(PackWeights, OldFilesAreRefused) {
  const Graph graph =
      ParseGraph("graph \"\" opset 11\ninput %x: float32[3]\n%y = Abs(%x)\noutput %y\n");
  try {
    PackTwoValues(graph);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace requant
