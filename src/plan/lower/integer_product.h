#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/geometry.h"
#include "plan/builder.h"

namespace requant {

/// Of a ConvInteger with constant bytes as weights; nullopt where it has others or no kernel fits.
std::optional<ConvGeometry> IntegerConvGeometry(const Node& node);

/// The zero points of a ConvInteger's or MatMulInteger's weights, one for each output channel;
/// empty when all are 0. nullopt when they are no constants or not as many.
std::optional<std::vector<int32_t>> WeightZeros(const Node& node, int32_t channels);

/// Whether one zero point, or none, is given for all of the data.
bool HasOneInputZero(const Node& node);

}  // namespace requant
