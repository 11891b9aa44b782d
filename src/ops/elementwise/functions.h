#pragma once
// Helpers that the files of functions of one float share.
#include <cstdint>

#include "ops/op.h"

namespace requant {

/// A function of x and up to two attributes. ONNX, Operators.md, has the formulas.
struct Function {
  const char* name;
  double (*apply)(double x, double a, double b);
  const char* attribute_a = nullptr;
  float default_a = 0;
  const char* attribute_b = nullptr;
  float default_b = 0;
  /// Computes `count` floats at once, where doubles one by one would be slow.
  void (*floats)(const float* from, float* to, int64_t count, float a, float b) = nullptr;
};

/// to[i] = function(from[i]), for files whose loops compilers vectorize
/// (bindings/cmake/wasm.cmake).
template <typename Apply>
inline void MapFloats(const float* from, float* to, int64_t count, Apply apply) {
  for (int64_t i = 0; i < count; ++i) to[i] = apply(from[i]);
}

/// Infers a float output of the input's shape.
void InferFunction(InferContext& context);
/// Sets output 0 to the function of all elements of `x`; its attributes are the node's.
void ApplyFunction(EvalContext& context, const Tensor& x, const Function& function);

constexpr OpDef FunctionRow(const char* name, int since_version, void (*evaluate)(EvalContext&),
                            const char* domain = "") {
  return {name,
          domain,
          since_version,
          1,
          1,
          1,
          InferFunction,
          evaluate,
          QuantRule::kUnary,
          FusionRule::kBroadcast};
}

}  // namespace requant
