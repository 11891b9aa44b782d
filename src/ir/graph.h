// The only intermediate representation: float networks, networks with Q/DQ nodes and integer
// networks are all a Graph of ONNX-like nodes. Kernels, layouts and memory are decided later.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/attribute.h"
#include "ir/name_index.h"
#include "ir/op_id.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace requant {

struct Node;

/// An edge of the graph: a graph input, a constant (initializer), or one output of a node.
struct Value {
  std::string name;  // unique in its graph, never empty
  ValueType type;
  Tensor constant;           // empty() unless this is a constant
  Node* producer = nullptr;  // nullptr for graph inputs and constants
  /// The nodes that read this value, one entry for every input slot (a node that reads it twice is
  /// there twice). Graph keeps the list up to date; it does not include graph outputs.
  std::vector<Node*> consumers;
  size_t position = 0;  // index in Graph::values(), or higher; Graph::Renumber makes it exact

  bool is_constant() const { return !constant.empty(); }
};

struct Node {
  std::string op_type;  // only Retype() changes it, domain and op
  std::string domain;   // "" for ONNX
  Op op = Op::kOther;   // the identity of op_type and domain
  std::string name;     // may be empty in a file; Graph::AddNode makes it unique and not empty
  /// Set by FuseOps: the name of the operator whose group this node belongs to. In a plan's graph,
  /// the name of the operator whose step runs it. Empty: it runs alone.
  std::string group;
  AttributeMap attributes;
  std::vector<Value*> inputs;   // nullptr = optional input left out
  std::vector<Value*> outputs;  // nullptr = optional output left out
  /// Set by AnnotateUsedMemory: bytes of intermediate values in memory while the node runs; -1:
  /// unknown.
  int64_t used_bytes = -1;
  /// Whether the outputs have the types that follow from the present inputs. Type inference sets
  /// it; Graph clears it when an input changes.
  bool typed = false;
  size_t position = 0;  // index in Graph::nodes(), or higher; Graph::Renumber makes it exact

  bool Is(Op wanted) const { return op == wanted; }
  bool Is(std::string_view wanted, std::string_view in_domain = "") const {
    return op_type == wanted && domain == in_domain;
  }
  /// Makes the node another operator.
  void Retype(std::string new_type, std::string new_domain);
  void Retype(Op wanted);
  /// The input in that slot; nullptr when the slot is beyond the list or left out.
  Value* input(size_t slot) const { return slot < inputs.size() ? inputs[slot] : nullptr; }
  Value* output(size_t slot = 0) const { return slot < outputs.size() ? outputs[slot] : nullptr; }
  /// The number of inputs before those that subgraphs capture.
  size_t formal_inputs() const;
  bool has_subgraph() const;
  /// The constant in that slot, or nullptr.
  const Tensor* constant(size_t slot) const {
    const Value* value = input(slot);
    return value && value->is_constant() ? &value->constant : nullptr;
  }
};

/// Owns nodes and values; pointers to them stay valid until they are erased. Every editing function
/// keeps producer and consumer links right. SortTopologically() makes the node order topological;
/// every pass that inserts nodes calls it.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  std::string name;
  /// Opset version by domain; "" is ONNX.
  std::map<std::string, int> opsets;
  /// Free text of the file (ModelProto.metadata_props); our exports keep the quantization in it.
  std::map<std::string, std::string> metadata;
  /// For a subgraph, how many of its inputs, the last ones, stand for values of the graph around
  /// it. The node that owns the subgraph reads those values as its own last inputs (those of its
  /// first subgraph first), so every use of a value is an edge.
  size_t captured = 0;

  int opset(const std::string& domain = "") const;

  // --- reading
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  const std::vector<std::unique_ptr<Value>>& values() const { return values_; }
  const std::vector<Value*>& inputs() const { return inputs_; }
  const std::vector<Value*>& outputs() const { return outputs_; }
  /// The value or node of that name, or nullptr.
  Value* FindValue(std::string_view name) const;
  Node* FindNode(std::string_view name) const;
  bool IsOutput(const Value* value) const;
  bool IsInput(const Value* value) const;
  /// The only consumer of a value that is not a graph output, or nullptr.
  Node* SoleConsumer(const Value* value) const;

  // --- building
  /// Adds a value. A suffix makes the name unique when it is taken ("v" when empty).
  Value* AddValue(std::string name, ValueType type = {});
  Value* AddConstant(std::string name, Tensor tensor);
  void AddInput(Value* value);
  void AddOutput(Value* value);
  /// Appends a node and makes its name unique. The outputs must have no producer yet.
  Node* AddNode(std::string op_type, std::string domain, std::vector<Value*> inputs,
                std::vector<Value*> outputs, AttributeMap attributes = {}, std::string name = "");
  /// Appends a node with one fresh output value of that name and type, and returns the value.
  Value* AddOp(std::string op_type, std::string domain, std::vector<Value*> inputs,
               std::string output_name, ValueType type, AttributeMap attributes = {},
               std::string name = "");

  // --- editing
  void SetInput(Node* node, size_t slot, Value* value);
  void SetOutput(Node* node, size_t slot, Value* value);
  /// Removes the slot; later inputs move up.
  void RemoveNodeInput(Node* node, size_t slot);
  /// Removes a value from the list of inputs; it must get a constant or a producer.
  void RemoveInput(Value* value);
  /// Makes every consumer of `from`, and the graph output list, use `to` instead.
  void ReplaceAllUses(Value* from, Value* to);
  /// Does what ReplaceAllUses does. If `from` was a graph output, `to` takes over its name, so that
  /// the names that users see never change; `to` must then not be a graph input or output.
  void ReplaceAndKeepName(Value* from, Value* to);
  void RenameValue(Value* value, std::string name);
  /// The name gets a number if another node has it.
  void RenameNode(Node* node, std::string name);
  /// Removes a node whose outputs are unused, and its output values.
  void EraseNode(Node* node);
  /// Makes `value` a constant. Its producer loses it as an output, and is erased if that was its
  /// last used output.
  void MakeConstant(Value* value, Tensor tensor);
  /// Removes constants and other values that have no producer or consumer and are no input or
  /// output of the graph.
  void RemoveUnusedValues();
  /// Makes every position the index in its list, for algorithms that number nodes or values.
  void Renumber() const {
    for (size_t i = 0; i < nodes_.size(); ++i) nodes_[i]->position = i;
    for (size_t i = 0; i < values_.size(); ++i) values_[i]->position = i;
  }
  /// Marks the types that follow from a value's type as outdated. Call it after changing the type.
  void TypeChanged(const Value* value) {
    for (Node* node : value->consumers) node->typed = false;
  }
  /// Sorts stably in topological order. Throws kInvalidModel for a cycle, naming a node on it.
  void SortTopologically();

  /// A deep copy of the structure; constants share their bytes.
  Graph Clone() const;

 private:
  std::string UniqueValueName(std::string name);
  std::string UniqueNodeName(std::string name, const std::string& op_type);
  void RemoveValue(const Value* value);

  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Value>> values_;
  std::vector<Value*> inputs_;
  std::vector<Value*> outputs_;
  NameIndex values_by_name_;
  NameIndex nodes_by_name_;
  size_t next_suffix_ = 0;
};

}  // namespace requant
