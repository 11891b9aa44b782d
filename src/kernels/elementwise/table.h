#pragma once
// The tables of elementwise kernels. Every operation has a scalar row, which defines its result,
// and a vector row that agrees with it bit for bit.
#include <cstdint>
#include <span>

#include "kernels/elementwise/kernel.h"

namespace requant {

enum class BinaryF32Op : uint8_t {
#define ROW(linkage, run, name, isa, op) RQ_OPERATION_##linkage(op)
#include "kernels/elementwise/binary_f32.inc"
#undef ROW
};
enum class UnaryF32Op : uint8_t {
#define ROW(linkage, run, name, isa, op) RQ_OPERATION_##linkage(op)
#include "kernels/elementwise/unary_f32.inc"
#undef ROW
};
/// The arithmetic of a binary kernel: integers only, or ONNX Runtime's floats (numeric/qadd.h).
enum class QBinaryMode : uint8_t { kFixed, kFloat };

struct BinaryF32Kernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar" or "simd128"
  BinaryF32Op op;
  void (*run)(const BinaryF32Params* params);
};
struct UnaryF32Kernel {
  const char* name;
  const char* isa;
  UnaryF32Op op;
  void (*run)(const UnaryF32Params* params);
};
struct QAddKernel {
  const char* name;
  const char* isa;
  QBinaryMode mode;
  void (*run)(const QAddParams* params);
};
struct QMulKernel {
  const char* name;
  const char* isa;
  QBinaryMode mode;
  void (*run)(const QMulParams* params);
};

struct QAddNibblesKernel {
  const char* name;
  const char* isa;
  const char* (*missing)();
  void (*run)(const QAddNibblesParams* params);
};

/// Each table lists the rows of one operation from slow to fast: the last is the best.
std::span<const BinaryF32Kernel> BinaryF32Kernels();
std::span<const UnaryF32Kernel> UnaryF32Kernels();
std::span<const QAddKernel> QAddKernels();
std::span<const QMulKernel> QMulKernels();
std::span<const QAddNibblesKernel> QAddNibblesKernels();

}  // namespace requant
