// The floats of 16 and 8 bits: conversions that round to nearest even.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/late_function.h"
#include "tensor/dtype.h"

namespace requant {

float HalfToFloat(uint16_t half);
/// The nearest float16; from 65520 on infinity.
uint16_t FloatToHalf(float value);
float BfloatToFloat(uint16_t half);
uint16_t FloatToBfloat(float value);

/// Converts `count` elements of float16 or bfloat16.
void HalvesToFloats(DType dtype, const uint16_t* from, size_t count, float* to);
void FloatsToHalves(DType dtype, const float* from, size_t count, uint16_t* to);

/// The float32 next to a double in the direction of an odd last bit, if the double is no float32.
/// Rounding it again, to fewer bits, gives what rounding the double gives.
float RoundToOdd(double value);

/// The value of a float8 (ONNX, docs/docsgen/source/technical/float8.md).
float Float8ToFloat(DType dtype, uint8_t code);
/// The nearest float8 by the tables of the same document: with `saturate` numbers beyond the
/// largest one become that one, without it NaN, or infinity where the type has one.
uint8_t FloatToFloat8(DType dtype, float value, bool saturate);

// Among the extended operators.
extern const LateFunction<decltype(Float8ToFloat)> kFloat8ToFloat;
extern const LateFunction<decltype(FloatToFloat8)> kFloatToFloat8;

}  // namespace requant
