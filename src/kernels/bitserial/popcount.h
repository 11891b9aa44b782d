#pragma once
// Constants and layouts that the packing, the workspace and the vector kernels of convolution by
// counting bits share. Freestanding; vector_popcount.cpp describes the arithmetic.
#include <stdint.h>

#include "kernels/conv/blocking.h"
#include "kernels/geometry.h"

namespace requant::bitserial {

/// Elements of k in one word of a plane.
inline constexpr int32_t kWordBits = 32;
inline constexpr int32_t kMostPlanes = 8;
/// Bytes of one word for each of the 8 channels of a block.
inline constexpr int32_t kBlockWordBytes = conv::kChannelBlock * kWordBits / 8;

/// The first bytes of the packed weights. For every group and block of 8 channels follow 8 biases,
/// 8 sums of weights, and for every plane of weights, lowest bit first, the words of k, each of 8
/// channels.
struct PopcountHeader {
  int32_t offset, scale;  ///< w = offset + scale * u
  int32_t planes;         ///< bits of u
  int32_t input_planes;   ///< bits of (code - input_lo)
  int32_t input_lo;
  int32_t reserved[3];
};

/// Words of one plane under one output's window.
inline int32_t PopcountWords(const ConvGeometry& g) {
  return (conv::Depth(g) + kWordBits - 1) / kWordBits;
}

/// Rows of bits that are gathered at a time, so that all their planes fill at most half a
/// first-level cache.
inline int32_t PopcountRows(const ConvGeometry& g) {
  return conv::PanelRows(g, PopcountWords(g) * (kWordBits / 8) * 2);
}

/// Bytes of the parts of the workspace, in this order.
struct PopcountParts {
  int32_t acc;    ///< int32 [kEpilogueRows][8]
  int32_t bytes;  ///< codes under one window
  int32_t sums;   ///< int32 [rows]: sums of codes
  int32_t bits;   ///< [rows][planes][words]
};

inline PopcountParts PopcountPartsOf(const ConvGeometry& g) {
  const int32_t words = PopcountWords(g), rows = PopcountRows(g);
  return {conv::kEpilogueBytes, words * kWordBits, (rows * 4 + 15) & ~15,
          rows * kMostPlanes * words * (kWordBits / 8)};
}

}  // namespace requant::bitserial
