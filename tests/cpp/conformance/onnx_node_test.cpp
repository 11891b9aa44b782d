// The node tests of the ONNX project (backend/test/data/node): each is a model of one operator,
// with inputs and the outputs of its reference implementation. Every test must pass or throw
// kUnsupported, which operators of the table may not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ops/op.h"
#include "support/files.h"
#include "tensor/text.h"

namespace requant {
namespace {

namespace fs = std::filesystem;

/// Tests of operators of the table that are unsupported on purpose, by a part of their name.
bool MayBeUnsupported(const std::string& name) {
  // The engine does not run float16 and sequences.
  for (const char* part :
       {"FLOAT16", "float16", "sequence", "training", "optional", "_opt", "_seq"}) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

/// Tests whose recorded result is not followed.
bool DiffersOnPurpose(const std::string& name) {
  // Their files hold uint16 of other shapes than declared, truncated instead of rounded.
  return name.find("BFLOAT16") != std::string::npos;
}

/// Tests of operators that draw at random, of whose results only types and shapes are recorded
/// facts.
bool DrawsAtRandom(const std::string& name) { return name.find("bernoulli") != std::string::npos; }

bool Close(double a, double b, bool is_float) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return is_float && std::fabs(a - b) <= 1e-5 + 1e-3 * std::fabs(b);
}

std::string Compare(const Tensor& got, const Tensor& want, bool only_type) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
    return StrCat(DTypeName(got.dtype()), ShapeToString(got.shape()), " instead of ",
                  DTypeName(want.dtype()), ShapeToString(want.shape()));
  }
  if (only_type) return "";
  if (IsText(want.dtype())) return TextsOf(got) == TextsOf(want) ? "" : "other strings";
  for (int64_t i = 0; i < got.count(); ++i) {
    if (!Close(got.AsDouble(i), want.AsDouble(i), IsFloat(got.dtype()))) {
      return StrCat("element ", i, " is ", got.AsDouble(i), " instead of ", want.AsDouble(i));
    }
  }
  return "";
}

std::string CheckInference(const Graph& graph, const std::vector<Tensor>& want) {
  if (graph.nodes().size() != 1) return "";
  const std::vector<ValueType> types = InferNode(graph, *graph.nodes()[0]);
  size_t used = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    if (graph.nodes()[0]->outputs[i] == nullptr) continue;
    const Tensor& tensor = want[used++];
    bool fits = types[i].dtype == tensor.dtype();
    if (fits && types[i].shape) {
      fits = types[i].shape->size() == tensor.shape().size();
      for (size_t d = 0; fits && d < tensor.shape().size(); ++d) {
        const Dim& dim = (*types[i].shape)[d];
        fits = !dim.known() || dim.value == tensor.shape()[d];
      }
    }
    if (!fits) {
      return StrCat("inferred ", TypeToString(types[i]), " for ", DTypeName(tensor.dtype()),
                    ShapeToString(tensor.shape()));
    }
  }
  return "";
}

/// Returns "" if the test passes. Throws Error.
std::string RunCase(const fs::path& folder) {
  const Graph graph = testing::ReadModelFile((folder / "model.onnx").string());
  if (testing::HasContainers(graph)) return "";
  for (int set = 0;; ++set) {
    const fs::path data = folder / StrCat("test_data_set_", set);
    if (!fs::exists(data)) return "";
    TensorMap feeds;
    for (size_t i = 0; fs::exists(data / StrCat("input_", i, ".pb")); ++i) {
      const auto bytes = testing::ReadBytes((data / StrCat("input_", i, ".pb")).string());
      if (i >= graph.inputs().size()) return "more inputs than the model has";
      feeds[graph.inputs()[i]->name] = ReadTensorFile(testing::Share(bytes)).tensor;
    }
    std::vector<Tensor> want;
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      const auto bytes = testing::ReadBytes((data / StrCat("output_", i, ".pb")).string());
      want.push_back(ReadTensorFile(testing::Share(bytes)).tensor);
    }
    const std::string inference = CheckInference(graph, want);
    if (!inference.empty()) return inference;
    InterpretOptions options;
    options.requantize = RequantizeMode::kFloat;
    const std::vector<Tensor> got = Interpret(graph, feeds, options);
    for (size_t i = 0; i < want.size(); ++i) {
      const std::string difference =
          Compare(got[i], want[i], DrawsAtRandom(folder.filename().string()));
      if (!difference.empty()) return StrCat("output ", i, ": ", difference);
    }
  }
}

TEST(OnnxNodeTests, PassOrSayThatTheyAreUnsupported) {
  const fs::path root = fs::path(REQUANT_ONNX_TEST_DATA) / "node";
  if (!fs::exists(root)) GTEST_SKIP() << "ONNX's test data is not installed";
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  int passed = 0;
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string();
    if (DiffersOnPurpose(name)) continue;
    try {
      const std::string difference = RunCase(folder);
      EXPECT_EQ(difference, "") << name;
      if (difference.empty()) ++passed;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << name << ": " << error.what();
      const bool lacking = error.message().starts_with("operator ");
      const bool too_old = error.message().ends_with("is too old");
      EXPECT_TRUE(lacking || too_old || MayBeUnsupported(name)) << name << ": " << error.what();
    }
  }
  RecordProperty("passed", passed);
  EXPECT_GE(passed, 680);
}

}  // namespace
}  // namespace requant
