// Packed weights are held once: by the plans of all shapes, by sessions of one model, and by layers
// with equal weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "session/session.h"
#include "support/random_text.h"

namespace requant {
namespace {

using testing::Numbers;

/// Two layers of `channels` channels behind each other, with open shapes; the second one has the
/// weights of the first if `tied`.
std::string Layers(int channels, bool tied, int seed = 1) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  const int count = channels * channels * 9;
  const std::string shape = StrCat("float32[", channels, ", ", channels, ", 3, 3]");
  return StrCat("graph \"\" opset 13\ninput %x: float32[N, ", channels,
                ", H, W]\nconst %w: ", shape, " = ", Numbers(random, count, -3, 3),
                "\nconst %v: ", shape, " = ", Numbers(random, count, -3, 3),
                "\n%y = Conv(%x, %w) {pads = [1, 1, 1, 1]}\n", "%z = Conv(%y, ", tied ? "%w" : "%v",
                ") {pads = [1, 1, 1, 1]}\noutput %z\n");
}

TensorMap Image(int64_t channels, int64_t height, int64_t width) {
  Tensor x(DType::kFloat32, {1, channels, height, width});
  for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = static_cast<float>(i * 7 % 11 - 5);
  return {{"x", x}};
}

/// The memory that the session's last plan has its weights in.
std::set<const void*> WeightsOf(const Session& session) {
  std::set<const void*> out;
  for (const SharedWeights& packed : session.plan()->packed) out.insert(packed->data());
  return out;
}

TEST(PackedWeights, PlansOfAllShapesShareThem) {
  const Graph graph = ParseGraph(Layers(16, false));
  Session session(graph, {});
  std::set<const void*> first;
  for (const int64_t size : {5, 6, 9, 12, 40, 5}) {
    const TensorMap feeds = Image(16, size, size + 1);
    const Tensor result = session.Run(feeds)[0];
    EXPECT_TRUE(result.SameBits(Session(graph, {}).Run(feeds)[0])) << size;
    if (first.empty()) first = WeightsOf(session);
    EXPECT_EQ(WeightsOf(session), first) << size;
  }
}

TEST(PackedWeights, SessionsOfAModelShareThem) {
  const Graph graph = ParseGraph(Layers(16, false));
  Session a(graph, {});
  auto b = std::make_unique<Session>(graph, SessionOptions());
  a.Run(Image(16, 5, 5));
  b->Run(Image(16, 8, 8));
  EXPECT_EQ(WeightsOf(a), WeightsOf(*b));
  const TensorMap feeds = Image(16, 6, 6);
  const Tensor expected = a.Run(feeds)[0];
  b.reset();
  EXPECT_TRUE(a.Run(feeds)[0].SameBits(expected));
  // The next session finds what lives, and makes anew what does not.
  EXPECT_TRUE(Session(graph, {}).Run(feeds)[0].SameBits(expected));
}

TEST(PackedWeights, EqualLayersShareThem) {
  for (const bool tied : {true, false}) {
    Session session(ParseGraph(Layers(16, tied)), {});
    session.Run(Image(16, 5, 5));
    EXPECT_EQ(WeightsOf(session).size(), tied ? 1U : 2U);
    size_t bytes = 0;
    for (const SharedWeights& packed : session.plan()->packed) bytes += packed->size();
    EXPECT_EQ(session.memory().packed_weights, bytes);
  }
}

TEST(PackedWeights, OtherWeightsAreNotShared) {
  Session a(ParseGraph(Layers(16, false, 1)), {});
  Session b(ParseGraph(Layers(16, false, 2)), {});
  a.Run(Image(16, 5, 5));
  b.Run(Image(16, 5, 5));
  for (const void* weights : WeightsOf(a)) EXPECT_EQ(WeightsOf(b).count(weights), 0U);
}

TEST(PackedWeights, KeysTellPackingsApart) {
  const std::vector<float> numbers(32, 1.0F), bias(4, 2.0F), other(4, 3.0F);
  ConvF32Weights weights{OihwLayout(4, 2, 2, 2, 1), numbers.data(), nullptr};
  const std::string plain = PackingKey(weights).text;
  EXPECT_EQ(PackingKey(weights).text, plain);
  weights.bias = bias.data();
  const std::string biased = PackingKey(weights).text;
  EXPECT_NE(biased, plain);
  weights.bias = other.data();
  EXPECT_NE(PackingKey(weights).text, biased);
  const std::vector<float> copy = bias;
  weights.bias = copy.data();
  EXPECT_EQ(PackingKey(weights).text, biased) << "a bias counts by its values";
  weights.layout.stride_h = 1;
  EXPECT_NE(PackingKey(weights).text, biased);

  const std::vector<int32_t> zeros(4, 1);
  ConvQ8Weights q8{OihwLayout(4, 2, 2, 2, 1), numbers.data(), true, nullptr, nullptr, 0, 255};
  std::set<std::string> keys{PackingKey(q8).text};
  q8.is_signed = false;
  keys.insert(PackingKey(q8).text);
  q8.zero_points = zeros.data();
  keys.insert(PackingKey(q8).text);
  q8.bias = zeros.data();
  keys.insert(PackingKey(q8).text);
  q8.zero_points = nullptr;
  keys.insert(PackingKey(q8).text);
  q8.input_hi = 3;
  keys.insert(PackingKey(q8).text);
  q8.dynamic = true;
  keys.insert(PackingKey(q8).text);
  EXPECT_EQ(keys.size(), 7U);
}

TEST(PackedWeights, AddressesMustBeInConstants) {
  const Graph graph = ParseGraph(Layers(2, false));
  PackedWeights packed(graph);
  const Tensor& w = graph.FindValue("w")->constant;
  ConvF32Weights weights{OihwLayout(2, 2, 3, 3, 1), w.data<float>(), nullptr};
  EXPECT_NE(packed.Find(PackingKey(weights)), nullptr);
  weights.data += w.count() - 1;
  EXPECT_NE(packed.Find(PackingKey(weights)), nullptr);
  const std::vector<float> elsewhere(36);
  weights.data = elsewhere.data();
  EXPECT_EQ(packed.Find(PackingKey(weights)), nullptr);
  const std::vector<uint8_t> codes(64);
  MatMulNBitsWeights blocks{
      4, 4, 32, 4, reinterpret_cast<const uint8_t*>(w.raw()), elsewhere.data(), nullptr};
  EXPECT_EQ(packed.Find(PackingKey(blocks)), nullptr) << "its scales are elsewhere";
}

}  // namespace
}  // namespace requant
