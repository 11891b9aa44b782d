// Models that are quantized already.
#pragma once

#include "ir/graph.h"
#include "quant/quantizer.h"

namespace requant {

/// The float network in a quantized file (Q/DQ, QOperator, QONNX) and how the file quantizes it.
/// Throws kUnsupported for a file that is not quantized, and what SpellPairs throws.
QuantizedModel ReadQuantized(const Graph& file);

/// The float network with a record by which nothing is quantized, in which training can learn
/// floats. Throws kInvalidArgument for a quantized model.
QuantizedModel KeepFloat(const Graph& file);

/// Runs PackTwoValues. QONNX's Quant nodes become integers first, as for running, since the
/// constants before them are floats of many values.
Graph PackWeights(const Graph& graph);

}  // namespace requant
