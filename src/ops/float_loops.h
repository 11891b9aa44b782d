#pragma once
// Loops over floats in which a call for each element would take most of the time; they become
// vectors (bindings/cmake/wasm.cmake).
#include <cstdint>

namespace requant::float_loops {

/// Of `Function` (ops/functions.h).
void Ceil(const float* from, float* to, int64_t count, float, float);
void Exp(const float* from, float* to, int64_t count, float, float);
void Floor(const float* from, float* to, int64_t count, float, float);
void Reciprocal(const float* from, float* to, int64_t count, float, float);
void Round(const float* from, float* to, int64_t count, float, float);

}  // namespace requant::float_loops
