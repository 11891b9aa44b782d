// Functions that a model defines (FunctionProto). A call becomes the nodes of the function's body
// while the file is read, so that nothing behind the reader knows functions. Values and nodes of a
// body are named below their call: `call/inner`.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/late_function.h"
#include "onnx/model_reader.h"
#include "tensor/tensor.h"

namespace requant {

/// A FunctionProto, whose nodes and attributes are read at every call.
struct LocalFunction {
  std::string name;  // as errors show it
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<protozero::data_view> nodes;
  std::vector<protozero::data_view> defaults;  // attributes with a default
  std::map<std::string, int> opsets;
};

/// All functions of a model, and what its readers share.
struct LocalFunctions {
  std::map<std::string, LocalFunction> by_key;
  std::set<std::string> names;             // of all values in the file
  int model_opset = 0;                     // of ONNX, that the model itself imports
  size_t nodes = 0;                        // read from bodies so far
  std::map<std::string, size_t> suffixes;  // the last one of each name that is taken
};

/// A call whose body is being read.
struct FunctionScope {
  const LocalFunction& function;
  const FunctionScope* caller;  // of this call; nullptr: the model's graph
  std::map<std::string, std::string>
      names;  // values of the graph by the body's names; "": left out
  AttributeMap attributes;
  std::string prefix;  // of names in the graph
};

/// Reads the functions of a model and adds their imports to `opsets`. The version of ONNX becomes
/// the newest of all. Throws kInvalidModel.
std::shared_ptr<LocalFunctions> ReadLocalFunctions(
    const std::vector<protozero::data_view>& functions, protozero::data_view graph,
    std::map<std::string, int>& opsets);

/// Adds the nodes of the function that `call` calls; returns false if it calls none. Throws
/// kInvalidModel (recursion, numbers of inputs and outputs), and kUnsupported for bodies that grow
/// beyond all bounds.
bool ExpandCall(ModelReader& reader, const NodeParts& call, const AttributeMap& attributes);

/// The parts of a node in the form of another opset of ONNX.
struct RaisedNode {
  const NodeParts& parts;
  AttributeMap& attributes;
  std::vector<Value*>& inputs;
  std::vector<Value*>& outputs;
};
/// Converts a node of ONNX to the opset of the graph, to which it will be added. Throws
/// kUnsupported for an operator whose new form cannot express the old one.
void RaiseNode(Graph& graph, const RaisedNode& node, const LocalFunctions& functions,
               const FunctionScope* scope);

/// Reads a SparseTensorProto as a dense tensor. Throws kInvalidModel for indices out of range or
/// out of order, and kOutOfMemory for dense sizes beyond 1 GiB.
NamedTensor ReadSparseTensor(Message message, const SharedBytes& file,
                             const ExternalFiles& external, const std::string& what);

extern const LateFunction<decltype(ReadLocalFunctions)> kReadLocalFunctions;
extern const LateFunction<decltype(ExpandCall)> kExpandCall;
extern const LateFunction<decltype(RaiseNode)> kRaiseNode;
extern const LateFunction<decltype(ReadSparseTensor)> kReadSparseTensor;

}  // namespace requant
