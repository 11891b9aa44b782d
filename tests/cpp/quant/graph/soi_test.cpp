// Distinguishes floats that are shapes and indices from floats that are data, even if they come
// from integers.
#include "quant/graph/soi.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "quant/assign/assign.h"
#include "quant/graph/prepare.h"
#include "quant/model.h"
#include "quant/quantizer.h"

namespace requant {
namespace {

bool IsSoi(const Graph& graph, const char* name) {
  return ShapeOrIndexValues(graph).contains(graph.FindValue(name));
}

TEST(ShapeOrIndex, RowsOfATableAreData) {
  const Graph graph = FloatModel(ParseGraph(R"(graph "" opset 13
input %ids: int64[1, 3]
const %table: float32[4, 2] = {0.1, -0.5, 0.7, 0.2, -0.3, 0.9, 0.4, -0.8}
const %w: float32[2, 2] = {0.5, -0.25, 1.0, 0.75}
%rows = Gather(%table, %ids)
%y = MatMul(%rows, %w) "product"
output %y
)"))
                          .Release();
  EXPECT_TRUE(IsSoi(graph, "ids"));
  EXPECT_FALSE(IsSoi(graph, "rows"));
  EXPECT_TRUE(AssignConfigs(graph, {}).operators.at("product").quantized);
}

TEST(ShapeOrIndex, SamplesAreDataPositionsAndMasksAreNot) {
  const Graph graph = FloatModel(ParseGraph(R"(graph "" opset 13
input %image: uint8[1, 3, 4, 4]
input %sound: int16[1, 8]
input %positions: int64[1, 8]
input %mask: bool[1, 8]
%a = Cast(%image) {to = 1}
%b = Cast(%sound) {to = 1}
%c = Cast(%positions) {to = 1}
%d = Cast(%mask) {to = 1}
%e = Add(%c, %d)
%shape = Shape(%image)
%f = Cast(%shape) {to = 1}
output %a
output %b
output %e
output %f
)"))
                          .Release();
  EXPECT_FALSE(IsSoi(graph, "a"));
  EXPECT_FALSE(IsSoi(graph, "b"));
  for (const char* name : {"c", "d", "e", "f"}) EXPECT_TRUE(IsSoi(graph, name)) << name;
}

/// Operators that would have to quantize a shape or a constant stay float, and the model runs.
TEST(ShapeOrIndex, JoinsWithDataStayFloat) {
  const Graph graph = ParseGraph(R"(graph "" opset 13
input %x: float32[1, 3, 4]
const %w: float32[4, 4] = {0.5, -0.2, 0.1, 0.3, 0.9, 0.4, -0.6, 0.2, 0.7, -0.1, 0.8, 0.5, -0.4, 0.6, 0.3, 0.1}
const %token: float32[1, 1, 4] = {0.1, 0.2, -0.3, 0.4}
const %zero: int64[1] = {0}
const %one: int64[1] = {1}
const %ends: int64[2] = {1, 4}
const %left: float32[4, 4] = {1.0, 0.5, 0.25, 0.0, 0.0, 1.0, 0.5, 0.25, 0.25, 0.0, 1.0, 0.5, 0.5, 0.25, 0.0, 1.0}
%a = MatMul(%x, %w)
%shape = Shape(%x)
%n = Slice(%shape, %zero, %one)
%size = Concat(%n, %ends) {axis = 0}
%tokens = Expand(%token, %size)
%joined = Concat(%tokens, %a) {axis = 1} "join"
%turned = MatMul(%left, %joined) "turn"
%y = MatMul(%turned, %w) "last"
output %y
)");
  const QuantizedModel model = QuantizeGraph(graph);
  EXPECT_FALSE(model.record.operators.at("join").quantized);
  EXPECT_FALSE(model.record.operators.at("turn").quantized);
  EXPECT_TRUE(model.record.operators.at("last").quantized);
  EXPECT_GT(Snr(graph, LowerToInteger(model).graph()), 18);  // 20 dB: two layers of four channels
}

}  // namespace
}  // namespace requant
