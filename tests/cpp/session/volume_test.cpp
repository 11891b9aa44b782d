// Convolutions and pools over three spatial dimensions against the reference, integers bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "session/session.h"
#include "support/random_text.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

using testing::Pick;

std::string List(const std::vector<int>& numbers) {
  std::string out;
  for (const int number : numbers) out += (out.empty() ? "" : ", ") + std::to_string(number);
  return out;
}

/// Window attributes for a volume of that size; strides, pads and dilations at random.
std::string Attributes(std::mt19937& random, const std::vector<int>& kernel,
                       const std::vector<int>& size, bool pool) {
  std::vector<int> strides, dilations, begin, end;
  for (size_t i = 0; i < 3; ++i) {
    strides.push_back(Pick(random, 1, 3));
    const bool wide = Pick(random, 0, 3) == 0 && (kernel[i] - 1) * 2 < size[i];
    dilations.push_back(wide ? 2 : 1);
    begin.push_back(Pick(random, 0, pool ? kernel[i] - 1 : kernel[i]));
    end.push_back(Pick(random, 0, pool ? kernel[i] - 1 : kernel[i]));
  }
  begin.insert(begin.end(), end.begin(), end.end());
  std::string out = StrCat("{kernel_shape = [", List(kernel), "], strides = [", List(strides), "]");
  switch (Pick(random, 0, 4)) {
    case 0:
      break;
    case 1:
      out += StrCat(", auto_pad = \"SAME_", Pick(random, 0, 1) == 0 ? "UPPER" : "LOWER", "\"");
      break;
    default:
      out += StrCat(", pads = [", List(begin), "]");
  }
  return out + (Pick(random, 0, 1) == 0 ? StrCat(", dilations = [", List(dilations), "]") : "");
}

struct Size {
  int batch, channels;
  std::vector<int> volume, kernel;
  std::string Dims() const {
    return StrCat("[", List({batch, channels, volume[0], volume[1], volume[2]}), "]");
  }
};
Size AnySize(std::mt19937& random, int channels) {
  Size size{Pick(random, 1, 2), channels, {}, {}};
  for (int i = 0; i < 3; ++i) {
    size.kernel.push_back(Pick(random, 1, 3));
    size.volume.push_back(Pick(random, size.kernel.back() + (i == 0 ? 0 : 1), 8));
  }
  return size;
}

std::string Numbers(std::mt19937& random, int count, int lo, int hi) {
  std::vector<int> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(Pick(random, lo, hi));
  return List(numbers);
}

TensorMap Feeds(std::mt19937& random, const Graph& graph) {
  TensorMap feeds;
  for (const Value* input : graph.inputs()) {
    Tensor tensor(input->type.dtype, input->type.StaticShape());
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (tensor.dtype() == DType::kFloat32) {
        tensor.data<float>()[i] = static_cast<float>(Pick(random, -1000, 1000)) / 256;
      } else {
        static_cast<uint8_t*>(tensor.raw())[i] = static_cast<uint8_t>(random());
      }
    }
    feeds[input->name] = tensor;
  }
  return feeds;
}

/// Runs the graph with three threads or none, and saved, in both modes; returns whether no step was
/// a reference.
bool Check(std::mt19937& random, const std::string& text, double tolerance) {
  static testing::ThreadRunner threads(3);
  SCOPED_TRACE(text);
  const Graph graph(ParseGraph(text));
  const TensorMap feeds = Feeds(random, graph);
  bool fast = true;
  for (const RequantizeMode mode : {RequantizeMode::kUpward, RequantizeMode::kFloat}) {
    const Tensor want = Interpret(graph, feeds, {mode, {}})[0];
    SessionOptions options;
    options.plan.requantize = mode;
    options.plan.compact = Pick(random, 0, 1) == 1;
    if (Pick(random, 0, 1) == 1) options.runner = &threads;
    Session session(graph, options);
    const Tensor got = session.Run(feeds)[0];
    if (tolerance == 0) {
      EXPECT_TRUE(got.SameBits(want));
    } else {
      EXPECT_EQ(got.shape(), want.shape());
      for (int64_t i = 0; i < want.count(); ++i) {
        const float exact = want.data<float>()[i];
        EXPECT_NEAR(got.data<float>()[i], exact, tolerance * (1 + std::fabs(exact)));
      }
    }
    for (const auto& step : session.plan()->steps) fast = fast && step->kernel != "reference";
    const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
    SessionOptions again;
    again.runner = options.runner;
    EXPECT_TRUE(Session(SharedBytes{saved, *saved}, again).Run(feeds)[0].SameBits(got));
  }
  return fast;
}

