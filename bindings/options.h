// Option objects of JavaScript -> option structs of the core.
#pragma once

#include <emscripten/val.h>

#include <string>
#include <vector>

#include "api/requant.h"

namespace requant::bindings {

struct SessionRequest {
  SessionOptions options;
  bool optimize = true;
  bool consume = false;  // the model is not used any more: its memory may go early
  std::vector<std::string> taps;
};

/// Its `requantize`; kUpward where it has none.
RequantizeMode ReadRequantizeMode(const emscripten::val& options);
SessionRequest ReadSessionOptions(const emscripten::val& options);
QuantizeOptions ReadQuantizeOptions(const emscripten::val& options);
CompareOptions ReadCompareOptions(const emscripten::val& options);
/// Runs the pipeline that `options` describes; the JSON report of Model.optimize.
std::string RunPassesFromJs(Graph& graph, const emscripten::val& options);

}  // namespace requant::bindings
