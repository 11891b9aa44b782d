// The scalar rows: plain loops over the normative scalars.
#include <cmath>

#include "kernels/elementwise/table.h"
#include "kernels/fast_math.h"
#include "kernels/transcendental.h"
#include "numeric/qadd.h"

namespace requant {
namespace {

/// NaN fails both comparisons and passes through.
float ClampF32(float value, float lo, float hi) {
  value = value < lo ? lo : value;
  return hi < value ? hi : value;
}

template <typename Params, typename Function>
void ForEachPair(const Params* p, Function&& function) {
  for (size_t r = 0; r < p->rows; ++r) {
    for (size_t c = 0; c < p->cols; ++c) {
      function(r * p->a_row_stride + c * p->a_step, r * p->b_row_stride + c * p->b_step,
               r * p->out_row_stride + c);
    }
  }
}

template <typename Function>
void BinaryF32(const BinaryF32Params* p, Function&& function) {
  ForEachPair(p, [&](size_t a, size_t b, size_t out) {
    static_cast<float*>(p->out)[out] = ClampF32(function(p->a[a], p->b[b]), p->lo, p->hi);
  });
}

template <typename Function>
void UnaryF32(const UnaryF32Params* p, Function&& function) {
  for (size_t i = 0; i < p->n; ++i) p->out[i] = function(p->in[i]);
}

int32_t LoadByte(const void* data, size_t i, int32_t is_signed) {
  return is_signed ? static_cast<const int8_t*>(data)[i] : static_cast<const uint8_t*>(data)[i];
}

template <typename Params, typename Function>
void BinaryByte(const Params* p, Function&& function) {
  ForEachPair(p, [&](size_t a, size_t b, size_t out) {
    const int32_t result = function(LoadByte(p->a, a, p->a_signed) - p->a_zero,
                                    LoadByte(p->b, b, p->b_signed) - p->b_zero);
    static_cast<uint8_t*>(p->out)[out] = static_cast<uint8_t>(result);
  });
}

}  // namespace

void AddF32Reference(const BinaryF32Params* p) {
  BinaryF32(p, [](float a, float b) { return a + b; });
}
void SubF32Reference(const BinaryF32Params* p) {
  BinaryF32(p, [](float a, float b) { return a - b; });
}
void MulF32Reference(const BinaryF32Params* p) {
  BinaryF32(p, [](float a, float b) { return a * b; });
}
void DivF32Reference(const BinaryF32Params* p) {
  BinaryF32(p, [](float a, float b) { return a / b; });
}

// The maximum is the operand that is a NaN, if one is; of equal operands, zeros of different sign
// included, it is the second.
void MaxF32Reference(const BinaryF32Params* p) {
  BinaryF32(p, [](float a, float b) { return a > b || std::isnan(a) ? a : b; });
}
void MinF32Reference(const BinaryF32Params* p) {
  BinaryF32(p, [](float a, float b) { return a < b || std::isnan(a) ? a : b; });
}
void PReluF32Reference(const BinaryF32Params* p) {
  BinaryF32(p, [](float x, float slope) { return x < 0 ? slope * x : x; });
}

void CompareF32Reference(const BinaryF32Params* p) {
  ForEachPair(p, [&](size_t a, size_t b, size_t out) {
    const bool holds =
        (p->greater != 0 && p->a[a] > p->b[b]) || (p->equal != 0 && p->a[a] == p->b[b]);
    static_cast<uint8_t*>(p->out)[out] = holds ? 1 : 0;
  });
}

void ClampF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [p](float x) { return ClampF32(x, p->alpha, p->beta); });
}

void LeakyReluF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [p](float x) { return x < 0 ? p->alpha * x : x; });
}

// max(0, min(1, alpha * x + beta)) (onnx docs/Operators.md, HardSigmoid).
void HardSigmoidF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [p](float x) {
    const float scaled = p->alpha * x;
    return ClampF32(scaled + p->beta, 0.0f, 1.0f);
  });
}

// x * HardSigmoid(x) with alpha = 1/6 and beta = 0.5 (onnx docs/Operators.md, HardSwish).
void HardSwishF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [p](float x) {
    const float scaled = p->alpha * x;
    return x * ClampF32(scaled + p->beta, 0.0f, 1.0f);
  });
}

void AbsF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [](float x) { return std::fabs(x); });
}
void NegF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [](float x) { return -x; });
}
void SqrtF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [](float x) { return std::sqrt(x); });
}
void SigmoidF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [](float x) { return transcendental::Sigmoid(ScalarLanes(), x); });
}
void TanhF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [](float x) { return transcendental::Tanh(ScalarLanes(), x); });
}
void ErfF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [](float x) { return transcendental::Erf(ScalarLanes(), x); });
}
void GeluF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [](float x) { return transcendental::Gelu(ScalarLanes(), x); });
}
void GeluTanhF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [](float x) { return transcendental::GeluTanh(ScalarLanes(), x); });
}

void QuickGeluF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [p](float x) { return x * transcendental::Sigmoid(ScalarLanes(), p->alpha * x); });
}
void FastExpF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [](float x) { return fast_math::Exp(ScalarLanes(), x); });
}
void FastTanhF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [](float x) { return fast_math::Tanh(ScalarLanes(), x); });
}
void FastSigmoidF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [](float x) { return fast_math::Sigmoid(ScalarLanes(), x); });
}
void FastErfF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [](float x) { return fast_math::Erf(ScalarLanes(), x); });
}
void FastGeluF32Reference(const UnaryF32Params* p) {
  UnaryF32(p, [](float x) { return fast_math::Gelu(ScalarLanes(), x); });
}

void QAddFixedReference(const QAddParams* p) {
  const QAddMultipliers multipliers{p->a_multiplier, p->b_multiplier, p->shift};
  BinaryByte(p, [&](int32_t a, int32_t b) {
    return QAddFixed(a, b, multipliers, p->out_zero, p->lo, p->hi);
  });
}

void QAddFloatReference(const QAddParams* p) {
  BinaryByte(p, [&](int32_t a, int32_t b) {
    return QAddFloat(a, b, p->a_scale, p->b_scale, p->out_scale, p->out_zero, p->lo, p->hi);
  });
}

void QMulFixedReference(const QMulParams* p) {
  BinaryByte(p, [&](int32_t a, int32_t b) {
    return QMulFixed(a, b, p->multiplier, p->out_zero, p->lo, p->hi);
  });
}

void QMulFloatReference(const QMulParams* p) {
  BinaryByte(p, [&](int32_t a, int32_t b) {
    return QMulFloat(a, b, p->scale, p->out_zero, p->lo, p->hi);
  });
}

}  // namespace requant
