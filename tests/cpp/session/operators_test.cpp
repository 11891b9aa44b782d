// Operators with kernels of their own, in a session, against their references.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/text.h"
#include "session/session.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

Tensor RandomTensor(std::mt19937& random, const ValueType& type) {
  Tensor tensor(type.dtype, type.StaticShape());
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (type.dtype == DType::kFloat32) {
      tensor.data<float>()[i] = std::uniform_real_distribution<float>(-3, 3)(random);
    } else {
      static_cast<uint8_t*>(tensor.raw())[i] = static_cast<uint8_t>(random());
    }
  }
  return tensor;
}

/// Replaces every `const %name: float32[2, 3] = random` in the text by numbers.
std::string WithWeights(std::string text, std::mt19937& random) {
  const std::string word = "= random";
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word)) {
    const size_t close = text.rfind(']', at);
    const size_t open = text.rfind('[', close);
    int64_t count = 1;
    for (size_t i = open; i != close; i = text.find_first_of(",]", i + 1)) {
      count *= std::stoll(text.substr(i + 1));
    }
    std::string numbers = "= {";
    for (int64_t i = 0; i < count; ++i) {
      const float value = std::uniform_real_distribution<float>(-1, 1)(random);
      numbers += (i == 0 ? "" : ", ") + std::to_string(value);
    }
    text.replace(at, word.size(), numbers + "}");
  }
  return text;
}

struct Case {
  std::string name;
  std::string text;
  double tolerance;                  // 0: bit for bit
  std::vector<std::string> kernels;  // beginnings of the names of the steps' kernels
};

void Check(const Case& test) {
  SCOPED_TRACE(test.name);
  std::mt19937 random(5);
  const Graph graph(ParseGraph(WithWeights(test.text, random)));
  TensorMap feeds;
  for (const Value* input : graph.inputs()) feeds[input->name] = RandomTensor(random, input->type);
  const std::vector<Tensor> expected = Interpret(graph, feeds);
  Session session(graph, {});
  const std::vector<Tensor> results = session.Run(feeds);
  ASSERT_NE(session.plan(), nullptr);
  std::vector<std::string> used;
  for (const auto& step : session.plan()->steps) used.push_back(step->kernel);
  ASSERT_EQ(used.size(), test.kernels.size()) << ::testing::PrintToString(used);
  for (size_t i = 0; i < used.size(); ++i) {
    EXPECT_TRUE(used[i].starts_with(test.kernels[i])) << used[i] << " is not " << test.kernels[i];
  }
  ASSERT_EQ(results.size(), expected.size());
  for (size_t output = 0; output < results.size(); ++output) {
    ASSERT_EQ(results[output].shape(), expected[output].shape());
    if (test.tolerance == 0) {
      EXPECT_TRUE(results[output].SameBits(expected[output]));
      continue;
    }
    for (int64_t i = 0; i < expected[output].count(); ++i) {
      const double want = expected[output].AsDouble(i);
      ASSERT_NEAR(results[output].AsDouble(i), want, test.tolerance * (1 + std::fabs(want)))
          << "element " << i;
    }
  }
}

/// A row of joined values is more than one of its pixels, even if both have one channel each.
TEST(Operators, PlanesOfOneChannelAreJoinedAlongEveryAxis) {
  std::mt19937 random(3);
  for (const int axis : {0, 1, 2, 3}) {
    const Graph graph(ParseGraph(WithWeights(
        R"(graph "" opset 13
input %x: float32[2, 1, 4, 3]
const %w: float32[1, 1, 3, 3] = random
%p: float32[2, 1, 4, 3] = AveragePool(%x) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}
%c: float32[2, 1, 4, 3] = Conv(%x, %w) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}
%y = Concat(%p, %x, %c) {axis = )" +
            std::to_string(axis) + "}\noutput %y\n",
        random)));
    const TensorMap feeds{{"x", RandomTensor(random, graph.inputs()[0]->type)}};
    const Tensor wanted = Interpret(graph, feeds)[0];
    const Tensor got = Session(graph, {}).Run(feeds)[0];
    ASSERT_EQ(got.shape(), wanted.shape());
    for (int64_t i = 0; i < got.count(); ++i) {
      ASSERT_NEAR(got.AsDouble(i), wanted.AsDouble(i), 1e-5) << "axis " << axis << " at " << i;
    }
  }
}

