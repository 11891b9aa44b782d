// The step of a convolution, dense or depthwise, on floats or 8-bit values.
#pragma once

#include <type_traits>

#include "kernels/conv/blocking.h"
#include "kernels/conv/table.h"
#include "kernels/dwconv/table.h"
#include "numeric/requantize_prepare.h"
#include "plan/archive.h"
#include "plan/lower/convolution/window.h"
#include "plan/lower/parts.h"
#include "plan/lower/steps.h"

namespace requant {

constexpr StepKind KindOf(const ConvF32Params*) { return StepKind::kConvF32; }
constexpr StepKind KindOf(const DwConvF32Params*) { return StepKind::kDepthwiseF32; }
constexpr StepKind KindOf(const ConvQ8Params*) { return StepKind::kConvQ8; }
constexpr StepKind KindOf(const DwConvQ8Params*) { return StepKind::kDepthwiseQ8; }
inline auto KernelsOf(const ConvF32Params&) { return ConvF32Kernels(); }
inline auto KernelsOf(const DwConvF32Params&) { return DwConvF32Kernels(); }
inline auto KernelsOf(const ConvQ8Params&) { return ConvQ8Kernels(); }
inline auto KernelsOf(const DwConvQ8Params&) { return DwConvQ8Kernels(); }

/// The limits for what records of tune() ask for.
inline constexpr int kMostPanelRows = 64 * conv::kEpilogueRows;
inline constexpr size_t kMostTunedWorkspace = size_t{4} << 20;

/// Products for each output.
inline int64_t TapsOf(const ConvWeightsLayout& layout) {
  return int64_t{layout.in_c_per_group} * layout.kernel_h * layout.kernel_w;
}

/// The number of rows that a thread's part should be a multiple of.
inline int64_t TileOf(ConvWalk walk, const ConvGeometry& geometry) {
  if (walk == ConvWalk::kTwoLines) return 2 * int64_t{geometry.out_w};
  return walk == ConvWalk::kFourLines ? 4 * int64_t{geometry.out_w} : kConvTile;
}

template <typename Params>
class WindowStep : public Step {
  static constexpr bool kRequantizes = requires(Params params) { params.requantize; };
  static constexpr bool kAdds = requires(Params params) { params.residual; };
  using Element = std::remove_pointer_t<decltype(Params::output)>;
  struct Nothing {};

 public:
  static constexpr StepKind kKind = KindOf(static_cast<const Params*>(nullptr));
  StepKind kind() const override { return kKind; }
  void Fields(PlanArchive& archive) override {
    archive.Fields(params);
    archive.Blob(params.weights);
    if constexpr (kRequantizes) requantize.Fields(archive);
    archive.Kernel(KernelsOf(params), kernel, run);
  }
  void Run(const RunContext& context) const override {
    Params call = params;
    if constexpr (kRequantizes) call.requantize = requantize.Params();
    call.input = context.Read<Element>(inputs[0]);
    if constexpr (kAdds) {
      call.residual = inputs.size() > 1 ? context.Read<Element>(inputs[1]) : nullptr;
    }
    call.output = context.Write<Element>(outputs[0]);
    call.workspace = context.Write(workspace);
    RunParts(context, parts, run, call);
  }
  int panel() const override { return params.geometry.panel_rows; }
  bool WriteWithStride(size_t elements) override {
    return SetOutputStride(params.geometry, elements);
  }

  /// Sets what every such step has: its kernel, packed weights, geometry, and the row range,
  /// divided into parts of whole tiles with at least `least` multiplications. `taps` are the
  /// products for each output.
  template <typename Row>
  void Set(PlanBuilder& builder, const Row& row, const ConvGeometry& geometry, const void* weights,
           int64_t taps, int64_t tile, int64_t least) {
    run = row.run;
    params.geometry = geometry;
    if constexpr (requires { row.walk; }) {
      if (row.walk == ConvWalk::kPanels) {
        params.geometry.panel_rows = TunedPanel(builder, row, geometry);
      }
    }
    params.row_end = ConvRows(geometry);
    params.weights = weights;
    macs = int64_t{ConvRows(geometry)} * geometry.out_c * taps;
    DivideRows(builder, *this, run, ConvRows(geometry), tile, macs, least,
               row.workspace_size(params.geometry));
  }

  Params params;
  [[no_unique_address]] std::conditional_t<kRequantizes, PreparedRequantize, Nothing> requantize;
  void (*run)(const Params*) = nullptr;

 private:
  /// The panel rows of a tuning record, if they are whole strips of rows and take little memory;
  /// else 0.
  template <typename Row>
  int32_t TunedPanel(const PlanBuilder& builder, const Row& row, ConvGeometry geometry) const {
    const Tuned* tuned = builder.TunedFor(tuning);
    if (tuned == nullptr || tuned->panel <= 0 || tuned->panel > kMostPanelRows ||
        tuned->panel % conv::kEpilogueRows != 0 || ConvRows(geometry) <= conv::kEpilogueRows) {
      return 0;
    }
    geometry.panel_rows = tuned->panel;
    return row.workspace_size(geometry) <= kMostTunedWorkspace ? tuned->panel : 0;
  }
};

using ConvF32Step = WindowStep<ConvF32Params>;
using DepthwiseF32Step = WindowStep<DwConvF32Params>;
using ConvQ8Step = WindowStep<ConvQ8Params>;
using DepthwiseQ8Step = WindowStep<DwConvQ8Params>;

}  // namespace requant
