#pragma once
// Packing functions and workspace sizes of the convolution rows in table.cpp. Hosted C++.
#include <cstddef>

#include "kernels/conv/table.h"
#include "kernels/conv/winograd/winograd.h"

namespace requant::conv {

// The reference rows pack biases, then weights as [out_c][kernel_h][kernel_w][in_c / groups]; 8-bit
// weights become int16 with their zero point subtracted.
size_t ScalarF32PackedSize(const ConvF32Weights& weights);
void ScalarF32Pack(const ConvF32Weights& weights, void* packed);
size_t ScalarQ8PackedSize(const ConvQ8Weights& weights);
void ScalarQ8Pack(const ConvQ8Weights& weights, void* packed);
size_t NoWorkspace(const ConvGeometry& geometry);

// The vector rows; vector_f32.cpp and vector_q8.cpp describe their layouts.
size_t VectorF32PackedSize(const ConvF32Weights& weights);
void VectorF32Pack(const ConvF32Weights& weights, void* packed);
size_t VectorF32Workspace(const ConvGeometry& geometry);
size_t VectorQ8PackedSize(const ConvQ8Weights& weights);
void VectorQ8Pack(const ConvQ8Weights& weights, void* packed);
size_t VectorQ8Workspace(const ConvGeometry& geometry);

// The float row that reads lines in place (vector_f32_lines.cpp), packed as vector_f32.cpp says.
bool LinesF32Supports(const ConvGeometry& geometry);
bool LinesF32IsPreferred(const ConvGeometry& geometry);
size_t LinesF32Workspace(const ConvGeometry& geometry);

// The 8-bit row for few input channels (vector_q8_lines.cpp): one group, no dilation.
bool LinesSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool LinesIsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t LinesPackedSize(const ConvQ8Weights& weights);
void LinesPack(const ConvQ8Weights& weights, void* packed);
size_t LinesWorkspace(const ConvGeometry& geometry);

// The 7-bit row (vector_dot7.cpp).
bool Dot7Supports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t BytesPackedSize(const ConvQ8Weights& weights);
void Dot7Pack(const ConvQ8Weights& weights, void* packed);
size_t Dot7Workspace(const ConvGeometry& geometry);
bool Dot7LinesSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool Dot7LinesIsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t BytesLinesPackedSize(const ConvQ8Weights& weights);
void Dot7LinesPack(const ConvQ8Weights& weights, void* packed);
size_t Dot7LinesWorkspace(const ConvGeometry& geometry);

// The row that multiplies whole bytes (dot8.h), packed as the 7-bit row.
bool Dot8Supports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
/// Whether the row is exact where rq_dot8() returns `form`.
bool Dot8Takes(const ConvQ8Weights& weights, int32_t form);
void Dot8Pack(const ConvQ8Weights& weights, void* packed);
size_t Dot8Workspace(const ConvGeometry& geometry);
bool Dot8LinesSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool Dot8LinesIsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
void Dot8LinesPack(const ConvQ8Weights& weights, void* packed);
size_t Dot8LinesWorkspace(const ConvGeometry& geometry);

// The rows of fewer bits (vector_narrow.cpp), packed by pack_narrow.cpp.
bool NarrowIsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool NarrowInputsSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t NarrowInputsPackedSize(const ConvQ8Weights& weights);
void NarrowInputsPack(const ConvQ8Weights& weights, void* packed);
bool NarrowWeightsSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t NarrowWeightsPackedSize(const ConvQ8Weights& weights);
void NarrowWeightsPack(const ConvQ8Weights& weights, void* packed);
size_t NarrowWorkspace(const ConvGeometry& geometry);

// The rows of 3x3 windows with fewer products (winograd_tiles.h): of eight bits here, of few bits
// in pack_winograd_narrow.cpp.
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
bool WinogradPairsSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool WinogradPairsIsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t WinogradPairsPackedSize(const ConvQ8Weights& weights);
void WinogradPairsPack(const ConvQ8Weights& weights, void* packed);
size_t WinogradPairsWorkspace(const ConvGeometry& geometry);
// The pairs row with a stride of 2, packed as the one without.
bool WinogradStridedPairsSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool WinogradStridedPairsIsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t WinogradStridedPairsWorkspace(const ConvGeometry& geometry);
// The pairs row of 4 x 4 outputs, packed as the one of 2 x 2.
bool Winograd4x4PairsSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool Winograd4x4PairsIsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t Winograd4x4PairsWorkspace(const ConvGeometry& geometry);
bool WinogradNarrowSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool WinogradNarrowIsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool WinogradDot8IsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t WinogradNarrowPackedSize(const ConvQ8Weights& weights);
void WinogradNarrowPack(const ConvQ8Weights& weights, void* packed);
void WinogradDot8Pack(const ConvQ8Weights& weights, void* packed);
size_t WinogradNarrowWorkspace(const ConvGeometry& geometry);
// The rows of few bits with a stride of 2, whose packed size is that of the rows without.
bool WinogradStridedNarrowSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool WinogradStridedNarrowIsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool WinogradStridedDot8IsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
void WinogradStridedNarrowPack(const ConvQ8Weights& weights, void* packed);
void WinogradStridedDot8Pack(const ConvQ8Weights& weights, void* packed);
size_t WinogradStridedNarrowWorkspace(const ConvGeometry& geometry);
bool Winograd4x3Dot8Supports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool Winograd4x3Dot8IsPreferred(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t Winograd4x3Dot8PackedSize(const ConvQ8Weights& weights);
void Winograd4x3Dot8Pack(const ConvQ8Weights& weights, void* packed);
size_t Winograd4x3Dot8Workspace(const ConvGeometry& geometry);

}  // namespace requant::conv
