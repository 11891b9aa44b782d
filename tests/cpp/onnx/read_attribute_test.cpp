// Reading hand-made and hostile files: attributes, including bodies of control flow.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "onnx/handmade.h"
#include "onnx/read.h"
#include "onnx/write.h"

namespace requant {
namespace {

using namespace handmade;

TEST(ReadOnnx, ReadsAttributesOfEveryKind) {
  const auto with = [](auto fill) {
    return ReadOnnx(Share(Model(SmallGraph(NodeMessage("Op", {"x"}, {"y"}, Make([&](pbf_writer& w) {
                                                         w.add_string(1, "a");
                                                         fill(w);
                                                       }))))))
        .nodes()[0]
        ->attributes;
  };
  // The oldest files lack the type field; the only present field decides then.
  EXPECT_EQ(with([](pbf_writer& w) { w.add_int64(3, -7); }).Int("a", 0), -7);
  EXPECT_EQ(with([](pbf_writer& w) { w.add_int32(20, 2); }).Int("a", 5), 0);  // proto3 drops zeros
  EXPECT_EQ(with([](pbf_writer& w) { w.add_float(2, 0.5F); }).Float("a", 0), 0.5F);
  EXPECT_EQ(with([](pbf_writer& w) { w.add_string(4, "s"); }).String("a", ""), "s");
  EXPECT_EQ(with([](pbf_writer& w) { w.add_int32(20, 7); }).Ints("a", {1}), std::vector<int64_t>{});
  const std::vector<int64_t> numbers = {1, -2, 300};
  EXPECT_EQ(
      with([&](pbf_writer& w) { w.add_packed_int64(8, numbers.begin(), numbers.end()); }).Ints("a"),
      numbers);
  EXPECT_EQ(with([&](pbf_writer& w) {
              for (const int64_t number : numbers) w.add_int64(8, number);
            }).Ints("a"),
            numbers);
  EXPECT_EQ(with([](pbf_writer& w) {
              w.add_float(7, 1);
              w.add_float(7, 2);
            }).Floats("a"),
            (std::vector<float>{1, 2}));
  const AttributeMap tensor = with([](pbf_writer& w) {
    w.add_message(5, Make([](pbf_writer& t) {
                    t.add_int64(1, 2);
                    t.add_int32(2, 6);
                    t.add_int32(5, 1);
                    t.add_int32(5, -1);
                  }));
  });
  EXPECT_EQ(tensor.TensorValue("a")->ToInts(), (std::vector<int64_t>{1, -1}));
}

TEST(ReadOnnx, RefusesOtherAttributes) {
  const auto with = [](auto fill) {
    return Model(SmallGraph(NodeMessage("If", {"x"}, {"y"}, Make(fill), "branch")));
  };
  ExpectError(with([](pbf_writer& w) {
                w.add_string(1, "then_branch");
                w.add_message(11, std::string());
                w.add_int32(20, 10);
              }),
              kUnsupported, "kind 10", "branch");
  ExpectError(with([](pbf_writer& w) {
                w.add_string(1, "then_branch");
                w.add_int32(20, 5);
              }),
              kInvalid, "has no graph", "branch");
  ExpectError(with([](pbf_writer& w) {
                w.add_string(1, "a");
                w.add_message(22, std::string());
                w.add_int32(20, 11);
              }),
              kInvalid, "lacks values", "branch");
  ExpectError(with([](pbf_writer& w) {
                w.add_string(1, "type");
                w.add_message(14, std::string());
                w.add_int32(20, 13);
              }),
              kUnsupported, "kind 13", "branch");
  ExpectError(with([](pbf_writer& w) {
                w.add_string(1, "a");
                w.add_int32(20, 99);
              }),
              kUnsupported, "kind 99", "branch");
  ExpectError(with([](pbf_writer& w) {
                w.add_string(1, "a");
                w.add_float(2, 1);
                w.add_int32(20, 2);
              }),
              kInvalid, "does not hold", "branch");
  ExpectError(with([](pbf_writer& w) { w.add_int64(3, 1); }), kInvalid, "no name", "branch");
}

/// If(c) with two branches; the first captures x and has a constant of its own.
std::string ControlFlow() {
  const auto branch = [](const std::string& node) {
    return Make([&](pbf_writer& w) {
      w.add_message(1, node);
      w.add_string(2, "branch");
      w.add_message(5, Make([](pbf_writer& t) {
                      t.add_int32(2, 1);
                      t.add_float(4, 2.5F);
                      t.add_string(8, "inner");
                    }));
      w.add_message(12, Make([](pbf_writer& info) { info.add_string(1, "z"); }));
    });
  };
  return Make([&](pbf_writer& w) {
    w.add_string(3, "branch");
    w.add_string(4, "If");
    w.add_string(1, "c");
    w.add_string(2, "y");
    for (const char* name : {"then_branch", "else_branch"}) {
      const bool first = name[0] == 't';
      w.add_message(5, Make([&](pbf_writer& a) {
                      a.add_string(1, name);
                      a.add_message(6, branch(first ? NodeMessage("Mul", {"x", "inner"}, {"z"})
                                                    : NodeMessage("Neg", {"inner"}, {"z"})));
                      a.add_int32(20, 5);
                    }));
    }
  });
}

TEST(ReadOnnx, SubgraphsCaptureWhatIsAroundThem) {
  const std::string bytes = Model(
      SmallGraph(ControlFlow(), [](pbf_writer& w) { w.add_message(11, TensorInfo("c", 9, {})); }));
  const Graph graph = ReadOnnx(Share(bytes));
  const Node& node = *graph.nodes()[0];
  ASSERT_EQ(node.inputs.size(), 2U);
  EXPECT_EQ(node.formal_inputs(), 1U);
  EXPECT_EQ(node.inputs[1]->name, "x");
  const Graph& taken = *node.attributes.GraphValue("then_branch");
  EXPECT_EQ(taken.captured, 1U);
  EXPECT_EQ(taken.inputs()[0]->name, "x");
  EXPECT_EQ(node.attributes.GraphValue("else_branch")->captured, 0U);
  // The text form and the file form preserve the graph; renaming an outer value renames it inside.
  const std::string text = PrintGraph(graph);
  EXPECT_EQ(PrintGraph(ParseGraph(text)), text);
  const std::vector<uint8_t> again = WriteOnnx(graph);
  EXPECT_EQ(PrintGraph(ReadOnnx(Share({again.begin(), again.end()}))), text);
  Graph renamed = graph.Clone();
  renamed.RenameValue(renamed.FindValue("x"), "inner");
  const std::vector<uint8_t> file = WriteOnnx(renamed);
  const Graph read = ReadOnnx(Share({file.begin(), file.end()}));
  EXPECT_EQ(read.nodes()[0]->inputs[1]->name, "inner");
  EXPECT_EQ(read.nodes()[0]->attributes.GraphValue("then_branch")->captured, 1U);
}

}  // namespace
}  // namespace requant
