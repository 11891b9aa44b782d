#pragma once

#include "numeric/requantize.h"

namespace requant {

/// The real multiplier s_a * s_b / s_out of a product. The float mode computes it in float32 and in
/// this order, like ONNX Runtime's QLinearConv and QLinearMatMul
/// (core/providers/cpu/quantization/qlinearconv.cc: `X_scale * W_scale / Y_scale`); the fixed-point
/// modes keep double precision.
inline double ProductMultiplier(RequantizeMode mode, float scale_a, float scale_b,
                                float scale_out) {
  if (mode == RequantizeMode::kFloat) return scale_a * scale_b / scale_out;
  return static_cast<double>(scale_a) * scale_b / scale_out;
}

/// The real multiplier s_in / (s_out * count) that turns a sum of `count` values into their
/// average. The float mode computes it in float32 like ONNX Runtime's QLinearGlobalAveragePool
/// (onnxruntime/core/mlas/lib/qlgavgpool.cpp: `ScaleInput / (ScaleOutput * ImageSize)`).
inline double AverageMultiplier(RequantizeMode mode, float scale_in, float scale_out,
                                int64_t count) {
  if (mode == RequantizeMode::kFloat) {
    const float divisor = scale_out * static_cast<float>(count);
    return scale_in / divisor;
  }
  return static_cast<double>(scale_in) / (static_cast<double>(scale_out) * count);
}

}  // namespace requant
