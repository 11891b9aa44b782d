// The steps of table lookups.
#pragma once

#include <cstdint>

#include "kernels/lut/table.h"
#include "plan/archive.h"
#include "plan/lower/elementwise/lut.h"
#include "plan/lower/parts.h"
#include "plan/lower/steps.h"

namespace requant {

class LutStep : public StepOf<StepKind::kLut> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(table, count);
    archive.Kernel(LutKernels(), kernel, run);
  }
  void Run(const RunContext& context) const override {
    const LutParams call{context.Read<uint8_t>(inputs[0]),
                         context.Write<uint8_t>(outputs[0]),
                         table.data(),
                         1,
                         count,
                         count,
                         count};
    RunParts(context, parts, run, call);
  }
  ByteTable table{};
  size_t count = 0;
  // Saved plans do not have these.
  CodeRange codes = {0, 0};   ///< the codes that are looked up
  bool makes_signed = false;  ///< whether entries are int8
  void (*run)(const LutParams*) = nullptr;
};

/// A lookup that writes a bit plane.
class LutBitsStep : public StepOf<StepKind::kLutBits> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(params);
    archive.Kernel(LutBitsKernels(), kernel, run);
  }
  void Run(const RunContext& context) const override {
    LutBitsParams call = params;
    call.in = context.Read<uint8_t>(inputs[0]);
    call.out = context.Write<uint8_t>(outputs[0]);
    RunParts(context, parts, run, call);
  }
  LutBitsParams params;
  void (*run)(const LutBitsParams*) = nullptr;
};

}  // namespace requant
