// Runs every tests/passes/*.txt: the passes that it names turn the graph of `--- before` into that
// of `--- after` (or leave it alone: `--- unchanged`), and both compute the same on random inputs.
//
//   pass: SimplifyExpr          one or more names, separated by commas
//   --- before
//   graph "" opset 13 ...
//   --- after                   or `--- unchanged` in place of `--- before`
//   graph "" opset 13 ...
//
// Graphs are compared by structure: names of inner values, nodes and constants do not count. Types
// count in InferType's cases only, bytes in use in AnnotateUsedMemory's. Every pass of the table
// must have a case in which it applies and one in which it does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>
#include <unordered_map>

#include "api/requant.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ir/verify.h"
#include "passes/shape/infer_type.h"

namespace requant {
namespace {

struct Case {
  std::vector<std::string> passes;
  std::string before;
  std::string after;  // empty if unchanged
};

Case ReadCase(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  EXPECT_NE(file, nullptr) << path;
  std::string text(std::filesystem::file_size(path), '\0');
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  Case out;
  std::string* section = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("pass:", 0) == 0) {
      std::istringstream names(line.substr(5));
      for (std::string name; std::getline(names, name, ',');) {
        name.erase(0, name.find_first_not_of(' '));
        out.passes.push_back(name);
      }
    } else if (line == "--- before" || line == "--- unchanged") {
      section = &out.before;
    } else if (line == "--- after") {
      section = &out.after;
    } else if (section) {
      *section += line + "\n";
    }
  }
  EXPECT_FALSE(out.passes.empty()) << path;
  EXPECT_FALSE(out.before.empty()) << path;
  return out;
}

/// The computation as text: one line per node in the order in which the outputs need them, inner
/// values numbered, constants written at their use.
class Canonical {
 public:
  static std::string Of(const Graph& graph) {
    Canonical canonical;
    for (const Value* input : graph.inputs()) canonical.text_ += "input " + input->name + "\n";
    std::string outputs;
    for (const Value* output : graph.outputs()) {
      outputs += StrCat("output ", output->name, " = ", canonical.Name(output), "\n");
    }
    return StrCat(canonical.text_, outputs, "nodes: ", graph.nodes().size(), "\n");
  }

 private:
  std::string Name(const Value* value) {
    if (value == nullptr) return "_";
    const auto found = names_.find(value);
    if (found != names_.end()) return found->second;
    if (value->is_constant()) {
      Graph lone;
      lone.AddConstant("c", value->constant);
      const std::string text = PrintGraph(lone);
      return names_[value] =
                 text.substr(text.find("%c: ") + 4, text.size() - 5 - text.find("%c: "));
    }
    if (value->producer == nullptr) return names_[value] = value->name;
    const Node& node = *value->producer;
    std::string line = StrCat(node.domain, "::", node.op_type, "(");
    for (const Value* input : node.inputs) line += Name(input) + ", ";
    line += ")";
    std::map<std::string, std::string> attributes;
    for (const auto& [name, attribute] : node.attributes.entries()) {
      Graph lone;
      AttributeMap one;
      one.Set(name, attribute);
      lone.AddNode("A", "", {}, {}, one, "n");
      attributes[name] = PrintGraph(lone);
    }
    for (const auto& [name, text] : attributes) {
      line += text.substr(text.find('{'), text.rfind('}') - text.find('{') + 1);
    }
    if (node.used_bytes >= 0) line += StrCat(" uses ", node.used_bytes);
    std::string left;
    for (const Value* output : node.outputs) {
      if (output) names_[output] = StrCat("t", next_++);
      left += StrCat(output ? names_[output] : "_", " ");
    }
    text_ += StrCat(left, "= ", line, "\n");
    return names_[value];
  }

  std::string text_;
  int next_ = 0;
  std::unordered_map<const Value*, std::string> names_;
};

/// The declared types, by name, of the values that have the same name in both graphs.
std::string TypesOf(const Graph& graph, const Graph& other) {
  std::map<std::string, std::string> types;
  for (const auto& value : graph.values()) {
    if (other.FindValue(value->name)) types[value->name] = TypeToString(value->type);
  }
  std::string out;
  for (const auto& [name, type] : types) out += StrCat(name, ": ", type, "\n");
  return out;
}

