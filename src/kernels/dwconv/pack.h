#pragma once
// Packing functions and workspace sizes of the depthwise rows in table.cpp. Hosted C++.
#include <cstddef>

#include "kernels/dwconv/table.h"

namespace requant::dwconv {

// The reference rows pack biases, then weights as [channel][kernel_h][kernel_w]; 8-bit weights
// become int16 with their zero point subtracted.
size_t ScalarF32PackedSize(const DwConvF32Weights& weights);
void ScalarF32Pack(const DwConvF32Weights& weights, void* packed);
size_t ScalarQ8PackedSize(const DwConvQ8Weights& weights);
void ScalarQ8Pack(const DwConvQ8Weights& weights, void* packed);
size_t NoWorkspace(const ConvGeometry& geometry);

// The vector rows; vector_f32.cpp and vector_q8.cpp describe their layouts.
size_t VectorF32PackedSize(const DwConvF32Weights& weights);
void VectorF32Pack(const DwConvF32Weights& weights, void* packed);
size_t VectorF32Workspace(const ConvGeometry& geometry);
size_t VectorQ8PackedSize(const DwConvQ8Weights& weights);
void VectorQ8Pack(const DwConvQ8Weights& weights, void* packed);
size_t VectorQ8Workspace(const ConvGeometry& geometry);

// The row that multiplies whole bytes (dot8.h). Weights less their zero points must fit int8.
bool Dot8Supports(const DwConvQ8Weights& weights);
/// Whether the row is exact where rq_dot8() returns `form`.
bool Dot8Takes(const DwConvQ8Weights& weights, int32_t form);
size_t Dot8PackedSize(const DwConvQ8Weights& weights);
void Dot8Pack(const DwConvQ8Weights& weights, void* packed);
/// The affine row multiplies whole bytes, too, and takes weights of nine bits, such as those with
/// zero points: it packs them less the middle of their channel's range. It supports weights of
/// which few channels need that.
bool Dot8AffineSupports(const DwConvQ8Weights& weights);
void Dot8AffinePack(const DwConvQ8Weights& weights, void* packed);
size_t Dot8Workspace(const ConvGeometry& geometry);

// The row of few bits (vector_narrow.cpp), packed by pack_narrow.cpp. Its workspace is that of the
// 8-bit row plus a byte for each accumulator.
bool NarrowSupports(const DwConvQ8Weights& weights);
size_t NarrowPackedSize(const DwConvQ8Weights& weights);
void NarrowPack(const DwConvQ8Weights& weights, void* packed);
size_t NarrowWorkspace(const ConvGeometry& geometry);

}  // namespace requant::dwconv
