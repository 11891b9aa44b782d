// Operators that are others written shorter: what their bodies are written with (ops/function.cpp).
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/number_text.h"
#include "base/str_cat.h"
#include "ir/text.h"
#include "ops/op.h"

namespace requant {

/// A graph's text, written line by line.
class FunctionText {
 public:
  /// Of what is spelled out in a model that imports no ONNX operators at all.
  static constexpr int kDefaultOpset = 13;

  /// The first `inputs` inputs of the node are %i0, %i1, ...; what is left out is not declared.
  explicit FunctionText(const Node& node, int opset)
      : node_(node),
        opset_(opset),
        text_(StrCat("graph \"\" opset ", opset, ", com.microsoft 1, ai.requant 1\n")) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i]) text_ += StrCat("input %i", i, "\n");
    }
  }

  /// The text depends on a rank that is not known yet.
  void Wait() { waits_ = true; }
  bool waits() const { return waits_; }

  const Node& node() const { return node_; }
  int opset() const { return opset_; }
  bool Has(size_t slot) const { return node_.input(slot) != nullptr; }
  /// How a node's text names an input.
  static std::string In(size_t slot) { return StrCat("%i", slot); }

  void Line(const std::string& line) { text_ += line + "\n"; }
  /// A float constant.
  void Scalar(const char* name, double value) {
    Line(StrCat("const %", name, ": float32[] = {", Real(value), "}"));
  }
  void Ints(const char* name, const std::vector<int64_t>& values) {
    std::string list;
    for (const int64_t value : values) list += StrCat(list.empty() ? "" : ", ", value);
    Line(StrCat("const %", name, ": int64[", values.size(), "] = {", list, "}"));
  }
  /// Sums `a` and input `slot` if that is there; returns the name of the sum.
  std::string Plus(const std::string& a, size_t slot) {
    if (!Has(slot)) return a;
    std::string sum = StrCat(a, "_plus", slot);
    Line(StrCat(sum, " = Add(", a, ", ", In(slot), ")"));
    return sum;
  }
  void Output(const std::string& name) { text_ += "output " + name + "\n"; }
  /// The node's attributes but for those named, in braces.
  std::string AttributesWithout(std::initializer_list<std::string_view> names) const {
    return PrintAttributes(node_.attributes, names);
  }

  static std::string Real(double value) {
    std::string text = NumberText(value, 9);
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    return text;
  }
  const std::string& text() const { return text_; }

 private:
  const Node& node_;
  int opset_;
  bool waits_ = false;
  std::string text_;
};

/// The graph that `write` writes for a node; nullptr when it has to wait.
std::unique_ptr<Graph> GraphOfText(const Graph& graph, const Node& node,
                                   void (*write)(FunctionText&));

/// The reference of an operator by what its `expand` gives.
void EvaluateByBody(EvalContext& context);

/// Bodies of function_attention.cpp: Attention of com.microsoft, and MultiHeadAttention with a
/// bias.
void WritePackedAttention(FunctionText& text);
std::unique_ptr<Graph> ExpandMultiHeadAttention(const Graph& graph, const Node& node);

}  // namespace requant
