#pragma once

#include <map>
#include <string>

#include "codegen/codegen.h"
#include "ir/graph.h"

namespace requant {

/// Runs GenerateC on any model, float or quantized (inputs and outputs of 16 bits are float32 in
/// C), prepared as for a run on inputs of these shapes, by name (shapes that the model knows may be
/// missing). Throws what GenerateC throws, and kUnsupported for an open shape.
GeneratedC GenerateCode(const Graph& graph, const std::map<std::string, Shape>& shapes,
                        const GenerateCOptions& options, const CKernels& kernels);

/// The graph from which GenerateCode writes C: prepared as for a run on inputs of these shapes.
/// Nodes of calls (GenerateCOptions) are nodes of this graph. Throws kUnsupported for an open
/// shape.
Graph PrepareForC(const Graph& graph, const std::map<std::string, Shape>& shapes);

/// A copy of the graph with the types of all values, as far as they follow from inputs of these
/// shapes, by name (shapes that the model knows may be missing). Results of Constant nodes are
/// constants in it. If all are known, values that
/// follow from shapes are computed as well.
Graph WithTypes(const Graph& graph, const std::map<std::string, Shape>& shapes);

}  // namespace requant
