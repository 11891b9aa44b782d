// Layers over three spatial dimensions.
#pragma once

#include "tflite/write/writer.h"

namespace requant::tflite {

/// Writes a Conv of three spatial dimensions as CONV_3D, which computes on floats. Throws
/// kUnsupported for groups.
void WriteConv3D(Writer& writer);
/// Writes a pool of three spatial dimensions as one over height and width, and one over depth.
void WritePool3D(Writer& writer, bool maximum);

}  // namespace requant::tflite
