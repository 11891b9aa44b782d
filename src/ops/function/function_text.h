// Writes the bodies of operators that are defined by other operators (ops/function/function.cpp).
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/str_cat.h"
#include "ir/text.h"
#include "ops/op.h"

namespace requant {

/// A graph's text, written line by line.
class FunctionText {
 public:
  /// The opset of bodies in a model that imports no ONNX operators at all.
  static constexpr int kDefaultOpset = 13;

  /// Begins a body. The first `inputs` inputs of the node are %i0, %i1, ...; inputs that are left
  /// out are not declared.
  FunctionText(const Node& node, int opset);

  /// Says that the text depends on a rank that is not known yet.
  void Wait() { waits_ = true; }
  bool waits() const { return waits_; }

  const Node& node() const { return node_; }
  int opset() const { return opset_; }
  bool Has(size_t slot) const { return node_.input(slot) != nullptr; }
  /// The name of an input in the text.
  static std::string In(size_t slot) { return StrCat("%i", slot); }

  /// Writes a line, or several, one under the other: $0 stands for the first piece
  /// (base/str_cat.h), ?4 for input 4, or _ when that is left out. Only the types of pieces make
  /// instances of the template.
  template <typename... Pieces>
  void Line(const char* line, const Pieces&... pieces) {
    Append(line, {StrPiece(pieces)...});
  }
  void Line(const char* line) { Append(line, {}); }
  /// Writes a float constant.
  void Scalar(const char* name, double value) {
    Line("const %$0: float32[] = {$1}", StrPiece(name), Real(value));
  }
  void Ints(const char* name, std::span<const int64_t> values);
  void Ints(const char* name, std::initializer_list<int64_t> values) {
    Ints(name, std::span(values.begin(), values.size()));
  }
  /// Adds input `slot` to `a` if the node has it; returns the name of the sum.
  std::string Plus(const std::string& a, size_t slot);
  void Output(const std::string& name) { Line("output $0", name); }
  void Output(const char* name) { Line("output $0", StrPiece(name)); }
  /// The node's attributes except those named, in braces.
  std::string AttributesWithout(std::initializer_list<std::string_view> names) const {
    return PrintAttributes(node_.attributes, names);
  }

  static std::string Real(double value);
  const std::string& text() const { return text_; }

 private:
  void Append(const char* line, std::initializer_list<StrPiece> pieces);

  const Node& node_;
  int opset_;
  bool waits_ = false;
  std::string text_;
};

/// The graph that `write` writes for a node; nullptr while the text must wait.
std::unique_ptr<Graph> GraphOfText(const Graph& graph, const Node& node,
                                   void (*write)(FunctionText&));

/// Infers the types of an operator's outputs from its `expand`. While that waits, only a float
/// dtype of input 0 is taken over.
void InferByBody(InferContext& context);
void InferFrom(InferContext& context, const std::unique_ptr<Graph>& body);

/// Evaluates an operator by its `expand`.
void EvaluateByBody(EvalContext& context);

template <void (*write)(FunctionText&)>
std::unique_ptr<Graph> ExpandBy(const Graph& graph, const Node& node) {
  return GraphOfText(graph, node, write);
}

/// The table row of an operator whose body `write` writes.
template <void (*write)(FunctionText&)>
constexpr OpDef FunctionOp(const char* name, const char* domain, int since, int inputs, int most,
                           int outputs = 1, void (*infer)(InferContext&) = InferByBody) {
  return {name,
          domain,
          since,
          inputs,
          most,
          outputs,
          infer,
          EvaluateByBody,
          QuantRule::kFloat,
          FusionRule::kOpaque,
          ExpandBy<write>};
}

/// The bodies in function_attention.cpp: Attention and QAttention of com.microsoft, and
/// MultiHeadAttention with a bias.
void WritePackedAttention(FunctionText& text);
std::unique_ptr<Graph> ExpandMultiHeadAttention(const Graph& graph, const Node& node);

}  // namespace requant
