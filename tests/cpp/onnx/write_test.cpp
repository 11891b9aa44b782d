// Files that the writer makes are read back unchanged.
#include <gtest/gtest.h>

#include "base/error.h"
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
