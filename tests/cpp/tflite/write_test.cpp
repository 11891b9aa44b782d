// Files that the writer makes: sound for flatbuffers' verifier, with aligned buffers, and with the
// graph's answers when they are read back.
#include "tflite/write.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "tflite/file.h"
#include "tflite/file_builder.h"
#include "tflite/read.h"

namespace requant::tflite {
namespace {

/// Kernels of 27 and 3 numbers, so that no buffer ends at a multiple of 16 bytes.
constexpr const char* kFloats = R"(graph "g" opset 18
input %x: float32[1, 1, 5, 4]
const %w: float32[3, 1, 3, 3] = {
  1.0, -2.0, 0.5, 3.0, 0.25, -1.0, 2.0, 1.0, -0.5,
  0.5, 1.0, 1.0, -1.0, 2.0, 0.5, -3.0, 1.0, 1.0,
  -1.0, 1.0, 2.0, 0.5, 0.5, 1.0, 1.0, -2.0, 1.0}
const %b: float32[3] = {1.0, -1.0, 0.5}
const %v: float32[1, 3, 1, 1] = {1.0, 0.5, -2.0}
%c: float32[1, 3, 3, 2] = Conv(%x, %w, %b) {kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 0]} "first"
%r: float32[1, 3, 3, 2] = Relu(%c) "relu"
%p: float32[1, 3, 2, 1] = MaxPool(%r) {kernel_shape = [2, 2]} "pool"
%y: float32[1, 1, 2, 1] = Conv(%p, %v) {kernel_shape = [1, 1]} "last"
output %y
)";

/// Int8 weights with a scale for each of 3 outputs, an int32 bias; scales are powers of two.
constexpr const char* kCodes = R"(graph "g" opset 18
input %x: float32[1, 1, 3, 3]
const %s: float32[] = {0.5}
const %z: int8[] = {3}
const %wq: int8[3, 1, 1, 1] = {-128, 5, 100}
const %ws: float32[3] = {0.5, 1.0, 0.25}
const %wz: int8[3] = {0, 0, 0}
const %bq: int32[3] = {4, -8, 12}
const %bs: float32[3] = {0.25, 0.5, 0.125}
const %bz: int32[3] = {0, 0, 0}
const %t: float32[] = {4.0}
const %u: int8[] = {-10}
%xq: int8[1, 1, 3, 3] = QuantizeLinear(%x, %s, %z)
%xd: float32[1, 1, 3, 3] = DequantizeLinear(%xq, %s, %z)
%w: float32[3, 1, 1, 1] = DequantizeLinear(%wq, %ws, %wz) {axis = 0}
%b: float32[3] = DequantizeLinear(%bq, %bs, %bz) {axis = 0}
%c: float32[1, 3, 3, 3] = Conv(%xd, %w, %b) {kernel_shape = [1, 1]} "conv"
%yq: int8[1, 3, 3, 3] = QuantizeLinear(%c, %t, %u)
%y: float32[1, 3, 3, 3] = DequantizeLinear(%yq, %t, %u)
output %y
)";

/// Refers to the bytes of a file that the verifier found sound.
struct Sound {
  explicit Sound(const std::vector<uint8_t>& bytes) : verifier(bytes.data(), bytes.size()) {
    flatbuffers::uoffset_t root = 0;
    std::memcpy(&root, bytes.data(), sizeof(root));
    model = TableView(verifier, bytes.data() + root);
  }
  flatbuffers::Verifier verifier;
  TableView model;
};

TEST(WriteTflite, PutsBuffersAtMultiplesOf16Bytes) {
  for (const char* text : {kFloats, kCodes}) {
    const TfliteFile file = WriteTflite(ParseGraph(text), {});
    ASSERT_TRUE(IsTflite(file.bytes));
    const Sound sound(file.bytes);
    const auto buffers = sound.model.Children(field::Model::kBuffers);
    ASSERT_GE(buffers.size(), 3U);
    // schema.fbs: buffer 0 is the empty one.
    EXPECT_TRUE(buffers[0].Bytes(field::Buffer::kData).empty());
    for (size_t i = 1; i < buffers.size(); ++i) {
      const auto data = buffers[i].Bytes(field::Buffer::kData);
      ASSERT_FALSE(data.empty());
      EXPECT_EQ((data.data() - file.bytes.data()) % 16, 0) << "buffer " << i;
    }
  }
}

TEST(WriteTflite, WritesSoundFiles) {
  for (const char* text : {kFloats, kCodes}) {
    const TfliteFile written = WriteTflite(ParseGraph(text), {});
    const File file(Shared(written.bytes));
    ASSERT_EQ(file.subgraphs().size(), 1U);
    const FileSubgraph& graph = file.subgraphs()[0];
    for (const FileTensor& tensor : graph.tensors) {
      if (tensor.constant.empty()) continue;
      ASSERT_EQ(tensor.constant.rank(), static_cast<int64_t>(tensor.shape.size())) << tensor.name;
      for (size_t i = 0; i < tensor.shape.size(); ++i) {
        EXPECT_EQ(tensor.shape[i].value, tensor.constant.shape()[i]) << tensor.name;
      }
    }
    for (const FileOperator& op : graph.operators) {
      for (const int32_t index : op.outputs) {
        EXPECT_TRUE(graph.tensors[static_cast<size_t>(index)].constant.empty());
      }
    }
  }
}

