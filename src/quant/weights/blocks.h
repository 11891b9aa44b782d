// Weights of products in blocks along k that share a scale and a zero point.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "quant/weights/input_products.h"
#include "quant/weights/products.h"
#include "quant/weights/weight_only.h"
#include "tensor/tensor.h"

namespace requant {

/// Stands for the weight (code - zero) * scale.
struct BlockedWeights {
  int64_t k = 0, n = 0, block = 0;
  int bits = 4;
  std::vector<uint8_t> codes;  // [n][k], from 0 to 2^bits - 1
  std::vector<float> scales;   // [n][blocks]
  std::vector<uint8_t> zeros;  // [n][blocks]

  int64_t blocks() const { return (k + block - 1) / block; }
  size_t BlockOf(int64_t column, int64_t row) const {
    return static_cast<size_t>(column * blocks() + row / block);
  }
  float At(int64_t column, int64_t row) const {
    const size_t of = BlockOf(column, row);
    const int code = codes[static_cast<size_t>(column * k + row)];
    return static_cast<float>(code - zeros[of]) * scales[of];
  }
};

/// Chooses scales (and zero points, unless symmetric) of least squared error and rounds to the
/// nearest code. The error of row k of the weights counts `power[k]` times; once if it is empty.
BlockedWeights RoundToBlocks(const Product& product, const WeightOnlyOptions& options,
                             const std::vector<double>& power = {});

/// Chooses the codes anew, on the scales and zero points that `weights` has, so that the output of
/// the product has the least error: every code makes up for the errors of those before it (GPTQ,
/// arXiv 2210.17323, in the form of recover/weights/round_weights.cpp). Rows are decided in the
/// order of decreasing power of their inputs. Returns false, and changes nothing, where inputs
/// are constant.
bool RoundWithFeedback(const Product& product, const InputProducts& inputs,
                       BlockedWeights& weights);

/// E[((w - q) x)^2] / E[(w x)^2] over at most 64 columns that are spread over all of them.
double OutputError(const Product& product, const InputProducts& inputs,
                   const BlockedWeights& weights);

/// The tensors of a blocked DequantizeLinear: codes and zero points of int4 or int8 around 0 if
/// symmetric, else uint4 or uint8, with the dimensions of the product's weights.
Tensor DequantizeCodes(const Product& product, const BlockedWeights& weights, bool symmetric);
Tensor DequantizeScales(const Product& product, const BlockedWeights& weights);
Tensor DequantizeZeros(const Product& product, const BlockedWeights& weights);

/// The tensors of com.microsoft::MatMulNBits: codes [n, blocks, bytes], scales [n * blocks], zero
/// points [n * bytes], packed without gaps from the lowest bits on.
Tensor PackedCodes(const BlockedWeights& weights);
Tensor PackedScales(const BlockedWeights& weights);
Tensor PackedZeros(const BlockedWeights& weights);

}  // namespace requant
