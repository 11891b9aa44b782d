#include "ops/elementwise/cast_loops.h"

#include <limits>
#include <type_traits>

namespace requant {
namespace {

/// Saturate() of a float, by the instructions of WebAssembly that do the same.
template <typename To>
inline __attribute__((always_inline)) To Truncated(float x) {
  constexpr To kLow = std::numeric_limits<To>::min(), kHigh = std::numeric_limits<To>::max();
#ifdef __wasm__
  if constexpr (sizeof(To) == 8) return __builtin_wasm_trunc_saturate_s_i64_f32(x);
  const int32_t n = __builtin_wasm_trunc_saturate_s_i32_f32(x);
  if constexpr (sizeof(To) == 4) return n;
  const int32_t low = n > kLow ? n : kLow;
  return static_cast<To>(low < kHigh ? low : kHigh);
#else
  return Saturate<To>(double{x}, kLow, kHigh);
#endif
}

template <typename From, typename To>
void Convert(const void* raw_from, void* raw_to, int64_t count) {
  const auto* from = static_cast<const From*>(raw_from);
  auto* to = static_cast<To*>(raw_to);
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
      to[i] = Truncated<To>(from[i]);
    } else {
      to[i] = static_cast<To>(from[i]);
    }
  }
}

template <typename From>
void ConvertToBool(const void* raw_from, void* raw_to, int64_t count) {
  const auto* from = static_cast<const From*>(raw_from);
  auto* to = static_cast<uint8_t*>(raw_to);
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] != From{0};
}

using Loop = void (*)(const void* from, void* to, int64_t count);

template <typename From>
Loop LoopTo(DType to) {
  switch (to) {
    case DType::kFloat32:
      return Convert<From, float>;
    case DType::kInt64:
      return Convert<From, int64_t>;
    case DType::kInt32:
      return Convert<From, int32_t>;
    case DType::kInt8:
      return Convert<From, int8_t>;
    case DType::kUint8:
      return Convert<From, uint8_t>;
    case DType::kBool:
      return ConvertToBool<From>;
    default:
      return nullptr;
  }
}

Loop LoopOf(DType from, DType to) {
  switch (from) {
    case DType::kFloat32:
      return LoopTo<float>(to);
    case DType::kInt64:
      return LoopTo<int64_t>(to);
    case DType::kInt32:
      return LoopTo<int32_t>(to);
    case DType::kInt8:
      return LoopTo<int8_t>(to);
    case DType::kUint8:
    case DType::kBool:
      return LoopTo<uint8_t>(to);
    default:
      return nullptr;
  }
}

}  // namespace

bool CastNumbers(DType from_type, const void* from, DType to_type, void* to, int64_t count) {
  const Loop loop = LoopOf(from_type, to_type);
  if (loop == nullptr) return false;
  loop(from, to, count);
  return true;
}

}  // namespace requant
