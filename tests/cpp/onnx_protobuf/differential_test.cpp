// The reader and the writer against Google's protobuf classes and ONNX's own checker: on every
// model of ONNX's test data, and on damaged copies of them.
#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <gtest/gtest.h>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include "base/error.h"
#include "onnx/read.h"
#include "onnx/write.h"
#include "support/files.h"

namespace requant {
namespace {

namespace fs = std::filesystem;

const std::vector<fs::path>& Models() {
  static const std::vector<fs::path> models = [] {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(REQUANT_ONNX_TEST_DATA)) {
      if (entry.path().extension() == ".onnx") out.push_back(entry.path());
    }
    std::sort(out.begin(), out.end());
    return out;
  }();
  return models;
}

/// Copies the elements of raw_data or of a typed field as doubles.
std::vector<double> Elements(const onnx::TensorProto& tensor) {
  std::vector<double> out;
  const auto raw = [&](auto tag) {
    using T = decltype(tag);
    const std::string& bytes = tensor.raw_data();
    for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, bytes.data() + at, sizeof(T));
      out.push_back(static_cast<double>(value));
    }
  };
  switch (tensor.data_type()) {
    case onnx::TensorProto::FLOAT:
      if (tensor.has_raw_data()) raw(float{});
      out.insert(out.end(), tensor.float_data().begin(), tensor.float_data().end());
      break;
    case onnx::TensorProto::DOUBLE:
      if (tensor.has_raw_data()) raw(double{});
      out.insert(out.end(), tensor.double_data().begin(), tensor.double_data().end());
      break;
    case onnx::TensorProto::INT64:
      if (tensor.has_raw_data()) raw(int64_t{});
      out.insert(out.end(), tensor.int64_data().begin(), tensor.int64_data().end());
      break;
    case onnx::TensorProto::INT32:
      if (tensor.has_raw_data()) raw(int32_t{});
      out.insert(out.end(), tensor.int32_data().begin(), tensor.int32_data().end());
      break;
    default:
      break;  // the sizes are compared below
  }
  return out;
}

void ExpectSameTensor(const onnx::TensorProto& theirs, const Tensor& ours) {
  EXPECT_EQ(static_cast<int>(ours.dtype()), theirs.data_type());
  const Shape dims(theirs.dims().begin(), theirs.dims().end());
  EXPECT_EQ(ours.shape(), dims);
  const std::vector<double> wanted = Elements(theirs);
  if (wanted.empty()) return;
  const std::vector<double> got = ours.ToDoubles();
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i])))
        << got[i] << " " << wanted[i];
  }
}

void ExpectSameAttribute(const onnx::AttributeProto& theirs, const AttributeMap& ours) {
  const Attribute* value = ours.Find(theirs.name());
  ASSERT_NE(value, nullptr) << theirs.name();
  if (const auto* number = std::get_if<int64_t>(value)) {
    EXPECT_EQ(*number, theirs.i());
  } else if (const auto* real = std::get_if<float>(value)) {
    EXPECT_TRUE(*real == theirs.f() || std::isnan(*real));
  } else if (const auto* text = std::get_if<std::string>(value)) {
    EXPECT_EQ(*text, theirs.s());
  } else if (const auto* numbers = std::get_if<std::vector<int64_t>>(value)) {
    EXPECT_EQ(*numbers, std::vector<int64_t>(theirs.ints().begin(), theirs.ints().end()));
  } else if (const auto* reals = std::get_if<std::vector<float>>(value)) {
    EXPECT_EQ(static_cast<int>(reals->size()), theirs.floats_size());
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(value)) {
    EXPECT_EQ(*texts, std::vector<std::string>(theirs.strings().begin(), theirs.strings().end()));
  } else if (const auto* tensor = std::get_if<Tensor>(value)) {
    ExpectSameTensor(theirs.t(), *tensor);
  }
}

template <typename List>
std::vector<std::string> Trimmed(const List& names) {
  std::vector<std::string> out(names.begin(), names.end());
  while (!out.empty() && out.back().empty()) out.pop_back();
  return out;
}

std::vector<std::string> Names(const std::vector<Value*>& values) {
  std::vector<std::string> out;
  for (const Value* value : values) out.push_back(value ? value->name : "");
  return out;
}

/// Names of the inputs without the values that subgraphs capture, which files do not list.
std::vector<std::string> FormalNames(const Node& node) {
  std::vector<std::string> names = Names(node.inputs);
  names.resize(node.formal_inputs());
  return Trimmed(names);
}

