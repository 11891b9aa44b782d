// ConvTranspose and QLinearConvTranspose of random forms. A session computes them as convolutions
// by phases, which must give what the reference gives (for 8-bit values: the same bits), with any
// kernels and threads. The reference itself is compared with sums in double.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/str_cat.h"
#include "ir/text.h"
#include "kernels/conv/table.h"
#include "kernels/dwconv/table.h"
#include "session/session.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

/// A form with two spatial dimensions, or with one if `height` is 0.
struct Form {
  int64_t batch, groups, depth, width, height, length;
  int64_t kernel[2], stride[2], dilation[2], begin[2], end[2], extra[2];
  bool is_signed, per_channel, shared, biased, relu;
  std::string auto_pad;
};

Form RandomForm(std::mt19937& random) {
  const auto pick = [&random](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  Form form{};
  form.batch = pick(1, 2);
  form.groups = pick(0, 2) == 0 ? pick(2, 20) : 1;
  form.depth = form.groups > 1 && pick(0, 1) ? 1 : pick(1, 21);
  form.width = form.groups > 1 && pick(0, 1) ? 1 : pick(1, 9);
  form.height = pick(0, 4) == 0 ? 0 : pick(1, 6);
  form.length = pick(1, 9);
  for (size_t axis = 0; axis < 2; ++axis) {
    form.kernel[axis] = pick(1, 5);
    form.stride[axis] = pick(1, 4);
    form.dilation[axis] = pick(0, 2) == 0 ? pick(2, 4) : 1;
    const int64_t reach = (form.kernel[axis] - 1) * form.dilation[axis];
    form.begin[axis] = pick(0, std::min<int64_t>(reach, 3));
    form.end[axis] = pick(0, std::min<int64_t>(reach - form.begin[axis], 3));
    form.extra[axis] = pick(0, form.stride[axis] - 1);
  }
  form.is_signed = pick(0, 1) == 1;
  form.per_channel = pick(0, 1) == 1;
  form.biased = pick(0, 1) == 1;
  form.relu = pick(0, 2) == 0;
  constexpr const char* kAutoPads[] = {"NOTSET",     "NOTSET",     "NOTSET",
                                       "SAME_UPPER", "SAME_LOWER", "VALID"};
  form.auto_pad = kAutoPads[pick(0, 5)];
  form.shared = form.per_channel && form.groups > 1 && form.width > 1 && pick(0, 1) == 1;
  return form;
}

std::string Numbers(std::mt19937& random, int64_t count, int lo, int hi) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    text += StrCat(i ? ", " : "", std::uniform_int_distribution<int>(lo, hi)(random));
  }
  return text;
}

std::string Scales(std::mt19937& random, int64_t count, double size) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    const double scale = size * std::uniform_real_distribution<double>(0.5, 1.5)(random);
    text += (i ? ", " : "") + std::to_string(scale);
  }
  return text;
}

std::string AttributesOf(const Form& form) {
  const auto each = [&](const int64_t* numbers) {
    return form.height == 0 ? StrCat(numbers[1]) : StrCat(numbers[0], ", ", numbers[1]);
  };
  const std::string attributes =
      StrCat("group = ", form.groups, ", strides = [", each(form.stride), "], dilations = [",
             each(form.dilation), "], output_padding = [", each(form.extra), "]");
  return attributes + (form.auto_pad != "NOTSET"
                           ? StrCat(", auto_pad = \"", form.auto_pad, "\"")
                           : StrCat(", pads = [", each(form.begin), ", ", each(form.end), "]"));
}

