// Reads a ModelProto into a graph. The reader of the model's functions (local_functions.cpp), which
// loads late, adds nodes through this class.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "onnx/message.h"
#include "onnx/read.h"
#include "onnx/read_parts.h"

namespace requant {

struct FunctionScope;
struct LocalFunctions;

/// The domain of ONNX's own operators is "", which a file may also call ai.onnx.
std::string NormalizeDomain(std::string domain);

struct NodeParts {
  std::string op_type;
  std::string domain;
  std::string overload;
  std::string name;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<protozero::data_view> attributes;

  /// The node's name in errors, before the graph has named it.
  std::string Label() const { return !name.empty() ? name : op_type; }
};
/// Reads a NodeProto. Throws kInvalidModel.
NodeParts ReadNodeParts(Message message);

struct OpsetImport {
  std::string domain;
  int version;
};
/// Reads an OperatorSetIdProto. Throws kInvalidModel for versions that are no positive int.
OpsetImport ReadOpsetImport(Message message);

class ModelReader : public SubgraphReader {
 public:
  ModelReader(const SharedBytes& file, const ReadOptions& options, int depth = 0)
      : file_(file), options_(options), depth_(depth) {}

  Graph Read();
  Subgraph ReadSubgraph(Message message) override;

  /// Adds a node, or the nodes of the function that it calls.
  void AddNode(const NodeParts& parts);
  /// Reads an attribute. One that refers to an attribute of the function around it is set to that
  /// one's value, and stays out if the call does not have it.
  void ReadAttributeInto(Message message, const NodeParts& parts, AttributeMap& attributes);

  Graph& graph() { return graph_; }
  LocalFunctions& functions() { return *functions_; }
  const FunctionScope* scope() const { return scope_; }
  /// Sets the call whose body the next nodes belong to. `own`: their values are renamed by it; else
  /// they are in a subgraph of that body.
  void SetScope(const FunctionScope* scope, bool own) {
    scope_ = scope;
    own_scope_ = own;
  }
  bool own_scope() const { return own_scope_; }

 private:
  void ReadModel(Message message);
  void ReadOpset(Message message);
  void ReadMetadata(Message message);
  void ReadGraph(Message message);
  void AddInitializer(NamedTensor read);
  void CheckOpsets(int64_t ir_version);
  void CheckDefined();

  /// The value that a node reads by that name; nullptr where it is left out.
  Value* InputOf(const std::string& name);
  /// The value that a subgraph of the node reads from around it.
  Value* Captured(const std::string& name, const NodeParts& parts);
  Value* Declare(const std::string& name) {
    Value* value = graph_.FindValue(name);
    return value ? value : graph_.AddValue(name);
  }

  const SharedBytes& file_;
  const ReadOptions& options_;
  int depth_;  // how many graphs are around this one; 0: the model's own graph
  Graph graph_;
  std::shared_ptr<LocalFunctions> functions_;  // nullptr: the model has none
  const FunctionScope* scope_ = nullptr;       // nullptr: outside of functions
  bool own_scope_ = false;
};

}  // namespace requant
