#pragma once
// Declares the functions that convolutions on codes of few bits (rows of kernels/conv/table.cpp)
// offer to other sources.
// Hosted C++.
#include <cstddef>

#include "kernels/conv/pack.h"
#include "kernels/conv/table.h"

namespace requant::bitserial {

// kernels/conv/pack.h declares the functions of the rows. Convolution by lookup
// (vector_lookup.cpp) takes inputs of at most 16 neighboring codes and weights of at most four
// evenly spaced values. Counting of bits (vector_popcount.cpp) takes all codes of at most eight
// bits, and weights that are at most 255 steps of their greatest common divisor apart.

/// Whether the kernel by lookup makes all outputs of `params` by comparing sums with thresholds
/// (lookup_bits.h): outputs have two codes and the residual at most sixteen. Requantization and
/// residual must be set.
bool LookupCompares(const ConvQ8Params& params);

}  // namespace requant::bitserial
