// Layers whose weights are no matrix, layers of constants alone, and ranges without use. Recovery
// methods and training must leave the layers alone that quantize() keeps in float, and the results
// must run.
#include <gtest/gtest.h>

#include <functional>

#include "api/requant.h"
#include "base/str_cat.h"
#include "quant/model.h"
#include "quant/recover/recovery.h"

namespace requant {
namespace {

/// A layer that is quantized, followed by one that may not be; its result is the output.
struct OddLayer {
  const char* name;
  bool quantized;
  std::function<Value*(Builder&, Value* x, Noise&)> add;  // x: [2, 4, 6]
  bool has_gradient = true;
};

AttributeMap With(std::vector<AttributeMap::Entry> entries) {
  AttributeMap map;
  for (auto& [name, value] : entries) map.Set(name, std::move(value));
  return map;
}

/// x as a matrix of 8 rows.
Value* Rows(Builder& b, Value* x) {
  return b.Op("Reshape", {x, b.Const("rows", Tensor::Vector<int64_t>({8, 6}))}, "flat");
}

const OddLayer kLayers[] = {
    {"a vector", false,
     [](Builder& b, Value* x, Noise& noise) {
       return b.Op("MatMul", {x, b.Const("w", noise.Make({6}))}, "y");
     }},
    {"a batch of matrices", false,
     [](Builder& b, Value* x, Noise& noise) {
       return b.Op("MatMul", {x, b.Const("w", noise.Make({2, 6, 5}))}, "y");
     }},
    {"a batch of one matrix", true,
     [](Builder& b, Value* x, Noise& noise) {
       return b.Op("MatMul", {x, b.Const("w", noise.Make({1, 6, 5}))}, "y");
     }},
    {"a batch that makes one", false,
     [](Builder& b, Value* x, Noise& noise) {
       return b.Op("MatMul", {x, b.Const("w", noise.Make({3, 1, 6, 5}))}, "y");
     }},
    {"a vector on the left", false,
     [](Builder& b, Value* x, Noise& noise) {
       return b.Op("MatMul", {b.Const("w", noise.Make({4})), x}, "y");
     }},
    {"a bias for each row of the input", false,
     [](Builder& b, Value* x, Noise& noise) {
       return b.Op("Gemm",
                   {Rows(b, x), b.Const("w", noise.Make({6, 3})), b.Const("c", noise.Make({8, 1}))},
                   "y");
     }},
    {"a bias for each element", false,
     [](Builder& b, Value* x, Noise& noise) {
       return b.Op("Gemm",
                   {Rows(b, x), b.Const("w", noise.Make({6, 3})), b.Const("c", noise.Make({8, 3}))},
                   "y");
     }},
    {"a computed bias", false,
     [](Builder& b, Value* x, Noise& noise) {
       Value* rows = Rows(b, x);
       Value* c = b.Op("ReduceMean", {rows}, "c", With({{"axes", std::vector<int64_t>{1}}}));
       return b.Op("Gemm", {rows, b.Const("w", noise.Make({6, 3})), c}, "y",
                   With({{"alpha", 0.5F}, {"beta", -2.0F}}));
     }},
    {"computed weights", false,
     [](Builder& b, Value* x, Noise& noise) {
       Value* rows = Rows(b, x);
       Value* part = b.Op("Slice",
                          {rows, b.Const("from", Tensor::Vector<int64_t>({0})),
                           b.Const("to", Tensor::Vector<int64_t>({6}))},
                          "part");
       return b.Op("Gemm", {rows, part, b.Const("c", noise.Make({6}))}, "y",
                   With({{"transB", int64_t{1}}}));
     }},
    {"a convolution with computed weights", false,
     [](Builder& b, Value* x, Noise& noise) {
       Value* mean = b.Op("ReduceMean", {x}, "mean", With({{"axes", std::vector<int64_t>{0, 2}}}));
       Value* w = b.Op("Mul", {mean, b.Const("w", noise.Make({3, 4, 2}))}, "kernel");
       return b.Op("Conv", {x, w}, "y");
     },
     false},
    {"a convolution of one dimension", true,
     [](Builder& b, Value* x, Noise& noise) {
       return b.Op("Conv", {x, b.Const("w", noise.Make({3, 4, 2}))}, "y");
     }},
};

Graph Network(const OddLayer& layer) {
  Builder b;
  Noise noise(5);
  Value* x = b.Input("x", {2, 4, 5});
  Value* dense = b.Op("MatMul", {x, b.Const("first", noise.Make({5, 6}))}, "dense");
  Value* y = layer.add(b, b.Op("Relu", {dense}, "relu"), noise);
  b.graph.AddOutput(y);
  // A layer follows that learns.
  b.graph.AddOutput(b.Op("Sigmoid", {y}, "squashed"));
  return std::move(b.graph);
}

/// Signal to noise ratio on the samples of Quantized().
double SessionSnr(const Graph& graph, const Graph& candidate) {
  const auto prepared = PrepareForRun(candidate);
  Session session(prepared.Clone(), {});
  double signal = 0, noise = 0;
  for (uint32_t seed = 0; seed < 8; ++seed) {
    const TensorMap feeds = RandomFeeds(graph, 100 + seed);
    const std::vector<Tensor> wanted = Interpret(graph, feeds), got = session.Run(feeds);
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(got[i].shape(), wanted[i].shape());
      for (int64_t at = 0; at < wanted[i].count(); ++at) {
        const double error = wanted[i].AsDouble(at) - got[i].AsDouble(at);
        signal += wanted[i].AsDouble(at) * wanted[i].AsDouble(at);
        noise += error * error;
      }
    }
  }
  return 10 * std::log10(signal / (noise + 1e-30));
}

QuantizedModel Quantized(const Graph& graph, const QuantizeOptions& options, uint32_t samples = 8) {
  Calibrator calibrator(graph, options);
  for (int pass = 0; pass < calibrator.passes(); ++pass) {
    for (uint32_t i = 0; i < samples; ++i) calibrator.Add(pass, RandomFeeds(graph, 100 + i));
  }
  return calibrator.Finish();
}

QuantizedModel Trained(const QuantizedModel& model, const Graph& graph) {
  Trainer trainer(model, {});
  for (int batch = 0; batch < 3; ++batch) {
    for (uint32_t i = 0; i < 4; ++i) trainer.Add(RandomFeeds(graph, 100 + i), -1);
    if (batch == 2) trainer.Freeze();
    while (!trainer.Advance(1e-3).finished) {
    }
  }
  return trainer.Finish();
}

TEST(OddLayers, GoThroughEveryMethodAndTraining) {
  std::vector<std::string> methods = {"none", "auto"};
  for (const RecoveryRow& row : RecoveryTable()) methods.push_back(row.name);
  for (const OddLayer& layer : kLayers) {
    const Graph graph = Network(layer);
    for (const std::string& method : methods) {
      SCOPED_TRACE(StrCat(layer.name, ", ", method));
      QuantizeOptions options;
      options.recover = {"round_weights", "bias_correction"};
      options.analyze = true;
      if (method == "auto") options.global.activations.observer = "auto";
      const RecoveryRow* row = FindRecovery(method);
      if (row != nullptr) options.recover.push_back(method);
      if (row != nullptr && row->stage == RecoveryStage::kLearn) options.recover_steps = 20;
      const QuantizedModel model = Quantized(graph, options);
      const Node* odd = model.float_graph.FindValue("y")->producer;
      const OperatorQuantization& op = model.record.operators.at(odd->name);
      if (method == "none") {
        EXPECT_EQ(op.quantized, layer.quantized) << op.reason;
      }
      for (const std::string& warning : model.record.warnings) {
        EXPECT_NE(warning.find("stay float"), std::string::npos) << warning;
      }
      EXPECT_GT(SessionSnr(graph, LowerToInteger(model).graph()), 28);
      if (!layer.has_gradient) {
        EXPECT_THROW(Trainer(model, {}), Error);
        continue;
      }
      EXPECT_GT(SessionSnr(graph, LowerToInteger(Trained(model, graph)).graph()), 20);
    }
  }
}

/// A model with nothing else: a float layer learns if its weights are a matrix; otherwise training
/// has nothing to learn.
TEST(OddLayers, TrainingSaysWhatCannotLearn) {
  Builder b;
  Noise noise(5);
  Value* x = b.Input("x", {2, 4, 5});
  b.graph.AddOutput(b.Op("MatMul", {x, b.Const("w", noise.Make({5}))}, "y"));
  const QuantizedModel model = Quantized(b.graph, {});
  EXPECT_GT(SessionSnr(b.graph, LowerToInteger(model).graph()), 100);
  try {
    Trainer trainer(model, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_EQ(error.context().node, "y_node");
    EXPECT_NE(error.message().find("no matrix"), std::string::npos) << error.message();
  }
}

/// A float convolution without a bias learns one.
TEST(OddLayers, LayersThatStayInFloatLearn) {
  Builder b;
  Noise noise(5);
  Value* x = b.Input("x", {1, 3, 6, 6});
  Value* first = b.Op("Conv", {x, b.Const("v", noise.Make({4, 3, 3, 3}, 0.2F))}, "first");
  Value* relu = b.Op("Relu", {first}, "relu");
  b.graph.AddOutput(b.Conv(relu, "last", {2, 4, 1, 1}, 0, noise));
  QuantizeOptions options;
  options.by_name["first_node"].quantize = false;
  const QuantizedModel trained = Trained(Quantized(b.graph, options), b.graph);
  EXPECT_GT(SessionSnr(b.graph, LowerToInteger(trained).graph()), 20);
  const Node* node = trained.float_graph.FindNode("first_node");
  EXPECT_EQ(node->inputs.size(), 3u);
  EXPECT_FALSE(node->inputs[1]->constant.SameBits(b.graph.FindValue("v")->constant));
}

/// Learned queries or anchors: a layer of constants alone, whose result is an output or an operand.
TEST(OddLayers, OfConstantsAlone) {
  const auto layers = {std::pair{"Gemm", Shape{4, 6}},
                       {"MatMul", {4, 6}},
                       {"Conv", {1, 2, 4, 4}},
                       {"ConvTranspose", {1, 2, 4, 4}}};
  for (const auto& [op, shape] : layers) {
    for (const bool output : {true, false}) {
      SCOPED_TRACE(StrCat(op, output ? ", an output" : ""));
      Builder b;
      Noise noise(5);
      Value* x = b.Input("x", {2, 3});
      const bool conv = shape.size() == 4;
      Value* k = b.Op(op,
                      {b.Const("k", noise.Make(shape)),
                       b.Const("w", noise.Make(conv ? Shape{2, 2, 3, 3} : Shape{6, 3}))},
                      "constant");
      Value* rows =
          b.Op("ReduceMean", {k}, "rows",
               With({{"axes", conv ? std::vector<int64_t>{0, 1, 2, 3} : std::vector<int64_t>{0}},
                     {"keepdims", int64_t{0}}}));
      Value* dense = b.Op("Gemm", {x, b.Const("d", noise.Make({3, 3}))}, "dense");
      b.graph.AddOutput(b.Op("Add", {dense, rows}, "y"));
      if (output) b.graph.AddOutput(k);
      const QuantizedModel model = Quantized(b.graph, {});
      EXPECT_GT(SessionSnr(b.graph, LowerToInteger(model).graph()), 25);
      EXPECT_GT(SessionSnr(b.graph, ToQdq(model)), 25);
      EXPECT_GT(SessionSnr(b.graph, LowerToInteger(Trained(model, b.graph)).graph()), 20);
    }
  }
}

/// A clamp far below most of the values. Products and means saturate, which is exactly right; sums
/// do not have this property.
TEST(OddLayers, BehindARangeFarAbove) {
  struct Case {
    const char* op;
    bool quantized;
  };
  for (const Case& c : {Case{"Conv", true},
                        {"Mul", true},
                        {"GlobalAveragePool", true},
                        {"Add", false},
                        {"Sub", false}}) {
    for (const float high : {1e-3F, 1e-9F}) {
      SCOPED_TRACE(StrCat(c.op, ", ", high));
      Builder b;
      Noise noise(5);
      Value* x = b.Input("x", {1, 3, 4, 4});
      Value* data = b.Conv(x, "first", {3, 3, 1, 1}, 0, noise);
      data = b.Op("Mul", {data, b.Const("large", Tensor::Scalar(1e6F))}, "loud");
      data = b.Conv(data, "second", {3, 3, 1, 1}, 0, noise);
      Value* sum = std::string_view(c.op) == "GlobalAveragePool" ? b.Op(c.op, {data}, "made")
                   : std::string_view(c.op) == "Conv"
                       ? b.Conv(data, "made", {3, 3, 1, 1}, 0, noise)
                       : b.Op(c.op, {data, b.Conv(data, "third", {3, 3, 1, 1}, 0, noise)}, "made");
      b.graph.AddOutput(b.Op(
          "Clip",
          {sum, b.Const("low", Tensor::Scalar(0.0F)), b.Const("high", Tensor::Scalar(high))}, "y"));
      const QuantizedModel model = Quantized(b.graph, {});
      const OperatorQuantization& op = model.record.operators.at("made_node");
      EXPECT_EQ(op.quantized, c.quantized) << op.reason;
      EXPECT_EQ(model.record.warnings.empty(), c.quantized);
      if (!c.quantized) {
        EXPECT_NE(model.record.warnings[0].find("made_node"), std::string::npos)
            << model.record.warnings[0];
        EXPECT_NE(op.reason.find("out of range"), std::string::npos) << op.reason;
      }
      // The results are 0 or `high`; if the mean of an image is close to 0, rounding may choose the
      // other one.
      EXPECT_GT(SessionSnr(b.graph, LowerToInteger(model).graph()), 6);
      EXPECT_GT(SessionSnr(b.graph, ToQdq(model)), 6);
    }
  }
}

}  // namespace
}  // namespace requant
