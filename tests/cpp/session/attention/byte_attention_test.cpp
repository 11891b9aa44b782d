// Attention in bytes: the same bits with every row of the products, with threads and saved, and
// near attention in floats.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "kernels/list.h"
#include "ops/attention/int8_attention.h"
#include "session/session.h"
#include "support/random_text.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

using testing::Dims, testing::Pick;

struct Case {
  std::string text;
  TensorMap feeds;
};

/// Attention of ONNX, or by groups with rotated queries, of random sizes from 128 keys on.
Case Make(std::mt19937& random) {
  const int kv_heads = Pick(random, 1, 2), heads = kv_heads * Pick(random, 1, 2);
  const int width = 2 * Pick(random, 1, 20), batch = Pick(random, 1, 2);
  const int form = Pick(random, 0, 4);
  const int past = form == 1 ? Pick(random, 100, 130) : 0;
  const int tokens = Pick(random, 128, 180), queries = form == 4 ? tokens : Pick(random, 16, 80);
  const int value_width = form == 4 ? width : Pick(random, 1, 40);
  std::string text = "graph \"\" opset 23, com.microsoft 1\n";
  if (form == 4) {
    const int all = heads * width, shared = kv_heads * width;
    text +=
        StrCat("input %q: float32", Dims({batch, tokens, all}), "\ninput %k: float32",
               Dims({batch, tokens, shared}), "\ninput %v: float32", Dims({batch, tokens, shared}),
               "\nconst %last: int32", Dims({batch}), " = {", tokens - 1,
               batch > 1 ? StrCat(", ", tokens - 1) : "", "}\nconst %total: int32[] = {", tokens,
               "}\ninput %cos: float32", Dims({tokens, width / 2}), "\ninput %sin: float32",
               Dims({tokens, width / 2}),
               "\n%y = com.microsoft::GroupQueryAttention(%q, %k, %v, _, _, %last, %total, %cos, "
               "%sin) {num_heads = ",
               heads, ", kv_num_heads = ", kv_heads, ", do_rotary = 1}\noutput %y\n");
  } else {
    text += StrCat("input %q: float32", Dims({batch, heads, queries, width}), "\ninput %k: float32",
                   Dims({batch, kv_heads, tokens, width}), "\ninput %v: float32",
                   Dims({batch, kv_heads, tokens, value_width}), "\n");
    std::string inputs = "%q, %k, %v", outputs = "%y", attributes;
    if (form == 1) {
      text += StrCat("input %pk: float32", Dims({batch, kv_heads, past, width}),
                     "\ninput %pv: float32", Dims({batch, kv_heads, past, value_width}), "\n");
      inputs += ", _, %pk, %pv";
      outputs += ", %nk, %nv";
    }
    if (form == 2) {
      text += StrCat("input %m: float32", Dims({queries, tokens}), "\n");
      inputs += ", %m";
    }
    if (form == 3) attributes = "softcap = 2.0";
    if (form != 3 && Pick(random, 0, 1) == 0) attributes = "is_causal = 1";
    text += StrCat(outputs, " = Attention(", inputs, ")",
                   attributes.empty() ? "" : StrCat(" {", attributes, "}"), "\noutput %y\n",
                   form == 1 ? "output %nk\noutput %nv\n" : "");
  }
  Case out{text, {}};
  std::normal_distribution<float> normal;
  const float size = Pick(random, 0, 1) == 0 ? 1.0F : 3.0F;
  const Graph graph = ParseGraph(text);
  for (const Value* input : graph.inputs()) {
    Tensor tensor(DType::kFloat32, input->type.StaticShape());
    // A channel of keys that all tokens share hides the others in codes without a mean.
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const bool same = input->name == "k" && i % width == 0;
      tensor.data<float>()[i] = (same ? 20.0F : 0.0F) + size * normal(random);
    }
    if (input->name == "m") {
      for (int64_t i = 0; i < tensor.count(); ++i) {
        if (Pick(random, 0, 3) == 0) tensor.data<float>()[i] = -INFINITY;
      }
    }
    if (input->name == "cos" || input->name == "sin") {
      for (int64_t i = 0; i < tensor.count(); ++i) {
        const auto angle = static_cast<double>(i) * 0.37;
        tensor.data<float>()[i] =
            static_cast<float>(input->name == "cos" ? std::cos(angle) : std::sin(angle));
      }
    }
    out.feeds[input->name] = tensor;
  }
  return out;
}

