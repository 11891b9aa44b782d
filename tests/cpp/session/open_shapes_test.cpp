// Sessions whose input shapes change: each shape is resolved in one walk over the graph, and one
// Program serves all shapes of a graph with control flow.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "programs.h"
#include "session/session.h"

namespace requant {
namespace {

/// Tokens with heads, a mask made of the length, and a shape that is computed on the way.
std::string Tokens(const std::string& length) {
  return "graph \"\" opset 17\ninput %x: float32[B, " + length + R"(, 8]
const %w: float32[8, 8] = {1, 0, 2, 0, -1, 0, 0.5, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 0, 2, 0, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1}
const %zero: int64[] = {0}
const %one: int64[] = {1}
const %axis: int64[1] = {0}
const %back: int64[1] = {-1}
const %heads: int64[1] = {2}
const %width: int64[1] = {4}
const %low: float32[] = {-1000.0}
const %none: float32[] = {0.0}
const %row: int64[1] = {1}
%y = MatMul(%x, %w)
%shape = Shape(%x)
%b = Gather(%shape, %zero)
%n = Gather(%shape, %one)
%bs = Unsqueeze(%b, %axis)
%ns = Unsqueeze(%n, %axis)
%split = Concat(%bs, %ns, %heads, %width) {axis = 0}
%h = Reshape(%y, %split)
%q = Transpose(%h) {perm = [0, 2, 1, 3]}
%k = Transpose(%h) {perm = [0, 2, 3, 1]}
%scores = MatMul(%q, %k)
%places = Range(%zero, %n, %one)
%column = Unsqueeze(%places, %row)
%future = Greater(%places, %column)
%mask = Where(%future, %low, %none)
%masked = Add(%scores, %mask)
%p = Softmax(%masked) {axis = -1}
%mix = MatMul(%p, %q)
%m = Transpose(%mix) {perm = [0, 2, 1, 3]}
%join = Concat(%bs, %ns, %back) {axis = 0}
%out = Reshape(%m, %join)
%size = Size(%x)
output %out
output %size
)";
}

std::vector<std::string> StepsOf(const Session& session) {
  std::vector<std::string> out;
  for (const auto& step : session.plan()->steps) out.push_back(step->op + " " + step->kernel);
  return out;
}

TEST(OpenShapes, WindowsOverNothingButPadding) {
  const Graph graph = ParseGraph(R"(graph "" opset 17
input %x: float32[1, 2, N, 3]
const %w: float32[2, 2, 3, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 8, 7, 6, 5, 4, 3, 2, 1}
const %d: float32[2, 1, 3, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 8, 7, 6, 5, 4, 3, 2, 1}
const %b: float32[2] = {0.5, -2}
%y = Conv(%x, %w, %b) {pads = [2, 1, 2, 1]}
%z = Conv(%x, %d, %b) {pads = [2, 1, 2, 1], group = 2}
output %y
output %z
)");
  Session session(graph, {});
  for (const int64_t rows : {3, 0, 1, 0})
    ExpectSame(session, graph, {{"x", Ramp({1, 2, rows, 3})}});
}

TEST(OpenShapes, OneWalkFindsWhatThePassesFind) {
  const Graph open = ParseGraph(Tokens("N"));
  Session session(open, {});
  for (const int64_t length : {1, 2, 5, 16, 3, 40, 2}) {
    for (const int64_t batch : {1, 3}) {
      ExpectSame(session, open, {{"x", Ramp({batch, length, 8})}});
      const Graph known = ParseGraph(Tokens(std::to_string(length)));
      Session other(known, {});
      other.Run({{"x", Ramp({batch, length, 8})}});
      EXPECT_EQ(StepsOf(session), StepsOf(other)) << batch << " " << length;
    }
  }
}

TEST(OpenShapes, ShapesThatDoNotFitAreRefusedAndOthersRun) {
  const Graph graph = ParseGraph(R"(graph "" opset 17
input %x: float32[B, N]
const %shape: int64[2] = {-1, 4}
const %w: float32[4, 2] = {1, 2, 3, 4, 5, 6, 7, 8}
%y = Reshape(%x, %shape)
%z = MatMul(%y, %w)
output %z
)");
  Session session(graph, {});
  for (const int64_t length : {4, 5, 8, 7, 12}) {
    const TensorMap feeds = {{"x", Ramp({1, length})}};
    if (length % 4 == 0) {
      ExpectSame(session, graph, feeds);
    } else {
      EXPECT_THROW(session.Run(feeds), Error) << length;
    }
  }
}

constexpr const char* kDecoder = R"(graph "" opset 17
input %cached: bool[]
input %x: float32[1, N, 4]
input %past: float32[1, P, 4]
const %w: float32[4, 4] = {0.5, -2.0, 0.25, 1.0, 1.5, 0.5, -0.5, 0.0, 2.0, 1.0, 0.5, 0.25, 0.0, 0.5, 1.0, -1.0}
%k = MatMul(%x, %w) "keys"
%present = If(%cached, %k, %past, %k) {then_branch = { graph "" opset 17
capture %a: float32[1, N, 4]
capture %b: float32[1, P, 4]
const %m: float32[4, 4] = {1.5, -2.0, 0.25, 1.0, 1.5, 0.5, -0.5, 0.0, 2.0, 1.0, 0.5, 0.25, 0.0, 0.5, 1.0, -1.0}
%both = Concat(%b, %a) {axis = 1}
%z = MatMul(%both, %m) "inside"
output %z
}, else_branch = { graph "" opset 17
capture %a: float32[1, N, 4]
%z = Neg(%a)
output %z
}} "branch"
%t = Transpose(%present) {perm = [0, 2, 1]}
%scores = MatMul(%k, %t) "scores"
output %scores
output %present
)";

TensorMap Step(bool cached, int64_t length, int64_t past) {
  return {{"cached", Tensor::Scalar(cached)},
          {"x", Ramp({1, length, 4})},
          {"past", Ramp({1, past, 4}, 0.5F)}};
}

TEST(OpenShapes, OneProgramServesAllShapes) {
  const Graph graph = ParseGraph(kDecoder);
  Session session(graph, {});
  ExpectSame(session, graph, Step(false, 3, 0));
  for (int64_t past = 1; past < 12; ++past) {
    ExpectSame(session, graph, Step(true, 1, past));
    if (past % 4 == 0) ExpectSame(session, graph, Step(false, 2, past));
  }
  // Every middle node, and the sessions of the parts and bodies, are in one program.
  const std::vector<StepProfile> profile = session.Profile();
  ExpectSame(session, graph, Step(true, 1, 30));
  EXPECT_EQ(session.Profile().size(), profile.size());
}

TEST(OpenShapes, AProgramForAllShapesIsSavedForThoseThatRanLast) {
  const Graph graph = ParseGraph(kDecoder);
  Session session(graph, {});
  for (int64_t past = 1; past < 4; ++past) session.Run(Step(true, 1, past));
  ExpectSameWhenSaved(session, Step(true, 1, 3), session.Run(Step(true, 1, 3)));
}

TEST(OpenShapes, WeightsOfBodiesArePackedOnce) {
  const Graph graph = ParseGraph(kDecoder);
  Session session(graph, {});
  session.Run(Step(true, 1, 1));
  session.Run(Step(true, 1, 2));
  const size_t packed = session.memory().packed_weights;
  for (int64_t past = 3; past < 20; ++past) session.Run(Step(true, 1, past));
  EXPECT_EQ(session.memory().packed_weights, packed);
}

}  // namespace
}  // namespace requant