/// References compute windows and pads that 32 bits cannot hold.
TEST(SessionOperators, HugeWindows) {
  Check({.name = "max pool",
         .text = R"(graph "" opset 13
input %x: float32[1, 1, 1, 4]
%y = MaxPool(%x) {kernel_shape = [1, 536870912], pads = [0, 536870911, 0, 0]}
output %y
)",
         .tolerance = 0,
         .kernels = {"reference"}});
}

TEST(SessionOperators, Activations) {
  for (const std::string op : {"Sigmoid", "Tanh", "Erf", "Gelu"}) {
    std::string kernel = op + "_f32";
    kernel[0] = static_cast<char>(std::tolower(kernel[0]));
    Check({op,
           "graph \"\" opset 20\ninput %x: float32[7, 9]\n%y = " + op + "(%x)\noutput %y\n",
           3e-7,
           {kernel}});
  }
  Check({"Gelu tanh",
         "graph \"\" opset 20\ninput %x: float32[7, 9]\n%y = Gelu(%x) {approximate = \"tanh\"}\n"
         "output %y\n",
         3e-7,
         {"gelu_tanh_f32"}});
  for (const auto& [op, kernel] :
       {std::pair<std::string, std::string>{"Gelu", "gelu_f32"}, {"FastGelu", "gelu_tanh_f32"}}) {
    Check({"com.microsoft " + op,
           "graph \"\" opset 20, com.microsoft 1\ninput %x: float32[7, 9]\n%y = com.microsoft::" +
               op + "(%x)\noutput %y\n",
           3e-7,
           {kernel}});
  }
}

TEST(SessionOperators, FastMath) {
  for (const auto& [op, kernel] : {std::pair<std::string, std::string>{"FastExp", "fast_exp_f32"},
                                   {"FastTanh", "fast_tanh_f32"},
                                   {"FastSigmoid", "fast_sigmoid_f32"},
                                   {"FastErf", "fast_erf_f32"},
                                   {"FastErfGelu", "fast_gelu_f32"},
                                   {"FastSoftmax", "fast_softmax_f32"}}) {
    Check({op,
           "graph \"\" opset 11, ai.requant 1\ninput %x: float32[7, 2, 9]\n%y = ai.requant::" + op +
               "(%x)\noutput %y\n",
           3e-6,
           {kernel}});
  }
  Check({"QuickGelu",
         "graph \"\" opset 13, com.microsoft 1\ninput %x: float32[7, 9]\n"
         "%y = com.microsoft::QuickGelu(%x) {alpha = 1.0}\n%z = com.microsoft::QuickGelu(%y)\n"
         "output %z\n",
         3e-7,
         {"quick_gelu_f32", "quick_gelu_f32"}});
  Check({"Swish",
         "graph \"\" opset 24\ninput %x: float32[7, 9]\n%y = Swish(%x)\noutput %y\n",
         3e-7,
         {"quick_gelu_f32"}});
}

TEST(SessionOperators, LayerNormalization) {
  for (const std::string cols : {"1", "3", "8", "37"}) {
    const std::string head = "graph \"\" opset 17\ninput %x: float32[2, 5, " + cols +
                             "]\nconst %ws: float32[" + cols + "] = random\nconst %wb: float32[" +
                             cols + "] = random\n";
    Check({"bias, " + cols,
           head + "%y = LayerNormalization(%x, %ws, %wb)\noutput %y\n",
           1e-5,
           {"layer_norm_f32"}});
    Check({"no bias, " + cols,
           head + "%y = LayerNormalization(%x, %ws) {epsilon = 0.01}\noutput %y\n",
           1e-5,
           {"layer_norm_f32"}});
  }
}

