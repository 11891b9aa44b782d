#pragma once
// Packing and workspaces of the convolutions of few-bit codes (rows of kernels/conv/table.cpp).
// Hosted C++.
#include <cstddef>

#include "kernels/conv/table.h"

namespace requant::bitserial {

/// Whether convolution by lookup (vector_lookup.cpp) is possible: at most 16 neighbouring codes of
/// the input, weights of at most four evenly spaced values.
bool LookupSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool LookupPays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t LookupPackedSize(const ConvQ8Weights& weights);
void LookupPack(const ConvQ8Weights& weights, void* packed);
size_t LookupWorkspace(const ConvGeometry& geometry);
/// Whether all outputs of `params`, whose requantization and residual are set, are made by
/// comparing sums with thresholds (lookup_bits.h): two codes, and of the residual sixteen at most.
bool LookupCompares(const ConvQ8Params& params);

/// Convolution by counting bits (vector_popcount.cpp) takes all codes of eight bits or fewer, and
/// weights that are at most 255 steps of their greatest common divisor apart.
bool PopcountSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool PopcountPays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t PopcountPackedSize(const ConvQ8Weights& weights);
void PopcountPack(const ConvQ8Weights& weights, void* packed);
size_t PopcountWorkspace(const ConvGeometry& geometry);

}  // namespace requant::bitserial
