// Files that the writer makes are read back unchanged.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/text.h"
#include "onnx/handmade.h"
#include "onnx/read.h"
#include "onnx/write.h"

namespace requant {
namespace {

using namespace handmade;

std::string ToString(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

TEST(WriteOnnx, RoundTripsEverything) {
  const char* text = R"(graph "net" opset 13, com.microsoft 1
metadata "requant" = "{\"a\": 1}"
input %x: float32[N, 3, ?]
input %free: int64[...]
const %w: float32[2] = {-0.0, nan}
const %h: float16[2] = {1.5, inf}
const %n: int4[3] = {1, -8, 7}
const %none: int64[0] = {}
const %s: bool[] = {1}
%a: float32[N, 3], _, %b = Op(%x, _, %w) {i = -3, f = 1.5, s = "t\x01", is = [1, 2], fs = [0.5, -0.0], ss = ["p", ""], e = ints[], t = int8[1, 2] {1, -2}} "first"
%y = com.microsoft::Other(%a, %b, %h, %n, %none, %s) "second"
output %y
output %x
)";
  const Graph graph = ParseGraph(text);
  EXPECT_EQ(PrintGraph(graph), text);
  const std::string bytes = ToString(WriteOnnx(graph));
  EXPECT_EQ(PrintGraph(ReadOnnx(Share(bytes))), text);
}

std::string Joined(const FilePieces& file) {
  std::string out;
  for (const auto& part : file.Parts()) out.append(part.begin(), part.end());
  EXPECT_EQ(out.size(), file.size());
  return out;
}

TEST(WriteOnnx, PutsLargerConstantsIntoASecondFile) {
  Graph graph = ParseGraph(R"(graph "net" opset 13
input %x: float32[256]
const %small: float32[2] = {1, 2}
%y = Op(%x, %small)
output %y
)");
  Node* node = graph.nodes()[0].get();
  for (const int64_t count : {255, 256, 300, 262144, 262144}) {
    std::vector<float> numbers(static_cast<size_t>(count), static_cast<float>(count) / 8);
    graph.SetInput(node, node->inputs.size(),
                   graph.AddConstant(StrCat("w", node->inputs.size()),
                                     Tensor::FromVector<float>(numbers, {count})));
  }
  WriteOptions options;
  options.external_data = "net.data";
  const OnnxPieces pieces = WriteOnnxPieces(graph, options);
  const std::string model = Joined(pieces.model);
  const std::string data = Joined(pieces.data);
  EXPECT_LT(model.size(), 2000U);
  // 1 kB is the least size; tensors of 1 MB begin at a page.
  std::vector<uint64_t> offsets;
  for (const ExternalNeed& need : NeedsOf(Share(model).bytes).external) {
    EXPECT_EQ(need.file, "net.data");
    offsets.push_back(need.offset);
  }
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 1024, 4096, 4096 + (1 << 20)}));
  ReadOptions reading;
  reading.external = {{"net.data", 0, Share(data)}};
  const Graph back = ReadOnnx(Share(model), reading);
  EXPECT_EQ(ToString(WriteOnnx(back)), ToString(WriteOnnx(graph)));
}

/// The writer only looks at the size of constants, so that these need no memory.
TEST(WriteOnnx, OneFileEndsBeforeTwoGigabytes) {
  Graph graph = ParseGraph("graph \"\" opset 13\ninput %x: float32[2]\n%y = Op(%x)\noutput %y\n");
  Node* node = graph.nodes()[0].get();
  float nothing[4];
  const Tensor large = Tensor::Unowned(DType::kFloat32, {300'000'000}, nothing);
  graph.SetInput(node, 1, graph.AddConstant("a", large));
  EXPECT_GT(WriteOnnxPieces(graph).model.size(), 1'200'000'000U);
  graph.SetInput(node, 2, graph.AddConstant("b", large));
  try {
    WriteOnnxPieces(graph);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(error.message().find("2 GB"), std::string::npos) << error.message();
  }
  WriteOptions options;
  options.external_data = "w";
  const OnnxPieces pieces = WriteOnnxPieces(graph, options);
  EXPECT_LT(pieces.model.size(), 1000U);
  EXPECT_EQ(pieces.data.size(), 2'400'001'024U);
}

TEST(WriteOnnx, ChoosesTheIrVersionOfTheOpset) {
  EXPECT_EQ(IrVersionOfOpset(7), 4);
  EXPECT_EQ(IrVersionOfOpset(13), 7);
  EXPECT_EQ(IrVersionOfOpset(17), 8);
  EXPECT_EQ(IrVersionOfOpset(21), 10);
}

TEST(TensorFile, RoundTrips) {
  const Tensor tensor = Tensor::FromVector<int16_t>({1, -2, 3}, {3, 1});
  const NamedTensor back = ReadTensorFile(Share(ToString(WriteTensorFile("t", tensor))));
  EXPECT_EQ(back.name, "t");
  EXPECT_TRUE(back.tensor.SameBits(tensor));
  EXPECT_THROW(ReadTensorFile(Share("garbage")), Error);
}

}  // namespace
}  // namespace requant
