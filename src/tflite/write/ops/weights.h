// Weights and biases of convolutions and dense layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tflite/write/writer.h"

namespace requant::tflite {

/// The weights of a layer on codes: nullopt where LiteRT has no layer for them (computed ones;
/// several zero points; scales along another dimension than `axis`; uint8 with several scales).
std::optional<ConstantCodes> LayerCodes(const Writer& writer, const Value* weights, int64_t axis);

/// Adds weights of int8 (uint8 if the file's codes are), in the order and shape of the file, with
/// their scales along its dimension `axis`. The code -128, which LiteRT's layers must not have,
/// becomes -127, with a note.
int32_t AddCodeWeights(Writer& writer, const std::string& name, ConstantCodes weights,
                       const Tensor& arranged, int32_t axis);

/// Adds float weights, in the order and shape of the file. Those that are codes in the graph
/// (`codes`) are codes in the file as well, behind a DEQUANTIZE.
int32_t AddFloatWeights(Writer& writer, const Value* weights,
                        const std::optional<ConstantCodes>& codes, const Tensor& arranged,
                        int32_t axis);

/// Adds an int32 bias with the scales `input_scale` * `scales`. Its codes are those of the graph if
/// they have these scales, else rounded from its numbers. Zeros if `bias` is nullptr. Throws
/// kUnsupported for numbers beyond int32.
int32_t AddCodeBias(Writer& writer, const Value* bias, int64_t count, float input_scale,
                    const std::vector<float>& scales);

/// Adds a float bias of `count` numbers; zeros if `bias` is nullptr.
int32_t AddFloatBias(Writer& writer, const Value* bias, int64_t count);

}  // namespace requant::tflite
