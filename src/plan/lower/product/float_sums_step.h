// The step of an integer product whose sums become floats.
#pragma once

#include "plan/lower/convolution/window_step.h"

namespace requant {

/// Input 0 is the data; the last input is the residual if `adds`.
class FloatSumsStep : public ConvQ8Step {
 public:
  void Fields(PlanArchive& archive) override {
    ConvQ8Step::Fields(archive);
    archive.Fields(adds);
    archive.Blob(params.sums.scale);
    archive.Blob(params.sums.bias);
  }
  bool adds = false;

 protected:
  /// The parameters with the memory of a run.
  ConvQ8Params Call(const RunContext& context) const {
    ConvQ8Params call = params;
    call.input = context.Read(inputs[0]);
    call.output = context.Write(outputs[0]);
    call.workspace = context.Write(workspace);
    if (adds) call.sums.residual = context.Read<float>(inputs.back());
    return call;
  }
};

}  // namespace requant
