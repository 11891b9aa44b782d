// C generated from graphs, compiled and run: it gives the interpreter's integers, bit for bit.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "api/random_network.h"
#include "base/str_cat.h"
#include "ir/extract.h"
#include "support/random_graphs/random_graph.h"
#include "support/seeds.h"

namespace requant {
namespace {

/// A folder that the destructor removes.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "requant-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The kernel sources, which the package has in a JavaScript module.
const CKernels& Kernels() {
  static const CKernels kKernels = [] {
    CKernels out;
    const std::string folder = REQUANT_SOURCE_DIR "/src/codegen/c";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path());
      out[entry.path().stem()] = std::string(std::istreambuf_iterator<char>(file), {});
    }
    return out;
  }();
  return kKernels;
}

/// A C function that calls model_run with arrays of addresses.
std::string Caller(const Graph& graph) {
  std::string text = "void call(void **values, void *workspace) {\n  model_run(";
  size_t count = 0;
  for (const Value* input : graph.inputs()) {
    if (!input->is_constant()) text += StrCat("values[", count++, "], ");
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) text += StrCat("values[", count++, "], ");
  return text + "workspace);\n}\n";
}

/// Runs the compiled code and returns its outputs. Checks the guard bytes around the memory that it
/// may write.
std::vector<Tensor> RunC(const Graph& graph, const GeneratedC& code, const TensorMap& feeds) {
  const Folder folder;
  std::ofstream(folder / "model.h") << code.header;
  std::ofstream(folder / "model.c") << code.source << Caller(graph);
  const std::string command =
      StrCat("cd ", folder.path().string(),
             " && cc -std=c99 -O1 -Wall -Wextra -pedantic -Werror -fsanitize=undefined "
             "-fsanitize-undefined-trap-on-error -fno-sanitize-recover -shared -fPIC model.c -lm "
             "-o model.so 2> errors");
  // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): a compiler is a program.
  if (std::system(command.c_str()) != 0) {
    std::ifstream errors(folder / "errors");
    ADD_FAILURE() << std::string(std::istreambuf_iterator<char>(errors), {});
    return {};
  }
  void* library = dlopen((folder / "model.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();  // NOLINT(concurrency-mt-unsafe)
    return {};
  }
  const auto call = reinterpret_cast<void (*)(void**, void*)>(dlsym(library, "call"));
  std::vector<void*> values;
  for (const Value* input : graph.inputs()) {
    if (!input->is_constant()) values.push_back(const_cast<void*>(feeds.at(input->name).raw()));
  }
  constexpr size_t kGuard = 64;
  const auto guarded = [](size_t bytes) { return std::vector<uint8_t>(bytes + 2 * kGuard, 0xA5); };
  const auto intact = [](const std::vector<uint8_t>& memory) {
    return std::all_of(memory.begin(), memory.begin() + kGuard, [](int c) { return c == 0xA5; }) &&
           std::all_of(memory.end() - kGuard, memory.end(), [](int c) { return c == 0xA5; });
  };
  std::vector<std::vector<uint8_t>> memories;
  for (const Value* output : graph.outputs()) {
    memories.push_back(guarded(Tensor(output->type.dtype, output->type.StaticShape()).bytes()));
  }
  for (auto& memory : memories) values.push_back(memory.data() + kGuard);
  std::vector<uint8_t> workspace = guarded(code.workspace_bytes);
  call(values.data(), workspace.data() + kGuard);
  EXPECT_TRUE(intact(workspace));
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < memories.size(); ++i) {
    EXPECT_TRUE(intact(memories[i]));
    const ValueType& type = graph.outputs()[i]->type;
    Tensor output(type.dtype, type.StaticShape());
    std::copy(memories[i].begin() + kGuard, memories[i].end() - kGuard,
              static_cast<uint8_t*>(output.raw()));
    outputs.push_back(output);
  }
  dlclose(library);
  return outputs;
}

Graph Specialized(const Graph& graph, const TensorMap& feeds) {
  std::vector<Shape> shapes;
  for (const Value* input : graph.inputs()) {
    if (!input->is_constant()) shapes.push_back(feeds.at(input->name).shape());
  }
  return Specialize(PreparedModel::AsIs(graph.Clone()), shapes).Release();
}

/// Integers and values from tables must be the same bits; sums of floats only need to be close.
void ExpectSame(const Graph& graph, const std::vector<Tensor>& expected,
                const std::vector<Tensor>& outputs, bool exact) {
  ASSERT_EQ(outputs.size(), expected.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    SCOPED_TRACE(graph.outputs()[i]->name);
    if (exact || !IsFloat(outputs[i].dtype())) {
      EXPECT_TRUE(outputs[i].SameBits(expected[i]));
      continue;
    }
    for (int64_t j = 0; j < outputs[i].count(); ++j) {
      const double wanted = expected[i].AsDouble(j), got = outputs[i].AsDouble(j);
      if (std::isnan(wanted) && std::isnan(got)) continue;
      if (wanted == got) continue;
      ASSERT_NEAR(got, wanted, 1e-4 * std::max(1.0, std::abs(wanted))) << j;
    }
  }
}

