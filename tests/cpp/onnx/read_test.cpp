// Reading hand-made and hostile files: models, graphs, opsets.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"
#include "onnx/handmade.h"
#include "onnx/read.h"

namespace requant {
namespace {

using namespace handmade;

TEST(ReadOnnx, ReadsTheSmallest) {
  const Graph graph = ReadOnnx(Share(Model(SmallGraph(Relu()))));
  EXPECT_EQ(graph.name, "g");
  EXPECT_EQ(graph.opset(), 13);
  ASSERT_EQ(graph.nodes().size(), 1U);
  EXPECT_TRUE(graph.nodes()[0]->Is("Relu"));
  EXPECT_EQ(TypeToString(graph.inputs()[0]->type), "float32[2]");
  EXPECT_EQ(graph.outputs()[0]->name, "y");
}

TEST(ReadOnnx, RefusesWhatIsNoModel) {
  ExpectError("", kInvalid, "no graph");
  ExpectError("hello, world: this is text", kInvalid, "");
  ExpectError(std::string(100, '\0'), kInvalid, "");
  ExpectError(Model(SmallGraph(Relu()), 0), kInvalid, "ir_version");
  ExpectError(Model(SmallGraph(Relu()), 2), kUnsupported, "IR version 2");
  EXPECT_EQ(ReadOnnx(Share(Model(SmallGraph(Relu()), 8, 5))).opset(), 7);
  ExpectError(Model(SmallGraph(Relu()), 8, -1), kInvalid, "opset version -1");
  ExpectError(Make([](pbf_writer& w) {
                w.add_int64(1, 8);
                w.add_message(7, SmallGraph(Relu()));
              }),
              kInvalid, "no operator set");
  ExpectError(Make([](pbf_writer& w) { w.add_string(1, "not a number"); }), kInvalid, "wire type");
  ExpectError(
      Model(SmallGraph(Relu())) + Make([](pbf_writer& w) { w.add_message(25, std::string()); }),
      kInvalid, "no name");
}

TEST(ReadOnnx, RefusesBrokenGraphs) {
  ExpectError(Model(SmallGraph(NodeMessage("Relu", {"nope"}, {"y"}, "", "n"))), kInvalid,
              "nothing defines", "n", "nope");
  ExpectError(Model(SmallGraph(NodeMessage("Relu", {"x"}, {"z"}))), kInvalid, "never computed", "",
              "y");
  ExpectError(Model(SmallGraph(NodeMessage("Relu", {"x"}, {"x"}, "", "n"))), kInvalid,
              "defined twice", "n", "x");
  ExpectError(Model(SmallGraph(NodeMessage("Split", {"x"}, {"y", "y"}))), kInvalid,
              "defined twice");
  ExpectError(Model(SmallGraph(NodeMessage("Add", {"x", "y"}, {"y"}, "", "n"))), kInvalid, "cycle",
              "n");
  ExpectError(
      Model(SmallGraph(Relu(),
                       [](pbf_writer& w) { w.add_message(1, NodeMessage("Abs", {"x"}, {"y"})); })),
      kInvalid, "defined twice");
  ExpectError(
      Model(SmallGraph(Relu(), [](pbf_writer& w) { w.add_message(11, TensorInfo("x", 1, {2})); })),
      kInvalid, "listed twice");
  ExpectError(Model(SmallGraph(NodeMessage("", {"x"}, {"y"}))), kInvalid, "no operator");
  ExpectError(
      Model(SmallGraph(Relu(), [](pbf_writer& w) { w.add_message(11, TensorInfo("z", 1, {-2})); })),
      kInvalid, "dimension of -2", "", "z");
  ExpectError(
      Model(SmallGraph(Relu(), [](pbf_writer& w) { w.add_message(11, TensorInfo("z", 14, {1})); })),
      kUnsupported, "element type 14", "", "z");
  ExpectError(Model(SmallGraph(Relu(), [](pbf_writer& w) { w.add_message(15, std::string()); })),
              kInvalid, "sparse");
  const std::string map = Make([](pbf_writer& w) {
    w.add_string(1, "map");
    w.add_message(2, Make([](pbf_writer& type) { type.add_message(5, std::string()); }));
  });
  ExpectError(Model(SmallGraph(Relu(), [&](pbf_writer& w) { w.add_message(11, map); })),
              kUnsupported, "a map", "", "map");
}

TEST(ReadOnnx, SortsNodesAndIgnoresUnknownFields) {
  const Graph graph = ReadOnnx(Share(Model(Make([](pbf_writer& w) {
    w.add_message(1, NodeMessage("Abs", {"m"}, {"y"}));
    w.add_message(1, NodeMessage("Relu", {"x"}, {"m"}));
    w.add_message(11, TensorInfo("x", 1, {-1}));
    w.add_message(12, Make([](pbf_writer& info) { info.add_string(1, "y"); }));
    w.add_string(900, "from the future");
  }))));
  EXPECT_TRUE(graph.nodes()[0]->Is("Relu"));
  EXPECT_EQ(TypeToString(graph.inputs()[0]->type), "float32[?]");
}

TEST(ReadOnnx, InitializersThatAreInputsAreConstants) {
  const Graph graph =
      ReadOnnx(Share(Model(SmallGraph(NodeMessage("Add", {"x", "w"}, {"y"}),
                                      [](pbf_writer& w) {
                                        w.add_message(11, TensorInfo("w", 1, {1}));
                                        w.add_message(5, TensorMessage({1}, 1, [](pbf_writer& t) {
                                                        t.add_float(4, 3);
                                                      }));
                                      }),
                           3)));
  ASSERT_EQ(graph.inputs().size(), 1U);
  EXPECT_TRUE(graph.FindValue("w")->is_constant());
}

TEST(ReadOnnx, UpgradesOpset6) {
  const auto add = [](int64_t axis) {
    return Model(Make([&](pbf_writer& w) {
                   w.add_message(1, Make([&](pbf_writer& n) {
                                   n.add_string(1, "x");
                                   n.add_string(1, "w");
                                   n.add_string(2, "y");
                                   n.add_string(4, "Add");
                                   n.add_message(5, Make([](pbf_writer& a) {
                                                   a.add_string(1, "broadcast");
                                                   a.add_int64(3, 1);
                                                 }));
                                   n.add_message(5, Make([&](pbf_writer& a) {
                                                   a.add_string(1, "axis");
                                                   a.add_int64(3, axis);
                                                 }));
                                 }));
                   w.add_message(11, TensorInfo("x", 1, {1, 2, 3, 3}));
                   w.add_message(12, TensorInfo("y", 1, {1, 2, 3, 3}));
                   w.add_message(5, TensorMessage({2}, 1, [](pbf_writer& t) {
                                   t.add_float(4, 1);
                                   t.add_float(4, 2);
                                 }));
                 }),
                 3, 6);
  };
  const Graph graph = ReadOnnx(Share(add(1)));
  EXPECT_EQ(graph.opset(), 7);
  EXPECT_EQ(graph.nodes()[0]->inputs[1]->constant.shape(), (Shape{2, 1, 1}));
  EXPECT_TRUE(graph.nodes()[0]->attributes.entries().empty());
  ExpectError(add(9), kInvalid, "axis");
}

TEST(ReadOnnx, EveryTruncationIsAnErrorOrAGraph) {
  const std::string good = External("f", "0", "8") + Opset(3, "extra");
  ReadOptions options;
  options.external = {{"f", 0, Share(std::string(8, 'a'))}};
  for (size_t length = 0; length < good.size(); ++length) {
    try {
      ReadOnnx(Share(good.substr(0, length)), options);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.message();
    }
  }
}

}  // namespace
}  // namespace requant