TEST(SessionOperators, RmsNormalization) {
  for (const std::string cols : {"1", "3", "8", "37"}) {
    const std::string head =
        "input %x: float32[2, 5, " + cols + "]\nconst %ws: float32[" + cols + "] = random\n";
    Check({"RMS, " + cols,
           "graph \"\" opset 23\n" + head + "%y = RMSNormalization(%x, %ws)\noutput %y\n",
           1e-5,
           {"layer_norm_f32"}});
    Check({"simplified, " + cols,
           "graph \"\" opset 13\n" + head +
               "%y = SimplifiedLayerNormalization(%x, %ws) {epsilon = 0.01}\noutput %y\n",
           1e-5,
           {"layer_norm_f32"}});
  }
}

TEST(SessionOperators, DynamicProducts) {
  const auto text = [](const std::string& a, const std::string& b) {
    return "graph \"\" opset 13\ninput %a: float32[" + a + "]\ninput %b: float32[" + b +
           "]\n%y = MatMul(%a, %b)\noutput %y\n";
  };
  const std::vector<std::pair<std::string, std::string>> shapes = {
      {"7, 9", "9, 17"},         {"1, 5", "5, 8"},          {"2, 3, 13, 5", "2, 3, 5, 11"},
      {"4, 6, 3", "3, 10"},      {"2, 1, 4, 3", "5, 3, 2"}, {"5, 3, 2, 6", "1, 3, 6, 7"},
      {"6", "3, 6, 4"},          {"3, 4, 6", "6"},          {"6", "6"},
      {"1, 40", "40, 21"},       {"3, 2, 35", "3, 35, 6"},  {"33, 1", "1, 3"},
      {"2, 100, 16", "2, 16, 1"}};
  for (const auto& [a, b] : shapes) Check({a + " x " + b, text(a, b), 1e-5, {"conv_f32"}});
  const auto gemm = [](const std::string& b, const std::string& c, const std::string& attributes) {
    return "graph \"\" opset 13\ninput %a: float32[5, 6]\ninput %b: float32[" + b + "]\n" +
           (c.empty() ? "" : "input %c: float32[" + c + "]\n") + "%y = Gemm(%a, %b" +
           (c.empty() ? "" : ", %c") + ")" + attributes + "\noutput %y\n";
  };
  Check({"Gemm", gemm("6, 9", "", ""), 1e-5, {"conv_f32"}});
  Check({"Gemm transposed", gemm("9, 6", "9", " {transB = 1}"), 1e-5, {"conv_f32"}});
  Check({"Gemm of few rows",
         "graph \"\" opset 13\ninput %a: float32[2, 37]\ninput %b: float32[9, 37]\n"
         "input %c: float32[2, 9]\n%y = Gemm(%a, %b, %c) {transB = 1}\noutput %y\n",
         1e-5,
         {"conv_f32"}});
  Check({"Gemm and a matrix", gemm("6, 9", "5, 9", ""), 1e-5, {"conv_f32"}});
  Check({"Gemm and a number", gemm("6, 9", "1", ""), 1e-5, {"reference"}});
}

