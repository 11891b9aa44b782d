// A ConvTranspose as ordinary convolutions. With stride s, the outputs o with the same (o + pad)
// mod s form a phase: all meet the same taps k of the kernel, those with k * dilation = o + pad
// (mod s). Each phase is therefore a convolution of stride 1 with these taps in reverse order, with
// the same products as the definition, and the kernels of convolutions compute it (W. Shi et al.
// 2016, "Is the deconvolution layer the same as a convolutional layer?", arXiv 1609.07009):
//
//   stride 2, kernel w0 w1 w2, no padding
//   output o      0        1     2              3     4
//   phase 0      w0 x0           w2 x0 + w0 x1        w2 x1 + w0 x2     taps w0, w2
//   phase 1               w1 x0                 w1 x1                  tap w1
//
// Phases with equally many taps are channels of one convolution, except depthwise ones; one step
// then interleaves the phases' pixels.
#pragma once

#include <functional>
#include <vector>

#include "kernels/geometry.h"
#include "kernels/layout/table.h"
#include "plan/builder.h"
#include "plan/lower/elementwise/epilogue.h"

namespace requant {

/// One convolution of stride 1.
struct PhaseConvolution {
  ConvGeometry geometry;
  std::vector<int32_t> channels;  // the ConvTranspose's channel of each output channel
  /// For each weight [out_c, in_c / groups, kernel_h, kernel_w], its index among the
  /// ConvTranspose's [in_c, out_c / groups, kernel_h, kernel_w], or -1 where there is no tap.
  std::vector<int32_t> weights;
};

/// Along one dimension, the phases that one convolution computes: its output i is each phase's
/// output i + begin.
struct TransposedGroup {
  int32_t phases = 0;
  int32_t taps = 0;    // taps of the convolution; without any it has one, which is 0
  int32_t offset = 0;  // inputs by which the last tap precedes the output
  int32_t begin = 0, size = 0, pad = 0;
};
/// The outputs of one phase: (first + i) * stride + residue - pad, for i < count.
struct TransposedPhase {
  int32_t residue, first, count;
  size_t group;
};
/// One spatial dimension of the ConvTranspose.
struct TransposedAxis {
  int32_t output, kernel, stride, dilation, pad;
  std::vector<TransposedGroup> groups;
  std::vector<TransposedPhase> phases;  // phases of all groups

  int32_t step() const;    // distance between taps
  int32_t spread() const;  // distance between their inputs
  /// The kernel's taps in the order of the convolution's; -1 for the tap of a phase that has
  /// none.
  std::vector<int32_t> TapsOf(const TransposedPhase& phase) const;
  /// Groups the phases; with `apart` every phase is a group of its own.
  void MakeGroups(bool apart);
};

/// A copy of pixels or planes into the output of an interleaving step.
struct InterleaveMove {
  uint32_t input;  ///< index among the step's inputs
  size_t in_offset, out_offset;
  StridedCopyParams copy;
};

/// Adds the step that makes `output` by the moves from `inputs`.
void AddInterleaveStep(PlanBuilder& builder, const Node& node, const std::vector<int>& inputs,
                       int output, std::vector<InterleaveMove> moves);

/// Lowers a ConvTranspose or QLinearConvTranspose over three spatial dimensions
/// (volume_transpose.cpp).
bool LowerTransposedVolume(PlanBuilder& builder, const Node& node);

class Transposition {
 public:
  /// `geometry` is from TransposedGeometryOf.
  explicit Transposition(const ConvGeometry& geometry);

  /// Whether the kernels take all sizes.
  bool Fits() const;

  /// A function that adds the step of one convolution.
  using Add = std::function<void(const PhaseConvolution& convolution, int input, int output,
                                 const Epilogue& epilogue)>;
  /// Adds the steps for `node`, whose elements have element_bytes bytes.
  void Plan(PlanBuilder& builder, const Node& node, size_t element_bytes, const Add& add) const;

 private:
  int32_t width() const { return g_.out_c / g_.groups; }
  /// The geometry of one convolution. Its channels are those of each phase, for each group of the
  /// weights.
  ConvGeometry GeometryOf(size_t row_group, size_t column_group) const;
  PhaseConvolution ConvolutionOf(size_t row_group, size_t column_group) const;
  /// Appends the copies that move one group and phase of pixels to the output.
  void AddMoves(size_t row_group, size_t column_group, size_t element_bytes, uint32_t source,
                std::vector<InterleaveMove>& moves) const;

  ConvGeometry g_;
  TransposedAxis rows_, columns_;
};

}  // namespace requant
