// Writes graphs as .tflite files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace requant {

struct TfliteOptions {
  /// Whether inputs and outputs that are images keep ONNX's order of dimensions, behind a
  /// TRANSPOSE. Otherwise their channels come last.
  bool onnx_layout = false;
  /// Whether inputs and outputs whose values are quantized are codes of 8 bits, not floats.
  bool codes = false;
  /// Whether float weights have 16 bits in the file, behind a DEQUANTIZE.
  bool half_weights = false;
};

/// A file, and JSON about it: { inputs, outputs: [{ name, type, dims, layout, axes, scale?,
/// zeroPoint? }], operators: { NAME: count }, transposes: [value], pads: [node], requantized:
/// [value], floats: [node], notes: [text] }. `axes` are the ONNX dimensions in the file's order.
struct TfliteFile {
  std::vector<uint8_t> bytes;
  std::string report;
};

/// Writes a float graph, or one with Q/DQ pairs, for LiteRT (tensorflow/lite/schema/schema.fbs,
/// version 3). All shapes are known. Values between Q/DQ pairs become tensors of int8 codes (codes
/// of uint8 are moved by 128), weights int8 with a scale for each output channel, biases int32.
/// An operator that LiteRT does not compute on codes is written on floats, which the report says.
///
/// Throws kUnsupported for what such a file cannot hold, naming node, value and remedy.
TfliteFile WriteTflite(const Graph& graph, const TfliteOptions& options);

}  // namespace requant