TEST(GeneratedC, NetworksOfIntegersAreTheInterpretersBits) {
  const testing::Seeds seeds = testing::SeedsOf(24, 160);
  const uint64_t count = seeds.count();
  uint64_t checked = 0;
  for (uint64_t seed = 3000 + seeds.first; seed < 3000 + seeds.end; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed + 1'000'000);
    const auto [integer, feeds] = RandomIntegers(seed, dice);
    if (!IsAllInteger(integer.graph())) continue;
    ++checked;
    const Graph graph = Specialized(integer.graph(), feeds);
    const auto mode =
        dice.Of({RequantizeMode::kUpward, RequantizeMode::kUpward, RequantizeMode::kFloat,
                 RequantizeMode::kToNearest, RequantizeMode::kGemmlowp});
    const GeneratedC code = GenerateC(graph, {.requantize = mode}, Kernels());
    ExpectSame(graph, Interpret(graph, feeds, {mode, {}}), RunC(graph, code, feeds), true);
    if (HasFailure()) FAIL() << PrintGraph(graph, {.max_constant_elements = 4});
  }
  EXPECT_GT(checked, count / 2);
}

/// The subgraph of the nodes that have a form in C; all of their results are outputs.
Graph WhatHasC(const Graph& graph, RequantizeMode mode, std::map<std::string, int>& ops) {
  std::vector<const Node*> nodes;
  std::vector<const Value*> outputs;
  for (const auto& node : graph.nodes()) {
    if (!HasC(graph, *node, mode)) continue;
    nodes.push_back(node.get());
    ++ops[node->op_type];
    for (const Value* value : node->outputs) {
      if (value) outputs.push_back(value);
    }
  }
  return Extract(graph, nodes, outputs);
}

TEST(GeneratedC, OperatorsOfAnyGraphAreTheInterpretersValues) {
  const testing::Seeds seeds = testing::SeedsOf(80, 400);
  std::map<std::string, int> ops;
  // The generator of random graphs makes none of the other operators.
  const auto missing = [&ops] {
    std::string names;
    for (const char* op :
         {"Transpose", "Slice", "Concat", "Pad", "QuantizeLinear", "DequantizeLinear", "Conv",
          "MatMul", "Gemm", "Relu", "Softmax", "Add"}) {
      if (!ops.contains(op)) names += StrCat(" ", op);
    }
    return names;
  };
  // Up to twice as many graphs are made until one has each operator.
  for (uint64_t seed = seeds.first;
       seed < seeds.end || (seed < seeds.end + seeds.count() && !missing().empty()); ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph made = GraphMaker(seed, false).Make();
    const Graph whole(std::move(made.graph));
    const Graph graph = Specialized(whole, made.feeds);
    TensorMap values = made.feeds;
    Interpret(graph, made.feeds,
              {RequantizeMode::kFloat,
               [&](const Value& value, const Tensor& is) { values[value.name] = is; }});
    const Graph part = WhatHasC(graph, RequantizeMode::kFloat, ops);
    if (part.nodes().empty()) continue;
    TensorMap feeds;
    for (const Value* input : part.inputs()) feeds[input->name] = values.at(input->name);
    const GeneratedC code = GenerateC(part, {.requantize = RequantizeMode::kFloat}, Kernels());
    ExpectSame(part, Interpret(part, feeds, {RequantizeMode::kFloat, {}}), RunC(part, code, feeds),
               false);
    if (HasFailure()) FAIL() << PrintGraph(part, {.max_constant_elements = 4}) << code.source;
  }
  EXPECT_EQ(missing(), "");
}

/// Integers of any size in a tensor of bytes or of int32.
Tensor AnyIntegers(DType dtype, const Shape& shape, Dice& dice) {
  Tensor out(dtype, shape);
  for (int64_t i = 0; i < out.count(); ++i) {
    if (dtype == DType::kInt32) {
      out.data<int32_t>()[i] = static_cast<int32_t>(dice.In(-100000, 100000));
    } else {
      static_cast<uint8_t*>(out.raw())[i] = static_cast<uint8_t>(dice.In(0, 255));
    }
  }
  return out;
}

/// A graph of one operator, and its feeds.
struct OneOperator {
  Graph graph;
  TensorMap feeds;

  Value* Feed(Tensor tensor) {
    const std::string name = StrCat("x", feeds.size());
    Value* value = graph.AddValue(name, {tensor.dtype(), ToSymbolic(tensor.shape())});
    graph.AddInput(value);
    feeds[name] = std::move(tensor);
    return value;
  }
  Value* Const(Tensor tensor) { return graph.AddConstant("c", std::move(tensor)); }
  Value* Scale(Dice& dice, int64_t count = 0) {
    Tensor scales(DType::kFloat32, count == 0 ? Shape{} : Shape{count});
    for (int64_t i = 0; i < scales.count(); ++i) {
      scales.data<float>()[i] = static_cast<float>(dice.In(1, 500)) / 1000;
    }
    return Const(scales);
  }
};

