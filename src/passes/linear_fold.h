// Moving a per-channel affine map into the weights of the layer that feeds it.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// Output channels of a Conv, ConvTranspose (one group), Gemm or MatMul with constant float32
/// weights (and constant bias, if any), or 0 when the node is something else.
int64_t FoldableChannels(const Node& node);

/// y -> y * scale[c] + shift[c] for the node's output channels c, by rewriting its constants:
///   W'[c] = W[c] * scale[c],  b'[c] = b[c] * scale[c] + shift[c]       (in double)
/// scale and shift have FoldableChannels(node) elements. A MatMul of a 2-D input becomes a Gemm
/// when it gets a bias. Returns false, with nothing done, when the node has no place for it.
bool FoldIntoLinear(Graph& graph, Node* node, const std::vector<double>& scale,
                    const std::vector<double>& shift);

/// x -> x * scale[c] + shift[c] for the input channels c, in the same way:
///   W'[o, c] = W[o, c] * scale[c],  b'[o] = b[o] + sum over c and the window of W[o, c] * shift[c]
/// The caller sees to it that no output reads padding when there is a shift.
bool FoldIntoLinearInput(Graph& graph, Node* node, const std::vector<double>& scale,
                         const std::vector<double>& shift);
/// How many input channels that is; 0 when the node cannot take it.
int64_t FoldableInputChannels(const Node& node);

/// The constant as one number per channel, when broadcasting it against a value of that rank varies
/// along `axis` (of `channels` elements) only and does not widen the value.
std::optional<std::vector<double>> PerChannel(const Tensor& constant, int64_t rank, int64_t axis,
                                              int64_t channels);

}  // namespace requant
