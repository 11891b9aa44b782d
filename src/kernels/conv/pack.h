#pragma once
// Packing functions and workspace sizes of the convolution rows in table.cpp. Hosted C++.
#include <cstddef>

#include "kernels/conv/table.h"
#include "kernels/conv/winograd/winograd.h"

namespace requant {

// The functions of the 8-bit rows. ConvQ8Kernel says what each does; the source of a kernel
// describes the layout of its weights.
#define ROW(linkage, run, name, isa, missing, space, supports, is_preferred, walk, packed_size, \
            pack_weights, workspace_size)                                                       \
  namespace space {                                                                             \
  bool supports(const ConvQ8Weights& weights, const ConvGeometry& geometry);                    \
  bool is_preferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);                \
  size_t packed_size(const ConvQ8Weights& weights);                                             \
  void pack_weights(const ConvQ8Weights& weights, void* packed);                                \
  size_t workspace_size(const ConvGeometry& geometry);                                          \
  }
#include "kernels/conv/conv_q8.inc"
#undef ROW

namespace conv {

// The reference row of floats packs biases, then weights as [out_c][kernel_h][kernel_w][in_c /
// groups]. (The 8-bit one does so too; its weights become int16 with their zero point subtracted.)
size_t ScalarF32PackedSize(const ConvF32Weights& weights);
void ScalarF32Pack(const ConvF32Weights& weights, void* packed);

// The vector row of floats; vector_f32.cpp describes its layout.
size_t VectorF32PackedSize(const ConvF32Weights& weights);
void VectorF32Pack(const ConvF32Weights& weights, void* packed);
size_t VectorF32Workspace(const ConvGeometry& geometry);

// These pack weights of 16 bits for the float kernel (float/halves.h).
size_t HalvesF32PackedSize(const ConvF32Weights& weights);
void HalvesF32Unpack(const ConvF32Weights& weights, const void* packed, size_t part, void* to);
size_t HalvesF32Workspace(const ConvGeometry& geometry);

/// Codes in blocks of channels, of which each has a header, then groups of elements for one channel
/// after the other: what the inverses of rows have in common.
struct PackedCodes {
  const uint8_t* blocks;
  size_t block_bytes;
  size_t header;         ///< bytes before the elements of a block
  size_t group;          ///< elements of one channel that are neighbors
  size_t element_bytes;  ///< 1 or 2
  int32_t add;           ///< to an element for its value
  size_t middles;        ///< where a block has an int32 to add for each channel, or 0
};
void UnpackCodes(const ConvQ8Weights& weights, const PackedCodes& form, void* to);

// The inverses of the rows that pack matrices of bytes (Q8Unpack).
void Dot7Unpack(const ConvQ8Weights& weights, const void* packed, void* to);
void Dot8Unpack(const ConvQ8Weights& weights, const void* packed, void* to);

// The float row that reads lines in place (vector_f32_lines.cpp), packed as vector_f32.cpp says.
bool LinesF32Supports(const ConvGeometry& geometry);
bool LinesF32IsPreferred(const ConvGeometry& geometry);
size_t LinesF32Workspace(const ConvGeometry& geometry);

/// Whether the weights are a matrix that changes at run time, whose rows lie in memory, and
/// Dot8Pack of such ones (dot8/pack_rows.cpp).
bool AreDynamicRows(const ConvQ8Weights& weights);
void Dot8PackRows(const ConvQ8Weights& weights, void* packed);
/// Whether the weights are a matrix of int8 that changes at run time, whose columns lie in memory
/// in whole groups, and Dot8Pack of such ones.
bool AreDynamicColumns(const ConvQ8Weights& weights);
void Dot8PackColumns(const ConvQ8Weights& weights, void* packed);

/// Whether the row that multiplies whole bytes (dot8.h) is exact where rq_dot8() returns `form`.
bool Dot8Takes(const ConvQ8Weights& weights, int32_t form);

// Rows of 3x3 windows with fewer products (winograd_tiles.h) share the following functions.
/// Whether the window suits `shape` and the sums fit, for weights and inputs that, less their zero
/// points, are at most most_weight and most_input.
bool WinogradFits(const WinogradShape& shape, const ConvQ8Weights& weights,
                  const ConvGeometry& geometry, int32_t most_weight, int32_t most_input);
/// Whether the window suits `shape` and the sums fit, for few bits: weights up to most_weight and
/// at most most_weight_range apart, input codes at most most_input_range apart.
bool WinogradFitsFewBits(const WinogradShape& shape, const ConvQ8Weights& weights,
                         const ConvGeometry& geometry, int32_t most_weight,
                         int32_t most_weight_range, int32_t most_input_range);
/// Whether the output has at least `tiles` tiles, and they cover at most `percent` percent of the
/// outputs (tiles reach beyond the image).
bool WinogradFills(const WinogradShape& shape, const ConvGeometry& geometry, int32_t tiles,
                   int32_t percent);
size_t WinogradWorkspaceOf(const WinogradShape& shape, const ConvGeometry& geometry);

}  // namespace conv
}  // namespace requant