TEST(WriteTflite, AnswersAsTheGraphWhenItIsReadBack) {
  for (const char* text : {kFloats, kCodes}) {
    const Graph graph = ParseGraph(text);
    const Graph again = ReadTflite(Shared(WriteTflite(graph, {.onnx_layout = true}).bytes));
    Tensor x(DType::kFloat32, graph.inputs()[0]->type.StaticShape());
    for (int64_t i = 0; i < x.count(); ++i) {
      x.data<float>()[i] = static_cast<float>((i * 7) % 11) - 4.0F;
    }
    const Tensor wanted = Interpret(graph, {{"x", x}})[0];
    const Tensor found = Interpret(again, {{"x", x}})[0];
    ASSERT_EQ(found.shape(), wanted.shape());
    // LiteRT allows no weight of -128, so that one channel may differ by a step of 4.
    const double most = text == kCodes ? 4 : 1e-5;
    for (int64_t i = 0; i < wanted.count(); ++i) {
      EXPECT_LE(std::abs(found.AsDouble(i) - wanted.AsDouble(i)), most) << i;
    }
  }
}

TEST(WriteTflite, WritesFormulas) {
  const std::string head = R"(graph "g" opset 18
input %x: float32[1, 2, 5, 3]
const %axes: int64[2] = {1, 3}
const %k: int64[1] = {2}
)";
  constexpr const char* kLines[] = {
      "%y: float32[1, 2, 5, 3] = Elu(%x) {alpha = 0.5}",
      "%y: float32[1, 2, 5, 3] = Selu(%x)",
      "%y: float32[1, 2, 5, 3] = Celu(%x) {alpha = 0.5}",
      "%y: float32[1, 2, 5, 3] = Mish(%x)",
      "%y: float32[1, 2, 5, 3] = Softplus(%x)",
      "%y: float32[1, 2, 5, 3] = Softsign(%x)",
      "%y: float32[1, 2, 5, 3] = Tan(%x)",
      "%y: float32[1, 2, 5, 3] = ThresholdedRelu(%x) {alpha = 0.5}",
      "%y: float32[1, 2, 5, 3] = LRN(%x) {size = 3, alpha = 0.5, beta = 0.5, bias = 2.0}",
      "%y: float32[1, 1, 5, 1] = ReduceL1(%x, %axes)",
      "%y: float32[1, 5] = ReduceL2(%x, %axes) {keepdims = 0}",
      "%y: float32[1, 1, 5, 1] = ReduceSumSquare(%x, %axes)",
      "%y: float32[1, 5] = ReduceLogSumExp(%x, %axes) {keepdims = 0}",
      "%m: float32[] = ReduceMean(%x) {keepdims = 0}\n%y: float32[1, 2, 5, 3] = Clip(%x, %m)",
      "%y: float32[1, 2, 2, 3], %i: int64[1, 2, 2, 3] = TopK(%x, %k) {axis = 2}",
      "%y: float32[1, 2, 3, 2] = AveragePool(%x) {kernel_shape = [3, 2], strides = [2, 2], "
      "pads = [1, 1, 1, 0]}",
      "%y: float32[1, 2, 3, 2] = AveragePool(%x) {kernel_shape = [3, 3], strides = [2, 2], "
      "pads = [1, 0, 0, 1], ceil_mode = 1, count_include_pad = 1}",
  };
  for (const char* line : kLines) {
    const Graph graph = ParseGraph(StrCat(head, line, "\noutput %y\n"));
    const Graph again = ReadTflite(Shared(WriteTflite(graph, {.onnx_layout = true}).bytes));
    Tensor x(DType::kFloat32, {1, 2, 5, 3});
    for (int64_t i = 0; i < x.count(); ++i) {
      x.data<float>()[i] = static_cast<float>((i * 7) % 31) / 8 - 1.3F;
    }
    const Tensor wanted = Interpret(graph, {{"x", x}})[0];
    const Tensor found = Interpret(again, {{"x", x}})[0];
    ASSERT_EQ(found.shape(), wanted.shape()) << line;
    for (int64_t i = 0; i < wanted.count(); ++i) {
      const double size = std::max(1.0, std::abs(wanted.AsDouble(i)));
      EXPECT_NEAR(found.AsDouble(i), wanted.AsDouble(i), 1e-5 * size) << line << ", " << i;
    }
  }
}

TEST(WriteTflite, SaysWhichWeightsChanged) {
  const TfliteFile file = WriteTflite(ParseGraph(kCodes), {});
  EXPECT_NE(file.report.find("1 weights of 'w' are -127 instead of -128"), std::string::npos)
      << file.report;
}

Error ErrorOf(const std::string& text) {
  try {
    WriteTflite(ParseGraph(text), {});
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "it was written"};
}

TEST(WriteTflite, RefusesByName) {
  const std::string head = "graph \"g\" opset 18\ninput %x: float32[2, 3]\n";
  struct Refusal {
    const char* line;
    const char* message;
    const char* hint;
  };
  constexpr Refusal kRefusals[] = {
      {"%y: float32[2, 3] = Det(%x) \"bump\"", "Det 'bump': LiteRT has no such operator", "ONNX"},
      {"%y: int64[2, 1] = ArgMax(%x) {axis = 1, select_last_index = 1} \"bump\"",
       "ArgMax 'bump': it takes the last of equal elements", "select_last_index 0"},
      {"%y: float32[2, N] = Relu(%x) \"bump\"", "has the open shape", "shapes"},
      {"%y: float64[2, 3] = Cast(%x) {to = 11} \"bump\"", "has the type float64", "float32"},
  };
  for (const Refusal& one : kRefusals) {
    const Error error = ErrorOf(StrCat(head, one.line, "\noutput %y\n"));
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << one.line;
    EXPECT_NE(std::string(error.what()).find(one.message), std::string::npos) << error.what();
    EXPECT_NE(error.context().hint.find(one.hint), std::string::npos) << error.context().hint;
  }
}

}  // namespace
}  // namespace requant::tflite
