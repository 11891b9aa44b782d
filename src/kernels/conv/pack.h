#pragma once
// Packing functions and workspace sizes of the convolution rows (see table.cpp). Hosted C++.
#include <cstddef>

#include "kernels/conv/table.h"
#include "kernels/conv/winograd.h"

namespace requant::conv {

// Reference rows: biases, then weights as [out_c][kernel_h][kernel_w][in_c / groups]; the 8-bit
// weights as int16 with their zero point already subtracted.
size_t ScalarF32PackedSize(const ConvF32Weights& weights);
void ScalarF32Pack(const ConvF32Weights& weights, void* packed);
size_t ScalarQ8PackedSize(const ConvQ8Weights& weights);
void ScalarQ8Pack(const ConvQ8Weights& weights, void* packed);
size_t NoWorkspace(const ConvGeometry& geometry);

// Vector rows (vector_f32.cpp, vector_q8.cpp describe the layouts).
size_t VectorF32PackedSize(const ConvF32Weights& weights);
void VectorF32Pack(const ConvF32Weights& weights, void* packed);
size_t VectorF32Workspace(const ConvGeometry& geometry);
size_t VectorQ8PackedSize(const ConvQ8Weights& weights);
void VectorQ8Pack(const ConvQ8Weights& weights, void* packed);
size_t VectorQ8Workspace(const ConvGeometry& geometry);

// The row that reads lines in place (vector_f32_lines.cpp); packed like the other.
bool LinesF32Supports(const ConvGeometry& geometry);
bool LinesF32Pays(const ConvGeometry& geometry);
size_t LinesF32Workspace(const ConvGeometry& geometry);

// The row for few input channels (vector_q8_lines.cpp); one group, no dilation.
bool LinesSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool LinesPays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t LinesPackedSize(const ConvQ8Weights& weights);
void LinesPack(const ConvQ8Weights& weights, void* packed);
size_t LinesWorkspace(const ConvGeometry& geometry);

// The 7-bit row (vector_dot7.cpp).
bool Dot7Supports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t BytesPackedSize(const ConvQ8Weights& weights);
void Dot7Pack(const ConvQ8Weights& weights, void* packed);
size_t Dot7Workspace(const ConvGeometry& geometry);
bool Dot7LinesSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool Dot7LinesPays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t BytesLinesPackedSize(const ConvQ8Weights& weights);
void Dot7LinesPack(const ConvQ8Weights& weights, void* packed);
size_t Dot7LinesWorkspace(const ConvGeometry& geometry);

// The row that multiplies whole bytes (dot8.h), packed like the 7-bit one.
bool Dot8Supports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
/// Whether it is right where rq_dot8() is `form`.
bool Dot8Takes(const ConvQ8Weights& weights, int32_t form);
void Dot8Pack(const ConvQ8Weights& weights, void* packed);
size_t Dot8Workspace(const ConvGeometry& geometry);
bool Dot8LinesSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool Dot8LinesPays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
void Dot8LinesPack(const ConvQ8Weights& weights, void* packed);
size_t Dot8LinesWorkspace(const ConvGeometry& geometry);

// The rows of fewer bits (vector_narrow.cpp); pack_narrow.cpp.
bool NarrowPays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool NarrowInputsSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t NarrowInputsPackedSize(const ConvQ8Weights& weights);
void NarrowInputsPack(const ConvQ8Weights& weights, void* packed);
bool NarrowWeightsSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t NarrowWeightsPackedSize(const ConvQ8Weights& weights);
void NarrowWeightsPack(const ConvQ8Weights& weights, void* packed);
size_t NarrowWorkspace(const ConvGeometry& geometry);

// The rows of 3x3 windows with fewer products (winograd_tiles.h), of eight bits and, by
// pack_winograd_narrow.cpp, of few.
/// Whether window and sums fit, of weights and inputs, less their zero points, up to these.
bool WinogradFits(const WinogradShape& shape, const ConvQ8Weights& weights,
                  const ConvGeometry& geometry, int32_t most_weight, int32_t most_input);
/// The same for weights of few bits, at most so large and so far apart, and codes so far apart.
bool WinogradFitsFewBits(const WinogradShape& shape, const ConvQ8Weights& weights,
                         const ConvGeometry& geometry, int32_t most_weight,
                         int32_t most_weight_range, int32_t most_input_range);
/// Whether there are so many tiles or more, and they have at most so many percent of the outputs.
bool WinogradFills(const WinogradShape& shape, const ConvGeometry& geometry, int32_t tiles,
                   int32_t percent);
size_t WinogradWorkspaceOf(const WinogradShape& shape, const ConvGeometry& geometry);
bool WinogradPairsSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool WinogradPairsPays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t WinogradPairsPackedSize(const ConvQ8Weights& weights);
void WinogradPairsPack(const ConvQ8Weights& weights, void* packed);
size_t WinogradPairsWorkspace(const ConvGeometry& geometry);
// With a stride of 2, packed like that.
bool WinogradStridedPairsSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool WinogradStridedPairsPays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t WinogradStridedPairsWorkspace(const ConvGeometry& geometry);
// Of 4 x 4 outputs, packed like that.
bool Winograd4x4PairsSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool Winograd4x4PairsPays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t Winograd4x4PairsWorkspace(const ConvGeometry& geometry);
bool WinogradNarrowSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool WinogradNarrowPays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool WinogradDot8Pays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t WinogradNarrowPackedSize(const ConvQ8Weights& weights);
void WinogradNarrowPack(const ConvQ8Weights& weights, void* packed);
void WinogradDot8Pack(const ConvQ8Weights& weights, void* packed);
size_t WinogradNarrowWorkspace(const ConvGeometry& geometry);
// With a stride of 2, of the same size.
bool WinogradStridedNarrowSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool WinogradStridedNarrowPays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool WinogradStridedDot8Pays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
void WinogradStridedNarrowPack(const ConvQ8Weights& weights, void* packed);
void WinogradStridedDot8Pack(const ConvQ8Weights& weights, void* packed);
size_t WinogradStridedNarrowWorkspace(const ConvGeometry& geometry);
bool Winograd4x3Dot8Supports(const ConvQ8Weights& weights, const ConvGeometry& geometry);
bool Winograd4x3Dot8Pays(const ConvQ8Weights& weights, const ConvGeometry& geometry);
size_t Winograd4x3Dot8PackedSize(const ConvQ8Weights& weights);
void Winograd4x3Dot8Pack(const ConvQ8Weights& weights, void* packed);
size_t Winograd4x3Dot8Workspace(const ConvGeometry& geometry);

}  // namespace requant::conv
