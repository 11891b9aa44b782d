// Writes a planned graph in other forms than ONNX: as C, and as JSON.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "numeric/requantize.h"

namespace requant {

/// A network as C99: two files.
struct GeneratedC {
  std::string source, header;
  size_t workspace_bytes = 0;  ///< bytes of the workspace that the function needs
  size_t constant_bytes = 0;   ///< bytes of weights and tables: read-only data
};

/// A function of somebody else's library that computes some nodes, which are a composite
/// (ir/composite.h). Its signature is in the header that GenerateC writes (call.cpp).
struct VendorCall {
  std::string function;       ///< a C identifier
  std::string header;         ///< the header that declares it; empty: the generated one does
  std::vector<size_t> nodes;  ///< their indices in Graph::nodes(), ascending
};

struct GenerateCOptions {
  /// Prefix of the names that the files define: a C identifier.
  std::string name = "model";
  RequantizeMode requantize = RequantizeMode::kUpward;
  std::vector<VendorCall> calls = {};
};

/// The texts of src/codegen/c/*.c by name; the core does not contain them.
using CKernels = std::map<std::string, std::string>;

/// Generates C that computes the graph with nothing but the standard library, its integers bit for
/// bit. The graph must be one that sessions run (PrepareForRun, SpecializeGraph), with integer
/// operators and all shapes known. Throws kInvalidArgument for a name that is no identifier and for
/// calls that are no composites or overlap, and kUnsupported, with the node, for an operator that
/// has no C.
GeneratedC GenerateC(const Graph& graph, const GenerateCOptions& options, const CKernels& kernels);

/// Whether GenerateC supports the node.
bool HasC(const Graph& graph, const Node& node, RequantizeMode requantize);

/// Writes the graph as JSON: { name, opsets, inputs, outputs, nodes: [{ name, op, domain, inputs,
/// outputs, attributes }], values: { name: { type, dims } }, constants: { name: { type, dims, data
/// } } }. Constants of more than `max_numbers` elements are base64 text of their little-endian
/// bytes, others are arrays of numbers. Throws kUnsupported for control flow.
std::string GraphToJson(const Graph& graph, size_t max_numbers);

/// Writes what GraphToJson writes, for somebody who looks for nodes: `data` is left out of
/// constants of more than `max_numbers` elements, and bodies of control flow are null.
std::string DescribeGraph(const Graph& graph, size_t max_numbers);

}  // namespace requant
