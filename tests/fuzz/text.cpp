// Treats any bytes as the text form of a graph: it is parsed and printed back, or rejected with an
// Error.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "ir/text.h"

using namespace requant;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const Graph graph = ParseGraph({reinterpret_cast<const char*>(data), size});
    const std::string text = PrintGraph(graph);
    if (PrintGraph(ParseGraph(text)) != text) __builtin_trap();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidModel) __builtin_trap();
  }
  return 0;
}
