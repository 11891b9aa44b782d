// The text form: hand-written text is printed unchanged, and graphs come back bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace requant {
namespace {

Value* AddRaw(Graph& graph, const std::string& name, DType dtype, Shape shape,
              const std::vector<uint8_t>& bytes) {
  Tensor tensor(dtype, std::move(shape));
  EXPECT_EQ(tensor.bytes(), bytes.size());
  std::memcpy(tensor.raw(), bytes.data(), bytes.size());
  return graph.AddConstant(name, tensor);
}

/// Compares structure, names, types, attributes and constants, bit for bit.
void ExpectSame(const Graph& a, const Graph& b) {
  EXPECT_EQ(PrintGraph(a), PrintGraph(b));
  for (const auto& value : a.values()) {
    const Value* other = b.FindValue(value->name);
    ASSERT_NE(other, nullptr) << value->name;
    ASSERT_EQ(value->is_constant(), other->is_constant()) << value->name;
    if (value->is_constant()) {
      EXPECT_TRUE(value->constant.SameBits(other->constant)) << value->name;
    }
    EXPECT_EQ(TypeToString(value->type), TypeToString(other->type));
  }
  ASSERT_EQ(a.nodes().size(), b.nodes().size());
  for (size_t i = 0; i < a.nodes().size(); ++i) {
    EXPECT_EQ(a.nodes()[i]->name, b.nodes()[i]->name);
    EXPECT_TRUE(SameAttributes(a.nodes()[i]->attributes, b.nodes()[i]->attributes));
  }
  EXPECT_EQ(a.opsets, b.opsets);
  EXPECT_EQ(a.metadata, b.metadata);
  EXPECT_EQ(a.name, b.name);
}

TEST(PrintGraph, LooksAsDocumented) {
  Graph graph;
  graph.name = "net";
  graph.opsets = {{"", 13}, {kMicrosoftDomain, 1}};
  Value* image = graph.AddValue("image", {DType::kFloat32, SymbolicShape{Dim("N"), 2}});
  graph.AddInput(image);
  Value* w = graph.AddConstant("w", Tensor::FromVector<float>({1, 2.5F, -3, 4}, {2, 2}));
  AttributeMap attributes;
  attributes.Set("transB", int64_t{1});
  attributes.Set("alpha", 1.0F);
  Value* y = graph.AddOp("Gemm", "", {image, w}, "y", {DType::kFloat32, SymbolicShape{Dim("N"), 2}},
                         attributes, "fc");
  graph.AddOutput(graph.AddOp("Clip", "", {y, nullptr, w}, "a z", {}, {}, "c"));
  EXPECT_EQ(PrintGraph(graph),
            "graph \"net\" opset 13, com.microsoft 1\n"
            "input %image: float32[N, 2]\n"
            "const %w: float32[2, 2] = {1.0, 2.5, -3.0, 4.0}\n"
            "%y: float32[N, 2] = Gemm(%image, %w) {transB = 1, alpha = 1.0} \"fc\"\n"
            "%\"a z\" = Clip(%y, _, %w) \"c\"\n"
            "output %\"a z\"\n");
  PrintOptions brief;
  brief.max_constant_elements = 3;
  EXPECT_NE(PrintGraph(graph, brief).find("= <[2, 2], 4 elements>"), std::string::npos);
}

TEST(ParseGraph, RoundTripsEveryDType) {
  Graph graph;
  graph.opsets = {{"", 21}};
  const float inf = std::numeric_limits<float>::infinity();
  graph.AddConstant("f", Tensor::Vector<float>({0.0F, -0.0F, inf, -inf, 0.1F, 1e10F, 3.4e38F,
                                                1.4e-45F, 16777217.0F, NAN}));
  graph.AddConstant("d", Tensor::Vector<double>({0.1, -0.0, 1e300, 5e-324, NAN, -inf}));
  graph.AddConstant("i8", Tensor::Vector<int8_t>({-128, 127, 0}));
  graph.AddConstant("u8", Tensor::Vector<uint8_t>({255, 0}));
  graph.AddConstant("i16", Tensor::Vector<int16_t>({-32768, 32767}));
  graph.AddConstant("u16", Tensor::Vector<uint16_t>({65535}));
  graph.AddConstant("i32", Tensor::Vector<int32_t>({INT32_MIN, INT32_MAX}));
  graph.AddConstant("u32", Tensor::Vector<uint32_t>({UINT32_MAX}));
  graph.AddConstant("i64", Tensor::Vector<int64_t>({INT64_MIN, INT64_MAX, -1}));
  graph.AddConstant("u64", Tensor::Vector<uint64_t>({UINT64_MAX, 0}));
  AddRaw(graph, "b", DType::kBool, {3}, {1, 0, 1});
  AddRaw(graph, "i4", DType::kInt4, {3}, {0x98, 0x07});
  AddRaw(graph, "u4", DType::kUint4, {2}, {0xf0});
  // Halves: 1, -0, largest, smallest subnormal, +inf, a NaN with a payload, the usual NaN.
  AddRaw(graph, "h", DType::kFloat16, {7},
         {0x00, 0x3c, 0x00, 0x80, 0xff, 0x7b, 0x01, 0x00, 0x00, 0x7c, 0x01, 0xfe, 0x00, 0x7e});
  AddRaw(graph, "bf", DType::kBfloat16, {4}, {0x80, 0x3f, 0xc0, 0x7f, 0x81, 0xff, 0x80, 0xff});
  AddRaw(graph, "payload", DType::kFloat32, {1}, {0x01, 0x00, 0xc0, 0xff});
  graph.AddConstant("scalar", Tensor::Scalar<float>(2));
  graph.AddConstant("empty", Tensor(DType::kInt64, {0, 4}));
  Graph back = ParseGraph(PrintGraph(graph));
  ExpectSame(graph, back);
}

TEST(ParseGraph, RoundTripsNamesTypesAndAttributes) {
  Graph graph;
  graph.name = "quote \" backslash \\ newline \n tab \t bell \x07 \xc3\xa9";
  graph.opsets = {{"", 13}, {"my domain", 2}, {"ai.onnx.ml", 3}};
  graph.metadata = {{"key", "line\nbreak"}, {"", ""}};
  Value* x = graph.AddValue(
      "onnx::x_1", {DType::kUint8, SymbolicShape{Dim("a+b"), Dim(), 0, Dim("?"), Dim("7up")}});
  Value* unknown = graph.AddValue("/conv/out.0-1", {DType::kFloat32, std::nullopt});
  Value* scalar = graph.AddValue("_", {DType::kInt64, SymbolicShape{}});
  for (Value* input : {x, unknown, scalar}) graph.AddInput(input);
  AttributeMap attributes;
  attributes.Set("i", int64_t{-5});
  attributes.Set("f", -0.0F);
  attributes.Set("s", std::string("a\"b\\c\x01\x7f\n"));
  attributes.Set("is", std::vector<int64_t>{1, INT64_MIN});
  attributes.Set("fs", std::vector<float>{1, INFINITY});
  attributes.Set("ss", std::vector<std::string>{"", "x, y"});
  attributes.Set("no ints", std::vector<int64_t>{});
  attributes.Set("no_floats", std::vector<float>{});
  attributes.Set("no_strings", std::vector<std::string>{});
  attributes.Set("t", Tensor::FromVector<int8_t>({1, -2}, {1, 2}));
  Value* first = graph.AddValue("first");
  graph.AddNode("Op Type", "my domain", {x, nullptr, unknown, x}, {nullptr, first}, attributes,
                "name with \"quotes\"");
  graph.AddNode("Sink", "", {}, {}, {}, "sink");
  graph.AddOutput(first);
  graph.AddOutput(scalar);
  VerifyGraph(graph);
  Graph back = ParseGraph(PrintGraph(graph));
  VerifyGraph(back);
  ExpectSame(graph, back);
  ExpectSame(graph, graph.Clone());
}

TEST(ParseGraph, RoundTripsNanAttributes) {
  Graph graph;
  AttributeMap attributes;
  attributes.Set("n", NAN);
  attributes.Set("ns", std::vector<float>{-INFINITY, NAN});
  graph.AddNode("Op", "", {}, {}, attributes, "op");
  const std::string text = PrintGraph(graph);
  EXPECT_NE(text.find("{n = nan, ns = [-inf, nan]}"), std::string::npos) << text;
  EXPECT_EQ(PrintGraph(ParseGraph(text)), text);
}

TEST(ParseGraph, TakesCommentsAndOptionalParts) {
  const Graph graph = ParseGraph(R"(graph "" # nothing imported
    input %x: float32[...]
    %y = Relu(%x)   # no type, no name
    output %y)");
  EXPECT_TRUE(graph.opsets.empty());
  EXPECT_EQ(graph.nodes()[0]->op_type, "Relu");
  EXPECT_FALSE(graph.nodes()[0]->name.empty());
  EXPECT_EQ(graph.FindValue("y")->type.dtype, DType::kUndefined);
}

void ExpectError(const std::string& text, const std::string& where, const std::string& what) {
  try {
    ParseGraph(text);
    FAIL() << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    EXPECT_EQ(error.message().find(where), 0U) << error.message();
    EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
  }
}

TEST(ParseGraph, ErrorsNameLineAndColumn) {
  ExpectError("graf", "line 1, column 1", "'graph'");
  ExpectError("graph \"g\n", "line 2, column 1", "does not end");
  ExpectError("graph \"\"\n%y = Relu(%x)", "line 2, column 13", "'x' is not defined");
  ExpectError("graph \"\" input %x: float3[1]", "line 1", "unknown type");
  ExpectError("graph \"\" const %x: int8[1] = {128}", "line 1", "range");
  ExpectError("graph \"\" const %x: int8[2] = {1}", "line 1", "1 elements");
  ExpectError("graph \"\" const %x: uint64[1] = {18446744073709551616}", "line 1", "too large");
  ExpectError("graph \"\" const %x: float32[N] = {1.0}", "line 1", "known shape");
  ExpectError("graph \"\" const %x: int4[1] = {8}", "line 1", "range");
  ExpectError("graph \"\" const %x: int8[1] = <[1], 1 elements>", "line 1", "left out");
  ExpectError("graph \"\" input %x: float32[1] input %x: float32[1]", "line 1", "twice");
  ExpectError("graph \"\" input %x: float32[1]\n%y = Relu(%x) {a = 1, a = 2}", "line 2", "twice");
  ExpectError("graph \"\" input %x: float32[1]\n%y = Relu(%x) {a = }", "line 2", "number");
  // Every prefix of a valid text is either rejected or parsed, without a crash.
  const std::string good =
      "graph \"g\" opset 13, a.b 2\nmetadata \"k\" = \"v\"\ninput %x: float32[N, ?, 3]\n"
      "const %\"c d\": float16[2] = {1.5, nan(0x7e01)}\n"
      "%y: float32[...], _ = a.b::Op(%x, _, %\"c d\") {k = int4[3] {1, -8, 7}, l = [1, 2]} \"n\"\n"
      "output %y\n";
  ParseGraph(good);
  for (size_t length = 0; length < good.size(); ++length) {
    try {
      ParseGraph(std::string_view(good).substr(0, length));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    }
  }
}

TEST(GraphToDot, ShowsOperatorsAndValues) {
  const Graph graph = ParseGraph(R"(graph "g" opset 13
    input %x: float32[N, 2]
    const %w: float32[2, 2] = {1.0, 2.0, 3.0, 4.0}
    %y: float32[N, 2] = MatMul(%x, %w) "m"
    %z: float32[N, 2] = Relu(%y) "r\"q"
    output %z)");
  const std::string dot = GraphToDot(graph);
  EXPECT_EQ(dot.find("digraph \"g\" {"), 0U);
  EXPECT_NE(dot.find("n0 [label=\"MatMul\\nm\\n1: w float32[2, 2]\"]"), std::string::npos) << dot;
  EXPECT_NE(dot.find("n0 -> n1 [label=\"y\\nfloat32[N, 2]\"]"), std::string::npos);
  EXPECT_NE(dot.find("i0 -> n0"), std::string::npos);
  EXPECT_NE(dot.find("n1 -> o0"), std::string::npos);
  EXPECT_NE(dot.find("r\\\"q"), std::string::npos);
}

TEST(VerifyGraph, FindsBrokenLinks) {
  const char* text = R"(graph "g" opset 13
    input %x: float32[2]
    const %c: float32[2] = {1.0, 2.0}
    %y: float32[2] = Add(%x, %c) "add"
    %z: float32[2] = Relu(%y) "relu"
    output %z)";
  const auto expect_broken = [](const Graph& graph, const std::string& what) {
    try {
      VerifyGraph(graph);
      FAIL() << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
      EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
    }
  };
  Graph graph = ParseGraph(text);
  VerifyGraph(graph);
  graph.FindValue("y")->consumers.clear();
  expect_broken(graph, "wrong list of consumers");
  graph = ParseGraph(text);
  graph.FindValue("y")->producer = nullptr;
  expect_broken(graph, "does not know its producer");
  graph = ParseGraph(text);
  graph.FindValue("c")->type.shape = ToSymbolic({3});
  expect_broken(graph, "is declared as float32[3]");
  graph = ParseGraph(text);
  graph.AddOutput(graph.AddValue("nothing"));
  expect_broken(graph, "never computed");
  graph = ParseGraph(text);
  graph.AddOutput(graph.FindValue("z"));
  expect_broken(graph, "listed twice");
  graph = ParseGraph(text);
  graph.SetInput(graph.FindNode("add"), 1, graph.FindValue("z"));  // a cycle, or just unsorted
  expect_broken(graph, "before it is defined");
  graph = ParseGraph(text);
  graph.FindValue("x")->type.shape = SymbolicShape{Dim(-7)};
  expect_broken(graph, "bad dimension");
  graph = ParseGraph(text);
  graph.FindNode("relu")->name = "add";
  expect_broken(graph, "not unique");
}

}  // namespace
}  // namespace requant
