// Reads .tflite files into graphs.
#pragma once

#include <span>

#include "base/late_function.h"
#include "ir/graph.h"
#include "tensor/shared_bytes.h"

namespace requant {

/// Whether the bytes begin as a TFLite file does, by its identifier "TFL3".
bool IsTflite(std::span<const uint8_t> file);

/// Converts the first subgraph of a TFLite file (tensorflow/lite/schema/schema.fbs, version 3).
/// Inputs, outputs and values have the tensors' names and the file's order of dimensions.
/// Quantized tensors become Q/DQ pairs, floats of 16 bits that are widened keep their bits.
/// Constants stay views of the file's bytes where neither order nor type changes. Layers of dynamic
/// range (float activations, weights of codes) become products of integers, or with
/// `float_layers` of floats, as quantizing needs them.
///
/// Throws kInvalidModel (damaged bytes; indices, sizes and options that do not fit) or kUnsupported
/// (operators and types that the engine lacks), naming operator and tensor.
Graph ReadTflite(const SharedBytes& file, bool float_layers = false);
extern const LateFunction<decltype(ReadTflite)> kReadTflite;

}  // namespace requant
