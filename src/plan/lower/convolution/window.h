#pragma once

#include "ir/graph.h"
#include "kernels/geometry.h"
#include "ops/infer_util.h"
#include "plan/builder.h"

namespace requant {

/// The geometry of a window operator (Conv, pools) over 1-D or 2-D images, with one entry of
/// `kernel` per spatial dimension. nullopt for other ranks and for sizes beyond int32, which the
/// reference computes.
std::optional<ConvGeometry> GeometryOf(const Node& node, const Shape& input, const Shape& output,
                                       std::vector<int64_t> kernel);

/// The geometry of a window that covers the whole image, of one to three dimensions. nullopt for
/// other ranks, empty images and large ones.
std::optional<ConvGeometry> GlobalGeometry(const Shape& input);

/// The geometry of a ConvTranspose. Input and output are those of the transposed operation, and
/// pads are cut off its output. nullopt for more than two spatial dimensions and large sizes.
std::optional<ConvGeometry> TransposedGeometryOf(const Node& node, const Shape& input,
                                                 const Shape& output, const Shape& weights);

/// Step::tuning of a convolution: the kernel family, everything in the shape that may change its
/// time, and `more`.
std::string TuningOf(const char* family, const ConvGeometry& geometry,
                     const std::string& more = {});

/// Whether all products of sizes that the kernels form fit int32.
bool FitsInt32(const ConvGeometry& geometry);

/// Sets output_stride; returns false and does nothing when the sizes would no longer fit.
bool SetOutputStride(ConvGeometry& geometry, size_t elements);

/// The matrix product [rows, k] x [k, n] as a convolution of one-pixel kernels.
ConvGeometry MatMulGeometry(int64_t rows, int64_t k, int64_t n);

}  // namespace requant
