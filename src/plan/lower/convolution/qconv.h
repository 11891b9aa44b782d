#pragma once

#include <optional>
#include <vector>

#include "base/late_function.h"
#include "kernels/conv/table.h"
#include "numeric/requantize_prepare.h"
#include "ops/quantized/qlinear.h"
#include "plan/builder.h"
#include "plan/lower/convolution/byte_weights.h"
#include "plan/lower/elementwise/epilogue.h"

namespace requant {

/// Scales and zero points of one operand, constants of the graph: one entry, or one per channel.
struct QuantConstants {
  std::vector<float> scales;
  std::vector<int32_t> zero_points;
};
/// Reads scales and zero points from these slots; nullopt when they are not constant or the scales
/// violate the rule. A missing zero point is 0.
std::optional<QuantConstants> ReadQuant(const Node& node, size_t scale_slot, size_t zero_point_slot,
                                        ScaleRule rule = ScaleRule::kPositive);
/// Reads scales and zero points of weights, from slots 4 and 5.
inline std::optional<QuantConstants> ReadWeightQuant(const Node& node) {
  return ReadQuant(node, 4, 5, ScaleRule::kPositiveOrZero);
}
/// Repeats a single entry for all channels; nullopt when the length is neither 1 nor `channels`.
std::optional<QuantConstants> Expand(QuantConstants constants, int32_t channels);

/// The clamp of an 8-bit output: its type's range, cut by the epilogue's bounds.
CodeRange ClampOf(DType dtype, const ClampBounds& bounds);
/// The codes under a window: those of the value and, in the padding, its zero point.
CodeRange InputCodes(const PlanBuilder& builder, const Value* value, int32_t zero_point);

/// Step::tuning of a product of 8-bit values, for a kernel family, codes and weights.
std::string QTuningOf(const char* family, const ConvGeometry& geometry, CodeRange codes,
                      const ConvQ8Weights& weights);

/// Everything except geometry that a convolution or matrix product of 8-bit values needs.
struct QProduct {
  ByteWeights weights;
  std::vector<int32_t> weight_zero_points;  // backs weights.zero_points; empty when all are 0
  float input_scale = 1;
  int32_t input_zero_point = 0;
  std::vector<float> weight_scales;  // per output channel
  float output_scale = 1;
  int32_t output_zero_point = 0;

  const int32_t* zero_points() const {
    return weight_zero_points.empty() ? nullptr : weight_zero_points.data();
  }
};

/// AddNarrowRequantize is loaded with the kernels for few bits.
extern const LateFunction<decltype(AddNarrowRequantize)> kAddNarrowRequantize;

/// The zero points, or an empty vector when all are 0, as usual for int8 weights: packing these is
/// a copy without a subtraction.
std::vector<int32_t> NonZero(const std::vector<int32_t>& zero_points);
/// Chooses the row for these weights; `tuning` as in PlanBuilder::Choose.
const ConvQ8Kernel& ChooseConvQ8(const PlanBuilder& builder, const ConvQ8Weights& weights,
                                 const ConvGeometry& geometry, const std::string& tuning);
/// Adds the step for `node` and merges the operators that follow.
void AddConvQ8Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                   QProduct product, Layout layout, int input);
/// Adds the step for `node` with a given epilogue. `inputs` are the slots of the data and, if any,
/// of the residual.
void AddConvQ8Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                   QProduct product, const std::vector<int>& inputs, int output,
                   const Epilogue& epilogue);
/// Adds the step of a depthwise convolution, without a residual.
void AddDepthwiseQ8Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                        const QProduct& product, int input, int output, const Epilogue& epilogue);

}  // namespace requant
