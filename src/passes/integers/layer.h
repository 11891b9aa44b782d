// The parts of a convolution that is written in plain integer operators.
#pragma once

#include <cstdint>
#include <vector>

#include "passes/integers/writer.h"

namespace requant::integers {

/// A convolution with constant weights [channels, ...].
struct Layer {
  Value* x;
  Value* w;
  Operand qx, qw;
  int64_t channels;
  int64_t taps;             ///< of one output channel
  Shape shape;              ///< of numbers for each channel
  AttributeMap attributes;  ///< those of ConvInteger
};

/// The layer's output: sums of products in either decomposition, the bias, and the multipliers.
/// `pads` are the pads of the window, begins before ends. Erases the writer's node.
void FinishLayer(Writer& writer, const Layer& layer, const std::vector<int64_t>& pads,
                 const Tensor* bias, const Output& to);

}  // namespace requant::integers
