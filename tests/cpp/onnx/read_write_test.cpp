// Reading hand-made and hostile files, external data, and writing.
#include <gtest/gtest.h>

#include <cstring>
#include <protozero/pbf_writer.hpp>

#include "base/error.h"
#include "ir/text.h"
#include "onnx/read.h"
#include "onnx/write.h"

namespace requant {
namespace {

using protozero::pbf_writer;

SharedBytes Share(const std::string& bytes) {
  auto copy = std::make_shared<std::vector<uint8_t>>(bytes.begin(), bytes.end());
  return {copy, {copy->data(), copy->size()}};
}

std::string ToString(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// A length-delimited message made by `fill`. The field numbers are those of onnx.proto.
template <typename Fill>
std::string Make(Fill fill) {
  std::string out;
  pbf_writer writer(out);
  fill(writer);
  return out;
}

std::string Opset(int64_t version, const std::string& domain = "") {
  return Make([&](pbf_writer& w) {
    w.add_string(1, domain);
    w.add_int64(2, version);
  });
}

std::string Model(const std::string& graph, int64_t ir_version = 8, int64_t opset = 13) {
  return Make([&](pbf_writer& w) {
    w.add_int64(1, ir_version);
    w.add_message(8, Opset(opset));
    w.add_message(7, graph);
  });
}

std::string TensorInfo(const std::string& name, int32_t elem_type, std::vector<int64_t> dims) {
  return Make([&](pbf_writer& w) {
    w.add_string(1, name);
    w.add_message(2, Make([&](pbf_writer& type) {
                    type.add_message(1, Make([&](pbf_writer& tensor) {
                                       tensor.add_int32(1, elem_type);
                                       tensor.add_message(2, Make([&](pbf_writer& shape) {
                                                            for (const int64_t dim : dims) {
                                                              shape.add_message(
                                                                  1, Make([&](pbf_writer& d) {
                                                                    d.add_int64(1, dim);
                                                                  }));
                                                            }
                                                          }));
                                     }));
                  }));
  });
}

std::string NodeMessage(const std::string& op, std::vector<std::string> inputs,
                        std::vector<std::string> outputs, const std::string& attribute = "",
                        const std::string& name = "") {
  return Make([&](pbf_writer& w) {
    for (const auto& input : inputs) w.add_string(1, input);
    for (const auto& output : outputs) w.add_string(2, output);
    if (!name.empty()) w.add_string(3, name);
    w.add_string(4, op);
    if (!attribute.empty()) w.add_message(5, attribute);
  });
}

/// x -> node -> y with whatever `extra` adds to the graph.
template <typename Extra>
std::string SmallGraph(const std::string& node, Extra extra) {
  return Make([&](pbf_writer& w) {
    w.add_message(1, node);
    w.add_string(2, "g");
    w.add_message(11, TensorInfo("x", 1, {2}));
    w.add_message(12, TensorInfo("y", 1, {2}));
    extra(w);
  });
}

std::string SmallGraph(const std::string& node) {
  return SmallGraph(node, [](pbf_writer&) {});
}

std::string Relu() { return NodeMessage("Relu", {"x"}, {"y"}); }

void ExpectError(const std::string& bytes, ErrorCode code, const std::string& what,
                 const std::string& node = "", const std::string& value = "") {
  try {
    ReadOnnx(Share(bytes));
    FAIL() << what;
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCodeName(error.code()), std::string(ErrorCodeName(code))) << error.message();
    EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
    if (!node.empty()) {
      EXPECT_EQ(error.context().node, node);
    }
    if (!value.empty()) {
      EXPECT_EQ(error.context().value, value);
    }
    EXPECT_FALSE(error.context().hint.empty()) << error.message();
  }
}

constexpr ErrorCode kInvalid = ErrorCode::kInvalidModel;
constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;

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
  ExpectError(Model(SmallGraph(NodeMessage("Pad", {"x"}, {"y"})), 8, 5), kUnsupported, "before 7");
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
      kUnsupported, "functions");
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
      Model(SmallGraph(Relu(), [](pbf_writer& w) { w.add_message(11, TensorInfo("z", 8, {1})); })),
      kUnsupported, "string", "", "z");
  ExpectError(
      Model(SmallGraph(Relu(), [](pbf_writer& w) { w.add_message(11, TensorInfo("z", 14, {1})); })),
      kUnsupported, "element type 14", "", "z");
  ExpectError(Model(SmallGraph(Relu(), [](pbf_writer& w) { w.add_message(15, std::string()); })),
              kUnsupported, "sparse");
  const std::string sequence = Make([](pbf_writer& w) {
    w.add_string(1, "seq");
    w.add_message(2, Make([](pbf_writer& type) { type.add_message(4, std::string()); }));
  });
  ExpectError(Model(SmallGraph(Relu(), [&](pbf_writer& w) { w.add_message(11, sequence); })),
              kUnsupported, "a sequence", "", "seq");
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

