// Shapes that depend on data, but that the file declares.
#include <gtest/gtest.h>

#include "base/error.h"
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

}  // namespace
}  // namespace requant
