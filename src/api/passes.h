// The passes that need layers above the passes.
#pragma once

#include <span>
#include <string>

#include "passes/integers/integers.h"
#include "passes/pass.h"

namespace requant {

/// The passes that need more than a graph, Legalize and AnnotateUsedMemory, for
/// PipelineOptions::more.
std::span<const Pass> ApiPasses();
/// Turns Q/DQ nodes into integer operators (requant.cpp), as sessions do by themselves.
bool Legalize(Graph& graph, PassContext& context);
/// Plans the graph and records in every node the memory in use while it runs (used_memory.cpp).
bool AnnotateUsedMemory(Graph& graph, PassContext& context);

/// A model in plain integer operators, and JSON about its operators:
/// { legalized: [{ name, type }], left: [{ name, type, reason }] }.
struct LegalizedModel {
  Graph graph;
  std::string report;
};

/// Brings a quantized model of any form (Q/DQ, QOperator, QONNX) into the integer form that
/// sessions run, raises it to opset 13, and runs LegalizeToIntegers (legalize_to_integers.cpp).
/// Throws kInvalidArgument for a model that is not quantized, and what LegalizeToIntegers throws.
LegalizedModel LegalizedFrom(const Graph& model, const IntegerForm& form);

}  // namespace requant
