// The steps of elementwise operators on two 8-bit values.
#pragma once

#include "kernels/elementwise/table.h"
#include "plan/archive.h"
#include "plan/lower/elementwise/broadcast.h"
#include "plan/lower/parts.h"
#include "plan/lower/steps.h"

namespace requant {

inline StepKind KindOf(const QAddParams&) { return StepKind::kQAdd; }
inline StepKind KindOf(const QMulParams&) { return StepKind::kQMul; }
inline StepKind KindOf(const QAddNibblesParams&) { return StepKind::kQAddNibbles; }
inline auto KernelsOf(const QAddParams&) { return QAddKernels(); }
inline auto KernelsOf(const QMulParams&) { return QMulKernels(); }
inline auto KernelsOf(const QAddNibblesParams&) { return QAddNibblesKernels(); }

template <typename Params>
class QBinaryStep : public Step {
 public:
  StepKind kind() const override { return KindOf(params); }
  void Fields(PlanArchive& archive) override {
    archive.Fields(params, blocks);
    archive.Kernel(KernelsOf(params), kernel, run);
  }
  void Run(const RunContext& context) const override {
    Params call = params;
    call.a = context.Read(inputs[0]);
    call.b = context.Read(inputs[1]);
    call.out = context.Write(outputs[0]);
    if constexpr (requires { call.workspace; }) call.workspace = context.Write(workspace);
    if constexpr (requires { call.cols; }) {
      RunBlocks(context, parts, run, call, blocks, 1, 1);
    } else {
      RunParts(context, parts, run, call);
    }
  }
  Params params{};
  std::vector<int64_t> blocks;  // where the operands of each block begin, if there are several
  void (*run)(const Params*) = nullptr;
};

}  // namespace requant
