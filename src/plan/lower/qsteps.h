// The steps on 8-bit values that a pass over plans changes (plan/pack_activations.h).
#pragma once

#include "kernels/conv/table.h"
#include "kernels/elementwise/table.h"
#include "numeric/requantize_prepare.h"
#include "plan/archive.h"
#include "plan/lower/parts.h"
#include "plan/lower/steps.h"
#include "plan/lower/window.h"

namespace requant {

class ConvQ8Step : public Step {
 public:
  StepKind kind() const override { return StepKind::kConvQ8; }
  void Fields(PlanArchive& archive) override {
    archive.Fields(params);
    archive.Blob(params.weights);
    requantize.Fields(archive);
    archive.Kernel(ConvQ8Kernels(), kernel, run);
  }
  void Run(const RunContext& context) const override {
    ConvQ8Params call = params;
    call.requantize = requantize.Params();
    call.input = context.Read(inputs[0]);
    call.output = context.Write(outputs[0]);
    call.workspace = context.Write(workspace);
    RunParts(context, parts, run, call);
  }
  bool WriteWithStride(size_t elements) override {
    return SetOutputStride(params.geometry, elements);
  }
  ConvQ8Params params;
  PreparedRequantize requantize;
  void (*run)(const ConvQ8Params*) = nullptr;
};

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
    archive.Fields(params);
    archive.Kernel(KernelsOf(params), kernel, run);
  }
  void Run(const RunContext& context) const override {
    Params call = params;
    call.a = context.Read(inputs[0]);
    call.b = context.Read(inputs[1]);
    call.out = context.Write(outputs[0]);
    if constexpr (requires { call.workspace; }) call.workspace = context.Write(workspace);
    RunParts(context, parts, run, call);
  }
  Params params{};
  void (*run)(const Params*) = nullptr;
};

}  // namespace requant