TEST(SessionOperators, Attention) {
  const std::string head = "graph \"\" opset 23, com.microsoft 1\n";
  const auto flat = [&](const std::string& q, const std::string& kv, const std::string& more,
                        const std::string& call) {
    return head + "input %q: float32[" + q + "]\ninput %k: float32[" + kv +
           "]\ninput %v: float32[" + kv + "]\n" + more + "%y = " + call + "\noutput %y\n";
  };
  const std::vector<std::string> kernels{"conv_f32"};
  const std::string heads = "{q_num_heads = 3, kv_num_heads = 3}";
  Check({"columns", flat("2, 5, 12", "2, 7, 12", "", "Attention(%q, %k, %v) " + heads), 1e-5,
         kernels});
  Check({"causal",
         flat("1, 9, 12", "1, 9, 12", "",
              "Attention(%q, %k, %v) {q_num_heads = 3, kv_num_heads = 3, is_causal = 1}"),
         1e-5, kernels});
  Check({"long enough for panels",
         flat("1, 300, 12", "1, 700, 12", "", "Attention(%q, %k, %v) " + heads), 1e-5, kernels});
  Check({"a cap",
         flat("2, 5, 12", "2, 7, 12", "input %m: float32[5, 7]\n",
              "Attention(%q, %k, %v, %m) {q_num_heads = 3, kv_num_heads = 3, softcap = "
              "1.5, scale = 0.7}"),
         1e-5, kernels});
  for (const std::string mask : {"7", "5, 7", "1, 1, 7", "2, 3, 5, 7", "2, 1, 1, 7", "5, 4"}) {
    Check({"a mask of " + mask,
           flat("2, 5, 12", "2, 7, 12", "input %m: float32[" + mask + "]\n",
                "Attention(%q, %k, %v, %m) " + heads),
           1e-5, kernels});
  }
  Check({"heads share keys",
         flat("2, 5, 24", "2, 7, 8", "",
              "Attention(%q, %k, %v) {q_num_heads = 6, kv_num_heads = 2, is_causal = 1}"),
         1e-5, kernels});
  Check({"one query", flat("2, 1, 12", "2, 37, 12", "", "Attention(%q, %k, %v) " + heads), 1e-5,
         kernels});
  Check({"three queries and a mask",
         flat("1, 3, 12", "1, 19, 12", "input %m: float32[3, 19]\n",
              "Attention(%q, %k, %v, %m) " + heads),
         1e-5, kernels});
  Check({"by head", flat("2, 6, 5, 4", "2, 3, 7, 4", "", "Attention(%q, %k, %v) {scale = 0.3}"),
         1e-5, kernels});
  Check({"MultiHeadAttention",
         flat("2, 5, 12", "2, 7, 12", "input %m: float32[1, 3, 5, 7]\n",
              "com.microsoft::MultiHeadAttention(%q, %k, %v, _, _, %m) {num_heads = 3}"),
         1e-5, kernels});
  Check({"MultiHeadAttention with a bias that no pass has taken out",
         flat("2, 5, 12", "2, 7, 12", "const %b: float32[36] = random\n",
              "com.microsoft::MultiHeadAttention(%q, %k, %v, %b) {num_heads = 3}"),
         1e-5,
         {"reference"}});
  Check({"MultiHeadAttention, packed",
         head + "input %q: float32[2, 5, 3, 3, 4]\n%y = "
                "com.microsoft::MultiHeadAttention(%q) {num_heads = 3, unidirectional = 1}\n"
                "output %y\n",
         1e-5, kernels});
  Check({"a past",
         head + "input %q: float32[2, 3, 8]\ninput %k: float32[2, 3, 8]\n"
                "input %v: float32[2, 3, 8]\ninput %pk: float32[2, 2, 4, 4]\n"
                "input %pv: float32[2, 2, 4, 4]\n%y, %nk, %nv = Attention(%q, %k, %v, _, %pk, %pv) "
                "{q_num_heads = 2, kv_num_heads = 2, is_causal = 1}\noutput %y\noutput %nk\n"
                "output %nv\n",
         1e-5, kernels});
  Check({"GroupQueryAttention",
         head + "input %q: float32[1, 3, 16]\ninput %k: float32[1, 3, 8]\n"
                "input %v: float32[1, 3, 8]\ninput %pk: float32[1, 2, 4, 4]\n"
                "input %pv: float32[1, 2, 4, 4]\nconst %s: int32[1] = {6}\n"
                "const %t: int32[] = {7}\nconst %wc: float32[9, 2] = random\n"
                "const %ws: float32[9, 2] = random\n%y, %nk, %nv = "
                "com.microsoft::GroupQueryAttention(%q, %k, %v, %pk, %pv, %s, %t, %wc, %ws) "
                "{num_heads = 4, kv_num_heads = 2, do_rotary = 1}\noutput %y\noutput %nk\n"
                "output %nv\n",
         1e-5, kernels});
}

