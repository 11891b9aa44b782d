// An exported model that is read again has the same integers and the same configs.
#include <gtest/gtest.h>

#include "api/requant.h"
#include "base/str_cat.h"
#include "ir/verify.h"
#include "ops/quantized/qonnx.h"
#include "quant/lower/expand_signs.h"
#include "quant/model.h"

namespace requant {
namespace {

/// The part of a slot's config that determines the results, as text.
std::string Decision(const QuantizationRecord& record, int index) {
  if (index < 0) return "none";
  const TensorQuantizationConfig& own = record.configs[static_cast<size_t>(index)];
  const TensorQuantizationConfig& config = record.Root(index);
  std::string out = StateName(own.state);
  if (!IsQuantizing(own.state)) return out;
  // The scale is chosen for [-127, 127], but operators on activations saturate at -128.
  const bool wide = config.quant_min == -127 && config.baked.empty();
  out = StrCat(config.bits, " bits ", wide ? -128 : config.quant_min, "..", config.quant_max, " ",
               DTypeName(config.dtype), " ", PolicyToString(config.policy), " axis ",
               config.scale.size() > 1 ? config.axis : -1);
  for (const float scale : config.scale) out += StrCat(" ", scale);
  for (const int32_t offset : config.offset) out += StrCat(" ", offset);
  return out;
}

void ExpectSameConfigs(const QuantizedModel& model, const QuantizedModel& read) {
  for (const auto& node : model.float_graph.nodes()) {
    const OperatorQuantization& wanted = model.record.operators.at(node->name);
    const OperatorQuantization* got = read.record.Find(node->name);
    ASSERT_NE(got, nullptr) << node->name;
    EXPECT_EQ(wanted.quantized, got->quantized) << node->name;
    EXPECT_EQ(wanted.float_output, got->float_output) << node->name;
    if (!wanted.quantized) continue;
    for (size_t slot = 0; slot < wanted.inputs.size(); ++slot) {
      if (node->Is("Clip") && slot > 0) continue;  // bounds follow the data
      EXPECT_EQ(Decision(model.record, wanted.inputs[slot]),
                Decision(read.record, got->inputs[slot]))
          << node->name << " input " << slot;
    }
    for (size_t slot = 0; slot < wanted.outputs.size(); ++slot) {
      EXPECT_EQ(Decision(model.record, wanted.outputs[slot]),
                Decision(read.record, got->outputs[slot]))
          << node->name << " output " << slot;
    }
  }
}

std::optional<QuantizedModel> Read(const Graph& graph) {
  std::optional<QuantizedModel> model = FromQdq(graph);
  if (model) ReadFileCodes(*model);
  if (model) ContractSigns(*model);
  return model;
}

struct Widths {
  int activations, weights;
  bool symmetric, per_channel;
};

QuantizedModel QuantizeAt(const Graph& graph, const Widths& widths, bool float_outputs = false) {
  QuantizeOptions options;
  options.float_outputs = float_outputs;
  options.global.activations.bits = widths.activations;
  options.global.activations.symmetric = widths.symmetric;
  options.global.weights.bits = widths.weights;
  options.global.weights.per_channel = widths.per_channel;
  return QuantizeGraph(graph, options);
}

constexpr Widths kWidths[] = {{8, 8, false, true}, {8, 8, true, false},  {7, 3, false, true},
                              {6, 2, true, true},  {5, 5, false, false}, {4, 6, false, true},
                              {3, 7, true, false}, {2, 2, false, true},  {8, 4, true, true},
                              {8, 1, false, true}, {2, 1, false, false}, {1, 1, false, true},
                              {1, 1, true, true},  {1, 4, true, false}};

TEST(Exports, QdqComesBackWithItsConfigs) {
  const Graph graph = SmallNetwork();
  for (const Widths& widths : kWidths) {
    SCOPED_TRACE(StrCat("W", widths.weights, "A", widths.activations));
    const QuantizedModel model = QuantizeAt(graph, widths);
    for (const int narrowest : {8, 4, 2}) {
      const std::optional<QuantizedModel> read = Read(ToQdq(model, narrowest));
      ASSERT_TRUE(read.has_value());
      ExpectSameConfigs(model, *read);
      ExpectSameConfigs(model, ReadQuantized(ToQdq(model, narrowest)));
      if (narrowest < 8) continue;  // its graph has a newer opset
      EXPECT_EQ(PrintGraph(LowerToInteger(model).graph()),
                PrintGraph(LowerToInteger(*read).graph()));
    }
  }
}

/// Compares the decisions for all layers and operators with those read from the model's QOperator
/// file.
void ExpectDecisions(const QuantizedModel& model, const QuantizedModel& read, size_t least) {
  size_t compared = 0;
  for (const auto& [name, got] : read.record.operators) {
    const OperatorQuantization* wanted = model.record.Find(name);
    // Activations that layers compute by their clamps are missing in the file.
    if (wanted == nullptr || wanted->op_type != got.op_type || !wanted->activation.empty()) {
      continue;
    }
    EXPECT_EQ(wanted->quantized, got.quantized) << name;
    for (size_t slot = 0; slot < wanted->inputs.size(); ++slot) {
      if (wanted->op_type == "Clip" && slot > 0) continue;
      // SumsThatBecomeFloatsComeBack checks the weights of layers that write floats.
      if (wanted->float_output && slot > 0) continue;
      EXPECT_EQ(Decision(model.record, wanted->inputs[slot]),
                Decision(read.record, got.inputs[slot]))
          << name << " input " << slot;
    }
    EXPECT_EQ(Decision(model.record, wanted->outputs[0]), Decision(read.record, got.outputs[0]))
        << name;
    ++compared;
  }
  EXPECT_GE(compared, least);
}

TEST(Exports, QOperatorComesBackWithItsConfigs) {
  const Graph graph = SmallNetwork();
  for (const Widths& widths : kWidths) {
    for (const bool float_outputs : {false, true}) {
      SCOPED_TRACE(StrCat("W", widths.weights, "A", widths.activations, " floats ", float_outputs));
      const QuantizedModel model = QuantizeAt(graph, widths, float_outputs);
      const auto bytes = std::make_shared<std::vector<uint8_t>>(WriteOnnx(ToQOperator(model)));
      const QuantizedModel read = ReadQuantized(ReadOnnx({bytes, *bytes}));
      EXPECT_EQ(LargestDifference(LowerToInteger(model).graph(), LowerToInteger(read).graph()), 0);
      ExpectDecisions(model, read, 3);
    }
  }
}

/// Layers that write their sums as floats: ConvInteger and MatMulInteger in the file.
TEST(Exports, SumsThatBecomeFloatsComeBack) {
  for (const bool bias : {true, false}) {
    for (const Widths& widths : kWidths) {
      SCOPED_TRACE(StrCat("W", widths.weights, "A", widths.activations, " bias ", bias));
      Builder b;
      Noise noise{23};
      Value* x = b.Input("x", {1, 4, 6, 6});
      AttributeMap pads;
      pads.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
      std::vector<Value*> inputs = {x, b.Const("k", noise.Make({5, 4, 3, 3}))};
      if (bias) inputs.push_back(b.Const("bias", noise.Make({5})));
      b.graph.AddOutput(b.Op("Conv", inputs, "sums", pads));
      Value* weights = b.Const("w", noise.Make({6, 7}));
      b.graph.AddOutput(b.Op("MatMul", {x, weights}, "product"));
      const QuantizedModel model = QuantizeAt(b.graph, widths, true);
      const Graph file = ToQOperator(model);
      EXPECT_EQ(CountOps(file, "ConvInteger"), 1);
      EXPECT_EQ(CountOps(file, "MatMulInteger"), 1);
      const QuantizedModel read = ReadQuantized(file);
      EXPECT_EQ(LargestDifference(LowerToInteger(model).graph(), LowerToInteger(read).graph()), 0);
      for (const char* name : {"sums_node", "product_node"}) {
        const OperatorQuantization& wanted = model.record.operators.at(name);
        const OperatorQuantization& got = read.record.operators.at(name);
        EXPECT_TRUE(got.quantized) << name;
        EXPECT_TRUE(got.float_output) << name;
        EXPECT_EQ(Decision(model.record, wanted.inputs[0]), Decision(read.record, got.inputs[0]));
        // The file contains the product of both scales, which several pairs of factors give.
        const TensorQuantizationConfig& a = model.record.Root(wanted.inputs[1]);
        const TensorQuantizationConfig& c = read.record.Root(got.inputs[1]);
        ASSERT_EQ(a.scale.size(), c.scale.size());
        for (size_t i = 0; i < a.scale.size(); ++i) EXPECT_FLOAT_EQ(a.scale[i], c.scale[i]);
      }
    }
  }
}

TEST(Exports, WhatSaysNothingIsNotRead) {
  EXPECT_THROW(ReadQuantized(SmallNetwork()), Error);
  // A graph input of integers without any scale.
  Graph graph = SmallNetwork();
  Value* x = graph.AddValue("bytes", {DType::kUint8, SymbolicShape{Dim(1), Dim(4)}});
  graph.AddInput(x);
  graph.AddOutput(graph.AddOp("Abs", "", {x}, "y", x->type));
  EXPECT_THROW(ReadQuantized(graph), Error);
}

TEST(Exports, QonnxComesBackWithItsConfigs) {
  const Graph graph = SmallNetwork();
  for (const Widths& widths : kWidths) {
    SCOPED_TRACE(StrCat("W", widths.weights, "A", widths.activations));
    const QuantizedModel model = QuantizeAt(graph, widths);
    const Graph qonnx = ToQonnx(model);
    VerifyGraph(qonnx);
    EXPECT_EQ(CountOps(qonnx, "QuantizeLinear") + CountOps(qonnx, "DequantizeLinear"), 0);
    // The oracle is the interpreter on the exported nodes.
    const Graph integer = LowerToInteger(model).Release();
    // One bit has no noise: a tie turns a number into another.
    if (widths.activations > 1) {
      EXPECT_GT(Snr(qonnx, integer), 35);
    }
    // Write a file and read it as sessions do.
    const auto bytes = std::make_shared<std::vector<uint8_t>>(WriteOnnx(qonnx));
    Graph file = ReadOnnx({bytes, *bytes});
    ASSERT_TRUE(SpellQdq(file));
    const std::optional<QuantizedModel> read = Read(file);
    ASSERT_TRUE(read.has_value());
    ExpectSameConfigs(model, *read);
    EXPECT_EQ(LargestDifference(integer, LowerToInteger(*read).graph()), 0);
    EXPECT_EQ(LargestDifference(integer, PrepareForRun(qonnx).graph()), 0);
  }
}

/// Weights of one bit become BipolarQuant; files of other tools are recognized as such.
TEST(Exports, BipolarAndForeignQonnx) {
  Builder b;
  Noise noise(3);
  Value* x = b.Conv(b.Input("x", {1, 3, 6, 6}), "first", {4, 3, 3, 3}, 1, noise);
  Tensor& weights = b.graph.FindValue("first_w")->constant;
  for (int64_t i = 0; i < weights.count(); ++i) {
    weights.data<float>()[i] = weights.data<float>()[i] < 0 ? -0.25f : 0.25f;
  }
  b.graph.AddOutput(b.Conv(b.Op("Relu", {x}, "relu"), "y", {2, 4, 1, 1}, 0, noise));
  QuantizeOptions options;
  options.recover.clear();
  options.by_name["first_node"].weights.bits = 1;
  const QuantizedModel model = QuantizeGraph(b.graph, options);
  Graph qonnx = ToQonnx(model);
  EXPECT_EQ(CountOps(qonnx, "BipolarQuant"), 1);
  const Graph integer = LowerToInteger(model).Release();
  EXPECT_EQ(LargestDifference(integer, PrepareForRun(qonnx).graph()), 0);
  Graph again = qonnx.Clone();
  ASSERT_TRUE(SpellQdq(again));
  const std::optional<QuantizedModel> read = Read(again);
  ASSERT_TRUE(read.has_value());
  ExpectSameConfigs(model, *read);
  EXPECT_EQ(CountOps(ToQonnx(*read), "BipolarQuant"), 1);
  qonnx.metadata.clear();
  EXPECT_FALSE(SpellQdq(qonnx));
}

/// Metadata that contradicts the integers is ignored.
TEST(Exports, WrongCodesChangeNothing) {
  const Graph graph = SmallNetwork();
  const QuantizedModel model = QuantizeAt(graph, {8, 8, false, true});
  for (const char* lie : {"conv1_w -3 3\n", "conv1_w 9 -9\n", "conv1_w -1000 1000\n",
                          "nobody -3 3\n", "  \n\n x", "conv1_w\n", " 1 2 3 4"}) {
    Graph file = ToQdq(model);
    file.metadata["requant.codes"] = lie;
    const std::optional<QuantizedModel> read = Read(file);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(PrintGraph(LowerToInteger(*read).graph()), PrintGraph(LowerToInteger(model).graph()))
        << lie;
  }
}

}  // namespace
}  // namespace requant
