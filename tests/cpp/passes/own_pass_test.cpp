// Passes that a user adds: patterns, rewrites, what is checked, and the order of the pipeline.
#include "passes/own/own_pass.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "passes/runner.h"

namespace requant {
namespace {

PatternNode ValueNamed(const char* name) {
  PatternNode out;
  out.name = name;
  return out;
}

PatternNode ConstantNamed(const char* name) {
  PatternNode out = ValueNamed(name);
  out.kind = PatternNode::Kind::kConstant;
  return out;
}

PatternNode OperatorOf(const char* op, std::vector<PatternNode> inputs, bool commutes = false) {
  PatternNode out;
  out.kind = PatternNode::Kind::kOperator;
  out.op = op;
  out.has_inputs = !inputs.empty();
  out.inputs = std::move(inputs);
  out.commutes = commutes;
  return out;
}

OperandRef Made(int64_t node, size_t output = 0) { return {nullptr, node, output}; }

/// Mul(x, 2) becomes Add(x, x).
OwnPassSpec DoubleToSum() {
  OwnPassSpec spec;
  spec.name = "DoubleToSum";
  spec.pattern = OperatorOf("Mul", {ValueNamed("x"), ConstantNamed("c")}, true);
  spec.rewrite = [](Graph&, const PatternMatch& match) -> std::optional<Replacement> {
    const Tensor& c = match.values.at("c")->constant;
    if (c.count() != 1 || c.AsDouble(0) != 2) return std::nullopt;
    Value* x = match.values.at("x");
    return Replacement{{{"Add", "", "", {{x}, {x}}, 1, {}}}, {Made(0)}};
  };
  return spec;
}

/// Adds the pass for the time of a test.
class Added {
 public:
  explicit Added(OwnPassSpec spec) : name_(spec.name) { AddOwnPass(std::move(spec)); }
  ~Added() { RemoveOwnPass(name_); }
  Added(const Added&) = delete;
  Added& operator=(const Added&) = delete;

