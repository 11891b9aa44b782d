// Rewrites by example, and what the passes Substitute... have in common.
// Conditions of these: float32. They are optional, since they change results. Quantized sessions
//   read such functions from tables of 256 entries and gain nothing. The graph before is the way
//   back: a caller that may want it keeps the model (Model.substitute gives a new one and leaves
//   the original alone).
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
///   x                              any value, the same wherever it stands
///   g, b                           constants with one number for each place of x's last axis
///   e                              any positive number
///
///   @Op(t)                         of com.microsoft
///   @Silu(t)                       x * Sigmoid(x): Swish, or QuickGelu of com.microsoft, alpha 1
///
/// `after` is built from the same; Op~ has approximate = "tanh", "q=Mul(x,x);" in front names a
/// value. LayerNormalization and its kin take e as their epsilon. A number that is no factor or
/// term is an operand by itself.
struct PatternRule {
  const char* before;
  const char* after;
  int opset;                     // of the ONNX domain, for operators that came late
  const char* unless = nullptr;  // what x must not be: the same, over an x of its own
};

/// Rewrites the expression that `node` is the root of by the first rule that matches. The inner
/// nodes stay for others that read them.
bool ApplyPatterns(Graph& graph, Node* node, std::span<const PatternRule> rules);
/// The same at every node, until there is nothing left to rewrite.
bool RewriteByPatterns(Graph& graph, std::span<const PatternRule> rules);

}  // namespace requant
