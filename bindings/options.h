// Reads option objects of JavaScript into option structs of the core.
#pragma once

#include <emscripten/val.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/requant.h"

namespace requant::bindings {

struct SessionRequest {
  SessionOptions options;
  bool optimize = true;
  bool consume = false;  // the model is not used any more, so its memory may be freed early
  std::vector<std::string> taps;
  std::map<std::string, int64_t> dimensions;  // sizes of symbolic dimensions
};

/// Reads scales and zero points from arrays of numbers; the latter may be undefined.
FixedScale ReadScale(const emscripten::val& scales, const emscripten::val& offsets);
/// Reads the settings of one kind of tensor.
TensorSettings ReadTensorSettings(const emscripten::val& options);
/// Reads an array of { node, output, slot } and the members of SlotEdit that change.
std::vector<SlotEdit> ReadEdits(const emscripten::val& edits);
/// The option `requantize`; kUpward if it is missing.
RequantizeMode ReadRequantizeMode(const emscripten::val& options);
SessionRequest ReadSessionOptions(const emscripten::val& options);
QuantizeOptions ReadQuantizeOptions(const emscripten::val& options);
CompareOptions ReadCompareOptions(const emscripten::val& options);
/// Runs the pipeline that `options` describes and returns the JSON report of Model.optimize.
std::string RunPassesFromJs(Graph& graph, const emscripten::val& options);

}  // namespace requant::bindings
