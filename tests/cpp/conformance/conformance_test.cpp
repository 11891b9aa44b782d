// ONNX's own conformance data (libonnx-testdata): the interpreter gives the recorded outputs of
// every model that the engine accepts, before and after all graph passes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "onnx/read.h"
#include "ops/table.h"
#include "passes/runner.h"
#include "passes/shape/infer_type.h"
#include "support/files.h"
#include "tensor/text.h"

namespace requant {
namespace {

namespace fs = std::filesystem;

SharedBytes ReadFile(const fs::path& path) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(fs::file_size(path));
  std::FILE* file = std::fopen(path.c_str(), "rb");
  EXPECT_NE(file, nullptr) << path;
  EXPECT_EQ(std::fread(bytes->data(), 1, bytes->size(), file), bytes->size()) << path;
  std::fclose(file);
  return {bytes, {bytes->data(), bytes->size()}};
}

constexpr const char* kBfloat16 = "recorded as uint16, truncated instead of rounded";

/// Accepted models with other results, and the reason.
const std::map<std::string, std::string> kKnown = {
    {"test_cast_BFLOAT16_to_FLOAT", kBfloat16},
    {"test_cast_FLOAT_to_BFLOAT16", kBfloat16},
    {"test_castlike_BFLOAT16_to_FLOAT", kBfloat16},
    {"test_castlike_BFLOAT16_to_FLOAT_expanded", kBfloat16},
    {"test_castlike_FLOAT_to_BFLOAT16", kBfloat16},
    {"test_castlike_FLOAT_to_BFLOAT16_expanded", kBfloat16},
};

/// numpy.testing.assert_allclose with the tolerances of onnx.backend.test.runner: rtol 1e-3, atol
/// 1e-7; integers exactly. Empty if it holds.
std::string Compare(const Tensor& got, const Tensor& wanted) {
  if (got.dtype() != wanted.dtype() || got.shape() != wanted.shape()) {
    return StrCat("is ", DTypeName(got.dtype()), ShapeToString(got.shape()), ", not ",
                  DTypeName(wanted.dtype()), ShapeToString(wanted.shape()));
  }
  if (IsText(wanted.dtype())) return TextsOf(got) == TextsOf(wanted) ? "" : "has other strings";
  for (int64_t i = 0; i < got.count(); ++i) {
    const double a = got.AsDouble(i);
    const double b = wanted.AsDouble(i);
    if (std::isnan(a) && std::isnan(b)) continue;
    const bool same = IsFloat(wanted.dtype())
                          ? a == b || std::fabs(a - b) <= 1e-7 + 1e-3 * std::fabs(b)
                          : got.AsInt64(i) == wanted.AsInt64(i);
    if (!same) return StrCat("element ", i, " is ", a, ", not ", b);
  }
  return "";
}

/// Whether the model draws at random, so that only types and shapes of its results are recorded
/// facts.
bool DrawsAtRandom(const std::string& name) { return name.find("bernoulli") != std::string::npos; }

class Runner {
 public:
  void RunModel(const fs::path& folder) {
    const std::string name = folder.filename().string();
    try {
      const Graph graph = ReadOnnx(ReadFile(folder / "model.onnx"));
      if (testing::HasContainers(graph)) return;
      for (const auto& node : graph.nodes()) {
        OpOf(graph, *node);
        used_.insert(StrCat(node->domain, "::", node->op_type));
      }
      Graph typed = graph.Clone();
      InferTypes(typed);
      Graph optimized = graph.Clone();
      PipelineOptions options;
      options.verify = true;
      const PipelineReport report = RunPasses(optimized, options);
      if (report.rounds >= options.max_rounds) Fails(name, "passes reach no fixed point");
      for (const auto& set : fs::directory_iterator(folder)) {
        if (!set.is_directory()) continue;
        RunSet(name, graph, set.path(), "");
        RunSet(name, typed, set.path(), "typed: ");
        RunSet(name, optimized, set.path(), "optimized: ");
      }
      ++passed_;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kUnsupported) {
        ++refused_[error.message()];
      } else {
        Fails(name, StrCat(ErrorCodeName(error.code()), " ", error.message(), " (node ",
                           error.context().node, ")"));
      }
    }
  }

  void Report() const {
    size_t refused = 0;
    for (const auto& [message, count] : refused_) refused += static_cast<size_t>(count);
    std::printf("models: %d accepted, %zu refused, %zu failed\n", passed_, refused, failed_.size());
    for (const auto& [name, why] : failed_)
      std::printf("  FAILED %s: %s\n", name.c_str(), why.c_str());
    if (std::getenv("REQUANT_VERBOSE")) {
      for (const auto& [message, count] : refused_) std::printf("%4d %s\n", count, message.c_str());
    }
    std::string untested;
    for (const OpDef* op : OpTable()) {
      if (op->domain[0] == '\0' && !used_.contains(StrCat("::", op->name))) {
        untested += StrCat(" ", op->name);
      }
    }
    std::printf("ONNX operators without conformance data:%s\n", untested.c_str());
  }

  int passed() const { return passed_; }
  const std::set<std::string>& known() const { return known_; }
  const std::map<std::string, std::string>& failed() const { return failed_; }

 private:
  void Fails(const std::string& name, std::string why) {
    if (kKnown.contains(name)) {
      known_.insert(name);
    } else {
      failed_.emplace(name, std::move(why));
    }
  }

  void RunSet(const std::string& name, const Graph& graph, const fs::path& set,
              const std::string& prefix) {
    TensorMap feeds;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const fs::path path = set / StrCat("input_", i, ".pb");
      if (!fs::exists(path)) return Fails(name, StrCat("no ", path.string()));
      feeds[graph.inputs()[i]->name] = ReadTensorFile(ReadFile(path)).tensor;
    }
    InterpretOptions options;
    options.requantize = RequantizeMode::kFloat;  // ONNX's own arithmetic
    const std::vector<Tensor> results = Interpret(graph, feeds, options);
    for (size_t i = 0; i < results.size(); ++i) {
      const Tensor wanted = ReadTensorFile(ReadFile(set / StrCat("output_", i, ".pb"))).tensor;
      if (DrawsAtRandom(name) && results[i].dtype() == wanted.dtype() &&
          results[i].shape() == wanted.shape()) {
        continue;
      }
      const std::string why = Compare(results[i], wanted);
      if (!why.empty()) Fails(name, StrCat(prefix, "output ", i, " ", why));
    }
  }

  int passed_ = 0;
  std::map<std::string, int> refused_;
  std::map<std::string, std::string> failed_;
  std::set<std::string> used_;
  std::set<std::string> known_;  // the models of kKnown that did differ
};

TEST(Conformance, EveryAcceptedModelComputesTheRecordedOutputs) {
  Runner runner;
  for (const char* folder : {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    std::vector<fs::path> models;
    for (const auto& entry : fs::directory_iterator(fs::path(REQUANT_ONNX_TEST_DATA) / folder)) {
      if (fs::exists(entry.path() / "model.onnx")) models.push_back(entry.path());
    }
    std::sort(models.begin(), models.end());
    for (const fs::path& model : models) runner.RunModel(model);
  }
  runner.Report();
  EXPECT_TRUE(runner.failed().empty());
  EXPECT_EQ(runner.known().size(), kKnown.size()) << "a known difference is none any more";
  EXPECT_GE(runner.passed(), 993);
}

}  // namespace
}  // namespace requant
