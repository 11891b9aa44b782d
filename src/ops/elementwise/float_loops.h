#pragma once
// Loops over floats and bools, where a call for each element would take most of the time; compilers
// vectorize them (bindings/cmake/wasm.cmake).
#include <cstdint>

namespace requant::float_loops {

/// Loops for Function::floats (ops/elementwise/functions.h).
void Ceil(const float* from, float* to, int64_t count, float, float);
void Exp(const float* from, float* to, int64_t count, float, float);
void Floor(const float* from, float* to, int64_t count, float, float);
void Reciprocal(const float* from, float* to, int64_t count, float, float);
void Round(const float* from, float* to, int64_t count, float, float);

/// Computes from^exponent for the exponents that networks have; returns false for others.
bool Power(const float* from, float* to, int64_t count, double exponent);

/// Computes And, Or or Xor of bools, chosen by the first letter of the name; steps are 0 or 1.
void Logic(char kind, const uint8_t* a, int64_t a_step, const uint8_t* b, int64_t b_step,
           uint8_t* to, int64_t count);

/// sums[i] += the dot product of `depth` weights and column i of [depth, kColumns].
inline constexpr int64_t kColumns = 128;
void AddProducts(const float* weights, const float* columns, int64_t depth, float* sums);

}  // namespace requant::float_loops