TEST(Volume, ConvolutionsOfFloats) {
  std::mt19937 random(1);
  int fast = 0;
  for (int i = 0; i < 80; ++i) {
    const int groups = Pick(random, 0, 2) == 0 ? Pick(random, 1, 4) : 1;
    const int depth = Pick(random, 0, 2) == 0 ? 1 : Pick(random, 1, 9);
    const int outputs = groups * (Pick(random, 0, 2) == 0 ? 1 : Pick(random, 1, 9));
    const Size size = AnySize(random, groups * depth);
    const int taps = size.kernel[0] * size.kernel[1] * size.kernel[2];
    // Integers, whose float sums are exact.
    const std::string text =
        StrCat("graph \"\" opset 17\ninput %x: float32", size.Dims(), "\nconst %w: float32[",
               outputs, ", ", depth, ", ", List(size.kernel), "] = {",
               Numbers(random, outputs * depth * taps, -9, 9), "}\nconst %b: float32[", outputs,
               "] = {", Numbers(random, outputs, -9, 9), "}\n%c = Conv(%x, %w, %b) ",
               Attributes(random, size.kernel, size.volume, false), ", group = ", groups,
               "}\n%y = Relu(%c)\noutput %y\n");
    fast += Check(random, text, 1e-5) ? 1 : 0;
  }
  EXPECT_GE(fast, 70);
}

TEST(Volume, ConvolutionsOfIntegers) {
  std::mt19937 random(2);
  int fast = 0;
  for (int i = 0; i < 120; ++i) {
    const int groups = Pick(random, 0, 2) == 0 ? Pick(random, 1, 4) : 1;
    const int depth = Pick(random, 0, 2) == 0 ? 1 : Pick(random, 1, 9);
    const int outputs = groups * (Pick(random, 0, 2) == 0 ? 1 : Pick(random, 1, 20));
    Size size = AnySize(random, groups * depth);
    if (i % 4 == 0) size.kernel = {std::min(size.kernel[0], 2), 1, 1};
    const int taps = size.kernel[0] * size.kernel[1] * size.kernel[2];
    const bool is_signed = Pick(random, 0, 1) == 1;
    const std::string type = is_signed ? "int8" : "uint8";
    const int least = is_signed ? -128 : 0;
    std::string scales;
    for (int k = 0; k < outputs; ++k)
      scales += StrCat(k == 0 ? "" : ", ", "0.00", Pick(random, 1, 9));
    const std::string text = StrCat(
        "graph \"\" opset 17\ninput %x: ", type, size.Dims(), "\nconst %s: float32[] = {0.05}\n",
        "const %z: ", type, "[] = {", least + Pick(random, 0, 255), "}\nconst %w: int8[", outputs,
        ", ", depth, ", ", List(size.kernel), "] = {",
        Numbers(random, outputs * depth * taps, -127, 127), "}\nconst %ws: float32[", outputs,
        "] = {", scales, "}\nconst %wz: int8[", outputs, "] = {",
        Numbers(random, outputs, 0, i % 3 == 0 ? 20 : 0), "}\nconst %ys: float32[] = {0.3}\n",
        "const %yz: ", type, "[] = {", least + Pick(random, 0, 255), "}\nconst %b: int32[", outputs,
        "] = {", Numbers(random, outputs, -5000, 5000),
        "}\n%y = QLinearConv(%x, %s, %z, %w, %ws, %wz, %ys, %yz, %b) ",
        Attributes(random, size.kernel, size.volume, false), ", group = ", groups,
        "}\noutput %y\n");
    fast += Check(random, text, 0) ? 1 : 0;
  }
  EXPECT_GE(fast, 110);
}