TEST(ReadOnnx, ReadsAttributesOfEveryKind) {
  const auto with = [](auto fill) {
    return ReadOnnx(Share(Model(SmallGraph(NodeMessage("Op", {"x"}, {"y"}, Make([&](pbf_writer& w) {
                                                         w.add_string(1, "a");
                                                         fill(w);
                                                       }))))))
        .nodes()[0]
        ->attributes;
  };
  // The type field is missing in the oldest files; then the only present field decides.
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
              kUnsupported, "kind 11", "branch");
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

/// If(c) over two branches; the first captures x and has a constant of its own.
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
  // The text form and the file say the same again; a renamed outer value is renamed inside.
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

/// A model whose only node adds the initializer "w".
std::string WithInitializer(const std::string& tensor) {
  return Model(SmallGraph(NodeMessage("Add", {"x", "w"}, {"y"}),
                          [&](pbf_writer& w) { w.add_message(5, tensor); }));
}

template <typename Fill>
std::string TensorMessage(std::vector<int64_t> dims, int32_t type, Fill fill) {
  return Make([&](pbf_writer& w) {
    w.add_packed_int64(1, dims.begin(), dims.end());
    w.add_int32(2, type);
    w.add_string(8, "w");
    fill(w);
  });
}

Tensor ReadInitializer(const std::string& tensor) {
  return ReadOnnx(Share(WithInitializer(tensor))).FindValue("w")->constant;
}