std::string TextOf(const Form& form, std::mt19937& random) {
  const int first = form.height == 0 ? 1 : 0;
  const auto each = [&](const int64_t* numbers) {
    return first ? StrCat(numbers[1]) : StrCat(numbers[0], ", ", numbers[1]);
  };
  const std::string type = form.is_signed ? "int8" : "uint8";
  const std::string spatial = first ? StrCat(form.length) : StrCat(form.height, ", ", form.length);
  const int64_t outputs = form.groups * form.width;
  const int64_t channels = form.groups * form.depth;
  const int64_t taps = (first ? 1 : form.kernel[0]) * form.kernel[1];
  const int64_t scales = !form.per_channel ? 1 : form.shared ? form.width : outputs;
  const std::string many = form.per_channel ? StrCat(scales) : "";
  const int lo = form.is_signed ? -128 : 0;
  const double step = 0.01 * std::sqrt(static_cast<double>(form.depth * taps));
  std::string text =
      StrCat("graph \"\" opset 13, ai.requant 1\ninput %x: ", type, "[", form.batch, ", ", channels,
             ", ", spatial, "]\nconst %xs: float32[] = {0.02}\nconst %xz: ", type, "[] = {",
             Numbers(random, 1, lo, lo + 255), "}\nconst %w: int8[", channels, ", ", form.width,
             ", ", each(form.kernel), "] = {",
             Numbers(random, channels * form.width * taps, -127, 127), "}\nconst %ws: float32[",
             many, "] = {", Scales(random, scales, 0.01), "}\nconst %wz: int8[", many, "] = {",
             Numbers(random, scales, -3, 3), "}\nconst %ys: float32[] = {", std::to_string(step),
             "}\nconst %yz: ", type, "[] = {", Numbers(random, 1, lo + 60, lo + 190), "}\n");
  text +=
      StrCat("const %b: int32[", outputs, "] = {", Numbers(random, outputs, -20000, 20000), "}\n");
  const std::string bias = form.biased ? ", %b" : "";
  text += StrCat("%y = ai.requant::QLinearConvTranspose(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz", bias,
                 ") {", AttributesOf(form), "}\n");
  if (!form.relu) return text + "output %y\n";
  return text +
         StrCat("const %lo: ", type, "[] = {", lo + 70, "}\n%z = Clip(%y, %lo)\noutput %z\n");
}

Tensor RandomBytes(const ValueType& type, std::mt19937& random) {
  Tensor x(type.dtype, type.StaticShape());
  for (int64_t i = 0; i < x.count(); ++i) {
    static_cast<uint8_t*>(x.raw())[i] = static_cast<uint8_t>(random());
  }
  return x;
}

TEST(QLinearConvTranspose, SameBitsAsTheReference) {
  testing::ThreadRunner threads(3);
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Form form = RandomForm(random);
    const std::string text = TextOf(form, random);
    const Graph graph(ParseGraph(text));
    const TensorMap feeds{{"x", RandomBytes(graph.inputs()[0]->type, random)}};
    for (const RequantizeMode mode : {RequantizeMode::kUpward, RequantizeMode::kFloat}) {
      const Tensor wanted = Interpret(graph, feeds, {mode, {}})[0];
      std::vector<SessionOptions> all(2);
      all[1].runner = &threads;
      const auto force = [&all](const char* family, const char* kernel) {
        SessionOptions forced;
        forced.plan.force_kernels.push_back({family, kernel});
        all.push_back(forced);
      };
      for (const ConvQ8Kernel& row : ConvQ8Kernels()) force("conv_q8", row.name);
      for (const DwConvQ8Kernel& row : DwConvQ8Kernels()) force("dwconv_q8", row.name);
      for (SessionOptions& options : all) {
        options.plan.requantize = mode;
        Session session(graph, options);
        ASSERT_TRUE(session.Run(feeds)[0].SameBits(wanted)) << text.substr(0, 900);
        for (const auto& step : session.plan()->steps) EXPECT_NE(step->kernel, "reference");
      }
      Session session(graph, all[0]);
      session.Run(feeds);
      const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
      Session loaded({saved, *saved}, all[0]);
      ASSERT_TRUE(loaded.Run(feeds)[0].SameBits(wanted));
    }
  }
}

std::string FloatTextOf(const Form& form, std::mt19937& random) {
  const bool line = form.height == 0;
  const int64_t outputs = form.groups * form.width;
  const int64_t channels = form.groups * form.depth;
  const int64_t taps = (line ? 1 : form.kernel[0]) * form.kernel[1];
  const std::string spatial = line ? StrCat(form.length) : StrCat(form.height, ", ", form.length);
  const std::string kernel =
      line ? StrCat(form.kernel[1]) : StrCat(form.kernel[0], ", ", form.kernel[1]);
  const std::string text =
      StrCat("graph \"\" opset 13\ninput %x: float32[", form.batch, ", ", channels, ", ", spatial,
             "]\nconst %w: float32[", channels, ", ", form.width, ", ", kernel, "] = {",
             Scales(random, channels * form.width * taps, 0.1), "}\nconst %b: float32[", outputs,
             "] = {", Scales(random, outputs, 0.5), "}\n%y = ConvTranspose(%x, %w",
             form.biased ? ", %b" : "", ") {", AttributesOf(form), "}\n");
  return text + (form.relu ? "%z = Relu(%y)\noutput %z\n" : "output %y\n");
}