TEST(Volume, Pools) {
  std::mt19937 random(3);
  int fast = 0;
  for (int i = 0; i < 200; ++i) {
    const Size size = AnySize(random, Pick(random, 1, 20));
    const bool is_float = i % 4 < 2;
    const std::string type = is_float ? "float32" : Pick(random, 0, 1) == 1 ? "int8" : "uint8";
    std::string attributes = Attributes(random, size.kernel, size.volume, true);
    if (Pick(random, 0, 2) == 0) attributes += ", ceil_mode = 1";
    std::string text =
        StrCat("graph \"\" opset 19, com.microsoft 1\ninput %x: ", type, size.Dims(), "\n");
    if (i % 2 == 0) {
      text += StrCat("%y = MaxPool(%x) ", attributes, "}\noutput %y\n");
    } else {
      // Dilations of averages are new in opset 19, and ONNX Runtime's averages never have them.
      if (const size_t at = attributes.find(", dilations"); at != std::string::npos) {
        attributes.erase(at, attributes.find(']', at) + 1 - at);
      }
      attributes += StrCat(", count_include_pad = ", Pick(random, 0, 1));
      if (is_float) {
        text += StrCat("%y = AveragePool(%x) ", attributes, "}\noutput %y\n");
      } else {
        const int least = type == "int8" ? -128 : 0;
        text +=
            StrCat("const %s: float32[] = {0.02}\nconst %t: float32[] = {0.03}\nconst %z: ", type,
                   "[] = {", least + Pick(random, 0, 255), "}\nconst %yz: ", type, "[] = {",
                   least + Pick(random, 0, 255),
                   "}\n%y = com.microsoft::QLinearAveragePool(%x, %s, %z, %t, %yz) ", attributes,
                   "}\noutput %y\n");
      }
    }
    fast += Check(random, text, is_float && i % 2 == 1 ? 1e-6 : 0) ? 1 : 0;
  }
  EXPECT_GE(fast, 180);
}

/// Everything in between keeps the layout with channels side by side.
TEST(Volume, NetworksNeedNoConversions) {
  std::mt19937 random(4);
  const std::string text = StrCat(
      "graph \"\" opset 17\ninput %x: float32[1, 3, 6, 8, 8]\nconst %w: float32[8, 3, 3, 3, 3] = {",
      Numbers(random, 8 * 81, -3, 3), "}\nconst %v: float32[8, 8, 1, 3, 3] = {",
      Numbers(random, 8 * 72, -3, 3),
      "}\nconst %t: float32[8, 1, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
      "%a = Conv(%x, %w) {pads = [1, 1, 1, 1, 1, 1]}\n%b = Relu(%a)\n"
      "%c = Conv(%b, %v) {pads = [0, 1, 1, 0, 1, 1]}\n%d = Add(%c, %b)\n%e = Mul(%d, %t)\n"
      "%m = MaxPool(%e) {kernel_shape = [2, 2, 2], strides = [2, 2, 2]}\n"
      "%y = GlobalAveragePool(%m)\noutput %y\n");
  EXPECT_TRUE(Check(random, text, 1e-5));
  const Graph graph(ParseGraph(text));
  Session session(graph, {});
  session.Run(Feeds(random, graph));
  int conversions = 0;
  for (const auto& step : session.plan()->steps) conversions += step->op.starts_with("ToChannels");
  EXPECT_EQ(conversions, 1);
}

}  // namespace
}  // namespace requant
