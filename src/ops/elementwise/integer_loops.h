#pragma once
// Loops of arithmetic of integers, where a call for each element would take most of the time.
#include <string_view>

#include "base/late_function.h"
#include "tensor/tensor.h"

namespace requant {

/// out = a <op> b, broadcast, modulo the size of the type. Returns false, and does nothing, for
/// operators other than Add, Sub, Mul, Max and Min and types other than int64 and int32.
bool CombineIntegers(std::string_view op, const Tensor& a, const Tensor& b, Tensor& out);
extern const LateFunction<decltype(CombineIntegers)> kCombineIntegers;

}  // namespace requant
