#include "ops/elementwise/integer_loops.h"

#include <cstdint>
#include <type_traits>

#include "ops/elementwise/elementwise.h"

namespace requant {
namespace {

enum class Operation : uint8_t { kAdd, kSub, kMul, kMax, kMin };

template <Operation kOperation, typename T>
inline __attribute__((always_inline)) T Combine(T a, T b) {
  using U = std::make_unsigned_t<T>;  // wraps
  if constexpr (kOperation == Operation::kAdd) return static_cast<T>(U(a) + U(b));
  if constexpr (kOperation == Operation::kSub) return static_cast<T>(U(a) - U(b));
  if constexpr (kOperation == Operation::kMul) return static_cast<T>(U(a) * U(b));
  if constexpr (kOperation == Operation::kMax) return a > b ? a : b;
  return a < b ? a : b;
}

template <Operation kOperation, typename T>
void CombineRow(const T* a, int64_t a_step, const T* b, int64_t b_step, T* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i, a += a_step, b += b_step) {
    to[i] = Combine<kOperation>(*a, *b);
  }
}

template <typename T>
using Row = void (*)(const T* a, int64_t a_step, const T* b, int64_t b_step, T* to, int64_t count);

template <typename T>
Row<T> RowOf(std::string_view op) {
  if (op == "Add") return CombineRow<Operation::kAdd, T>;
  if (op == "Sub") return CombineRow<Operation::kSub, T>;
  if (op == "Mul") return CombineRow<Operation::kMul, T>;
  if (op == "Max") return CombineRow<Operation::kMax, T>;
  if (op == "Min") return CombineRow<Operation::kMin, T>;
  return nullptr;
}

template <typename T>
bool CombineAs(std::string_view op, const Tensor& a, const Tensor& b, Tensor& out) {
  const Row<T> combine = RowOf<T>(op);
  if (combine == nullptr) return false;
  const T* pa = a.data<T>();
  const T* pb = b.data<T>();
  T* to = out.data<T>();
  ForEachRow(PlanRows(out.shape(), {&a.shape(), &b.shape()}), [&](const RowStep& row) {
    combine(pa + row.input[0], row.step[0], pb + row.input[1], row.step[1], to + row.output,
            row.length);
  });
  return true;
}

}  // namespace

bool CombineIntegers(std::string_view op, const Tensor& a, const Tensor& b, Tensor& out) {
  if (out.dtype() == DType::kInt64) return CombineAs<int64_t>(op, a, b, out);
  return out.dtype() == DType::kInt32 && CombineAs<int32_t>(op, a, b, out);
}

}  // namespace requant
