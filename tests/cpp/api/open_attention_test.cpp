// Attention of com.microsoft whose form depends on sizes that are unknown when it is decomposed. It
// is optimized for open shapes, runs with actual sizes and is compared with the interpreter.
#include <gtest/gtest.h>

#include "api/requant.h"
#include "session/programs.h"

namespace requant {
namespace {

void ExpectSame(const std::string& known, const std::string& open, const TensorMap& feeds) {
  const std::vector<Tensor> wanted = Interpret(ParseGraph(known), feeds);
  for (const bool optimize : {true, false}) {
    Graph graph = ParseGraph(open);
    if (optimize) RunPasses(graph, {});
    Session session(PreparedModel::AsIs(std::move(graph)), {});
    const std::vector<Tensor> got = session.Run(feeds);
    ASSERT_EQ(got[0].shape(), wanted[0].shape());
    for (int64_t i = 0; i < got[0].count(); ++i) {
      ASSERT_NEAR(got[0].AsDouble(i), wanted[0].AsDouble(i), 1e-4) << open << optimize << " " << i;
    }
  }
}

TEST(OpenAttention, MultiHeadAttentionAddsItsBias) {
  const auto text = [](const std::string& q, const std::string& k, const std::string& v) {
    return "graph \"\" opset 17, com.microsoft 1\ninput %q: float32[" + q +
           "]\ninput %k: float32[" + k + "]\ninput %v: float32[" + v +
           "]\ninput %b: float32[14]\n%y = com.microsoft::MultiHeadAttention(%q, %k, %v, %b) "
           "{num_heads = 2}\noutput %y\n";
  };
  const TensorMap feeds{{"q", Ramp({1, 3, 4})},
                        {"k", Ramp({1, 5, 4}, 0.5F)},
                        {"v", Ramp({1, 5, 6}, 0)},
                        {"b", Ramp({14}, -2)}};
  const std::string known = text("1, 3, 4", "1, 5, 4", "1, 5, 6");
  ExpectSame(known, known, feeds);
  ExpectSame(known, text("B, S, 4", "B, T, 4", "B, T, 6"), feeds);
  ExpectSame(known, text("B, S, H", "B, T, 4", "B, T, 6"), feeds);
  ExpectSame(known, text("B, S, H", "B, T, H", "B, T, V"), feeds);
  // The bias makes the difference.
  Graph without = ParseGraph(known);
  TensorMap zero = feeds;
  zero["b"] = Tensor(DType::kFloat32, {14});
  EXPECT_FALSE(Interpret(without, zero)[0].SameBits(Interpret(without, feeds)[0]));
}

/// Masks that hold ends [B], ends and starts [2 B], or ends and cumulative lengths [3 B + 2].
TEST(OpenAttention, FlatMasks) {
  const auto text = [](const std::string& x, const std::string& mask) {
    return "graph \"\" opset 17, com.microsoft 1\ninput %x: float32[" + x +
           "]\ninput %w: float32[3, 12]\ninput %m: int32[" + mask +
           "]\n%y = com.microsoft::Attention(%x, %w, _, %m) {num_heads = 2}\noutput %y\n";
  };
  const std::vector<std::vector<int32_t>> masks = {{3, 2}, {3, 2, 1, 0}, {3, 2, 0, 3, 6, 0, 3, 6}};
  std::vector<Tensor> results;
  for (const std::vector<int32_t>& numbers : masks) {
    const TensorMap feeds{
        {"x", Ramp({2, 3, 3})}, {"w", Ramp({3, 12}, -2)}, {"m", Tensor::Vector<int32_t>(numbers)}};
    const std::string count = std::to_string(numbers.size());
    const std::string known = text("2, 3, 3", count);
    results.push_back(Interpret(ParseGraph(known), feeds)[0]);
    ExpectSame(known, known, feeds);
    ExpectSame(known, text("2, 3, 3", "M"), feeds);
    ExpectSame(known, text("B, S, 3", count), feeds);
    ExpectSame(known, text("B, S, 3", numbers.size() == 2 ? "B" : "M"), feeds);
  }
  EXPECT_FALSE(results[0].SameBits(results[1]));
  for (int64_t i = 0; i < results[0].count(); ++i) {
    EXPECT_NEAR(results[0].AsDouble(i), results[2].AsDouble(i), 1e-4) << i;
  }
}

}  // namespace
}  // namespace requant
