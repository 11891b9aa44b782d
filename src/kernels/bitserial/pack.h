#pragma once
// Packing and workspaces of the convolutions on codes of few bits (rows of kernels/conv/table.cpp).
// Hosted C++.
#include <cstddef>

#include "kernels/conv/table.h"

namespace requant::bitserial {

/// Whether convolution by lookup (vector_lookup.cpp) is possible: the input has at most 16
/// neighboring codes, the weights at most four evenly spaced values.
bool LookupSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool LookupIsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t LookupPackedSize(const ConvQ8Weights& weights);
void LookupPack(const ConvQ8Weights& weights, void* packed);
size_t LookupWorkspace(const ConvGeometry& geometry);
/// Whether the kernel makes all outputs of `params` by comparing sums with thresholds
/// (lookup_bits.h): outputs have two codes and the residual at most sixteen. Requantization and
/// residual must be set.
bool LookupCompares(const ConvQ8Params& params);

/// Whether convolution by counting bits (vector_popcount.cpp) is possible. It takes all codes of at
/// most eight bits, and weights that are at most 255 steps of their greatest common divisor apart.
bool PopcountSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool PopcountIsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t PopcountPackedSize(const ConvQ8Weights& weights);
void PopcountPack(const ConvQ8Weights& weights, void* packed);
size_t PopcountWorkspace(const ConvGeometry& geometry);

}  // namespace requant::bitserial
