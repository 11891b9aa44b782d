#pragma once
// Four floats that compilers keep in a register. Load4 and Store4 take any address, whereas a
// pointer to a vector type would promise alignment.

#include <cstring>

namespace requant {

using Float4 = float __attribute__((vector_size(16)));

inline Float4 Load4(const float* from) {
  Float4 vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}
inline void Store4(float* to, Float4 vector) { std::memcpy(to, &vector, sizeof(vector)); }

}  // namespace requant
