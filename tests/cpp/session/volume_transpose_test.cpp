// Transposed convolutions over three spatial dimensions, which sessions compute as those over two:
// floats against sums in double, 8-bit values against the bits of the reference.
#include <gtest/gtest.h>

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

using testing::Dims, testing::Numbers, testing::Pick;

struct Form {
  int batch, groups, inner, width;  // channels in and out of each group
  std::vector<int> size, kernel, stride, dilation, begin, end, extra;
  bool biased, relu;
  std::string auto_pad;
};

Form RandomForm(std::mt19937& random) {
  Form form{};
  form.batch = Pick(random, 1, 2);
  form.groups = Pick(random, 0, 2) == 0 ? Pick(random, 2, 5) : 1;
  form.inner = Pick(random, 1, form.groups > 1 ? 3 : 9);
  form.width = Pick(random, 1, 5);
  for (int axis = 0; axis < 3; ++axis) {
    form.size.push_back(Pick(random, 1, 5));
    form.kernel.push_back(Pick(random, 1, 4));
    form.stride.push_back(Pick(random, 1, 3));
    form.dilation.push_back(Pick(random, 0, 3) == 0 ? 2 : 1);
    const int reach = (form.kernel.back() - 1) * form.dilation.back();
    form.begin.push_back(Pick(random, 0, std::min(reach, 2)));
    form.end.push_back(Pick(random, 0, std::min(reach - form.begin.back(), 2)));
    form.extra.push_back(Pick(random, 0, form.stride.back() - 1));
  }
  form.biased = Pick(random, 0, 1) == 1;
  form.relu = Pick(random, 0, 2) == 0;
  const char* const pads[] = {"NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
  form.auto_pad = pads[Pick(random, 0, 4)];
  return form;
}

std::string AttributesOf(const Form& form) {
  std::vector<int> pads = form.begin;
  pads.insert(pads.end(), form.end.begin(), form.end.end());
  return StrCat(" {group = ", form.groups, ", strides = ", Dims(form.stride),
                ", dilations = ", Dims(form.dilation), ", output_padding = ", Dims(form.extra),
                form.auto_pad == "NOTSET" ? StrCat(", pads = ", Dims(pads))
                                          : StrCat(", auto_pad = \"", form.auto_pad, "\""),
                "}\n");
}

std::vector<int> InputDims(const Form& form) {
  std::vector<int> dims = {form.batch, form.groups * form.inner};
  dims.insert(dims.end(), form.size.begin(), form.size.end());
  return dims;
}
std::vector<int> WeightDims(const Form& form) {
  std::vector<int> dims = {form.groups * form.inner, form.width};
  dims.insert(dims.end(), form.kernel.begin(), form.kernel.end());
  return dims;
}
int Count(const std::vector<int>& dims) {
  int count = 1;
  for (const int dim : dims) count *= dim;
  return count;
}

std::vector<Tensor> RunBoth(const Graph& graph, const TensorMap& feeds) {
  SessionOptions options;
  Session session(graph, options);
  std::vector<Tensor> results = {session.Run(feeds)[0]};
  for (const auto& step : session.plan()->steps) EXPECT_NE(step->kernel, "reference");
  testing::ThreadRunner threads(2);
  options.runner = &threads;
  results.push_back(Session(graph, options).Run(feeds)[0]);
  const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
  results.push_back(Session({saved, *saved}, {}).Run(feeds)[0]);
  return results;
}

TEST(TransposedVolume, FloatsAgainstSumsInDouble) {
  for (unsigned seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Form form = RandomForm(random);
    const int outputs = form.groups * form.width;
    const std::string text = StrCat(
        "graph \"\" opset 13\ninput %x: float32", Dims(InputDims(form)), "\nconst %w: float32",
        Dims(WeightDims(form)), " = ", Numbers(random, Count(WeightDims(form)), -9, 9),
        "\nconst %b: float32[", outputs, "] = ", Numbers(random, outputs, -50, 50),
        "\n%y = ConvTranspose(%x, %w", form.biased ? ", %b" : "", ")", AttributesOf(form),
        form.relu ? "%z = Relu(%y)\noutput %z\n" : "output %y\n");
    const Graph graph(ParseGraph(text));
    Tensor x(DType::kFloat32, graph.inputs()[0]->type.StaticShape());
    for (int64_t i = 0; i < x.count(); ++i) {
      x.data<float>()[i] = static_cast<float>(Pick(random, -9, 9));
    }
    const std::vector<Tensor> got = RunBoth(graph, {{"x", x}});
    const Tensor wanted = Interpret(graph, {{"x", x}})[0];
    ASSERT_EQ(got[0].shape(), wanted.shape());
    // The numbers are small integers, so that sums are exact in any order.
    for (const Tensor& one : got) ASSERT_TRUE(one.SameBits(wanted)) << text.substr(0, 300);
    if (form.auto_pad != "NOTSET") continue;
    const Tensor& w = graph.FindValue("w")->constant;
    std::vector<double> sums(static_cast<size_t>(wanted.count()));
    for (int64_t i = 0; i < wanted.count(); ++i) {
      const int64_t pixels = wanted.dim(2) * wanted.dim(3) * wanted.dim(4);
      const int64_t channel = i / pixels % outputs;
      sums[static_cast<size_t>(i)] =
          form.biased ? graph.FindValue("b")->constant.AsDouble(channel) : 0;
    }
    const auto at = [](const Tensor& t, int64_t a, int64_t b, const int64_t* p) {
      return (((a * t.dim(1) + b) * t.dim(2) + p[0]) * t.dim(3) + p[1]) * t.dim(4) + p[2];
    };
    const auto each = [](const std::vector<int>& dims, auto&& call) {
      int64_t p[3];
      for (p[0] = 0; p[0] < dims[0]; ++p[0]) {
        for (p[1] = 0; p[1] < dims[1]; ++p[1]) {
          for (p[2] = 0; p[2] < dims[2]; ++p[2]) call(p);
        }
      }
    };
    for (int n = 0; n < form.batch; ++n) {
      for (int c = 0; c < form.groups * form.inner; ++c) {
        each(form.size, [&](const int64_t* from) {
          each(form.kernel, [&](const int64_t* tap) {
            int64_t to[3];
            for (size_t axis = 0; axis < 3; ++axis) {
              to[axis] = from[axis] * form.stride[axis] + tap[axis] * form.dilation[axis] -
                         form.begin[axis];
              if (to[axis] < 0 || to[axis] >= wanted.dim(static_cast<int64_t>(axis) + 2)) return;
            }
            for (int o = 0; o < form.width; ++o) {
              sums[static_cast<size_t>(at(wanted, n, c / form.inner * form.width + o, to))] +=
                  x.AsDouble(at(x, n, c, from)) * w.AsDouble(at(w, c, o, tap));
            }
          });
        });
      }
    }
    for (int64_t i = 0; i < wanted.count(); ++i) {
      const double sum = sums[static_cast<size_t>(i)];
      ASSERT_EQ(wanted.AsDouble(i), form.relu ? std::max(sum, 0.0) : sum);
    }
  }
}

TEST(TransposedVolume, BytesAreTheBitsOfTheReference) {
  for (unsigned seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(1000 + seed);
    const Form form = RandomForm(random);
    const int outputs = form.groups * form.width;
    const int scales = Pick(random, 0, 1) ? outputs : 1;
    const std::string many = scales > 1 ? StrCat(scales) : "";
    const std::string type = Pick(random, 0, 1) ? "int8" : "uint8";
    const int lo = type == "int8" ? -128 : 0;
    const std::string text = StrCat(
        "graph \"\" opset 13, ai.requant 1\ninput %x: ", type, Dims(InputDims(form)),
        "\nconst %xs: float32[] = {0.5}\nconst %xz: ", type,
        "[] = ", Numbers(random, 1, lo, lo + 255), "\nconst %w: int8", Dims(WeightDims(form)),
        " = ", Numbers(random, Count(WeightDims(form)), -127, 127), "\nconst %ws: float32[", many,
        "] = ", Numbers(random, scales, 1, 9), "\nconst %wz: int8[", many,
        "] = ", Numbers(random, scales, -3, 3), "\nconst %ys: float32[] = {", 300 * form.inner,
        ".0}\nconst %yz: ", type, "[] = ", Numbers(random, 1, lo + 60, lo + 190),
        "\nconst %b: int32[", outputs, "] = ", Numbers(random, outputs, -20000, 20000),
        "\n%y = ai.requant::QLinearConvTranspose(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz",
        form.biased ? ", %b" : "", ")", AttributesOf(form), "output %y\n");
    const Graph graph(ParseGraph(text));
    Tensor x(graph.inputs()[0]->type.dtype, graph.inputs()[0]->type.StaticShape());
    for (int64_t i = 0; i < x.count(); ++i) {
      static_cast<uint8_t*>(x.raw())[i] = static_cast<uint8_t>(random());
    }
    const Tensor wanted = Interpret(graph, {{"x", x}})[0];
    for (const Tensor& one : RunBoth(graph, {{"x", x}})) {
      ASSERT_TRUE(one.SameBits(wanted)) << text.substr(0, 300);
    }
  }
}

}  // namespace
}  // namespace requant