TEST(ReadOnnx, ReadsTypedData) {
  const auto ints = [](std::vector<int32_t> values, int32_t type) {
    return ReadInitializer(
        TensorMessage({static_cast<int64_t>(values.size())}, type,
                      [&](pbf_writer& w) { w.add_packed_int32(5, values.begin(), values.end()); }));
  };
  EXPECT_EQ(ints({-128, 127}, 3).ToInts(), (std::vector<int64_t>{-128, 127}));
  EXPECT_EQ(ints({0, 255}, 2).ToInts(), (std::vector<int64_t>{0, 255}));
  EXPECT_EQ(ints({-32768}, 5).ToInts(), (std::vector<int64_t>{-32768}));
  EXPECT_EQ(ints({65535}, 4).ToInts(), (std::vector<int64_t>{65535}));
  EXPECT_EQ(ints({0, 2, 1}, 9).ToInts(), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(ints({0x3c00, 0xc000}, 10).ToDoubles(), (std::vector<double>{1, -2}));
  EXPECT_EQ(ints({0x3f80}, 16).ToDoubles(), (std::vector<double>{1}));
  EXPECT_EQ(ReadInitializer(TensorMessage({3}, 22,
                                          [](pbf_writer& w) {
                                            w.add_int32(5, 0x98);
                                            w.add_int32(5, 0x07);
                                          }))
                .ToInts(),
            (std::vector<int64_t>{-8, -7, 7}));
  EXPECT_EQ(
      ReadInitializer(TensorMessage({1}, 13, [](pbf_writer& w) { w.add_uint64(11, 4294967295U); }))
          .ToInts(),
      (std::vector<int64_t>{4294967295}));
  EXPECT_EQ(ReadInitializer(TensorMessage({1}, 11, [](pbf_writer& w) { w.add_double(10, 0.1); }))
                .ToDoubles(),
            (std::vector<double>{0.1}));
  EXPECT_EQ(
      ReadInitializer(TensorMessage({}, 7, [](pbf_writer& w) { w.add_int64(7, -9); })).ToInts(),
      (std::vector<int64_t>{-9}));
  EXPECT_EQ(ReadInitializer(TensorMessage({0, 5}, 1, [](pbf_writer&) {})).count(), 0);
}

TEST(ReadOnnx, RefusesBadTensors) {
  const auto nothing = [](pbf_writer&) {};
  const auto raw8 = [](pbf_writer& w) { w.add_bytes(9, std::string(8, 'a')); };
  ExpectError(WithInitializer(TensorMessage({3}, 1, raw8)), kInvalid, "needs 12 bytes", "", "w");
  ExpectError(WithInitializer(TensorMessage({2}, 1, nothing)), kInvalid, "0 elements", "", "w");
  ExpectError(WithInitializer(TensorMessage({-2, -1}, 1, raw8)), kInvalid, "negative", "", "w");
  ExpectError(WithInitializer(TensorMessage({INT64_MAX, INT64_MAX}, 1, raw8)), kInvalid, "too many",
              "", "w");
  ExpectError(WithInitializer(TensorMessage({INT64_MAX / 4}, 11, raw8)), kInvalid, "", "", "w");
  ExpectError(WithInitializer(TensorMessage({1}, 0, raw8)), kInvalid, "element type", "", "w");
  ExpectError(WithInitializer(TensorMessage({1}, 8, nothing)), kUnsupported, "string", "", "w");
  ExpectError(WithInitializer(TensorMessage({1}, 17, nothing)), kUnsupported, "17", "", "w");
  ExpectError(WithInitializer(TensorMessage({2}, 1,
                                            [](pbf_writer& w) {
                                              w.add_bytes(9, std::string(8, 'a'));
                                              w.add_float(4, 1);
                                              w.add_float(4, 1);
                                            })),
              kInvalid, "twice", "", "w");
  ExpectError(WithInitializer(
                  TensorMessage({2}, 1, [](pbf_writer& w) { w.add_message(3, std::string()); })),
              kUnsupported, "segments");
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

std::string External(const std::string& location, const std::string& offset,
                     const std::string& length) {
  return WithInitializer(TensorMessage({2}, 1, [&](pbf_writer& w) {
    w.add_int32(14, 1);
    const auto entry = [&w](const std::string& key, const std::string& value) {
      w.add_message(13, Make([&](pbf_writer& e) {
                      e.add_string(1, key);
                      e.add_string(2, value);
                    }));
    };
    entry("location", location);
    if (!offset.empty()) entry("offset", offset);
    if (!length.empty()) entry("length", length);
  }));
}

TEST(ReadOnnx, ReadsExternalData) {
  const float data[4] = {1, 2, 3, 4};
  std::string bytes(sizeof data, '\0');
  std::memcpy(bytes.data(), data, sizeof data);
  ReadOptions options;
  options.external["../weights.bin"] = Share(bytes);
  const auto read = [&](const std::string& offset, const std::string& length) {
    return ReadOnnx(Share(External("../weights.bin", offset, length)), options)
        .FindValue("w")
        ->constant.ToFloats();
  };
  EXPECT_EQ(read("8", "8"), (std::vector<float>{3, 4}));
  EXPECT_EQ(read("", ""), (std::vector<float>{1, 2}));
  EXPECT_EQ(ExternalDataLocations(Share(External("a b", "", "")).bytes),
            std::vector<std::string>{"a b"});
  for (const auto& [offset, length] :
       std::vector<std::pair<std::string, std::string>>{{"12", "8"},
                                                        {"16", ""},
                                                        {"0", "4"},
                                                        {"-1", ""},
                                                        {"18446744073709551615", "8"},
                                                        {"x", ""},
                                                        {"99999999999999999999999", ""}}) {
    EXPECT_THROW(read(offset, length), Error) << offset << " " << length;
  }
  ExpectError(External("elsewhere", "", ""), ErrorCode::kInvalidArgument, "'elsewhere'", "", "w");
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
  options.external["f"] = Share(std::string(8, 'a'));
  for (size_t length = 0; length < good.size(); ++length) {
    try {
      ReadOnnx(Share(good.substr(0, length)), options);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.message();
    }
  }
}

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
