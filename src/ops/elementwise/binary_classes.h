// The classes in which functions of two operands compute.
//
// A function exists once for each of three classes: float32 and float64 compute in double
// (+, -, *, / of two floats rounded from double are the correctly rounded float results, because
// 53 >= 2 * 24 + 2), integers up to 64 bits in int64 modulo 2^64, uint64 in itself.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/elementwise.h"
#include "ops/infer_util.h"

namespace requant {

/// The class that computes elements of T.
template <typename T>
using ComputeOf =
    std::conditional_t<std::is_floating_point_v<T>, double,
                       std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>>;

/// One function in all three classes; `Result` void means "the class itself".
template <typename Result>
struct Classes {
  template <typename C>
  using Returned = std::conditional_t<std::is_void_v<Result>, C, Result>;

  const char* name;
  Returned<double> (*real)(double, double);
  Returned<int64_t> (*integer)(int64_t, int64_t);
  Returned<uint64_t> (*natural)(uint64_t, uint64_t);

  template <typename C>
  auto get() const {
    if constexpr (std::is_same_v<C, double>) {
      return real;
    } else if constexpr (std::is_same_v<C, int64_t>) {
      return integer;
    } else {
      return natural;
    }
  }
};

/// out = function(a, b), broadcast; T is the element type of a and b, R of out.
template <typename T, typename R, typename Apply>
void Broadcast(const Tensor& a, const Tensor& b, Tensor& out, Apply apply) {
  using C = ComputeOf<T>;
  const T* pa = a.data<T>();
  const T* pb = b.data<T>();
  R* to = static_cast<R*>(out.raw());
  ForEachRow(PlanRows(out.shape(), {&a.shape(), &b.shape()}), [&](const RowStep& row) {
    const T* ra = pa + row.input[0];
    const T* rb = pb + row.input[1];
    for (int64_t i = 0; i < row.length; ++i) {
      to[row.output + i] = static_cast<R>(
          apply(static_cast<C>(ra[i * row.step[0]]), static_cast<C>(rb[i * row.step[1]])));
    }
  });
}

/// Throws kTypeMismatch for elements that are no numbers.
inline void RequireComputable(DType dtype, const Node& node) {
  if (IsNumeric(dtype)) return;
  Fail(ErrorCode::kTypeMismatch, StrCat(node.op_type, " of ", DTypeName(dtype)));
}

}  // namespace requant
