// Models with functions of their own: calls become the nodes of the bodies.
#include <gtest/gtest.h>

#include "interpret/interpreter.h"
#include "ir/text.h"
#include "onnx/handmade.h"
#include "onnx/read.h"

namespace requant {
namespace {

using namespace handmade;

std::string Node(const std::string& op, const std::string& domain, std::vector<std::string> inputs,
                 std::vector<std::string> outputs, const std::string& attribute = "",
                 const std::string& name = "") {
  return NodeMessage(op, std::move(inputs), std::move(outputs), attribute, name) +
         Make([&](pbf_writer& w) { w.add_string(7, domain); });
}

std::string IntAttribute(const std::string& name, int64_t value) {
  return Make([&](pbf_writer& w) {
    w.add_string(1, name);
    w.add_int64(3, value);
    w.add_int32(20, 2);
  });
}
std::string FloatAttribute(const std::string& name, float value) {
  return Make([&](pbf_writer& w) {
    w.add_string(1, name);
    w.add_float(2, value);
    w.add_int32(20, 1);
  });
}
std::string Reference(const std::string& name, const std::string& to) {
  return Make([&](pbf_writer& w) {
    w.add_string(1, name);
    w.add_string(21, to);
    w.add_int32(20, 1);
  });
}

struct Function {
  std::string name;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> nodes;
  std::vector<std::string> defaults = {};
  int64_t opset = 13;
};

std::string Message(const Function& function) {
  return Make([&](pbf_writer& w) {
    w.add_string(1, function.name);
    for (const auto& input : function.inputs) w.add_string(4, input);
    for (const auto& output : function.outputs) w.add_string(5, output);
    for (const auto& node : function.nodes) w.add_message(7, node);
    w.add_message(9, Opset(function.opset));
    w.add_string(10, "own");
    for (const auto& attribute : function.defaults) w.add_message(11, attribute);
  });
}

std::string WithFunctions(const std::string& graph, const std::vector<Function>& functions,
                          int64_t opset = 13) {
  return Model(graph, 8, opset) + Make([&](pbf_writer& w) {
           w.add_message(8, Opset(1, "own"));
           for (const Function& function : functions) w.add_message(25, Message(function));
         });
}

std::vector<float> Outputs(const Graph& graph, std::vector<float> x) {
  TensorMap feeds;
  feeds["x"] = Tensor::Vector(x);
  return Interpret(graph, feeds)[0].ToFloats();
}

TEST(LocalFunctions, CallsBecomeTheNodesOfTheirBodies) {
  // outer(a) = inner(a) + a, inner(b; alpha = 0.5) = LeakyRelu(b, alpha)
  const Function inner = {"Inner",
                          {"b"},
                          {"c"},
                          {NodeMessage("LeakyRelu", {"b"}, {"t"}, Reference("alpha", "slope")),
                           NodeMessage("Identity", {"t"}, {"c"})},
                          {FloatAttribute("slope", 0.5F)}};
  const Function outer = {
      "Outer",
      {"a"},
      {"d"},
      {Node("Inner", "own", {"a"}, {"t"}, "", "first"),
       Node("Inner", "own", {"t"}, {"u"}, Reference("slope", "slope"), "second"),
       NodeMessage("Add", {"u", "a"}, {"d"})}};
  const std::string call = Node("Outer", "own", {"x"}, {"y"}, FloatAttribute("slope", 2), "call");
  const Graph graph = ReadOnnx(Share(WithFunctions(SmallGraph(call), {inner, outer})));
  ASSERT_EQ(graph.nodes().size(), 5U);
  EXPECT_EQ(graph.nodes()[0]->name, "call/first/LeakyRelu");
  EXPECT_NE(graph.FindValue("call/first/t"), nullptr);
  EXPECT_EQ(graph.nodes()[0]->attributes.Float("alpha", 0), 0.5F);
  EXPECT_EQ(graph.FindNode("call/second/LeakyRelu")->attributes.Float("alpha", 0), 2);
  EXPECT_EQ(Outputs(graph, {1, -2}), (std::vector<float>{2, -4}));
}

TEST(LocalFunctions, NamesOfTheFileStayWhatTheyAre) {
  // The body's value would have the name of a value of the graph.
  const Function function = {
      "F", {"a"}, {"b"}, {NodeMessage("Neg", {"a"}, {"t"}), NodeMessage("Abs", {"t"}, {"b"})}};
  const std::string graph =
      SmallGraph(Node("F", "own", {"x"}, {"call/t"}, "", "call"), [](pbf_writer& w) {
        w.add_message(1, NodeMessage("Add", {"call/t", "x"}, {"y"}));
      });
  const Graph read = ReadOnnx(Share(WithFunctions(graph, {function})));
  EXPECT_EQ(Outputs(read, {3, -5}), (std::vector<float>{6, 0}));
  EXPECT_EQ(read.FindValue("call/t")->producer->op_type, "Abs");
  EXPECT_NE(read.FindValue("call/t_2"), nullptr);
}

TEST(LocalFunctions, InputsAndOutputsMayBeLeftOut) {
  const Function function = {
      "F",
      {"a", "low", "high"},
      {"same", "b", "rest"},
      {NodeMessage("Clip", {"a", "low", "high"}, {"b"}), NodeMessage("Neg", {"a"}, {"rest"}),
       NodeMessage("Identity", {"a"}, {"same"})}};
  const Graph graph =
      ReadOnnx(Share(WithFunctions(SmallGraph(Node("F", "own", {"x"}, {"", "y"})), {function})));
  EXPECT_EQ(graph.FindNode("F/Clip")->inputs.size(), 1U);
  EXPECT_EQ(Outputs(graph, {3, -5}), (std::vector<float>{3, -5}));
  // An input that is an output, and one that is two outputs.
  const Function pass = {"F", {"a"}, {"a", "a"}, {}};
  const Graph passed =
      ReadOnnx(Share(WithFunctions(SmallGraph(Node("F", "own", {"x"}, {"", "y"})), {pass})));
  EXPECT_EQ(Outputs(passed, {3, -5}), (std::vector<float>{3, -5}));
}

TEST(LocalFunctions, WorkInSubgraphs) {
  // A branch of the body reads the body's values, an attribute, and an input that is left out, and
  // calls another function.
  const Function twice = {
      "Twice",
      {"p"},
      {"q"},
      {NodeMessage("Add", {"p", "p"}, {"s"}), NodeMessage("Abs", {"s"}, {"q"})}};
  std::string branch;
  {
    const std::string calls = Node("Twice", "own", {"l"}, {"z"}, "", "inner");
    const std::string leaky =
        NodeMessage("LeakyRelu", {"a"}, {"k"}, Reference("alpha", "slope"), "leaky");
    const std::string clip = NodeMessage("Clip", {"k", "missing"}, {"l"});
    branch = Make([&](pbf_writer& w) {
      w.add_message(1, leaky);
      w.add_message(1, clip);
      w.add_message(1, calls);
      w.add_string(2, "branch");
      w.add_message(12, Make([](pbf_writer& info) { info.add_string(1, "z"); }));
    });
  }
  const std::string node = Make([&](pbf_writer& w) {
    w.add_string(1, "c");
    w.add_string(2, "b");
    w.add_string(4, "If");
    for (const char* name : {"then_branch", "else_branch"}) {
      w.add_message(5, Make([&](pbf_writer& a) {
                      a.add_string(1, name);
                      a.add_message(6, branch);
                      a.add_int32(20, 5);
                    }));
    }
  });
  const std::string condition = Make([](pbf_writer& w) {
    w.add_string(4, "Constant");
    w.add_string(2, "c");
    w.add_message(5, Make([](pbf_writer& a) {
                    a.add_string(1, "value");
                    a.add_int32(20, 4);
                    a.add_message(5, Make([](pbf_writer& t) {
                                    t.add_int32(2, 9);
                                    t.add_int32(5, 1);
                                  }));
                  }));
  });
  const Function function = {"F", {"a", "missing"}, {"b"}, {condition, node}};
  const Graph graph = ReadOnnx(Share(
      WithFunctions(SmallGraph(Node("F", "own", {"x"}, {"y"}, FloatAttribute("slope", 3), "call")),
                    {twice, function})));
  const auto& nodes = graph.nodes();
  ASSERT_EQ(nodes.back()->op_type, "If");
  const Graph& body = *nodes.back()->attributes.GraphValue("then_branch");
  EXPECT_EQ(body.captured, 1U);
  EXPECT_NE(body.FindNode("inner/Add"), nullptr);
  EXPECT_EQ(Outputs(graph, {1, -2}), (std::vector<float>{2, 12}));
}

TEST(LocalFunctions, OlderOpsetsAreRaised) {
  const std::string axes = Make([](pbf_writer& w) {
    w.add_string(1, "axes");
    w.add_int64(8, 0);
    w.add_int32(20, 7);
  });
  const Function function = {
      "F",
      {"a"},
      {"b"},
      {NodeMessage("Unsqueeze", {"a"}, {"u"}, axes), NodeMessage("Squeeze", {"u"}, {"v"}, axes),
       NodeMessage("Softmax", {"u"}, {"w"}, IntAttribute("axis", 0)),
       NodeMessage("Squeeze", {"w"}, {"s"}, axes),
       NodeMessage("Clip", {"v"}, {"k"}, FloatAttribute("max", 1)),
       NodeMessage("Add", {"k", "s"}, {"b"})},
      {},
      9};
  const std::string file =
      WithFunctions(SmallGraph(Node("F", "own", {"x"}, {"y"})), {function}, 18);
  const Graph graph = ReadOnnx(Share(file));
  EXPECT_EQ(graph.opset(), 18);
  // Softmax-9 along axis 0 takes the whole tensor for a row.
  const std::vector<float> y = Outputs(graph, {0, 2});
  EXPECT_NEAR(y[0], 0.119203, 1e-5);
  EXPECT_NEAR(y[1], 1.880797, 1e-5);
  // A function that is newer than the model raises the model.
  const Function newer = {"F", {"a"}, {"b"}, {NodeMessage("Neg", {"a"}, {"b"})}, {}, 18};
  EXPECT_EQ(ReadOnnx(Share(WithFunctions(SmallGraph(Node("F", "own", {"x"}, {"y"})), {newer}, 13)))
                .opset(),
            18);
  // Resize-10 has no equal in newer opsets.
  const Function resize = {"F", {"a"}, {"b"}, {NodeMessage("Resize", {"a"}, {"b"})}, {}, 10};
  ExpectError(WithFunctions(SmallGraph(Node("F", "own", {"x"}, {"y"})), {resize}), kUnsupported,
              "opset 10", "F/Resize");
}

TEST(LocalFunctions, RefusesWhatCannotBe) {
  const std::string call = Node("F", "own", {"x"}, {"y"}, "", "call");
  const Function one = {"F", {"a"}, {"b"}, {Node("G", "own", {"a"}, {"b"})}};
  const Function other = {"G", {"a"}, {"b"}, {Node("F", "own", {"a"}, {"b"})}};
  ExpectError(WithFunctions(SmallGraph(call), {one, other}), kInvalid, "calls itself", "call/G/F");
  ExpectError(
      WithFunctions(SmallGraph(Node("F", "own", {"x", "x"}, {"y"}, "", "call")), {other, one}),
      kInvalid, "its call has 2 and 1", "call");
  ExpectError(WithFunctions(SmallGraph(call), {one, one}), kInvalid, "defined twice");
  const Function undefined = {"F", {"a"}, {"b"}, {NodeMessage("Add", {"a", "z"}, {"b"})}};
  ExpectError(WithFunctions(SmallGraph(call), {undefined}), kInvalid, "which nothing defines",
              "call/Add", "call/z");
  const Function nothing = {"F", {"a"}, {"b"}, {NodeMessage("Neg", {"a"}, {"c"})}};
  ExpectError(WithFunctions(SmallGraph(call), {nothing}), kInvalid, "never computed");
  ExpectError(
      Model(SmallGraph(NodeMessage("LeakyRelu", {"x"}, {"y"}, Reference("alpha", "a"), "n"))),
      kInvalid, "of no function", "n");
  // Sixty functions that call the next one twice.
  std::vector<Function> many;
  for (int i = 0; i < 60; ++i) {
    const std::string next = StrCat("F", i + 1);
    many.push_back({i == 0 ? "F" : StrCat("F", i),
                    {"a"},
                    {"b"},
                    {Node(next, "own", {"a"}, {"t"}), Node(next, "own", {"t"}, {"b"})}});
  }
  many.push_back({"F60", {"a"}, {"b"}, {NodeMessage("Neg", {"a"}, {"b"})}});
  ExpectError(WithFunctions(SmallGraph(call), many), kUnsupported, "too many nodes");
}

// --- sparse tensors

std::string Sparse(std::vector<int64_t> dims, const std::vector<float>& values,
                   const std::vector<int64_t>& indices, std::vector<int64_t> index_dims) {
  return Make([&](pbf_writer& w) {
    const std::vector<int64_t> value_dims = {static_cast<int64_t>(values.size())};
    w.add_message(1, Make([&](pbf_writer& t) {
                    t.add_packed_int64(1, value_dims.begin(), value_dims.end());
                    t.add_int32(2, 1);
                    t.add_packed_float(4, values.begin(), values.end());
                    t.add_string(8, "w");
                  }));
    w.add_message(2, Make([&](pbf_writer& t) {
                    t.add_packed_int64(1, index_dims.begin(), index_dims.end());
                    t.add_int32(2, 7);
                    t.add_packed_int64(7, indices.begin(), indices.end());
                  }));
    w.add_packed_int64(3, dims.begin(), dims.end());
  });
}

std::string WithSparse(const std::string& sparse) {
  return Model(SmallGraph(NodeMessage("Add", {"x", "w"}, {"y"}),
                          [&](pbf_writer& w) { w.add_message(15, sparse); }));
}

TEST(SparseTensors, AreDenseOnceRead) {
  const auto read = [](const std::string& sparse) {
    return ReadOnnx(Share(WithSparse(sparse))).FindValue("w")->constant;
  };
  const Tensor linear = read(Sparse({2, 3}, {5, 7}, {1, 5}, {2}));
  EXPECT_EQ(linear.shape(), (Shape{2, 3}));
  EXPECT_EQ(linear.ToFloats(), (std::vector<float>{0, 5, 0, 0, 0, 7}));
  EXPECT_TRUE(read(Sparse({2, 3}, {5, 7}, {0, 1, 1, 2}, {2, 2})).SameBits(linear));
  EXPECT_EQ(read(Sparse({2}, {}, {}, {0})).ToFloats(), (std::vector<float>{0, 0}));
  EXPECT_NE(NeedsOf(Share(WithSparse(Sparse({2}, {}, {}, {0}))).bytes).function, nullptr);
  EXPECT_EQ(NeedsOf(Share(Model(SmallGraph(Relu()))).bytes).function, nullptr);
  const std::string constant = NodeMessage("Constant", {}, {"y"}, Make([](pbf_writer& a) {
                                             a.add_string(1, "sparse_value");
                                             a.add_message(22, Sparse({2}, {3}, {1}, {1}));
                                             a.add_int32(20, 11);
                                           }));
  EXPECT_EQ(Outputs(ReadOnnx(Share(Model(SmallGraph(constant)))), {0, 0}),
            (std::vector<float>{0, 3}));
}

TEST(SparseTensors, BadOnesAreRefused) {
  const auto refused = [](const std::string& sparse, ErrorCode code, const std::string& what) {
    ExpectError(WithSparse(sparse), code, what, "", "w");
  };
  refused(Sparse({2, 3}, {5}, {6}, {1}), kInvalid, "beyond 6");
  refused(Sparse({2, 3}, {5}, {-1}, {1}), kInvalid, "beyond");
  refused(Sparse({2, 3}, {5}, {1, 3}, {1, 2}), kInvalid, "beyond 3");
  refused(Sparse({2, 3}, {5, 7}, {3, 3}, {2}), kInvalid, "ascend");
  refused(Sparse({2, 3}, {5, 7}, {3, 1}, {2}), kInvalid, "ascend");
  refused(Sparse({2, 3}, {5, 7}, {3}, {1}), kInvalid, "at indices of");
  refused(Sparse({1 << 20, 1 << 20}, {5}, {1}, {1}), ErrorCode::kOutOfMemory, "dense one");
}

}  // namespace
}  // namespace requant
