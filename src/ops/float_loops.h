#pragma once
// Loops over floats, and bools, in which a call for each element would take most of the time; they
// become vectors (bindings/cmake/wasm.cmake).
#include <cstdint>

namespace requant::float_loops {

/// Of `Function` (ops/functions.h).
void Ceil(const float* from, float* to, int64_t count, float, float);
void Exp(const float* from, float* to, int64_t count, float, float);
void Floor(const float* from, float* to, int64_t count, float, float);
void Reciprocal(const float* from, float* to, int64_t count, float, float);
void Round(const float* from, float* to, int64_t count, float, float);

/// from^exponent for the exponents that networks have; false for others.
bool Power(const float* from, float* to, int64_t count, double exponent);

/// And, Or, Xor of bools, by the first letter of the name; steps of 0 and 1.
void Logic(char kind, const uint8_t* a, int64_t a_step, const uint8_t* b, int64_t b_step,
           uint8_t* to, int64_t count);

/// sums[i] += the dot product of `depth` weights and column i of [depth, kColumns].
inline constexpr int64_t kColumns = 128;
void AddProducts(const float* weights, const float* columns, int64_t depth, float* sums);

}  // namespace requant::float_loops
