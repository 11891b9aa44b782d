#pragma once

#include "kernels/matmul_nbits/table.h"
#include "plan/lower/parts.h"
#include "plan/lower/steps.h"

namespace requant {

class MatMulNBitsStep : public StepOf<StepKind::kMatMulNBits> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(params);
    archive.Blob(params.weights);
    archive.Kernel(MatMulNBitsKernels(), kernel, run);
  }
  void Run(const RunContext& context) const override {
    MatMulNBitsParams call = params;
    call.a = context.Read<float>(inputs[0]);
    call.out = context.Write<float>(outputs[0]);
    call.workspace = context.Write(workspace);
    RunParts(context, parts, run, call);
  }
  MatMulNBitsParams params;
  void (*run)(const MatMulNBitsParams*) = nullptr;
};

}  // namespace requant
