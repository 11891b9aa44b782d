// Treats any bytes as an ONNX file that is prepared, planned and run, or rejected with an Error.
// The saved session gives the same bits; scalar rows, less memory and separate steps give the same
// integers. The operators that have C form a part, and the parts give the same values.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "api/prepare.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "kernels/list.h"
#include "model_data.h"
#include "onnx/read.h"
#include "partition/partition.h"
#include "session/session.h"

using namespace requant;  // NOLINT(google-build-using-namespace)

namespace {

/// Intermediate floats may differ in their last bit, and the integers rounded from them by one.
bool IsAllInteger(const Graph& graph) {
  return std::all_of(graph.values().begin(), graph.values().end(), [](const auto& value) {
    return value->is_constant() || !IsFloat(value->type.dtype);
  });
}

SessionOptions Scalar() {
  SessionOptions options;
  for (const KernelInfo& row : ListKernels()) {
    if (std::string_view(row.isa) == "scalar")
      options.plan.force_kernels.push_back({row.family, row.name});
  }
  return options;
}

/// Runs the parts by the references, as the outputs of the whole graph are computed.
void ExpectPartsGiveTheSame(const Graph& graph, const TensorMap& feeds) {
  Backend c;
  for (const auto& node : graph.nodes()) {
    c.takes.push_back(HasC(graph, *node, RequantizeMode::kUpward) ? 1 : 0);
  }
  TensorMap values = feeds;
  for (const Part& part : PartitionGraph(graph, {c})) {
    TensorMap given;
    for (const Value* input : part.graph.inputs()) given[input->name] = values.at(input->name);
    const std::vector<Tensor> outputs = Interpret(part.graph, given, {});
    for (size_t i = 0; i < outputs.size(); ++i) {
      values[part.graph.outputs()[i]->name] = outputs[i];
    }
  }
  std::vector<Tensor> results;
  for (const Value* output : graph.outputs()) results.push_back(values.at(output->name));
  fuzz::ExpectSame(results, Interpret(graph, feeds, {}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(data, data + size);
  try {
    Graph graph(ReadOnnx({bytes, *bytes}));
    if (!fuzz::IsSmall(graph)) return 0;
    Prepare(graph);
    if (!fuzz::IsSmall(graph)) return 0;
    const TensorMap feeds = fuzz::BytesAsFeeds(graph, *bytes);
    Session session(graph, {});
    const std::vector<Tensor> outputs = session.Run(feeds);

    const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
    Session loaded(SharedBytes{saved, *saved}, {});
    fuzz::ExpectSame(loaded.Run(feeds), outputs);

    ExpectPartsGiveTheSame(graph, feeds);

    if (!IsAllInteger(graph)) return 0;
    SessionOptions compact;
    compact.plan.compact = true;
    SessionOptions unfused;
    unfused.plan.fuse = false;
    for (const SessionOptions& options : {Scalar(), compact, unfused}) {
      fuzz::ExpectSame(Session(graph, options).Run(feeds), outputs);
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) __builtin_trap();
  }
  return 0;
}