TEST(SessionOperators, GroupQueryAttentionOfPackedOperands) {
  const std::string more =
      "const %s: int32[1] = {2}\nconst %t: int32[] = {3}\n%y, %nk, %nv = "
      "com.microsoft::GroupQueryAttention(";
  const std::string tail = "{num_heads = 4, kv_num_heads = 2}\noutput %y\noutput %nk\noutput %nv\n";
  const std::string head = "graph \"\" opset 17, com.microsoft 1\n";
  const std::string packed = head + "input %x: float32[1, 3, 32]\n";
  Check({"a past of nothing",
         packed + "input %pk: float32[1, 2, 0, 4]\ninput %pv: float32[1, 2, 0, 4]\n" + more +
             "%x, _, _, %pk, %pv, %s, %t) " + tail,
         1e-5,
         {"conv_f32"}});
  Check({"no past", packed + more + "%x, _, _, _, _, %s, %t) " + tail, 1e-5, {"conv_f32"}});
  // The result must equal the product of the separate columns.
  const Graph whole(ParseGraph(packed + more + "%x, _, _, _, _, %s, %t) " + tail));
  const Graph apart(ParseGraph(head +
                               "input %q: float32[1, 3, 16]\ninput %k: float32[1, 3, 8]\n"
                               "input %v: float32[1, 3, 8]\n" +
                               more + "%q, %k, %v, _, _, %s, %t) " + tail));
  std::mt19937 random(7);
  const Tensor x = RandomTensor(random, whole.inputs()[0]->type);
  TensorMap columns;
  for (const auto& [name, from, width] :
       {std::tuple<std::string, int64_t, int64_t>{"q", 0, 16}, {"k", 16, 8}, {"v", 24, 8}}) {
    Tensor part(DType::kFloat32, {1, 3, width});
    for (int64_t i = 0; i < part.count(); ++i) {
      part.data<float>()[i] = x.data<float>()[i / width * 32 + from + i % width];
    }
    columns[name] = std::move(part);
  }
  const std::vector<Tensor> got = Session(whole, {}).Run({{"x", x}});
  const std::vector<Tensor> wanted = Session(apart, {}).Run(columns);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].SameBits(wanted[i])) << i;
}

TEST(SessionOperators, Recurrent) {
  for (const auto& [cell, gates] :
       {std::pair<std::string, int>{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}}) {
    for (const std::string direction : {"forward", "reverse", "bidirectional"}) {
      for (const std::string more : {"", ", linear_before_reset = 1"}) {
        if (cell != "GRU" && !more.empty()) continue;
        const std::string d = direction == "bidirectional" ? "2" : "1";
        const auto rows = std::to_string(gates * 5);
        const bool state = direction != "forward";
        const std::string c = cell == "LSTM" && state ? ", %c" : "";
        const std::string outputs = cell == "LSTM" ? "%y, %yh, %yc" : "%y, %yh";
        Check({cell + " " + direction + more,
               "graph \"\" opset 14\ninput %x: float32[7, 3, 6]\nconst %ww: float32[" + d + ", " +
                   rows + ", 6] = random\nconst %wr: float32[" + d + ", " + rows +
                   ", 5] = random\nconst %wb: float32[" + d + ", " + std::to_string(gates * 10) +
                   "] = random\n" + (state ? "input %h: float32[" + d + ", 3, 5]\n" : "") +
                   (c.empty() ? "" : "input %c: float32[" + d + ", 3, 5]\n") + outputs + " = " +
                   cell + "(%x, %ww, %wr, %wb" + (state ? ", _, %h" + c : "") +
                   ") {hidden_size = 5, direction = \"" + direction + "\"" + more +
                   "}\noutput %y\noutput %yh\n" + (cell == "LSTM" ? "output %yc\n" : ""),
               1e-5,
               {"conv_f32"}});
      }
    }
  }
}

/// Any number of threads gives the same bits.
TEST(SessionOperators, DynamicProductsAmongThreads) {
  const std::string head =
      "graph \"\" opset 23\ninput %q: float32[2, 70, 48]\n"
      "input %k: float32[2, 90, 48]\n";
  for (const std::string& body :
       {std::string("%y = Attention(%q, %k, %k) {q_num_heads = 6, kv_num_heads = 6}\n"),
        std::string("%t = Transpose(%k) {perm = [0, 2, 1]}\n%y = MatMul(%q, %t)\n"),
        std::string("%y = Attention(%q, %k, %k) {q_num_heads = 3, kv_num_heads = 3, "
                    "is_causal = 1, softcap = 2.0}\n")}) {
    std::mt19937 random(9);
    const Graph graph(ParseGraph(head + body + "output %y\n"));
    TensorMap feeds;
    for (const Value* input : graph.inputs()) {
      feeds[input->name] = RandomTensor(random, input->type);
    }
    Session alone(graph, {});
    const std::vector<Tensor> expected = alone.Run(feeds);
    for (const int threads : {2, 3, 7}) {
      testing::ThreadRunner runner(threads);
      SessionOptions options;
      options.runner = &runner;
      Session divided(graph, options);
      EXPECT_TRUE(divided.Run(feeds)[0].SameBits(expected[0])) << threads << body;
      EXPECT_GT(runner.runs, 0);
    }
  }
}

