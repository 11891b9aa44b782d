#pragma once
// Sine and cosine of many floats, in double without branches, so that compilers vectorize the loop
// (bindings/cmake/wasm.cmake).
#include <cstdint>

namespace requant::float_sine {

void Sin(const float* from, float* to, int64_t count);
void Cos(const float* from, float* to, int64_t count);

}  // namespace requant::float_sine
