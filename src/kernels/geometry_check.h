#pragma once
// Checks geometry for the window kernels, which compute with int32 and check nothing themselves.
// Hosted C++.
#include "kernels/geometry.h"

namespace requant {

/// Throws Error unless every size is positive, channels divide by groups, pixel strides hold the
/// channels, and all products that the kernels form fit int32. Every workspace_size calls this
/// function, so a planner that asks for the workspace has checked its geometry.
void CheckConvGeometry(const ConvGeometry& geometry);

}  // namespace requant