/// The form in which tools quantize dynamically: depthwise sums are computed in floats and give the
/// same integers.
TEST(SessionOperators, DepthwiseConvInteger) {
  const auto text = [](const std::string& attributes, bool zeros, bool cast) {
    std::string numbers, offsets;
    for (int i = 0; i < 6 * 9; ++i) numbers += (i ? ", " : "") + std::to_string((i * 89) % 256);
    for (int i = 0; i < 6; ++i) offsets += (i ? ", " : "") + std::to_string(i * 51);
    return "graph \"\" opset 13\ninput %x: float32[2, 6, 7, 5]\nconst %w: uint8[6, 1, 3, 3] = {" +
           numbers + "}\nconst %wz: uint8[6] = {" + offsets +
           "}\n%q, %s, %z = DynamicQuantizeLinear(%x)\n%y = ConvInteger(%q, %w, %z" +
           (zeros ? ", %wz" : "") + ") {group = 6" + attributes + "}\n" +
           (cast ? "%f = Cast(%y) {to = 1}\noutput %f\n" : "output %y\n") + "output %s\n";
  };
  for (const bool zeros : {false, true}) {
    for (const std::string attributes :
         {"", ", pads = [1, 0, 2, 1]", ", strides = [2, 1], dilations = [1, 2]"}) {
      Check({"floats" + attributes,
             text(attributes, zeros, true),
             0,
             {"quantize", "transpose", "dequantize", "dwconv_f32", "transpose"}});
      Check({"integers" + attributes,
             text(attributes, zeros, false),
             0,
             {"quantize", "transpose", "conv_q8", "transpose"}});
    }
  }
}

TEST(SessionOperators, Reductions) {
  const auto text = [](const std::string& op, const std::string& axes, const std::string& shape) {
    return "graph \"\" opset 18\ninput %x: float32[" + shape + "]\nconst %a: int64[" +
           std::to_string(1 + std::count(axes.begin(), axes.end(), ',')) + "] = {" + axes +
           "}\n%y = " + op + "(%x, %a)\noutput %y\n";
  };
  for (const std::string op : {"ReduceSum", "ReduceMean"}) {
    Check({op + " last", text(op, "-1", "5, 7, 37"), 1e-5, {"reduce_f32"}});
    Check({op + " last two", text(op, "1, 2", "5, 7, 3"), 1e-5, {"reduce_f32"}});
    Check({op + " all", text(op, "0, -1", "5, 7"), 1e-5, {"reduce_f32"}});
    Check({op + " first", text(op, "0", "5, 7, 3"), 1e-6, {"reduce_f32"}});
    Check({op + " outer", text(op, "0, 2", "5, 7, 3"), 1e-6, {"reference"}});
  }
  for (const std::string op : {"ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare"}) {
    const double tolerance = op == "ReduceMax" || op == "ReduceMin" ? 0 : 1e-5;
    for (const char* columns : {"1", "3", "16", "21", "77"}) {
      Check(
          {op + " last", text(op, "-1", std::string("5, ") + columns), tolerance, {"reduce_f32"}});
      Check(
          {op + " first", text(op, "0", std::string("5, ") + columns), tolerance, {"reduce_f32"}});
      Check({op + " middle",
             text(op, "2, 1", std::string("2, 3, 4, ") + columns),
             tolerance,
             {"reduce_f32"}});
    }
    // Channels side by side, and pixels of such channels.
    for (const char* axes : {"1", "-1, -2"}) {
      Check({op + " of an image",
             "graph \"\" opset 18\ninput %x: float32[2, 3, 4, 5]\n"
             "const %w: float32[5, 3, 1, 1] = random\nconst %a: int64[" +
                 std::to_string(std::string(axes).size() > 1 ? 2 : 1) + "] = {" + axes +
                 "}\n%c = Conv(%x, %w)\n%y = " + op + "(%c, %a) {keepdims = 0}\noutput %y\n",
             1e-5,
             {"transpose", "conv_f32", "reduce_f32"}});
    }
  }
}