TEST(ConvTranspose, FloatsAsTheReference) {
  testing::ThreadRunner threads(3);
  int depthwise = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Form form = RandomForm(random);
    const Graph graph(ParseGraph(FloatTextOf(form, random)));
    Tensor x(DType::kFloat32, graph.inputs()[0]->type.StaticShape());
    for (int64_t i = 0; i < x.count(); ++i) {
      x.data<float>()[i] = std::uniform_real_distribution<float>(-1, 1)(random);
    }
    const TensorMap feeds{{"x", x}};
    const Tensor wanted = Interpret(graph, feeds)[0];
    SessionOptions options;
    Session session(graph, options);
    const Tensor got = session.Run(feeds)[0];
    ASSERT_EQ(got.shape(), wanted.shape());
    for (int64_t i = 0; i < got.count(); ++i) {
      ASSERT_NEAR(got.AsDouble(i), wanted.AsDouble(i), 1e-5) << AttributesOf(form);
    }
    for (const auto& step : session.plan()->steps) {
      EXPECT_NE(step->kernel, "reference");
      depthwise += step->kernel.starts_with("dwconv_f32") ? 1 : 0;
    }
    options.runner = &threads;
    EXPECT_TRUE(Session(graph, options).Run(feeds)[0].SameBits(got));
    const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
    EXPECT_TRUE(Session({saved, *saved}, {}).Run(feeds)[0].SameBits(got));
  }
  EXPECT_GT(depthwise, 20);
}

/// The oracle is the definition, one product at a time.
TEST(QLinearConvTranspose, ReferenceAgainstSumsInDouble) {
  int64_t count = 0;
  int64_t different = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(1000 + seed);
    Form form = RandomForm(random);
    form.auto_pad = "NOTSET";
    form.relu = false;
    form.height = std::max<int64_t>(form.height, 1);
    const Graph graph = ParseGraph(TextOf(form, random));
    const Tensor x = RandomBytes(graph.inputs()[0]->type, random);
    const Tensor y = Interpret(graph, {{"x", x}}, {RequantizeMode::kFloat, {}})[0];
    const Node& node = *graph.nodes()[0];
    const auto number = [&node](size_t slot, int64_t i) {
      const Tensor& tensor = *node.constant(slot);
      return tensor.AsDouble(i % tensor.count());
    };
    const Tensor& w = *node.constant(3);
    const int64_t outputs = form.groups * form.width;
    std::vector<double> sums(static_cast<size_t>(y.count()));
    int64_t at = 0;
    for (int64_t n = 0; n < form.batch; ++n) {
      for (int64_t c = 0; c < form.groups * form.depth; ++c) {
        for (int64_t h = 0; h < form.height; ++h) {
          for (int64_t l = 0; l < form.length; ++l, ++at) {
            const double value = (x.AsDouble(at) - number(2, 0)) * number(1, 0);
            for (int64_t o = 0; o < form.width; ++o) {
              const int64_t channel = c / form.depth * form.width + o;
              for (int64_t i = 0; i < form.kernel[0] * form.kernel[1]; ++i) {
                const int64_t row =
                    h * form.stride[0] - form.begin[0] + i / form.kernel[1] * form.dilation[0];
                const int64_t column =
                    l * form.stride[1] - form.begin[1] + i % form.kernel[1] * form.dilation[1];
                if (row < 0 || row >= y.dim(2) || column < 0 || column >= y.dim(3)) continue;
                const int64_t weight = (c * form.width + o) * form.kernel[0] * form.kernel[1] + i;
                sums[static_cast<size_t>(((n * outputs + channel) * y.dim(2) + row) * y.dim(3) +
                                         column)] +=
                    value * (w.AsDouble(weight) - number(5, channel)) * number(4, channel);
              }
            }
          }
        }
      }
    }
    const double low = form.is_signed ? -128 : 0;
    for (int64_t i = 0; i < y.count(); ++i) {
      const int64_t channel = i / (y.dim(2) * y.dim(3)) % outputs;
      double sum = sums[static_cast<size_t>(i)];
      if (form.biased) sum += number(8, channel) * number(1, 0) * number(4, channel);
      const double wanted =
          std::clamp(std::nearbyint(sum / number(6, 0)) + number(7, 0), low, low + 255);
      ASSERT_NEAR(y.AsDouble(i), wanted, 1);
      ++count;
      different += y.AsDouble(i) != wanted;
    }
  }
  EXPECT_LT(different, count / 1000);
}

}  // namespace
}  // namespace requant
