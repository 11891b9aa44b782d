// Moves a per-channel affine map into the weights of the layer before it.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// The output channels of a Conv, ConvTranspose (one group), Gemm or MatMul with constant float32
/// weights (and constant bias, if any); 0 for any other node.
int64_t FoldableChannels(const Node& node);

/// Applies y -> y * scale[c] + shift[c] to the node's output channels c by rewriting its constants:
///   W'[c] = W[c] * scale[c],  b'[c] = b[c] * scale[c] + shift[c]       (in double)
/// scale and shift have FoldableChannels(node) elements. A MatMul of a 2-D input becomes a Gemm
/// when it gets a bias. Returns false and does nothing when the node cannot take the map.
bool FoldIntoLinear(Graph& graph, Node* node, const std::vector<double>& scale,
                    const std::vector<double>& shift);

/// Applies x -> x * scale[c] + shift[c] to the input channels c by rewriting the node's constants:
///   W'[o, c] = W[o, c] * scale[c],  b'[o] = b[o] + sum over c and the window of W[o, c] * shift[c]
/// The caller ensures that no output reads padding when there is a shift.
bool FoldIntoLinearInput(Graph& graph, Node* node, const std::vector<double>& scale,
                         const std::vector<double>& shift);
/// The number of input channels that FoldIntoLinearInput scales; 0 when the node cannot take it.
int64_t FoldableInputChannels(const Node& node);

/// The constant as one number per channel, if its broadcast against a value of that rank varies
/// only along `axis` (of `channels` elements) and does not widen the value.
std::optional<std::vector<double>> PerChannel(const Tensor& constant, int64_t rank, int64_t axis,
                                              int64_t channels);

}  // namespace requant
