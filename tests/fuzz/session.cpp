// Any bytes as an ONNX file that is prepared, planned and run, or refused with an Error. What was
// saved gives the same bits, and scalar rows, less memory and steps of their own give the same
// integers.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "api/prepare.h"
#include "base/error.h"
#include "kernels/list.h"
#include "onnx/read.h"
#include "session/session.h"

using namespace requant;  // NOLINT(google-build-using-namespace)

namespace {

/// Larger models only take longer, and so do loops.
constexpr int64_t kMostElements = 4096;

bool IsSmall(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (!IsPlannable(*node)) return false;
  }
  for (const auto& value : graph.values()) {
    if (!value->type.IsStatic()) return false;
    int64_t count = 1;
    for (const int64_t dim : value->type.StaticShape()) {
      if (dim > kMostElements) return false;
      count *= dim;
      if (count > kMostElements) return false;
    }
  }
  return true;
}

/// Bytes that repeat the file's: also NaN, infinities and integers without bounds.
TensorMap FeedsOf(const Graph& graph, const std::vector<uint8_t>& bytes) {
  TensorMap feeds;
  size_t at = 0;
  for (const Value* input : graph.inputs()) {
    Tensor tensor(input->type.dtype, input->type.StaticShape());
    auto* out = static_cast<uint8_t*>(tensor.raw());
    for (size_t i = 0; i < tensor.bytes(); ++i) {
      const uint8_t byte = bytes[at++ * 7 % bytes.size()];
      out[i] = tensor.dtype() == DType::kBool ? byte & 1 : byte;
    }
    feeds.emplace(input->name, std::move(tensor));
  }
  return feeds;
}

/// Floats in between may differ in their last bit, and what is rounded from them by one.
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

void ExpectSame(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!got[i].SameBits(wanted[i])) __builtin_trap();
  }
}

}  // namespace

// A size that data asks for may be any: more than this is no memory.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "allocator_may_return_null=1:max_allocation_size_mb=256";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(data, data + size);
  try {
    const auto graph = std::make_shared<Graph>(ReadOnnx({bytes, *bytes}));
    if (!IsSmall(*graph)) return 0;
    Prepare(*graph);
    if (!IsSmall(*graph)) return 0;
    const TensorMap feeds = FeedsOf(*graph, *bytes);
    Session session(graph, {});
    const std::vector<Tensor> outputs = session.Run(feeds);

    const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
    Session loaded(SharedBytes{saved, *saved}, {});
    ExpectSame(loaded.Run(feeds), outputs);

    if (!IsAllInteger(*graph)) return 0;
    SessionOptions compact;
    compact.plan.compact = true;
    SessionOptions unfused;
    unfused.plan.fuse = false;
    for (const SessionOptions& options : {Scalar(), compact, unfused}) {
      ExpectSame(Session(graph, options).Run(feeds), outputs);
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) __builtin_trap();
  }
  return 0;
}
