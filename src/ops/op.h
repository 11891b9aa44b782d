// Every operator is one OpDef: its arity, how types follow from the inputs, a plain reference that
// is the judge of every fast kernel, and how the quantizer treats it.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "numeric/requantize.h"
#include "tensor/tensor.h"

namespace requant {

/// What the quantizer does with an operator. "Weighted": constant second input quantized per output
/// channel, bias int32.
enum class QuantRule : uint8_t {
  kFloat,        // stays in float
  kConv,         // weighted: Conv, ConvTranspose
  kMatMul,       // Gemm, MatMul
  kAdd,          // Add, Sub: operands rescaled to the output
  kMul,          // Mul
  kConcat,       // all inputs share the output's scale where possible
  kAveragePool,  // AveragePool, GlobalAveragePool, ReduceMean over space
  kUnary,        // an elementwise function of one 8-bit value: a 256-entry table
  kPassive,      // moves or selects values of input 0: shares its scale
  kShape,        // produces shapes or indices (SOI)
};

/// How an operator may join others in a group that could run as one (FuseOps), by which input
/// elements one output element needs.
enum class FusionRule : uint8_t {
  kBroadcast,   // one of every input, at its own place: functions, arithmetic with broadcasting
  kInjective,   // one, from another place: what moves, selects or repeats elements
  kReduction,   // all along some axes
  kOutFusable,  // many; a function of each result can be computed where it is stored: layers, pools
  kOpaque,      // anything else, such as control flow: stays alone
};

/// By body, the types of its inputs (all of them, in order) in every iteration, as far as they
/// follow from those of its node's.
using BodyTypes = std::map<const Graph*, std::vector<ValueType>>;

struct InferContext {
  const Graph& graph;
  const Node& node;
  int opset;                             // of the node's domain
  std::vector<ValueType> inputs;         // dtype kUndefined for one left out
  std::vector<const Tensor*> constants;  // known value of the input, or nullptr
  std::vector<ValueType> outputs;        // to be filled: one per output slot
  BodyTypes* bodies = nullptr;           // to be filled, where wanted

  bool has(size_t slot) const { return slot < inputs.size() && node.input(slot) != nullptr; }
  const Tensor* constant(size_t slot) const {
    return slot < constants.size() ? constants[slot] : nullptr;
  }
  /// The input's shape or nullptr when its rank is unknown.
  const SymbolicShape* shape(size_t slot) const {
    return slot < inputs.size() && inputs[slot].shape ? &*inputs[slot].shape : nullptr;
  }
  const AttributeMap& attributes() const { return node.attributes; }
};

/// Runs the bodies of If, Loop and Scan.
class BodyRunner {
 public:
  virtual ~BodyRunner() = default;
  /// `inputs`: one for each input of the body that is no constant. Returns its outputs.
  virtual std::vector<Tensor> Run(const Graph& body, std::span<const Tensor* const> inputs) = 0;
};

struct EvalContext {
  const Node& node;
  int opset;
  RequantizeMode requantize;
  std::span<const Tensor* const> inputs;  // nullptr for one left out
  std::vector<Tensor> outputs;            // one per output slot, to be filled
  BodyRunner* bodies = nullptr;           // nullptr: by the references
  int onnx_opset = 13;                    // of the ONNX domain
  std::span<const Tensor> places =
      {};  // where outputs may be written, if any: not what inputs read

  bool has(size_t slot) const { return slot < inputs.size() && inputs[slot] != nullptr; }
  /// Throws kInvalidModel when the input is missing.
  const Tensor& input(size_t slot) const;
  const AttributeMap& attributes() const { return node.attributes; }
  /// A tensor for an output that is written as a whole: its place, or else a new one.
  Tensor Output(size_t slot, DType dtype, const Shape& shape) const;
};

inline constexpr int kVariadic = std::numeric_limits<int>::max();

/// One row of the operator table.
struct OpDef {
  const char* name;
  const char* domain;
  int since_version;  // oldest opset whose form this row understands
  int min_inputs;
  int max_inputs;
  int max_outputs;
  /// Fills outputs as far as the inputs allow (unknown rank or dims stay unknown). Throws Error
  /// (kInvalidModel, kShapeMismatch, kTypeMismatch, kUnsupported) for what can never run.
  void (*infer)(InferContext&);
  /// Slow, simple and right: computes the outputs for concrete inputs of any supported dtype.
  void (*evaluate)(EvalContext&);
  QuantRule quant;
  FusionRule fusion = FusionRule::kOpaque;
  /// Of an operator that is others written shorter: what a node stands for, in the operators of the
  /// graph's opset. Its inputs are the node's that are not left out, in order, its outputs the
  /// node's (more than the node has are not needed). nullptr when the form depends on a rank not
  /// known yet. Throws kUnsupported for a form that cannot be spelled out.
  std::unique_ptr<Graph> (*expand)(const Graph&, const Node&) = nullptr;
  /// What a graph with such nodes is turned into, before anything else, to be run (not to be shown,
  /// quantized or exported). Returns whether anything changed.
  bool (*rewrite)(Graph&) = nullptr;
};

/// All rows, sorted by family.
std::span<const OpDef* const> OpTable();

/// The row of an operator, or nullptr when this engine does not know it.
const OpDef* FindOp(std::string_view name, std::string_view domain);
/// The same for a node. Throws kUnsupported (with the operator's name) for an unknown operator, and
/// kInvalidModel when the model does not import the node's domain or for a wrong number of inputs.
const OpDef& OpOf(const Graph& graph, const Node& node);

/// Runs one node's inference on the graph's current types (constants included); returns the output
/// types, and those of what its bodies are given. Errors carry the node's name.
std::vector<ValueType> InferNode(const Graph& graph, const Node& node, BodyTypes* bodies = nullptr);

/// Evaluates one node on concrete tensors. Errors carry the node's name. Outputs may share the
/// memory of inputs, or lie in `places` (EvalContext).
std::vector<Tensor> EvaluateNode(const Graph& graph, const Node& node,
                                 std::span<const Tensor* const> inputs, RequantizeMode requantize,
                                 BodyRunner* bodies = nullptr, std::span<const Tensor> places = {});

}  // namespace requant
