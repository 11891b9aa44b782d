// Rewrites by example, for the passes Substitute...
// Conditions: float32. These passes are optional, since they change results. Quantized sessions
//   read such functions from tables of 256 entries and gain nothing. There is no way back but the
//   graph before: a caller that may want it keeps the model (Model.substitute gives a new one and
//   leaves the original alone).
#pragma once

#include <span>

#include "ir/graph.h"

namespace requant {

/// A rewrite by example: float32 expressions over one value x.
///
///   Mul(0.5, x, Add(1, Erf(...)))  products and sums match in any order and grouping; so do
///                                  division by a constant, subtraction of one and Pow(x, 2 or 3)
///   Clip(t, 0, 6)                  any spelling of a clamp
///   Mean(t)                        ReduceMean over the last axis, which is kept
///   HardSigmoid(t)                 with alpha = 1/6 and beta = 0.5
///   x                              any value, the same at every occurrence
///   g, b                           constants with one number for each element of x's last axis
///   e                              any positive number
///
///   @Op(t)                         of com.microsoft
///   @Silu(t)                       x * Sigmoid(x): Swish, or QuickGelu of com.microsoft, alpha 1
///
/// `after` uses the same expressions; Op~ has approximate = "tanh", and "q=Mul(x,x);" in front
/// names a value. LayerNormalization and similar operators take e as their epsilon. A number that
/// is no factor or term is an operand by itself.
struct PatternRule {
  const char* before;
  const char* after;
  int opset;  // oldest opset of the ONNX domain that has the operators of `after`
  const char* unless = nullptr;  // an expression, over an x of its own, that x must not match
};

/// Rewrites the expression whose root is `node` by the first rule that matches. Inner nodes remain
/// for others that read them.
bool ApplyPatterns(Graph& graph, Node* node, std::span<const PatternRule> rules);
/// Applies the rules at every node until nothing matches.
bool RewriteByPatterns(Graph& graph, std::span<const PatternRule> rules);

}  // namespace requant