Tensor RandomTensor(const ValueType& type, std::map<std::string, int64_t>& symbols,
                    std::mt19937& random) {
  Shape shape;
  for (const Dim& dim : *type.shape) {
    if (dim.known()) {
      shape.push_back(dim.value);
    } else {
      const auto size = static_cast<int64_t>(2 + symbols.size());
      shape.push_back(dim.symbol.empty() ? 3 : symbols.emplace(dim.symbol, size).first->second);
    }
  }
  Tensor out(type.dtype, shape);
  VisitDType(type.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < out.count(); ++i) {
      const double value = std::uniform_real_distribution<double>(-4, 8)(random);
      if constexpr (std::is_unsigned_v<T>) {
        static_cast<T*>(out.raw())[i] =
            static_cast<T>(type.dtype == DType::kBool ? value > 2 : std::fabs(value));
      } else {
        static_cast<T*>(out.raw())[i] = static_cast<T>(value);
      }
    }
  });
  return out;
}

void ExpectSameResults(const Graph& before, const Graph& after, double bound) {
  std::mt19937 random(7);
  for (int repeat = 0; repeat < 3; ++repeat) {
    TensorMap feeds;
    std::map<std::string, int64_t> symbols;
    for (const Value* input : before.inputs()) {
      ASSERT_TRUE(input->type.shape) << input->name;
      feeds[input->name] = RandomTensor(input->type, symbols, random);
    }
    InterpretOptions options;
    options.requantize = RequantizeMode::kFloat;  // ties as between Q/DQ pairs
    const std::vector<Tensor> a = Interpret(before, feeds, options);
    const std::vector<Tensor> b = Interpret(after, feeds, options);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].dtype(), b[i].dtype());
      ASSERT_EQ(a[i].shape(), b[i].shape());
      // at most Pass::bound, and stricter for exact passes
      double largest = bound > 1e-4 ? 1 : 1e-3;
      for (int64_t j = 0; j < a[i].count(); ++j) {
        largest = std::max(largest, std::fabs(a[i].AsDouble(j)));
      }
      for (int64_t j = 0; j < a[i].count(); ++j) {
        ASSERT_NEAR(a[i].AsDouble(j), b[i].AsDouble(j), bound * largest) << "output " << i;
      }
    }
  }
}

TEST(Passes, TextCases) {
  std::vector<std::filesystem::path> paths;
  const std::string folder = REQUANT_SOURCE_DIR "/tests/passes";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_GE(paths.size(), 60U);
  std::vector<Pass> listed(PassTable().begin(), PassTable().end());
  listed.insert(listed.end(), ApiPasses().begin(), ApiPasses().end());
  std::map<std::string, int> positive;
  std::map<std::string, int> negative;
  for (const auto& path : paths) {
    SCOPED_TRACE(path.filename().string());
    try {
      const Case test = ReadCase(path);
      Graph before = ParseGraph(test.before);
      VerifyGraph(before);
      const bool types = test.passes[0] == "InferType";
      Graph graph = before.Clone();
      if (!types) InferTypes(graph);
      PipelineOptions options;
      options.only = test.passes;
      options.more = ApiPasses();
      options.verify = true;
      const PipelineReport report = RunPasses(graph, options);
      EXPECT_LT(report.rounds, options.max_rounds) << "no fixed point";
      const bool changed = std::any_of(report.passes.begin(), report.passes.end(),
                                       [](const PassReport& pass) { return pass.changed; });
      EXPECT_EQ(changed, !test.after.empty());
      const Graph expected = test.after.empty() ? before.Clone() : ParseGraph(test.after);
      EXPECT_EQ(Canonical::Of(graph), Canonical::Of(expected));
      if (types) {
        EXPECT_EQ(TypesOf(graph, expected), TypesOf(expected, graph));
      }
      double bound = 1e-5;
      for (const Pass& pass : listed) {
        if (std::count(test.passes.begin(), test.passes.end(), pass.name) > 0) {
          bound = std::max(bound, 1.1 * pass.bound);
        }
      }
      ExpectSameResults(before, graph, bound);
      ++(test.after.empty() ? negative : positive)[test.passes[0]];
    } catch (const Error& error) {
      ADD_FAILURE() << error.message() << " at " << error.context().node;
    }
  }
  for (const Pass& pass : listed) {
    EXPECT_GE(positive[pass.name], 1) << pass.name << " has no case that it changes";
    EXPECT_GE(negative[pass.name], 1) << pass.name << " has no case that it must leave alone";
  }
}

}  // namespace
}  // namespace requant
