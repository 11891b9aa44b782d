// The step of a pool, maximum or average, on floats or 8-bit values.
#pragma once

#include <vector>

#include "kernels/pool/table.h"
#include "plan/archive.h"
#include "plan/lower/convolution/window.h"
#include "plan/lower/parts.h"
#include "plan/lower/steps.h"

namespace requant {

inline StepKind KindOf(const MaxPoolF32Params&) { return StepKind::kMaxPoolF32; }
inline StepKind KindOf(const MaxPoolQ8Params&) { return StepKind::kMaxPoolQ8; }
inline StepKind KindOf(const AvgPoolF32Params&) { return StepKind::kAvgPoolF32; }
inline StepKind KindOf(const AvgPoolQ8Params&) { return StepKind::kAvgPoolQ8; }
inline auto KernelsOf(const MaxPoolF32Params&) { return MaxPoolF32Kernels(); }
inline auto KernelsOf(const MaxPoolQ8Params&) { return MaxPoolQ8Kernels(); }
inline auto KernelsOf(const AvgPoolF32Params&) { return AvgPoolF32Kernels(); }
inline auto KernelsOf(const AvgPoolQ8Params&) { return AvgPoolQ8Kernels(); }

template <typename Params>
class PoolStep : public Step {
 public:
  StepKind kind() const override { return KindOf(params); }
  void Fields(PlanArchive& archive) override {
    archive.Fields(params, multipliers);
    if constexpr (requires { params.multipliers; }) {
      params.multipliers = multipliers.empty() ? nullptr : multipliers.data();
    }
    archive.Kernel(KernelsOf(params), kernel, run);
  }
  void Run(const RunContext& context) const override {
    Params call = params;
    call.input = static_cast<decltype(call.input)>(context.Read(inputs[0]));
    call.output = static_cast<decltype(call.output)>(context.Write(outputs[0]));
    RunParts(context, parts, run, call);
  }
  bool WriteWithStride(size_t elements) override {
    return SetOutputStride(params.geometry, elements);
  }
  Params params;
  std::vector<FixedMultiplier> multipliers;  // backs params.multipliers
  void (*run)(const Params*) = nullptr;
};

}  // namespace requant
