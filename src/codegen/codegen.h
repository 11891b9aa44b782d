// A planned-for graph written down in other forms than ONNX: as C, and as JSON.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"
#include "numeric/requantize.h"

namespace requant {

/// A network as C99: two files.
struct GeneratedC {
  std::string source, header;
  size_t workspace_bytes = 0;  ///< what its function must be given
  size_t constant_bytes = 0;   ///< weights and tables: read-only data
};

struct GenerateCOptions {
  /// Prefix of the names that the files define: a C identifier.
  std::string name = "model";
  RequantizeMode requantize = RequantizeMode::kUpward;
};

/// The texts of src/codegen/c/*.c by their names, which the core has not with it.
using CKernels = std::map<std::string, std::string>;

/// C that computes what the graph does, integers bit for bit, with nothing but the standard
/// library. The graph is one that sessions run (PrepareForRun, SpecializeGraph): integer operators,
/// all shapes known. Throws kInvalidArgument for a name that is no identifier, kUnsupported naming
/// the node for an operator that has no C.
GeneratedC GenerateC(const Graph& graph, const GenerateCOptions& options, const CKernels& kernels);

/// Whether GenerateC takes the node.
bool HasC(const Graph& graph, const Node& node, RequantizeMode requantize);

/// The graph as JSON: { name, opsets, inputs, outputs, nodes: [{ name, op, domain, inputs, outputs,
/// attributes }], values: { name: { type, dims } }, constants: { name: { type, dims, data } } }.
/// Constants of more than `max_numbers` elements are base64 text of their little-endian bytes,
/// others arrays of numbers. Throws kUnsupported for control flow.
std::string GraphToJson(const Graph& graph, size_t max_numbers);

}  // namespace requant
