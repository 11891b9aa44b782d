// Loops in sessions: shapes that change or are carried, iterations without a count.
#include <string>

#include "programs.h"

namespace requant {
namespace {

TEST(Loops, WithChangingShapes) {
  const auto graph = ParseGraph(R"(graph "" opset 13
input %n: int64[]
input %x: float32[A, 3]
const %go: bool[] = {1}
const %m: float32[3, 3] = {0.5, 0.0, 0.25, -0.5, 1.0, 0.0, 0.0, 0.25, 1.0}
%last, %grown, %each = Loop(%n, %go, %x, %x, %m, %x) {body = { graph "" opset 13
input %i: int64[]
input %c: bool[]
input %state: float32[...]
input %list: float32[...]
capture %w: float32[3, 3]
capture %first: float32[A, 3]
%next = MatMul(%state, %w)
%sum = Add(%next, %first)
%more = Concat(%list, %first) {axis = 0}
%c2 = Identity(%c)
output %c2
output %sum
output %more
output %next
}} "loop"
output %last
output %grown
output %each
)");
  Session session(graph, {});
  for (const int64_t rows : {2, 4, 2}) {
    for (const int64_t trips : {3, 0, 5, 3}) {
      ExpectSame(session, graph, {{"n", Tensor::Scalar(trips)}, {"x", Ramp({rows, 3})}});
    }
  }
}

/// The shapes of a chain of carried values are known after as many rounds as the chain is long.
TEST(Loops, ThatHandShapesDownAChain) {
  constexpr int kCarried = 9;
  std::string text =
      "graph \"\" opset 13\ninput %n: int64[]\ninput %x: float32[2]\n"
      "const %go: bool[] = {1}\n";
  std::string outputs, inputs, body, results;
  for (int i = 0; i < kCarried; ++i) {
    const std::string number = std::to_string(i);
    outputs += (i == 0 ? "%o" : ", %o") + number;
    inputs += ", %x";
    body += "input %v" + number + ": float32[...]\n";
    results +=
        (i == 0 ? std::string("output %longer") : "output %v" + std::to_string(i - 1)) + "\n";
  }
  text += outputs + " = Loop(%n, %go" + inputs + ") {body = { graph \"\" opset 13\n" +
          "input %i: int64[]\ninput %c: bool[]\n" + body +
          "%longer = Concat(%v0, %v8) {axis = 0}\n%c2 = Identity(%c)\noutput %c2\n" + results +
          "}}\n";
  for (int i = 0; i < kCarried; ++i) text += "output %o" + std::to_string(i) + "\n";
  const auto graph = ParseGraph(text.c_str());
  Session session(graph, {});
  for (const int64_t trips : {1, 12, 4}) {
    ExpectSame(session, graph, {{"n", Tensor::Scalar(trips)}, {"x", Ramp({2})}});
  }
}

/// Without a trip count the number of stacked values is unknown.
TEST(Loops, UntilTheConditionFailsAndStacksMuch) {
  const auto graph = ParseGraph(R"(graph "" opset 13
input %x: float32[2000]
const %go: bool[] = {1}
const %limit: float32[] = {100.0}
%last, %all = Loop(_, %go, %x, %limit) {body = { graph "" opset 13
input %i: int64[]
input %c: bool[]
input %v: float32[2000]
capture %limit: float32[]
%w = Add(%v, %v)
%most = ReduceMax(%w) {keepdims = 0}
%c2 = Less(%most, %limit)
%each = Identity(%w)
output %c2
output %w
output %each
}}
output %last
output %all
)");
  Session session(graph, {});
  ExpectSame(session, graph, {{"x", Ramp({2000})}});
}

TEST(Loops, UntilTheConditionFails) {
  const auto graph = ParseGraph(R"(graph "" opset 13
input %x: float32[]
const %limit: float32[] = {100.0}
const %go: bool[] = {1}
%last = Loop(_, %go, %x, %limit) {body = { graph "" opset 13
input %i: int64[]
input %c: bool[]
input %v: float32[]
capture %limit: float32[]
%w = Add(%v, %v)
%c2 = Less(%w, %limit)
output %c2
output %w
}} "loop"
output %last
)");
  Session session(graph, {});
  const std::vector<Tensor> results = session.Run({{"x", Tensor::Scalar(3.0F)}});
  EXPECT_EQ(results[0].data<float>()[0], 192.0F);
}

/// If a loop has no iterations, its outputs have the sizes that an iteration would give, even if
/// the file does not declare them.
TEST(Loops, OfNoTripsKeepTheSizesOfTheirBodies) {
  const auto loop = ParseGraph(R"(graph "" opset 13
input %n: int64[]
input %x: float32[A, 3]
input %go: bool[]
const %m: float32[3, 5] = {0.5, 0.0, 0.25, 1.0, 2.0, -0.5, 1.0, 0.0, 0.5, 1.0, 0.0, 0.25, 1.0, 1.0, 1.0}
const %to: int64[2] = {1, -1}
%last, %wide, %flat, %ints = Loop(%n, %go, %x, %m, %to) {body = { graph "" opset 13
input %i: int64[]
input %c: bool[]
input %state: float32[...]
capture %w: float32[3, 5]
capture %sizes: int64[2]
%next = Relu(%state)
%out = MatMul(%next, %w)
%row = Reshape(%out, %sizes)
%shape = Shape(%out)
%c2 = Identity(%c)
output %c2
output %next
output %out
output %row
output %shape
}} "loop"
output %wide
output %flat
output %ints
)");
  Session session(loop, {});
  for (const int64_t rows : {2, 4}) {
    for (const bool go : {true, false}) {
      const TensorMap feeds{{"n", Tensor::Scalar(int64_t{go ? 0 : 3})},
                            {"x", Ramp({rows, 3})},
                            {"go", Tensor::Scalar(go)}};
      ExpectSame(session, loop, feeds);
      const std::vector<Tensor> got = session.Run(feeds);
      EXPECT_EQ(got[0].shape(), (Shape{0, rows, 5}));
      EXPECT_EQ(got[1].shape(), (Shape{0, 1, rows * 5}));
      EXPECT_EQ(got[2].shape(), (Shape{0, 2}));
      EXPECT_EQ(got[2].dtype(), DType::kInt64);
    }
  }
  const auto scan = ParseGraph(R"(graph "" opset 13
input %s: float32[4]
input %x: float32[2, T]
%last, %sums, %doubled = Scan(%s, %x) {body = { graph "" opset 13
input %state: float32[...]
input %v: float32[...]
%wide = Concat(%state, %v) {axis = 0}
%two = Add(%v, %v)
%same = Identity(%state)
output %same
output %wide
output %two
}, num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [0, 1]} "scan"
output %last
output %sums
output %doubled
)");
  Session scans(scan, {});
  for (const int64_t steps : {0, 3, 0}) {
    const TensorMap feeds{{"s", Ramp({4})}, {"x", Ramp({2, steps})}};
    ExpectSame(scans, scan, feeds);
    const std::vector<Tensor> got = scans.Run(feeds);
    EXPECT_EQ(got[1].shape(), (Shape{steps, 6}));
    EXPECT_EQ(got[2].shape(), (Shape{2, steps}));
  }
}

}  // namespace
}  // namespace requant
