// Integer arithmetic in the open: quantized operators become ONNX's plain integer operators and
// ai.requant::FixedPointMultiply.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "numeric/requantize.h"

namespace requant {

/// How a product of codes with zero points is expressed.
enum class Decomposition : uint8_t {
  /// sum((qx - zx) * (qw - zw)): the zero points are inputs of ConvInteger and MatMulInteger.
  kSubtractFirst,
  /// sum(qx * qw) - zw * sum(qx) - zx * sum(qw) + K * zx * zw: products have no zero points, and
  /// the last two terms are part of the bias where the weights are constant.
  kFourTerms,
};

struct IntegerForm {
  Decomposition decomposition = Decomposition::kSubtractFirst;
  /// The arithmetic that FixedPointMultiply writes down; not kFloat.
  RequantizeMode requantize = RequantizeMode::kUpward;
};

/// A quantized operator of the graph that was given.
struct IntegerNode {
  std::string name;
  std::string op;
  std::string reason;  // why the operator stays; empty for one that was rewritten
};

struct IntegerReport {
  std::vector<IntegerNode> legalized;
  std::vector<IntegerNode> left;
};

/// Rewrites every operator that carries scales and zero points (QLinearConv, QLinearConvTranspose,
/// QLinearMatMul, QGemm, QLinearAdd, QLinearMul, QLinearAveragePool, QLinearGlobalAveragePool,
/// QLinearConcat):
///
///   sums   = ConvInteger or MatMulInteger, ReduceSum, or Add of centered codes
///   sums   = Add(sums, int32 bias)
///   steps  = ai.requant::FixedPointMultiply(sums, multiplier, shift)
///   output = Cast(Add(Clip(steps, lo - z, hi - z), z))
///
/// The output is bit for bit what the operator computes in mode `form.requantize`. Nodes keep their
/// order and outputs their names; new values are named after the node. An operator whose parameters
/// are not constant, or that has no form here, stays and is listed with the reason; those inside
/// bodies of If, Loop and Scan stay as well. Needs a typed graph of opset 13 or newer. Throws
/// kUnsupported for an older opset, and kInvalidArgument for mode kFloat.
IntegerReport LegalizeToIntegers(Graph& graph, const IntegerForm& form);

}  // namespace requant
