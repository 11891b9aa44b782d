// A ConvTranspose as ordinary convolutions. Of stride s, the outputs o with the same
// (o + pad) mod s, a phase, all meet the same taps of the kernel: those k with
// k * dilation = o + pad (mod s). So each phase is a convolution of stride 1 with these taps in
// reverse order, the same products as the definition has, and the kernels of convolutions compute
// it (W. Shi et al. 2016, "Is the deconvolution layer the same as a convolutional layer?",
// arXiv 1609.07009). Phases with equally many taps are channels of one convolution, except
// depthwise ones; one step then puts the phases' pixels between each other.
#pragma once

#include <functional>
#include <vector>

#include "kernels/geometry.h"
#include "plan/builder.h"
#include "plan/lower/epilogue.h"

namespace requant {

/// One of the convolutions, of stride 1.
struct PhaseConvolution {
  ConvGeometry geometry;
  std::vector<int32_t> channels;  // of the ConvTranspose, by output channel
  /// By weight [out_c, in_c / groups, kernel_h, kernel_w]: its place among the ConvTranspose's
  /// [in_c, out_c / groups, kernel_h, kernel_w], or -1 where no tap is.
  std::vector<int32_t> weights;
};

class Transposition {
 public:
  /// `geometry` as of TransposedGeometryOf.
  explicit Transposition(const ConvGeometry& geometry);

  /// Whether all sizes fit the kernels.
  bool Fits() const;

  /// Adds the step of a convolution.
  using Add = std::function<void(const PhaseConvolution& convolution, int input, int output,
                                 const Epilogue& epilogue)>;
  /// Adds the steps for `node`, whose elements have so many bytes.
  void Plan(PlanBuilder& builder, const Node& node, size_t element_bytes, const Add& add) const;

 private:
  /// Along one dimension, phases that are one convolution: its output i is each phase's i + begin.
  struct Group {
    int32_t phases = 0;
    int32_t taps = 0;    // of the convolution; without any it has one that is 0
    int32_t offset = 0;  // inputs that the last of these lies before the output
    int32_t begin = 0, size = 0, pad = 0;
  };
  /// Outputs of one phase: those at (first + i) * stride + residue - pad, for i < count.
  struct Phase {
    int32_t residue, first, count;
    size_t group;
  };
  /// One spatial dimension of the ConvTranspose.
  struct Axis {
    int32_t output, kernel, stride, dilation, pad;
    std::vector<Group> groups;
    std::vector<Phase> phases;  // of all groups

    int32_t step() const;    // between taps
    int32_t spread() const;  // between their inputs
    /// The kernel's taps in the order of the convolution's; -1 for the one of none.
    std::vector<int32_t> TapsOf(const Phase& phase) const;
    /// With `apart` every phase is a group of its own.
    void MakeGroups(bool apart);
  };
  struct Move;
  class InterleaveStep;
  friend std::unique_ptr<Step> NewInterleaveStep(StepKind kind);

  int32_t width() const { return g_.out_c / g_.groups; }
  /// Its channels are, of each group of the weights, each phase's.
  ConvGeometry GeometryOf(size_t row_group, size_t column_group) const;
  PhaseConvolution ConvolutionOf(size_t row_group, size_t column_group) const;
  /// Copies of what pixels have of one group of the weights and one phase.
  void AddMoves(size_t row_group, size_t column_group, size_t element_bytes, uint32_t source,
                std::vector<Move>& moves) const;

  ConvGeometry g_;
  Axis rows_, columns_;
};

}  // namespace requant
