// Models of opsets 1 to 6. Each is read from a file and gives the outputs of the same network in
// the operators of opset 13.
#include "onnx/upgrade.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "onnx/handmade.h"
#include "onnx/read.h"
#include "onnx/write.h"

namespace requant {
namespace {

using namespace handmade;

/// The graph of an opset, as a file has it.
Graph Old(int opset, const std::string& body) {
  const Graph graph = ParseGraph(StrCat("graph \"old\" opset ", opset, "\n", body));
  const std::vector<uint8_t> bytes = WriteOnnx(graph);
  return ReadOnnx(Share({bytes.begin(), bytes.end()}));
}

Graph New(const std::string& body) { return ParseGraph("graph \"new\" opset 13\n" + body); }

std::vector<Tensor> Outputs(const Graph& graph) {
  TensorMap feeds;
  for (const Value* input : graph.inputs()) {
    Tensor tensor(DType::kFloat32, input->type.StaticShape());
    for (int64_t i = 0; i < tensor.count(); ++i) {
      tensor.data<float>()[i] = std::sin(static_cast<float>(3 * i + 1));
    }
    feeds[input->name] = tensor;
  }
  return Interpret(graph, feeds);
}

struct Case {
  const char* name;
  int until;  ///< the first opset without this form
  const char* old;
  const char* now;
};

constexpr Case kCases[] = {
    {"consumed_inputs", 6,
     "input %x: float32[2, 3]\n%y = Relu(%x) {consumed_inputs = [1]}\noutput %y\n",
     "input %x: float32[2, 3]\n%y = Relu(%x)\noutput %y\n"},
    {"Add along an axis", 7,
     "input %x: float32[2, 3, 4]\nconst %b: float32[3] = {1, 2, 3}\n"
     "%y = Add(%x, %b) {broadcast = 1, axis = 1}\noutput %y\n",
     "input %x: float32[2, 3, 4]\nconst %b: float32[3, 1] = {1, 2, 3}\n"
     "%y = Add(%x, %b)\noutput %y\n"},
    {"Mul by what a run computes", 7,
     "input %x: float32[2, 3, 4]\ninput %b: float32[2]\n"
     "%y = Mul(%x, %b) {broadcast = 1, axis = 0}\noutput %y\n",
     "input %x: float32[2, 3, 4]\ninput %b: float32[2]\nconst %axes: int64[2] = {1, 2}\n"
     "%wide = Unsqueeze(%b, %axes)\n%y = Mul(%x, %wide)\noutput %y\n"},
    {"Less at the end", 7,
     "input %x: float32[2, 3]\nconst %b: float32[3] = {0.5, -0.5, 0}\n"
     "%y = Less(%x, %b) {broadcast = 1}\noutput %y\n",
     "input %x: float32[2, 3]\nconst %b: float32[3] = {0.5, -0.5, 0}\n"
     "%y = Less(%x, %b)\noutput %y\n"},
    {"PRelu of channels", 7,
     "input %x: float32[1, 3, 2, 2]\nconst %s: float32[3] = {0.5, -0.5, 2}\n"
     "%y = PRelu(%x, %s)\noutput %y\n",
     "input %x: float32[1, 3, 2, 2]\nconst %s: float32[3, 1, 1] = {0.5, -0.5, 2}\n"
     "%y = PRelu(%x, %s)\noutput %y\n"},
    {"Gemm", 7,
     "input %x: float32[2, 3]\nconst %w: float32[3, 2] = {1, 2, 3, 4, 5, 6}\n"
     "const %c: float32[2] = {1, -1}\n%y = Gemm(%x, %w, %c) {broadcast = 1}\noutput %y\n",
     "input %x: float32[2, 3]\nconst %w: float32[3, 2] = {1, 2, 3, 4, 5, 6}\n"
     "const %c: float32[2] = {1, -1}\n%y = Gemm(%x, %w, %c)\noutput %y\n"},
    {"BatchNormalization", 7,
     "input %x: float32[1, 2, 3]\nconst %a: float32[2] = {1, 2}\nconst %b: float32[2] = {3, 4}\n"
     "%y = BatchNormalization(%x, %a, %b, %b, %a) {is_test = 1}\noutput %y\n",
     "input %x: float32[1, 2, 3]\nconst %a: float32[2] = {1, 2}\nconst %b: float32[2] = {3, 4}\n"
     "%y = BatchNormalization(%x, %a, %b, %b, %a)\noutput %y\n"},
    {"Dropout", 7, "input %x: float32[4]\n%y = Dropout(%x) {is_test = 1}\noutput %y\n",
     "input %x: float32[4]\n%y = Identity(%x)\noutput %y\n"},
    {"LSTM", 7,
     "input %x: float32[2, 1, 2]\nconst %w: float32[1, 4, 2] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
     "const %r: float32[1, 4, 1] = {1, -1, 2, -2}\n"
     "_, %y = LSTM(%x, %w, %r) {hidden_size = 1, output_sequence = 0}\noutput %y\n",
     "input %x: float32[2, 1, 2]\nconst %w: float32[1, 4, 2] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
     "const %r: float32[1, 4, 1] = {1, -1, 2, -2}\n"
     "_, %y = LSTM(%x, %w, %r) {hidden_size = 1}\noutput %y\n"},
    {"GRU", 7,
     "input %x: float32[2, 1, 1]\nconst %w: float32[1, 3, 1] = {1, 2, 3}\n"
     "const %r: float32[1, 3, 1] = {1, -1, 2}\n"
     "%y = GRU(%x, %w, %r) {hidden_size = 1, output_sequence = 1}\noutput %y\n",
     "input %x: float32[2, 1, 1]\nconst %w: float32[1, 3, 1] = {1, 2, 3}\n"
     "const %r: float32[1, 3, 1] = {1, -1, 2}\n%y = GRU(%x, %w, %r) {hidden_size = 1}\noutput "
     "%y\n"},
    {"RNN", 7,
     "input %x: float32[2, 1, 1]\nconst %w: float32[1, 1, 1] = {0.5}\n"
     "const %r: float32[1, 1, 1] = {2}\n"
     "%y = RNN(%x, %w, %r) {hidden_size = 1, output_sequence = 1}\noutput %y\n",
     "input %x: float32[2, 1, 1]\nconst %w: float32[1, 1, 1] = {0.5}\n"
     "const %r: float32[1, 1, 1] = {2}\n%y = RNN(%x, %w, %r) {hidden_size = 1}\noutput %y\n"},
    {"Upsample", 7,
     "input %x: float32[1, 1, 2, 2]\n"
     "%y = Upsample(%x) {height_scale = 2.0, width_scale = 3.0}\noutput %y\n",
     "input %x: float32[1, 1, 2, 2]\nconst %s: float32[4] = {1, 1, 2, 3}\n"
     "%y = Resize(%x, _, %s) {mode = \"nearest\", nearest_mode = \"floor\", "
     "coordinate_transformation_mode = \"asymmetric\"}\noutput %y\n"},
    {"Upsample between pixels", 7,
     "input %x: float32[1, 1, 2, 2]\n"
     "%y = Upsample(%x) {height_scale = 2.0, width_scale = 2.0, mode = \"bilinear\"}\noutput %y\n",
     "input %x: float32[1, 1, 2, 2]\nconst %s: float32[4] = {1, 1, 2, 2}\n"
     "%y = Resize(%x, _, %s) {mode = \"linear\", "
     "coordinate_transformation_mode = \"asymmetric\"}\noutput %y\n"},
    {"Cast to a name", 6, "input %x: float32[4]\n%y = Cast(%x) {to = \"INT32\"}\noutput %y\n",
     "input %x: float32[4]\n%y = Cast(%x) {to = 6}\noutput %y\n"},
    {"Selu with fewer digits", 6, "input %x: float32[4]\n%y = Selu(%x)\noutput %y\n",
     "input %x: float32[4]\n%y = Selu(%x) {alpha = 1.6732, gamma = 1.0507}\noutput %y\n"},
    {"Tile along an axis", 6,
     "input %x: float32[2, 3]\nconst %n: float32[] = {2}\nconst %a: float32[] = {1}\n"
     "%y = Tile(%x, %n, %a)\noutput %y\n",
     "input %x: float32[2, 3]\nconst %n: int64[2] = {1, 2}\n%y = Tile(%x, %n)\noutput %y\n"},
    {"Reshape by an attribute", 5,
     "input %x: float32[2, 3, 4]\n%y = Reshape(%x) {shape = [0, -1]}\noutput %y\n",
     "input %x: float32[2, 3, 4]\nconst %s: int64[2] = {0, -1}\n%y = Reshape(%x, %s)\noutput %y\n"},
    {"Concat without an axis", 4, "input %x: float32[2, 3]\n%y = Concat(%x, %x)\noutput %y\n",
     "input %x: float32[2, 3]\n%y = Concat(%x, %x) {axis = 1}\noutput %y\n"},
    {"Pad", 2, "input %x: float32[2, 3]\n%y = Pad(%x) {paddings = [0, 1, 1, 0]}\noutput %y\n",
     "input %x: float32[2, 3]\nconst %p: int64[4] = {0, 1, 1, 0}\n%y = Pad(%x, %p)\noutput %y\n"},
    {"Split by an input", 2,
     "input %x: float32[4, 2]\nconst %s: float32[2] = {1, 3}\n"
     "%a, %b = Split(%x, %s) {axis = 0}\noutput %a\noutput %b\n",
     "input %x: float32[4, 2]\nconst %s: int64[2] = {1, 3}\n"
     "%a, %b = Split(%x, %s) {axis = 0}\noutput %a\noutput %b\n"},
    {"GlobalLpPool", 2,
     "input %x: float32[1, 2, 3, 3]\n%y = GlobalLpPool(%x) {p = 3.0}\noutput %y\n",
     "input %x: float32[1, 2, 3, 3]\n%y = GlobalLpPool(%x) {p = 3}\noutput %y\n"},
    {"LpPool", 2,
     "input %x: float32[1, 2, 3, 3]\n%y = LpPool(%x) {p = 2.0, kernel_shape = [2, 2]}\noutput %y\n",
     "input %x: float32[1, 2, 3, 3]\n%y = LpPool(%x) {p = 2, kernel_shape = [2, 2]}\noutput %y\n"},
    {"Softmax of a matrix", 13, "input %x: float32[2, 3]\n%y = Softmax(%x)\noutput %y\n",
     "input %x: float32[2, 3]\n%y = Softmax(%x)\noutput %y\n"},
    {"Slice by attributes", 10,
     "input %x: float32[4, 4]\n%y = Slice(%x) {axes = [1], starts = [1], ends = [3]}\noutput %y\n",
     "input %x: float32[4, 4]\nconst %s: int64[1] = {1}\nconst %e: int64[1] = {3}\n"
     "%y = Slice(%x, %s, %e, %s)\noutput %y\n"},
    {"TopK by an attribute", 10,
     "input %x: float32[2, 4]\n%y, %i = TopK(%x) {k = 2}\noutput %y\noutput %i\n",
     "input %x: float32[2, 4]\nconst %k: int64[1] = {2}\n"
     "%y, %i = TopK(%x, %k)\noutput %y\noutput %i\n"},
    {"Clip without limits", 11, "input %x: float32[4]\n%y = Clip(%x) {min = 0.0}\noutput %y\n",
     "input %x: float32[4]\n%y = Relu(%x)\noutput %y\n"},
    // Operators that ONNX removed.
    {"Affine", 10, "input %x: float32[4]\n%y = Affine(%x) {alpha = 2.0, beta = -1.0}\noutput %y\n",
     "input %x: float32[4]\nconst %a: float32[] = {2}\nconst %b: float32[] = {-1}\n"
     "%s = Mul(%x, %a)\n%y = Add(%s, %b)\noutput %y\n"},
    {"ImageScaler", 10,
     "input %x: float32[1, 2, 2, 2]\n"
     "%y = ImageScaler(%x) {scale = 2.0, bias = [0.5, -0.5]}\noutput %y\n",
     "input %x: float32[1, 2, 2, 2]\nconst %a: float32[] = {2}\n"
     "const %b: float32[2, 1, 1] = {0.5, -0.5}\n"
     "%s = Mul(%x, %a)\n%y = Add(%s, %b)\noutput %y\n"},
    {"ScaledTanh", 10,
     "input %x: float32[4]\n%y = ScaledTanh(%x) {alpha = 2.0, beta = 0.5}\noutput %y\n",
     "input %x: float32[4]\nconst %a: float32[] = {2}\nconst %b: float32[] = {0.5}\n"
     "%s = Mul(%x, %b)\n%t = Tanh(%s)\n%y = Mul(%t, %a)\noutput %y\n"},
    {"ParametricSoftplus", 10,
     "input %x: float32[4]\n%y = ParametricSoftplus(%x) {alpha = 2.0, beta = 0.5}\noutput %y\n",
     "input %x: float32[4]\nconst %a: float32[] = {2}\nconst %b: float32[] = {0.5}\n"
     "%s = Mul(%x, %b)\n%t = Softplus(%s)\n%y = Mul(%t, %a)\noutput %y\n"},
    {"Crop of borders", 10,
     "input %x: float32[1, 1, 4, 5]\n%y = Crop(%x) {border = [1, 0, 2, 1]}\noutput %y\n",
     "input %x: float32[1, 1, 4, 5]\nconst %s: int64[2] = {0, 1}\nconst %e: int64[2] = {3, 3}\n"
     "const %a: int64[2] = {2, 3}\n%y = Slice(%x, %s, %e, %a)\noutput %y\n"},
    {"Crop to a size", 10,
     "input %x: float32[1, 1, 4, 5]\n"
     "%y = Crop(%x) {border = [1, 2, 0, 0], scale = [2, 3]}\noutput %y\n",
     "input %x: float32[1, 1, 4, 5]\nconst %s: int64[2] = {2, 1}\nconst %e: int64[2] = {4, 4}\n"
     "const %a: int64[2] = {2, 3}\n%y = Slice(%x, %s, %e, %a)\noutput %y\n"},
    {"ThresholdedRelu", 10,
     "input %x: float32[4]\n%y = ThresholdedRelu(%x) {alpha = 0.3}\noutput %y\n",
     "input %x: float32[4]\n%y = ThresholdedRelu(%x) {alpha = 0.3}\noutput %y\n"},
    {"MeanVarianceNormalization", 9,
     "input %x: float32[1, 2, 2, 2]\n%y = MeanVarianceNormalization(%x)\noutput %y\n",
     "input %x: float32[1, 2, 2, 2]\n%y = MeanVarianceNormalization(%x)\noutput %y\n"},
    {"MeanVarianceNormalization across channels", 9,
     "input %x: float32[1, 2, 2, 2]\n"
     "%y = MeanVarianceNormalization(%x) {across_channels = 1}\noutput %y\n",
     "input %x: float32[1, 2, 2, 2]\n"
     "%y = MeanVarianceNormalization(%x) {axes = [0, 1, 2, 3]}\noutput %y\n"},
    {"MeanVarianceNormalization of means", 9,
     "input %x: float32[1, 2, 2, 2]\n"
     "%y = MeanVarianceNormalization(%x) {normalize_variance = 0}\noutput %y\n",
     "input %x: float32[1, 2, 2, 2]\n%m = ReduceMean(%x) {axes = [0, 2, 3]}\n"
     "%y = Sub(%x, %m)\noutput %y\n"},
};

TEST(Upgrade, EveryFormInEveryOpsetThatHasIt) {
  for (const Case& form : kCases) {
    const std::vector<Tensor> wanted = Outputs(New(form.now));
    for (int opset = 1; opset < form.until; ++opset) {
      const std::string what = StrCat(form.name, " of opset ", opset);
      try {
        const Graph graph = Old(opset, form.old);
        EXPECT_EQ(graph.opset(), std::max(opset, 7)) << what;
        const std::vector<Tensor> got = Outputs(graph);
        ASSERT_EQ(got.size(), wanted.size()) << what;
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_EQ(got[i].shape(), wanted[i].shape()) << what;
          ASSERT_EQ(got[i].dtype(), wanted[i].dtype()) << what;
          for (int64_t at = 0; at < got[i].count(); ++at) {
            EXPECT_NEAR(got[i].AsDouble(at), wanted[i].AsDouble(at), 1e-6) << what << " " << at;
          }
        }
      } catch (const Error& error) {
        ADD_FAILURE() << what << ": " << error.message();
      }
    }
  }
}

/// A form that opset 7 cannot express is an error that names the node.
TEST(Upgrade, WhatCannotBe) {
  struct Refused {
    int opset;
    const char* body;
    ErrorCode code;
    const char* message;
  };
  const Refused cases[] = {
      {6,
       "input %x: float32[...]\ninput %b: float32[3]\n%y = Add(%x, %b) {broadcast = 1, axis = 1} "
       "\"n\"\noutput %y\n",
       kUnsupported, "unknown rank"},
      {5,
       "input %x: float32[2]\ninput %n: float32[]\nconst %a: float32[] = {0}\n"
       "%y = Tile(%x, %n, %a) \"n\"\noutput %y\n",
       kUnsupported, "a value of the run"},
      {5,
       "input %x: float32[2]\nconst %n: float32[] = {inf}\nconst %a: float32[] = {0}\n"
       "%y = Tile(%x, %n, %a) \"n\"\noutput %y\n",
       kInvalid, "holds inf"},
      {5,
       "input %x: float32[2]\nconst %n: float32[] = {2}\nconst %a: float32[] = {1}\n"
       "%y = Tile(%x, %n, %a) \"n\"\noutput %y\n",
       kInvalid, "axis 1 does not fit rank 1"},
      {5, "input %x: float32[2]\n%y = Cast(%x) {to = \"FLOAT9\"} \"n\"\noutput %y\n", kUnsupported,
       "'FLOAT9'"},
      {1, "input %x: float32[1, 1, 2]\n%y = GlobalLpPool(%x) {p = 1.5} \"n\"\noutput %y\n",
       kUnsupported, "exponent 1.5"},
      {6,
       "input %x: float32[1, 1, 2, 2]\n%y = Upsample(%x) {height_scale = 2.0} \"n\"\noutput %y\n",
       kInvalid, "width_scale"},
      {6, "input %x: float32[2]\n%y, %mask = Dropout(%x) \"n\"\noutput %y\noutput %mask\n",
       kUnsupported, "training mode"},
  };
  for (const Refused& refused : cases) {
    const std::vector<uint8_t> bytes =
        WriteOnnx(ParseGraph(StrCat("graph \"old\" opset ", refused.opset, "\n", refused.body)));
    ExpectError({bytes.begin(), bytes.end()}, refused.code, refused.message, "n");
  }
}

/// A file of an old opset tells the loader that it needs the extended operators.
TEST(Upgrade, TellsWhatItNeeds) {
  for (const int opset : {6, 7}) {
    const std::vector<uint8_t> bytes = WriteOnnx(ParseGraph(
        StrCat("graph \"m\" opset ", opset, "\ninput %x: float32[1]\n%y = Relu(%x)\noutput %y\n")));
    EXPECT_EQ(NeedsOf(bytes).function != nullptr, opset < 7);
  }
}

}  // namespace
}  // namespace requant