/// The root of the noise's power by that of the signal.
double NoiseOf(const Tensor& got, const Tensor& wanted) {
  double signal = 0, noise = 0;
  for (int64_t i = 0; i < wanted.count(); ++i) {
    signal += wanted.AsDouble(i) * wanted.AsDouble(i);
    noise += (got.AsDouble(i) - wanted.AsDouble(i)) * (got.AsDouble(i) - wanted.AsDouble(i));
  }
  return std::sqrt(noise / signal);
}

std::vector<std::string> Rows() {
  std::vector<std::string> rows;
  for (const KernelInfo& row : ListKernels()) {
    const std::string name = row.name;
    const bool any = name == "conv_q8_scalar" || name == "conv_q8_vector" || name == "conv_q8_dot8";
    if (any && row.missing == nullptr) rows.push_back(name);
  }
  return rows;
}

TEST(ByteAttention, HasTheSameBitsWithEveryRow) {
  std::mt19937 random(39);
  testing::ThreadRunner threads(3);
  const std::vector<std::string> rows = Rows();
  ASSERT_GE(rows.size(), 2u);
  for (int i = 0; i < 40; ++i) {
    const Case test = Make(random);
    SCOPED_TRACE(test.text);
    const Graph graph(ParseGraph(test.text));
    const Tensor wanted = Interpret(graph, test.feeds)[0];
    Tensor first;
    for (const std::string& row : rows) {
      SessionOptions options;
      options.plan.int8_activations = true;
      options.plan.force_kernels = {{"conv_q8", row}};
      if (row != rows[0]) options.runner = &threads;
      Session session(graph, options);
      const Tensor got = session.Run(test.feeds)[0];
      ASSERT_EQ(session.plan()->steps[0]->kernel, row);
      if (first.empty()) first = got.Clone();
      ASSERT_TRUE(got.SameBits(first)) << row;
      const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
      SessionOptions again;
      again.runner = options.runner;
      EXPECT_TRUE(Session(SharedBytes{saved, *saved}, again).Run(test.feeds)[0].SameBits(first));
    }
    EXPECT_LT(NoiseOf(first, wanted), 0.04);
  }
}

TEST(ByteAttention, KeepsSmallSharesOfManyKeys) {
  // One key takes a third; each of the others gets a share that 8 bits would round to 0.
  const int keys = 1024, width = 8;
  Graph graph(ParseGraph(StrCat("graph \"\" opset 23\ninput %q: float32[1, 1, 16, ", width,
                                "]\ninput %k: float32[1, 1, ", keys, ", ", width,
                                "]\ninput %v: float32[1, 1, ", keys, ", ", width,
                                "]\n%y = Attention(%q, %k, %v) {scale = 1.0}\noutput %y\n")));
  TensorMap feeds;
  for (const Value* input : graph.inputs()) {
    Tensor tensor(DType::kFloat32, input->type.StaticShape());
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const bool first = i < width;
      float value = input->name == "q" ? 1.0F : 0.0F;
      if (input->name == "k" && first) value = 0.78F;
      if (input->name == "v") value = first ? 0.0F : 1.0F;
      tensor.data<float>()[i] = value;
    }
    feeds[input->name] = tensor;
  }
  SessionOptions options;
  options.plan.int8_activations = true;
  options.plan.force_kernels = {{"conv_q8", "conv_q8_vector"}};
  const Tensor got = Session(graph, options).Run(feeds)[0];
  const Tensor wanted = Interpret(graph, feeds)[0];
  for (int64_t i = 0; i < got.count(); ++i) EXPECT_NEAR(got.AsDouble(i), wanted.AsDouble(i), 0.02);
}

TEST(ByteAttention, IsWhatTheModelAllowsUnlessTheSessionSaysOtherwise) {
  std::mt19937 random(7);
  const Case test = Make(random);
  Graph graph(ParseGraph(test.text));
  const auto kernel = [&](std::optional<bool> option) {
    SessionOptions options;
    options.plan.int8_activations = option;
    options.plan.force_kernels = {{"conv_q8", "conv_q8_vector"}};
    Session session(graph, options);
    session.Run(test.feeds);
    return session.plan()->steps[0]->kernel;
  };
  EXPECT_NE(kernel(std::nullopt), "conv_q8_vector");
  EXPECT_EQ(kernel(true), "conv_q8_vector");
  AllowInt8Attention(graph);
  EXPECT_EQ(kernel(std::nullopt), "conv_q8_vector");
  EXPECT_NE(kernel(false), "conv_q8_vector");
}

}  // namespace
}  // namespace requant