TEST(SessionOperators, Resize) {
  const auto text = [](const std::string& image, const std::string& type, const std::string& scales,
                       const std::string& attributes) {
    return "graph \"\" opset 13\ninput %x: " + type + "[" + image + "]\nconst %s: float32[" +
           std::to_string(std::count(scales.begin(), scales.end(), ',') + 1) + "] = {" + scales +
           "}\n%y = Resize(%x, _, %s)" + (attributes.empty() ? "" : " {" + attributes + "}") +
           "\noutput %y\n";
  };
  const std::vector<std::string> linear{"transpose", "resize_linear_f32", "transpose"};
  const std::vector<std::string> nearest{"transpose", "resize_nearest", "transpose"};
  Check({"linear", text("2, 5, 4, 3", "float32", "1.0, 1.0, 2.0, 2.0", "mode = \"linear\""), 1e-6,
         linear});
  Check({"linear, uneven",
         text("1, 6, 4, 7", "float32", "1.0, 1.0, 1.7, 0.6",
              "mode = \"linear\", coordinate_transformation_mode = \"align_corners\""),
         1e-6, linear});
  Check({"linear, one dimension", text("2, 5, 9", "float32", "1.0, 1.0, 1.5", "mode = \"linear\""),
         1e-6, linear});
  Check({"nearest", text("2, 5, 4, 3", "float32", "1.0, 1.0, 2.0, 3.0", ""), 0, nearest});
  Check({"nearest, bytes",
         text("1, 3, 5, 4", "uint8", "1.0, 1.0, 2.5, 0.5",
              "coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\""),
         0, nearest});
}

TEST(SessionOperators, ConcatIsWrittenInPlace) {
  const std::string head =
      "graph \"\" opset 13\ninput %x: float32[2, 3, 5, 5]\nconst %w1: float32[6, 3, 1, 1] = "
      "random\nconst %w3: float32[7, 3, 3, 3] = random\n%a = Conv(%x, %w1)\n%b = Conv(%x, "
      "%w3) {pads = [1, 1, 1, 1]}\n%m = MaxPool(%x) {kernel_shape = [3, 3], pads = [1, 1, 1, "
      "1]}\n";
  Check({"channels",
         head + "%y = Concat(%a, %b, %m) {axis = 1}\noutput %y\n",
         1e-5,
         {"transpose", "conv_f32", "conv_f32", "maxpool_f32", "transpose"}});
  // A value that is read elsewhere as well, or joined twice, is copied.
  Check({"shared",
         head + "%y = Concat(%a, %b, %a) {axis = 1}\n%z = Relu(%m)\noutput %y\noutput %z\n",
         1e-5,
         {"transpose", "conv_f32", "conv_f32", "maxpool_f32", "copy_rows", "clamp_f32", "transpose",
          "transpose"}});
  Check({"height",
         "graph \"\" opset 13\ninput %x: float32[1, 3, 5, 5]\nconst %w1: float32[6, 3, 1, 1] = "
         "random\n%a = Conv(%x, %w1)\n%b = Conv(%x, %w1) {strides = [2, 1]}\n"
         "%y = Concat(%a, %b) {axis = 2}\noutput %y\n",
         1e-5,
         {"transpose", "conv_f32", "conv_f32", "transpose"}});
}

TEST(SessionOperators, QLinearConcatRescales) {
  Check(
      {"QLinearConcat",
       "graph \"\" opset 13, com.microsoft 1\ninput %a: uint8[2, 3, 4, 4]\ninput %b: uint8[2, 2, "
       "4, "
       "4]\nconst %s: float32[] = {0.5}\nconst %z: uint8[] = {3}\nconst %t: float32[] = {0.25}\n"
       "%y = com.microsoft::QLinearConcat(%s, %z, %a, %s, %z, %b, %t, %z) {axis = 1}\noutput %y\n",
       0,
       {"copy_rows"}});
}

}  // namespace
}  // namespace requant
