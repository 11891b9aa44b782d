// Shapes that depend on data, but that the file declares.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/text.h"
#include "session/session.h"

namespace requant {
namespace {

/// Runs the graph with integers for which the declared shape of %y holds, and with integers for
/// which it does not.
void ExpectShapeIsChecked(const char* text, const std::vector<int64_t>& right,
                          const std::vector<int64_t>& wrong) {
  Session session(ParseGraph(text), {});
  const auto run = [&](const std::vector<int64_t>& numbers) {
    TensorMap feeds{{"n", Tensor::Vector(numbers)}};
    for (const Value* input : session.graph().inputs()) {
      if (input->name != "n") feeds.emplace(input->name, Tensor(DType::kFloat32, {2, 3, 4}));
    }
    return session.Run(feeds)[0];
  };
  EXPECT_EQ(ToSymbolic(run(right).shape()), session.graph().outputs()[0]->type.shape);
  try {
    run(wrong);
    FAIL() << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kShapeMismatch);
    EXPECT_EQ(error.context().node, "node");
    EXPECT_EQ(error.context().value, "y");
    EXPECT_FALSE(error.context().hint.empty());
  }
  EXPECT_EQ(run(right).count(), NumElements(session.graph().outputs()[0]->type.StaticShape()));
}

TEST(DeclaredShapes, ThatAreWrongAreNamed) {
  ExpectShapeIsChecked(R"(graph "" opset 17
input %n: int64[1]
%y: float32[10] = HannWindow(%n) "node"
output %y
)",
                       {10}, {7});
  ExpectShapeIsChecked(R"(graph "" opset 13
input %x: float32[2, 3, 4]
input %n: int64[2]
%y: float32[4, 6] = Reshape(%x, %n) "node"
output %y
)",
                       {4, 6}, {6, 4});
  // The shape has more elements than exist; nothing is read beyond them.
  EXPECT_THROW(ExpectShapeIsChecked(R"(graph "" opset 13
input %x: float32[2, 3, 4]
input %n: int64[1]
%y: float32[53] = Reshape(%x, %n) "node"
output %y
)",
                                    {24}, {24}),
               Error);
}

TEST(DeclaredShapes, OfPartsAreChecked) {
  ExpectShapeIsChecked(R"(graph "" opset 13
input %x: float32[2, 3, 4]
input %n: int64[2]
%y: float32[2, 1, 4], %z: float32[2, 2, 4] = Split(%x, %n) {axis = 1} "node"
output %y
output %z
)",
                       {1, 2}, {2, 1});
}

/// Declared outputs that are larger than what the run computes; nothing is read beyond the input.
TEST(DeclaredShapes, ThatAreTooLargeAreErrors) {
  const struct {
    const char* node;
    std::vector<int64_t> numbers;
  } cases[] = {
      {"%y: float32[2, 59, 4], %z: float32[2, 4, 4] = Split(%x, %n) {axis = 1}", {1, 2}},
      {"%y: float32[2, 30, 40] = Slice(%x, %n, %m, %a)", {0, 0}},
      {"%y: float32[20, 30, 40] = Expand(%x, %n)", {3, 4}},
      {"%y: float32[20, 30, 40] = Tile(%x, %t)", {1, 1}},
      {"%y: float32[20, 30, 40] = Pad(%x, %p)", {0, 0}},
      {"%y: float32[20, 30, 40] = Resize(%x, _, _, %r)", {3, 4}},
      {"%y: float32[2, 3, 9], %i: int64[2, 3, 9] = TopK(%x, %k)", {2, 2}},
      {"%y: float32[7, 3, 4] = Unsqueeze(%x, %k)", {0, 0}},
      {"%y: float32[20, 30, 40] = CenterCropPad(%x, %r)", {3, 4}},
  };
  for (const auto& one : cases) {
    const std::string text = StrCat(R"(graph "" opset 18
input %x: float32[2, 3, 4]
input %n: int64[2]
const %two: int64[1] = {2}
const %zero: int64[1] = {0}
const %m: int64[2] = {9, 9}
const %a: int64[2] = {1, 2}
const %one: int64[1] = {1}
%t: int64[3] = Concat(%one, %n) {axis = 0}
%r: int64[3] = Concat(%two, %n) {axis = 0}
%p: int64[6] = Concat(%n, %n, %n) {axis = 0}
%k: int64[1] = Gather(%n, %zero)
)",
                                    one.node, "\noutput %y\n");
    try {
      Session session(ParseGraph(text), {});
      session.Run({{"x", Tensor(DType::kFloat32, {2, 3, 4})}, {"n", Tensor::Vector(one.numbers)}});
      ADD_FAILURE() << one.node;
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << one.node;
    }
  }
}

}  // namespace
}  // namespace requant