 private:
  std::string name_;
};

constexpr const char* kGraph = R"(graph "" opset 13
input %x: float32[2]
const %two: float32[] = {2}
const %three: float32[] = {3}
%a = Mul(%x, %two) "a"
%b = Mul(%two, %a) "b"
%y = Mul(%b, %three) "y"
output %y
)";

PipelineReport RunOnly(Graph& graph, const std::vector<std::string>& names) {
  PipelineOptions options;
  options.only = names;
  return RunPasses(graph, options);
}

std::string Failure(const OwnPassSpec& spec, const char* text, ErrorCode* code = nullptr) {
  const Added added(spec);
  Graph graph = ParseGraph(text);
  try {
    RunOnly(graph, {"InferType", spec.name});
  } catch (const Error& error) {
    if (code) *code = error.code();
    return error.message() + " @" + error.context().node;
  }
  return "";
}

TEST(OwnPass, RewritesEveryMatchInAnyOrderOfItsInputs) {
  const Added added(DoubleToSum());
  Graph graph = ParseGraph(kGraph);
  const Graph before = graph.Clone();
  const PipelineReport report = RunOnly(graph, {"DoubleToSum"});
  std::vector<std::string> operators;
  for (const auto& node : graph.nodes()) operators.push_back(node->op_type);
  EXPECT_EQ(operators, (std::vector<std::string>{"Add", "Add", "Mul"}));
  EXPECT_TRUE(report.passes[0].changed);
  const TensorMap feeds = {{"x", Tensor::Vector<float>({1.5F, -4})}};
  EXPECT_EQ(Interpret(graph, feeds)[0].ToDoubles(), Interpret(before, feeds)[0].ToDoubles());
}

TEST(OwnPass, RunsInItsPositionAndByName) {
  OwnPassSpec spec = DoubleToSum();
  spec.before = "SimplifyExpr";
  const Added added(spec);
  spec.name = "Behind";
  spec.before = "";
  spec.after = "SimplifyExpr";
  spec.by_default = true;
  const Added behind(spec);
  const std::vector<const Pass*> all = AllPasses({});
  const auto at = [&](const std::string& name) {
    return std::find_if(all.begin(), all.end(), [&](const Pass* p) { return p->name == name; });
  };
  EXPECT_EQ(at("DoubleToSum") + 1, at("SimplifyExpr"));
  EXPECT_EQ(at("SimplifyExpr") + 1, at("Behind"));
  Graph graph = ParseGraph(kGraph);
  std::vector<std::string> dumped;
  PipelineOptions options;
  options.dump = [&](const char* pass, const Graph&) { dumped.emplace_back(pass); };
  RunPasses(graph, options);
  EXPECT_EQ(std::count(dumped.begin(), dumped.end(), "Behind"), 1);
  EXPECT_EQ(std::count(dumped.begin(), dumped.end(), "DoubleToSum"), 0);
  Graph kept = ParseGraph(kGraph);
  dumped.clear();
  options.disable = {"Behind"};
  RunPasses(kept, options);
  EXPECT_EQ(std::count(dumped.begin(), dumped.end(), "Behind"), 0);
}

TEST(OwnPass, MatchesTreesAndTheSameValueTwice) {
  OwnPassSpec spec;
  spec.name = "Square";
  spec.pattern = OperatorOf("Relu", {OperatorOf("Mul", {ValueNamed("x"), ValueNamed("x")})});
  spec.rewrite = [](Graph&, const PatternMatch& match) -> std::optional<Replacement> {
    Value* x = match.values.at("x");
    return Replacement{{{"Mul", "", "square", {{x}, {x}}, 1, {}}}, {Made(0)}};
  };
  const Added added(spec);
  Graph graph = ParseGraph(R"(graph "" opset 13
input %x: float32[2]
input %z: float32[2]
%a = Mul(%x, %x)
%p = Relu(%a)
%b = Mul(%x, %z)
%q = Relu(%b)
output %p
output %q
)");
  RunOnly(graph, {"Square"});
  EXPECT_EQ(graph.nodes().size(), 3U);
  EXPECT_NE(graph.FindNode("square"), nullptr);
  EXPECT_EQ(graph.outputs()[0]->name, "p");
}

TEST(OwnPass, AResultThatIsAnInputKeepsTheOutputsName) {
  OwnPassSpec spec;
  spec.name = "Drop";
  spec.pattern = OperatorOf("Abs", {ValueNamed("x")});
  spec.rewrite = [](Graph&, const PatternMatch& match) -> std::optional<Replacement> {
    return Replacement{{}, {{match.values.at("x")}}};
  };
  const Added added(spec);
  Graph graph = ParseGraph("graph \"\" opset 13\ninput %x: float32[2]\n%y = Abs(%x)\noutput %y\n");
  RunOnly(graph, {"Drop"});
  EXPECT_EQ(graph.outputs()[0]->name, "y");
  EXPECT_EQ(graph.nodes()[0]->op_type, "Identity");
}

TEST(OwnPass, ErrorsNameThePassAndTheOperator) {
  OwnPassSpec spec = DoubleToSum();
  ErrorCode code{};
  // An operator that does not exist.
  spec.rewrite = [](Graph&, const PatternMatch& match) -> std::optional<Replacement> {
    return Replacement{{{"Nonsense", "", "", {{match.values.at("x")}}, 1, {}}}, {Made(0)}};
  };
  std::string failure = Failure(spec, kGraph, &code);
  EXPECT_NE(failure.find("pass DoubleToSum at 'a': operator Nonsense"), std::string::npos);
  EXPECT_NE(failure.find("@a"), std::string::npos);
  EXPECT_EQ(code, ErrorCode::kUnsupported);
  // A cycle.
  spec.rewrite = [](Graph&, const PatternMatch& match) -> std::optional<Replacement> {
    return Replacement{{{"Abs", "", "", {{match.root->outputs[0]}}, 1, {}}}, {Made(0)}};
  };
  failure = Failure(spec, kGraph, &code);
  EXPECT_NE(failure.find("pass DoubleToSum at 'a'"), std::string::npos) << failure;
  EXPECT_EQ(code, ErrorCode::kInvalidModel);
  // Another type.
  spec.rewrite = [](Graph&, const PatternMatch& match) -> std::optional<Replacement> {
    AttributeMap attributes;
    attributes.Set("to", static_cast<int64_t>(DType::kInt32));
    return Replacement{{{"Cast", "", "", {{match.values.at("x")}}, 1, attributes}}, {Made(0)}};
  };
  failure = Failure(spec, kGraph, &code);
  EXPECT_NE(failure.find("pass DoubleToSum at 'a'"), std::string::npos) << failure;
  EXPECT_TRUE(code == ErrorCode::kTypeMismatch || code == ErrorCode::kShapeMismatch) << failure;
  // Another shape.
  spec.rewrite = [](Graph& graph, const PatternMatch& match) -> std::optional<Replacement> {
    Value* twice = graph.AddConstant("shape", Tensor::Vector<int64_t>({2, 1}));
    return Replacement{{{"Reshape", "", "", {{match.values.at("x")}, {twice}}, 1, {}}}, {Made(0)}};
  };
  EXPECT_NE(Failure(spec, kGraph).find("pass DoubleToSum at 'a'"), std::string::npos);
  // No such operand.
  spec.rewrite = [](Graph&, const PatternMatch&) -> std::optional<Replacement> {
    return Replacement{{}, {Made(3)}};
  };
  EXPECT_NE(Failure(spec, kGraph, &code).find("operand"), std::string::npos);
  EXPECT_EQ(code, ErrorCode::kInvalidArgument);
}

TEST(OwnPass, StopsWithoutAnEnd) {
  OwnPassSpec spec;
  spec.name = "Forever";
  spec.limit = 50;
  spec.pattern = OperatorOf("Abs", {ValueNamed("x")});
  spec.rewrite = [](Graph&, const PatternMatch& match) -> std::optional<Replacement> {
    return Replacement{{{"Abs", "", "", {{match.values.at("x")}}, 1, {}}}, {Made(0)}};
  };
  ErrorCode code{};
  const std::string failure =
      Failure(spec, "graph \"\" opset 13\ninput %x: float32[2]\n%y = Abs(%x)\noutput %y\n", &code);
  EXPECT_NE(failure.find("pass Forever has rewritten 50 matches"), std::string::npos) << failure;
  EXPECT_EQ(code, ErrorCode::kInvalidArgument);
}

TEST(OwnPass, RefusesNamesThatAreTakenAndUnknownPositions) {
  const Added added(DoubleToSum());
  EXPECT_THROW(AddOwnPass(DoubleToSum()), Error);
  OwnPassSpec spec = DoubleToSum();
  spec.name = "SimplifyExpr";
  EXPECT_THROW(AddOwnPass(spec), Error);
  spec.name = "Other";
  spec.after = "Nowhere";
  EXPECT_THROW(AddOwnPass(spec), Error);
  EXPECT_FALSE(RemoveOwnPass("Other"));
}

}  // namespace
}  // namespace requant
