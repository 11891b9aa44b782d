// Operators with kernels of their own, in a session, against their references.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/text.h"
#include "session/session.h"

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

/// The text with numbers for every `const %name: float32[2, 3] = random`.
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
  std::vector<std::string> kernels;  // of the plan's steps, by the beginning of their names
};

void Check(const Case& test) {
  SCOPED_TRACE(test.name);
  std::mt19937 random(5);
  auto graph = std::make_shared<Graph>(ParseGraph(WithWeights(test.text, random)));
  TensorMap feeds;
  for (const Value* input : graph->inputs()) feeds[input->name] = RandomTensor(random, input->type);
  const std::vector<Tensor> expected = Interpret(*graph, feeds);
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

TEST(SessionOperators, ConvTranspose) {
  const auto text = [](const std::string& image, const std::string& weights,
                       const std::string& attributes, const std::string& bias) {
    return "graph \"\" opset 13\ninput %x: float32[" + image + "]\nconst %ww: float32[" + weights +
           "] = random\nconst %wb: float32[" + bias +
           "] = random\n%y = ConvTranspose(%x, %ww, %wb) {" + attributes +
           "}\n%z = Relu(%y)\noutput %z\n";
  };
  const std::vector<std::string> kernels{"transpose", "conv_f32", "col2im_f32", "transpose"};
  Check({"2x2 stride 2", text("2, 5, 4, 3", "5, 6, 2, 2", "strides = [2, 2]", "6"), 1e-5, kernels});
  Check({"4x4 stride 2, padded",
         text("1, 3, 5, 4", "3, 7, 4, 4", "strides = [2, 2], pads = [1, 1, 1, 1]", "7"), 1e-5,
         kernels});
  Check({"output padding, dilation",
         text("1, 3, 5, 4", "3, 5, 3, 3",
              "strides = [3, 2], dilations = [2, 1], pads = [1, 0, 2, 1], output_padding = [1, 1]",
              "5"),
         1e-5, kernels});
  Check({"groups", text("1, 6, 4, 4", "6, 3, 3, 3", "strides = [2, 2], group = 2", "6"), 1e-5,
         kernels});
  Check({"one dimension",
         text("2, 4, 6", "4, 3, 5", "strides = [2], auto_pad = \"SAME_UPPER\"", "3"), 1e-5,
         kernels});
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
  // What is read elsewhere too, or joined twice, is copied.
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
