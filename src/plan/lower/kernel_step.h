// Steps whose state is the parameters of one kernel.
#pragma once

#include "plan/archive.h"
#include "plan/lower/parts.h"
#include "plan/lower/steps.h"

namespace requant {

/// The step of a kernel from the table `kKernels`. Each run sets operands and outputs.
template <StepKind kKind, auto kKernels, typename Params>
class KernelStep : public Step {
 public:
  StepKind kind() const override { return kKind; }
  void Fields(PlanArchive& archive) override {
    archive.Fields(params);
    archive.Kernel(kKernels(), kernel, run);
  }
  Params params{};
  void (*run)(const Params*) = nullptr;
};

/// The step of a kernel from one input to one output.
template <StepKind kKind, auto kKernels, typename Params>
class UnaryKernelStep : public KernelStep<kKind, kKernels, Params> {
 public:
  void Run(const RunContext& context) const override {
    Params call = this->params;
    call.in = static_cast<decltype(call.in)>(context.Read(this->inputs[0]));
    call.out = static_cast<decltype(call.out)>(context.Write(this->outputs[0]));
    RunParts(context, this->parts, this->run, call);
  }
};

}  // namespace requant
