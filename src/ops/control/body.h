// The bodies of If, Loop and Scan: a body sees the values around it as inputs of its own, which
// follow the formal ones (Graph::captured).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/control/subgraph.h"
#include "ops/op.h"

namespace requant {

/// The graph in an attribute. Throws kInvalidModel where there is none.
const Graph& BodyOf(const Node& node, const char* name);

/// Checks a body's numbers of inputs and outputs, and that the node has the inputs that the body
/// captures.
void CheckBody(const Node& node, const Graph& body, size_t inputs, size_t outputs);

/// The types of a body's outputs by those of its formal inputs.
std::vector<ValueType> InferBody(const InferContext& context, const Graph& body,
                                 std::vector<ValueType> types);

/// Runs a body; `formal` are its inputs before the captured ones.
std::vector<Tensor> RunBody(EvalContext& context, const Graph& body,
                            std::vector<const Tensor*> formal);

/// The types of a body's outputs where no iteration runs: inferred from formal inputs of these
/// types and the captured values, else as the body declares them.
std::vector<ValueType> TypesOfNone(const EvalContext& context, const Graph& body,
                                   std::vector<ValueType> types);

/// The value of a tensor of one boolean. Throws kShapeMismatch for others.
bool ConditionOf(const Tensor& tensor);

/// The shape that holds for both: one rank, and the sizes that agree.
std::optional<SymbolicShape> CommonShape(const std::optional<SymbolicShape>& a,
                                         const std::optional<SymbolicShape>& b);

/// Tensors of one shape, collected along a new axis: what the iterations of Loop and Scan give.
class Stack {
 public:
  explicit Stack(int64_t limit) : limit_(limit) {}

  /// Throws kShapeMismatch for a tensor of another type or shape than the first.
  void Add(const Tensor& tensor);
  bool empty() const { return count_ == 0; }
  /// The tensors stacked along the first axis, with `reverse` the last first. `type` is the type of
  /// an element when there is none; its unknown sizes are 0 then, as in ONNX Runtime.
  Tensor Finish(bool reverse, const ValueType& type) const;

 private:
  int64_t limit_;
  DType dtype_ = DType::kUndefined;
  Shape shape_;
  int64_t count_ = 0;
  std::vector<uint8_t> bytes_;
};

}  // namespace requant
