// Every operator is one OpDef: its arity, how types follow from the inputs, a plain reference that
// is the oracle for every fast kernel, and how the quantizer treats it.
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

/// How the quantizer treats an operator. "Weighted" means: the constant second input is quantized
/// per output channel, the bias is int32.
enum class QuantRule : uint8_t {
  kFloat,        // stays in float
  kConv,         // weighted: Conv, ConvTranspose
  kMatMul,       // Gemm, MatMul
  kAdd,          // Add, Sub: operands rescaled to the output
  kMul,          // Mul
  kConcat,       // all inputs share the output's scale where possible
  kAveragePool,  // AveragePool, GlobalAveragePool, ReduceMean over space
  kUnary,        // an elementwise function of one 8-bit value: becomes a 256-entry table
  kPassive,      // moves or selects values of input 0: the output shares its scale
  kShape,        // produces shapes or indices (SOI)
};

/// How an operator may join others in a group that could run as one (FuseOps), by the input
/// elements that one output element needs.
enum class FusionRule : uint8_t {
  kBroadcast,  // one of every input, at its own position: functions, arithmetic with broadcasting
  kInjective,  // one, from another position: operators that move, select or repeat elements
  kReduction,  // all elements along some axes
  // many, but a function of each result can be computed where it is stored: layers, pools
  kOutFusable,
  kOpaque,  // anything else, such as control flow: the operator stays alone
};

/// For each body, the types of all its inputs, in order, that hold in every iteration, as far as
/// they follow from the types of its node's inputs.
using BodyTypes = std::map<const Graph*, std::vector<ValueType>>;

struct InferContext {
  const Graph& graph;
  const Node& node;
  int opset;                             // of the node's domain
  std::vector<ValueType> inputs;         // dtype kUndefined for an input left out
  std::vector<const Tensor*> constants;  // constant value of the input, or nullptr
  std::vector<ValueType> outputs;        // to be set: one per output slot
  BodyTypes* bodies = nullptr;           // to be set unless nullptr

  bool has(size_t slot) const { return slot < inputs.size() && node.input(slot) != nullptr; }
  const Tensor* constant(size_t slot) const {
    return slot < constants.size() ? constants[slot] : nullptr;
  }
  /// The input's shape, or nullptr when its rank is unknown.
  const SymbolicShape* shape(size_t slot) const {
    return slot < inputs.size() && inputs[slot].shape ? &*inputs[slot].shape : nullptr;
  }
  const AttributeMap& attributes() const { return node.attributes; }
};

/// Runs the bodies of If, Loop and Scan.
class BodyRunner {
 public:
  virtual ~BodyRunner() = default;
  /// Runs a body and returns its outputs. `inputs` has one entry for each input of the body that is
  /// not a constant.
  virtual std::vector<Tensor> Run(const Graph& body, std::span<const Tensor* const> inputs) = 0;
};

struct EvalContext {
  const Node& node;
  int opset;
  RequantizeMode requantize;
  std::span<const Tensor* const> inputs;  // nullptr for an input left out
  std::vector<Tensor> outputs;            // to be set: one per output slot
  BodyRunner* bodies = nullptr;           // nullptr: bodies run by the references
  int onnx_opset = 13;                    // of the ONNX domain
  std::span<const Tensor> places =
      {};  // memory that outputs may be written to, if any; inputs do not share it

  bool has(size_t slot) const { return slot < inputs.size() && inputs[slot] != nullptr; }
  /// Throws kInvalidModel when the input is missing.
  const Tensor& input(size_t slot) const;
  const AttributeMap& attributes() const { return node.attributes; }
  /// A tensor for an output that is written completely: its place if there is one, else a new
  /// tensor.
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
  /// Sets outputs as far as the inputs allow (unknown ranks or dims stay unknown). Throws Error
  /// (kInvalidModel, kShapeMismatch, kTypeMismatch, kUnsupported) for what can never run.
  void (*infer)(InferContext&);
  /// Computes the outputs for concrete inputs of any supported dtype: slow, simple and right.
  void (*evaluate)(EvalContext&);
  QuantRule quant;
  FusionRule fusion = FusionRule::kOpaque;
  /// For an operator that is defined by others: the body that a node stands for, in operators of
  /// the graph's opset. Its inputs are the node's inputs that are not left out, in order, its
  /// outputs the node's outputs (it may have more). Returns nullptr when the form depends on a rank
  /// that is not known yet. Throws kUnsupported for a form that has no body.
  std::unique_ptr<Graph> (*expand)(const Graph&, const Node&) = nullptr;
  /// Rewrites a graph with such nodes, before any pass, to be run (not to be shown, quantized or
  /// exported). Returns whether anything changed.
  bool (*rewrite)(Graph&) = nullptr;
  /// It computes on codes: a graph with such a node is quantized already.
  bool on_integers = false;
  /// Its reference is so slow that a node deserves a plan, even one for shapes of a single run.
  bool expensive = false;
  /// Its results differ from run to run: passes neither compute it nor merge two of it.
  bool random = false;
};

constexpr OpDef OnIntegers(OpDef row) {
  row.on_integers = true;
  row.expensive = true;
  return row;
}
constexpr OpDef Expensive(OpDef row) {
  row.expensive = true;
  return row;
}
constexpr OpDef Random(OpDef row) {
  row.random = true;
  return row;
}

/// All rows, by family.
std::span<const OpDef* const> OpTable();

/// The row of an operator, or nullptr when this engine does not know it.
const OpDef* FindOp(std::string_view name, std::string_view domain);
const OpDef* FindOp(const Node& node);
/// Whether the results of a node differ from run to run.
bool IsRandom(const Node& node);
/// The row of a node's operator. Throws kUnsupported (with the operator's name) for an unknown
/// operator, and kInvalidModel when the model does not import the node's domain or for a wrong
/// number of inputs.
const OpDef& OpOf(const Graph& graph, const Node& node);

/// Runs one node's inference on the graph's current types (constants included). Returns the output
/// types, and through `bodies` the input types of its bodies. Errors carry the node's name.
std::vector<ValueType> InferNode(const Graph& graph, const Node& node, BodyTypes* bodies = nullptr);

/// Evaluates one node on concrete tensors. Errors carry the node's name. Outputs may share the
/// memory of inputs, or lie in `places` (EvalContext).
std::vector<Tensor> EvaluateNode(const Graph& graph, const Node& node,
                                 std::span<const Tensor* const> inputs, RequantizeMode requantize,
                                 BodyRunner* bodies = nullptr, std::span<const Tensor> places = {});

}  // namespace requant
