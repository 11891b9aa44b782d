// Treats any bytes as an ONNX file: it is read, typed, optimized and written back, or rejected with
// an Error.
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "ir/text.h"
#include "onnx/read.h"
#include "onnx/write.h"
#include "passes/runner.h"

using namespace requant;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(data, data + size);
  try {
    Graph graph = ReadOnnx({bytes, *bytes});
    if (PrintGraph(ParseGraph(PrintGraph(graph))) != PrintGraph(graph)) __builtin_trap();
    const auto written = std::make_shared<std::vector<uint8_t>>(WriteOnnx(graph));
    ReadOnnx({written, *written});
    PipelineOptions options;
    options.verify = true;
    RunPasses(graph, options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) __builtin_trap();
  }
  return 0;
}