/// Compares the reader's graph with Google's `model` of the same file. Opsets below 7 are compared
/// by numbers only, as the reader upgrades them.
void ExpectSameModel(const onnx::ModelProto& model, const Graph& graph) {
  const onnx::GraphProto& theirs = model.graph();
  ASSERT_EQ(static_cast<int>(graph.nodes().size()), theirs.node_size());
  const bool upgraded =
      std::any_of(model.opset_import().begin(), model.opset_import().end(), [](const auto& opset) {
        return opset.version() == 6 && (opset.domain().empty() || opset.domain() == "ai.onnx");
      });
  if (upgraded) return;
  // Match nodes by their outputs, as the reader sorts them.
  for (const onnx::NodeProto& node : theirs.node()) {
    const std::vector<std::string> outputs = Trimmed(node.output());
    const Node* ours = nullptr;
    for (const auto& candidate : graph.nodes()) {
      const bool same = candidate->op_type == node.op_type() &&
                        Names(candidate->outputs) == outputs &&
                        FormalNames(*candidate) == Trimmed(node.input());
      if (same) ours = candidate.get();
    }
    ASSERT_NE(ours, nullptr) << node.DebugString();
    EXPECT_EQ(ours->domain, node.domain() == "ai.onnx" ? "" : node.domain());
    EXPECT_EQ(static_cast<int>(ours->attributes.entries().size()), node.attribute_size());
    if (outputs.empty()) continue;  // nodes without outputs may be equal
    for (const auto& attribute : node.attribute()) ExpectSameAttribute(attribute, ours->attributes);
  }
  std::set<std::string> initializers;
  for (const onnx::TensorProto& tensor : theirs.initializer()) {
    const Value* value = graph.FindValue(tensor.name());
    ASSERT_NE(value, nullptr) << tensor.name();
    ASSERT_TRUE(value->is_constant()) << tensor.name();
    ExpectSameTensor(tensor, value->constant);
    initializers.insert(tensor.name());
  }
  std::vector<std::string> inputs;
  for (const onnx::ValueInfoProto& input : theirs.input()) {
    if (!initializers.contains(input.name())) inputs.push_back(input.name());
  }
  EXPECT_EQ(Names(graph.inputs()), inputs);
  std::vector<std::string> outputs;
  for (const onnx::ValueInfoProto& output : theirs.output()) outputs.push_back(output.name());
  EXPECT_EQ(Names(graph.outputs()), outputs);
}

/// Reads the bytes; nullopt if the reader rejects them. Fails the test for anything but an Error.
std::optional<Graph> TryRead(const std::vector<uint8_t>& bytes) {
  try {
    return ReadOnnx(testing::Share(bytes));
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::kInternal) << error.message();
    return {};
  }
}

/// If the reader accepts a file, Google's classes must read the same.
bool CheckOne(const std::vector<uint8_t>& bytes) {
  const std::optional<Graph> graph = TryRead(bytes);
  if (!graph) return false;
  onnx::ModelProto model;
  const bool parsed = model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  EXPECT_TRUE(parsed) << "accepted by the reader, refused by protobuf";
  if (parsed) ExpectSameModel(model, *graph);
  return true;
}

bool CheckerAccepts(const onnx::ModelProto& model) {
  try {
    onnx::checker::check_model(model);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

TEST(OnnxProtobuf, EveryModelReadsTheSame) {
  int accepted = 0;
  for (const fs::path& path : Models()) {
    SCOPED_TRACE(path.string());
    accepted += CheckOne(testing::ReadBytes(path.string()));
  }
  EXPECT_GT(accepted, 800);
}

TEST(OnnxProtobuf, WhatTheWriterWritesTheCheckerAccepts) {
  int checked = 0;
  for (const fs::path& path : Models()) {
    SCOPED_TRACE(path.string());
    const std::vector<uint8_t> original = testing::ReadBytes(path.string());
    const std::optional<Graph> graph = TryRead(original);
    if (!graph) continue;
    const std::vector<uint8_t> bytes = WriteOnnx(*graph);
    onnx::ModelProto written;
    ASSERT_TRUE(written.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    ASSERT_TRUE(written.IsInitialized());
    ExpectSameModel(written, *graph);
    onnx::ModelProto source;
    source.ParseFromArray(original.data(), static_cast<int>(original.size()));
    if (!CheckerAccepts(source)) continue;
    try {
      onnx::checker::check_model(written);
      ++checked;
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GT(checked, 800);
}

TEST(OnnxProtobuf, DamagedModelsReadTheSameOrAreRefused) {
  std::mt19937 random(20240501);
  const auto below = [&random](size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random);
  };
  std::vector<fs::path> small;
  for (const fs::path& path : Models()) {
    if (fs::file_size(path) < 4096) small.push_back(path);
  }
  ASSERT_GT(small.size(), 500U);
  int accepted = 0;
  constexpr int kRuns = 6000;
  for (int run = 0; run < kRuns; ++run) {
    const fs::path& path = small[below(small.size())];
    std::vector<uint8_t> bytes = testing::ReadBytes(path.string());
    const size_t flips = below(4);
    for (size_t i = 0; i < flips; ++i) {
      const size_t at = below(bytes.size());
      // A flipped bit, a random byte, or a byte with a meaning in protobuf.
      const uint8_t kinds[] = {static_cast<uint8_t>(bytes[at] ^ (1U << below(8))),
                               static_cast<uint8_t>(below(256)),
                               0,
                               1,
                               0x7f,
                               0x80,
                               0xff};
      bytes[at] = kinds[below(std::size(kinds))];
    }
    if (flips == 0 || below(4) == 0) bytes.resize(below(bytes.size() + 1));
    SCOPED_TRACE(path.string() + " run " + std::to_string(run));
    accepted += CheckOne(bytes);
    if (HasFailure()) return;
  }
  // Both results must occur.
  EXPECT_GT(accepted, kRuns / 20);
  EXPECT_LT(accepted, kRuns);
}

}  // namespace
}  // namespace requant
