// The warning that all samples of a language model have one length.
#include "quant/calibrate/token_lengths.h"

#include <gtest/gtest.h>

#include "quant/model.h"

namespace requant {
namespace {

/// Tokens [batch, length], of which rows of a table are gathered, and a layer.
Graph Tokens(const Dim& length) {
  Builder b;
  Noise noise(9);
  Value* ids = b.graph.AddValue("ids", {DType::kInt64, SymbolicShape{Dim("batch"), length}});
  b.graph.AddInput(ids);
  Value* rows = b.Op("Gather", {b.Const("table", noise.Make({6, 8})), ids}, "rows");
  b.graph.AddOutput(b.Op("MatMul", {rows, b.Const("w", noise.Make({8, 4}))}, "y"));
  return std::move(b.graph);
}

TensorMap Sample(int64_t batch, int64_t length) {
  Tensor ids(DType::kInt64, {batch, length});
  for (int64_t i = 0; i < ids.count(); ++i) ids.data<int64_t>()[i] = i % 6;
  TensorMap feeds;
  feeds["ids"] = ids;
  return feeds;
}

std::string WarningOf(const Graph& graph, const std::vector<TensorMap>& samples) {
  TokenLengths lengths(graph);
  for (const TensorMap& feeds : samples) lengths.See(feeds);
  return lengths.Warning();
}

TEST(TokenLengths, OneLengthIsReported) {
  const Graph graph = Tokens(Dim("tokens"));
  const std::string warning = WarningOf(graph, {Sample(1, 5), Sample(2, 5)});
  EXPECT_NE(warning.find("length 5 in dimension 'tokens' of 'ids'"), std::string::npos) << warning;
  EXPECT_EQ(WarningOf(graph, {Sample(1, 5), Sample(1, 6)}), "");
  EXPECT_EQ(WarningOf(graph, {}), "");
  EXPECT_EQ(WarningOf(Tokens(Dim(5)), {Sample(1, 5)}), "");
  EXPECT_NE(WarningOf(Tokens(Dim()), {Sample(1, 5)}).find("axis 1"), std::string::npos);
}

TEST(TokenLengths, ShardsAreOne) {
  const Graph graph = Tokens(Dim("tokens"));
  TokenLengths first(graph);
  TokenLengths second(graph);
  TokenLengths third(graph);
  first.See(Sample(1, 5));
  second.See(Sample(1, 5));
  third.See(Sample(1, 9));
  StateBytes out;
  third.Fields(out);
  const std::vector<uint8_t> bytes = out.Take();
  TokenLengths read(graph);
  StateBytes in(bytes);
  read.Fields(in);
  first.Merge(second);
  EXPECT_NE(first.Warning(), "");
  first.Merge(read);
  EXPECT_EQ(first.Warning(), "");
}

TEST(TokenLengths, QuantizerWarns) {
  const Graph graph = Tokens(Dim("tokens"));
  for (const bool one : {true, false}) {
    Quantizer quantizer(FloatModel(graph), {});
    for (int64_t i = 0; i < 4; ++i) {
      const TensorMap feeds = Sample(1, one ? 5 : 5 + i);
      TensorMap seen = feeds;
      InterpretOptions options;
      options.observe = [&](const Value& value, const Tensor& tensor) {
        seen[value.name] = tensor;
      };
      quantizer.Keep(feeds);
      Interpret(graph, feeds, options);
      for (const std::string& name : quantizer.observed_values(0)) {
        quantizer.Observe(0, name, seen.at(name));
      }
      quantizer.EndSample(0);
    }
    const std::vector<std::string> warnings = quantizer.Finish().record.warnings;
    const bool warned = std::any_of(warnings.begin(), warnings.end(), [](const std::string& text) {
      return text.find("'tokens'") != std::string::npos;
    });
    EXPECT_EQ(warned, one);
  }
}

}  // namespace
}  // namespace requant
