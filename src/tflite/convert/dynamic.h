// Layers of float activations and weights of codes ("dynamic range" files): the activations become
// codes while the model runs, and integers are multiplied.
#pragma once

#include "tflite/converter.h"

namespace requant::tflite {

/// Whether the activations of a layer are floats and its weights constant codes of 4 or 8 bits
/// whose zero points are 0, with one scale, or one for each index of the dimension `axis`. False
/// for a file that is read with float layers.
bool IsDynamicLayer(Context& context, size_t input, size_t weights, int64_t axis);

/// The product of float rows [..., k] and weights [n, k] in slot `weights`, with the bias in slot
/// `bias` if there is one: y = s (Q(x / s) - z) W^T + b, with a scale s and a zero point z for each
/// row.
Value* DynamicProduct(Context& context, Value* rows, bool one_row, size_t weights, size_t bias);

/// The convolution of the planar image in slot 0 with the weights in slot 1, whose dimensions are
/// permuted to ONNX's order. Each image has its scale, but those of open size behind SAME padding,
/// which share one.
Value* DynamicConv(Context& context, const std::vector<int64_t>& perm, AttributeMap attributes,
                   size_t bias);

}  // namespace requant::tflite