TEST(GeneratedC, ProductsOfIntegersInEveryForm) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    OneOperator one;
    one.graph.opsets = {{"", 13}, {kMicrosoftDomain, 1}};
    const DType left = dice.Of({DType::kInt8, DType::kUint8});
    const DType right = dice.Of({DType::kInt8, DType::kUint8});
    const DType to = dice.Of({DType::kInt8, DType::kUint8});
    const auto zero = [&](DType dtype, int64_t count = 0) {
      return one.Const(AnyIntegers(dtype, count == 0 ? Shape{} : Shape{count}, dice));
    };
    const int64_t n = dice.In(1, 3), rows = dice.In(1, 9), inner = dice.In(1, 40);
    const int64_t columns = dice.In(1, 17);
    const bool convolution = seed % 3 == 0;
    const int64_t group = dice.In(1, 2), depth = dice.In(1, 5), filters = group * dice.In(1, 6);
    Value* x = one.Feed(AnyIntegers(
        left, convolution ? Shape{n, group * depth, 7, 140} : Shape{n, rows, inner}, dice));
    Tensor weights =
        AnyIntegers(right, convolution ? Shape{filters, depth, 3, 2} : Shape{inner, columns}, dice);
    const int64_t channels = convolution ? filters : columns;
    AttributeMap attributes;
    std::vector<Value*> inputs;
    std::string op;
    if (seed % 3 < 2) {
      op = convolution ? "ConvInteger" : "MatMulInteger";
      inputs = {x, one.Const(weights), zero(left),
                dice.Chance(50) ? zero(right, channels) : zero(right)};
      if (convolution) {
        attributes.Set("group", group);
        attributes.Set("pads", std::vector<int64_t>{1, 0, 2, 1});
        attributes.Set("strides", std::vector<int64_t>{dice.In(1, 3), dice.In(1, 3)});
        attributes.Set("dilations", std::vector<int64_t>{dice.In(1, 2), dice.In(1, 4)});
      }
    } else {
      op = "QLinearMatMul";
      const bool computed = dice.Chance(50);
      if (computed) weights = AnyIntegers(right, {n, inner, columns}, dice);
      const int64_t scales = !computed && dice.Chance(50) ? columns : 0;
      inputs = {x,
                one.Scale(dice),
                zero(left),
                computed ? one.Feed(weights) : one.Const(weights),
                one.Scale(dice, scales),
                zero(right, scales),
                one.Scale(dice),
                zero(to)};
    }
    Value* y = one.graph.AddOp(op, "", inputs, "y", {}, attributes);
    one.graph.AddOutput(y);
    const Graph graph = Specialized(one.graph, one.feeds);
    const GeneratedC code = GenerateC(graph, {}, Kernels());
    ExpectSame(graph, Interpret(graph, one.feeds, {}), RunC(graph, code, one.feeds), true);
    if (HasFailure()) FAIL() << PrintGraph(graph, {.max_constant_elements = 4});
  }
}

TEST(GeneratedC, NamesTheOperatorThatHasNoC) {
  Builder b;
  Value* x = b.Input("x", {1, 4});
  b.graph.AddOutput(b.Op("Erf", {x}, "bell"));
  const Graph graph(std::move(b.graph));
  try {
    GenerateCode(graph, {}, {}, Kernels());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_EQ(error.context().node, "bell_node");
  }
  EXPECT_THROW(GenerateCode(graph, {}, {.name = "1st"}, Kernels()), Error);
  EXPECT_THROW(GenerateCode(graph, {}, {.name = ""}, Kernels()), Error);
}

TEST(GeneratedC, AnOpenShapeMustBeGiven) {
  Builder b;
  Value* x = b.Input("x", {1, 4});
  x->type.shape->at(0) = Dim("N");
  b.graph.AddOutput(b.Op("Relu", {x}, "y"));
  const Graph graph(std::move(b.graph));
  EXPECT_THROW(GenerateCode(graph, {}, {}, Kernels()), Error);
  const GeneratedC code = GenerateCode(graph, {{"x", {2, 4}}}, {}, Kernels());
  EXPECT_NE(code.header.find("in_x: float[2][4]"), std::string::npos);
  EXPECT_EQ(code.workspace_bytes, 0u);
}

TEST(GeneratedC, TheSameGraphGivesTheSameFiles) {
  Dice first(7), second(7);
  const auto [a, feeds] = RandomIntegers(3001, first);
  const auto b = RandomIntegers(3001, second).first;
  EXPECT_EQ(GenerateC(Specialized(a.graph(), feeds), {}, Kernels()).source,
            GenerateC(Specialized(b.graph(), feeds), {}, Kernels()).source);
}

}  // namespace
}  // namespace requant
