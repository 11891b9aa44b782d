#pragma once
// The tables of elementwise kernels. Every operation has a scalar row, which defines its result,
// and a vector row that agrees with it bit for bit.
#include <cstdint>
#include <span>

#include "kernels/elementwise/kernel.h"

namespace requant {

enum class BinaryF32Op : uint8_t { kAdd, kSub, kMul, kDiv, kMax, kMin, kPRelu, kCompare };
enum class UnaryF32Op : uint8_t {
  kClamp,
  kLeakyRelu,
  kHardSigmoid,
  kHardSwish,
  kAbs,
  kNeg,
  kSqrt,
  kSigmoid,
  kTanh,
  kErf,
  kGelu,
  kGeluTanh,
  kQuickGelu,  // x * sigmoid(alpha x)
  kFastExp,
  kFastTanh,
  kFastSigmoid,
  kFastErf,
  kFastGelu,
};
/// The arithmetic of a binary kernel: integers only, or ONNX Runtime's floats (numeric/qadd.h).
enum class QBinaryMode : uint8_t { kFixed, kFloat };

struct BinaryF32Kernel {
  const char* name;  ///< unique among the rows
  BinaryF32Op op;
  const char* isa;  ///< "scalar" or "simd128"
  void (*run)(const BinaryF32Params* params);
};
struct UnaryF32Kernel {
  const char* name;
  UnaryF32Op op;
  const char* isa;
  void (*run)(const UnaryF32Params* params);
};
struct QAddKernel {
  const char* name;
  QBinaryMode mode;
  const char* isa;
  void (*run)(const QAddParams* params);
};
struct QMulKernel {
  const char* name;
  QBinaryMode mode;
  const char* isa;
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

// The scalar rows (reference.cpp).
void AddF32Reference(const BinaryF32Params* p);
void SubF32Reference(const BinaryF32Params* p);
void MulF32Reference(const BinaryF32Params* p);
void DivF32Reference(const BinaryF32Params* p);
void MaxF32Reference(const BinaryF32Params* p);
void MinF32Reference(const BinaryF32Params* p);
void PReluF32Reference(const BinaryF32Params* p);
void CompareF32Reference(const BinaryF32Params* p);
void ClampF32Reference(const UnaryF32Params* p);
void LeakyReluF32Reference(const UnaryF32Params* p);
void HardSigmoidF32Reference(const UnaryF32Params* p);
void HardSwishF32Reference(const UnaryF32Params* p);
void AbsF32Reference(const UnaryF32Params* p);
void NegF32Reference(const UnaryF32Params* p);
void SqrtF32Reference(const UnaryF32Params* p);
void SigmoidF32Reference(const UnaryF32Params* p);
void TanhF32Reference(const UnaryF32Params* p);
void ErfF32Reference(const UnaryF32Params* p);
void GeluF32Reference(const UnaryF32Params* p);
void GeluTanhF32Reference(const UnaryF32Params* p);
void QuickGeluF32Reference(const UnaryF32Params* p);
void FastExpF32Reference(const UnaryF32Params* p);
void FastTanhF32Reference(const UnaryF32Params* p);
void FastSigmoidF32Reference(const UnaryF32Params* p);
void FastErfF32Reference(const UnaryF32Params* p);
void FastGeluF32Reference(const UnaryF32Params* p);
void QAddFixedReference(const QAddParams* p);
void QAddFloatReference(const QAddParams* p);
void QMulFixedReference(const QMulParams* p);
void QMulFloatReference(const QMulParams* p);

}  // namespace requant
