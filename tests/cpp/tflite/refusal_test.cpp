// Files that the reader refuses: what it says, and that no damage does more harm than an Error.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/lcg.h"
#include "tflite/read.h"
#include "tflite/samples.h"

namespace requant::tflite {
namespace {

Error ErrorOf(const std::vector<GraphSpec>& graphs, uint32_t version = 3) {
  try {
    ReadTflite(Shared(WriteFile(graphs, version)));
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "it was read"};
}

struct Refusal {
  const char* name;
  ErrorCode code;
  const char* message;
  const char* value;
  void (*damage)(GraphSpec& graph);
};

const Refusal kRefusals[] = {
    {"operator", ErrorCode::kUnsupported, "CALL_ONCE of 'y' is no operator of this engine", "y",
     [](GraphSpec& graph) { graph.nodes[0].code = 129; }},
    {"later operator", ErrorCode::kUnsupported, "operator 250 of 'y' is no operator of this engine",
     "y", [](GraphSpec& graph) { graph.nodes[0].code = 250; }},
    {"spectrum", ErrorCode::kUnsupported, "tensor 'x' has complex numbers", "x",
     [](GraphSpec& graph) { graph.nodes[0].code = 135; }},
    {"composite", ErrorCode::kInvalidModel, "STABLEHLO_COMPOSITE of 'y' has the subgraph 0 of 1",
     "y", [](GraphSpec& graph) { graph.nodes[0].code = 206; }},
    {"custom", ErrorCode::kUnsupported, "TFLite_Detection_PostProcess of 'y' is a custom operator",
     "y",
     [](GraphSpec& graph) {
       graph.nodes[0].code = 32;
       graph.nodes[0].custom = "TFLite_Detection_PostProcess";
     }},
    {"string", ErrorCode::kUnsupported, "input 'x' has type 5 of TFLite's schema", "x",
     [](GraphSpec& graph) { graph.tensors[0].type = TensorType::kString; }},
    {"output's type", ErrorCode::kUnsupported, "CONV_2D of 'y' makes type 8 of TFLite's schema",
     "y", [](GraphSpec& graph) { graph.tensors[3].type = TensorType::kComplex64; }},
    {"input index", ErrorCode::kInvalidModel, "operator 0 names tensor 9 of 4", "",
     [](GraphSpec& graph) { graph.nodes[0].inputs[0] = 9; }},
    {"negative index", ErrorCode::kInvalidModel, "the list of outputs names tensor -1 of 4", "",
     [](GraphSpec& graph) { graph.outputs = {-1}; }},
    {"bytes", ErrorCode::kInvalidModel,
     "tensor 'w' of float32[2, 1, 1, 2] has 15 bytes instead of 16", "w",
     [](GraphSpec& graph) { graph.tensors[1].bytes.pop_back(); }},
    {"shape", ErrorCode::kInvalidModel, "tensor 'x' has a dimension of -2", "x",
     [](GraphSpec& graph) { graph.tensors[0].shape[1] = -2; }},
    {"overflow", ErrorCode::kInvalidModel, "", "",
     [](GraphSpec& graph) {
       graph.tensors[1].shape = {1 << 30, 1 << 30, 1 << 30, 1 << 30};
     }},
    {"scales", ErrorCode::kInvalidModel, "the 3 scales of tensor 'w' do not fit its dimension 0",
     "w",
     [](GraphSpec& graph) {
       graph.tensors[1].type = TensorType::kInt8;
       graph.tensors[1].bytes.resize(4);
       graph.tensors[1].scales = {1, 2, 3};
       graph.tensors[1].zeros = {0, 0, 0};
     }},
    {"scale", ErrorCode::kInvalidModel, "tensor 'y' has the scale -1", "y",
     [](GraphSpec& graph) { graph.tensors[3].scales = {-1}; }},
    {"zero point", ErrorCode::kInvalidModel, "tensor 'y' of int8 has the zero point 128", "y",
     [](GraphSpec& graph) {
       graph.tensors[3].type = TensorType::kInt8;
       graph.tensors[3].scales = {1};
       graph.tensors[3].zeros = {128};
     }},
    {"twice", ErrorCode::kInvalidModel, "tensor 'y' is defined twice", "y",
     [](GraphSpec& graph) { graph.nodes.push_back(graph.nodes[0]); }},
    {"undefined", ErrorCode::kInvalidModel, "'y' reads tensor 'x', which nothing defines", "x",
     [](GraphSpec& graph) { graph.inputs = {}; }},
    {"stride", ErrorCode::kInvalidModel, "CONV_2D of 'y' has a window that is not positive", "y",
     [](GraphSpec& graph) { graph.nodes[0].options[1].number = 0; }},
    {"channels", ErrorCode::kInvalidModel,
     "CONV_2D of 'y' has weights of 2 channels for an input of 3", "y",
     [](GraphSpec& graph) { graph.tensors[0].shape[3] = 3; }},
    {"inputs", ErrorCode::kInvalidModel, "CONV_2D of 'y' lacks input 1", "y",
     [](GraphSpec& graph) { graph.nodes[0].inputs.resize(1); }},
};

TEST(TfliteRefusals, NameTheTensorAndARemedy) {
  for (const Refusal& refusal : kRefusals) {
    SCOPED_TRACE(refusal.name);
    GraphSpec graph = ConvGraph();
    refusal.damage(graph);
    const Error error = ErrorOf({graph});
    EXPECT_EQ(error.code(), refusal.code) << error.message();
    EXPECT_EQ(error.context().value, refusal.value);
    if (*refusal.message == 0) continue;
    EXPECT_EQ(error.message(), refusal.message);
    EXPECT_NE(error.context().hint, "");
  }
}

TEST(TfliteRefusals, OtherVersionsOfTheSchema) {
  EXPECT_EQ(ErrorOf({ConvGraph()}, 2).code(), ErrorCode::kUnsupported);
}

TEST(TfliteRefusals, SparsePositionsBeyondTheShape) {
  GraphSpec graph = SparseGraph();
  graph.tensors[1].indices[0] = 2;
  EXPECT_EQ(ErrorOf({graph}).code(), ErrorCode::kInvalidModel);
  graph = SparseGraph();
  graph.tensors[1].segments = {0, 5, 2};
  EXPECT_EQ(ErrorOf({graph}).code(), ErrorCode::kInvalidModel);
}

TEST(TfliteRefusals, SubgraphsThatCallThemselves) {
  std::vector<GraphSpec> graphs = BranchGraphs();
  graphs[1] = graphs[0];
  graphs[1].inputs = {1, 2};
  graphs[1].tensors[0].bytes = {1};
  graphs[1].tensors[2].bytes = {};
  EXPECT_EQ(ErrorOf(graphs).code(), ErrorCode::kInvalidModel);
}

/// Reads bytes and expects success or an Error that is no fault of the reader.
void ExpectTyped(const std::vector<uint8_t>& bytes) {
  try {
    ReadTflite(Shared(bytes));
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::kInternal) << error.message();
  }
}

TEST(TfliteRefusals, DamagedBytesGiveTypedErrors) {
  const std::vector<std::vector<uint8_t>> files = {
      WriteFile({ConvGraph()}), WriteFile({QuantizedConvGraph()}), WriteFile({SparseGraph()}),
      WriteFile({MixedGraph()}), WriteFile(BranchGraphs())};
  Lcg random{1};
  const auto below = [&random](size_t limit) {
    return static_cast<size_t>(random.Next() >> 8) % limit;
  };
  constexpr uint32_t kWords[] = {0,          1,          4,          0x7f,      0xff,
                                 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffc};
  for (const std::vector<uint8_t>& file : files) {
    for (size_t length = 0; length < file.size(); length += 7) {
      ExpectTyped({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length)});
    }
    for (int round = 0; round < 1500; ++round) {
      std::vector<uint8_t> bytes = file;
      for (size_t change = 0; change <= below(4); ++change) {
        const size_t at = below(bytes.size());
        switch (below(3)) {
          case 0:
            bytes[at] = static_cast<uint8_t>(below(256));
            break;
          case 1:
            bytes[at] = static_cast<uint8_t>(bytes[at] ^ (1U << below(8)));
            break;
          default: {
            const uint32_t word = kWords[below(std::size(kWords))];
            const size_t start = std::min(at & ~size_t{3}, bytes.size() - sizeof(word));
            std::memcpy(bytes.data() + start, &word, sizeof(word));
          }
        }
      }
      ExpectTyped(bytes);
    }
  }
}

}  // namespace
}  // namespace requant::tflite
