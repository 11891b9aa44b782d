#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/conv/table.h"
#include "kernels/geometry.h"
#include "plan/builder.h"

namespace requant {

/// The geometry of a ConvInteger with constant 8-bit weights; nullopt for other weights and for
/// shapes that no kernel fits.
std::optional<ConvGeometry> IntegerConvGeometry(const Node& node);

/// The geometry of a MatMulInteger with constant 8-bit weights [K, N], and how to read these.
std::optional<ConvGeometry> IntegerMatrixGeometry(const Node& node, ConvWeightsLayout& layout);

/// The zero points of a ConvInteger's or MatMulInteger's weights, one for each output channel;
/// empty when all are 0. nullopt when they are not constant or their number differs.
std::optional<std::vector<int32_t>> WeightZeros(const Node& node, int32_t channels);

/// Whether all of the data has one zero point, given or not.
bool HasOneInputZero(const Node& node);

/// Packs numbers for all channels, given for each or once for all; nullptr when there are none.
const float* PackChannels(PlanBuilder& builder, const Tensor* numbers, int32_t channels);

}  // namespace requant
