// Calls of functions of other libraries, which compute a composite of nodes each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/c_file.h"
#include "codegen/codegen.h"
#include "codegen/emit.h"

namespace requant {

/// The calls of a graph by their nodes.
class VendorCalls {
 public:
  /// Throws kInvalidArgument for names that C does not allow, for calls that are no composites and
  /// for calls that overlap.
  VendorCalls(const Graph& graph, const GenerateCOptions& options);

  /// Whether a call computes the node.
  bool Has(const Node& node) const { return call_of_[node.position] >= 0; }
  /// All nodes of the call that ends with this one; empty for others.
  const std::vector<const Node*>& EndingWith(const Node& node) const;
  /// Writes the call that ends with this node.
  void Emit(const Graph& graph, const Node& last, CFile& file) const;

  /// The types of the functions' parameters and the functions that no header declares, for the
  /// header of the generated file; empty without calls.
  std::string Declarations() const;
  /// The lines that include the headers of the functions.
  std::string Includes() const;

 private:
  const GenerateCOptions& options_;              // outlives this object
  std::vector<std::vector<const Node*>> nodes_;  // by call
  std::vector<int> call_of_;                     // by the position of a node; -1: none
  std::vector<const Node*> none_;
};

/// Whether C allows the name for a function.
bool IsIdentifier(std::string_view name);

/// Throws kUnsupported, with the node's name, for values that C cannot hold.
void CheckValues(const EmitContext& context);

}  // namespace requant
