#pragma once

#include <map>
#include <string>

#include "ir/graph.h"
#include "tflite/write.h"

namespace requant {

/// Runs WriteTflite on a float model or one with Q/DQ pairs, optimized as for a run, for inputs of
/// these shapes, by name (shapes that the model knows may be missing). An open first dimension, the
/// batch, is 1 unless a shape says otherwise. Throws what WriteTflite throws, and kUnsupported for
/// a model of integer operators.
TfliteFile TfliteOf(const Graph& model, const std::map<std::string, Shape>& shapes,
                    const TfliteOptions& options);

}  // namespace requant
