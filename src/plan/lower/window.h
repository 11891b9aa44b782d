#pragma once

#include "ir/graph.h"
#include "kernels/geometry.h"
#include "ops/infer_util.h"
#include "plan/builder.h"

namespace requant {

/// The kernel geometry of a window operator (Conv, pools) over 1-D or 2-D images; nullopt for other
/// ranks and for sizes beyond int32, which the reference handles. `kernel` has one entry per
/// spatial dimension.
std::optional<ConvGeometry> GeometryOf(const Node& node, const Shape& input, const Shape& output,
                                       std::vector<int64_t> kernel);

/// The same for a ConvTranspose: input and output are those of the transposed operation, and a pad
/// is what its outputs begin at. nullopt for more than two spatial dimensions and large sizes.
std::optional<ConvGeometry> TransposedGeometryOf(const Node& node, const Shape& input,
                                                 const Shape& output, const Shape& weights);

/// Step::tuning of a convolution: the family of kernels and everything of the shape that time may
/// depend on; `more` is what else there is.
std::string TuningOf(const char* family, const ConvGeometry& geometry,
                     const std::string& more = {});

/// All products of sizes that the kernels form fit int32.
bool FitsInt32(const ConvGeometry& geometry);

/// Sets output_stride; false, and nothing done, when the sizes would no longer fit.
bool SetOutputStride(ConvGeometry& geometry, size_t elements);

/// The matrix product [rows, k] x [k, n] as a convolution of one-pixel kernels.
ConvGeometry MatMulGeometry(int64_t rows, int64_t k, int64_t n);

}  // namespace requant
