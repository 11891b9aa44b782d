// Lowers QLinearConv: 8-bit convolution with requantization and clamp fused.
#include "plan/lower/convolution/qconv.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/str_cat.h"
#include "kernels/variant/missing.h"
#include "numeric/few_bits.h"
#include "numeric/multiplier.h"
#include "plan/lower/convolution/window_step.h"
#include "plan/lower/elementwise/qelementwise.h"
#include "plan/lower/rows.h"

namespace requant {
namespace {

/// Whether some row that is usually faster than the general one keeps few-bit weights packed, as
/// the rows for few bits do.
bool HasPackedRow(const ConvQ8Weights& weights, const ConvGeometry& geometry, bool relaxed) {
  const auto rows = ConvQ8Kernels();
  const auto is_general = [](const ConvQ8Kernel& row) { return row.run == rq_conv_q8; };
  return std::any_of(
      std::find_if(rows.begin(), rows.end(), is_general), rows.end(), [&](const ConvQ8Kernel& row) {
        return IsLowBits(row.missing) && IsUsable(row, relaxed) &&
               row.supports(weights, geometry) && row.is_preferred(weights, geometry);
      });
}

int32_t LargestInput(CodeRange codes, int32_t zero_point) {
  return std::max(std::abs(codes.lo - zero_point), std::abs(codes.hi - zero_point));
}

PreparedRequantize Prepare(const PlanBuilder& builder, const QProduct& product,
                           const std::vector<int64_t>& bounds, CodeRange clamp) {
  const RequantizeMode mode = builder.options().requantize;
  std::vector<double> multipliers;
  for (const float scale : product.weight_scales) {
    multipliers.push_back(
        ProductMultiplier(mode, product.input_scale, scale, product.output_scale));
  }
  return PrepareRequantize(mode, multipliers, bounds, product.output_zero_point, clamp.lo,
                           clamp.hi);
}

/// Prepares the cheaper requantization to few codes, for kernels of any width; it is loaded with
/// the kernels for few bits.
void AddNarrow(PreparedRequantize& requantize, const std::vector<int64_t>& bounds) {
  if (MissingLowBits() == nullptr) kAddNarrowRequantize(requantize, bounds);
}

void AccumulatorBounds(const ConvQ8Weights& weights, int32_t most, int64_t* bounds) {
  ConvQ8AccumulatorBounds(weights, most, bounds);
}
void AccumulatorBounds(const DwConvQ8Weights& weights, int32_t most, int64_t* bounds) {
  DwConvQ8AccumulatorBounds(weights, most, bounds);
}

const uint8_t* PackFor(PlanBuilder& builder, const ConvQ8Kernel& row, const ByteWeights& weights) {
  return PackBytes(builder, row, weights);
}
const uint8_t* PackFor(PlanBuilder& builder, const DwConvQ8Kernel& row,
                       const DwConvQ8Weights& weights) {
  return builder.Pack(row, weights);
}

/// Prepares the requantization of a product to codes in `own`. Where a node is lowered again with
/// the packed weights of its former step, the former step's requantization is moved: it depends on
/// constants and on codes, which do not change with shapes.
template <typename ProductStep, typename Weights>
PreparedRequantize RequantizeOf(PlanBuilder& builder, const Weights& weights, const void* packed,
                                const QProduct& product, CodeRange codes, CodeRange own) {
  if (Step* former = builder.Former(); former && former->kind() == ProductStep::kKind) {
    auto& same = static_cast<ProductStep&>(*former);
    if (same.params.weights == packed) return std::move(same.requantize);
  }
  std::vector<int64_t> bounds(product.weight_scales.size());
  AccumulatorBounds(weights, LargestInput(codes, product.input_zero_point), bounds.data());
  PreparedRequantize requantize = Prepare(builder, product, bounds, own);
  AddNarrow(requantize, bounds);
  return requantize;
}

/// Adds the step of a product by this row of a table, with its weights packed and its result
/// requantized to codes in `own`; the step still has to be Set.
template <typename ProductStep, typename Row, typename Weights>
ProductStep& AddQ8Step(PlanBuilder& builder, const Node& node, const Row& row,
                       const Weights& weights, const QProduct& product, CodeRange codes,
                       CodeRange own, const std::vector<int>& inputs, int output) {
  const uint8_t* packed = PackFor(builder, row, weights);
  PreparedRequantize requantize =
      RequantizeOf<ProductStep>(builder, weights, packed, product, codes, own);
  auto& step = builder.Add<ProductStep>(node, row.name, inputs, {output});
  step.params.weights = packed;
  step.params.input_signed = node.inputs[0]->type.dtype == DType::kInt8;
  step.params.input_zero_point = product.input_zero_point;
  step.requantize = std::move(requantize);
  return step;
}

}  // namespace

std::string QTuningOf(const char* family, const ConvGeometry& geometry, CodeRange codes,
                      const ConvQ8Weights& weights) {
  return TuningOf(family, geometry,
                  StrCat(", codes ", codes.lo, " to ", codes.hi, ", weights of ",
                         ConvQ8WeightBits(weights), " bits"));
}

std::optional<QuantConstants> ReadQuant(const Node& node, size_t scale_slot, size_t zero_point_slot,
                                        ScaleRule rule) {
  const Tensor* scale = node.constant(scale_slot);
  const Tensor* zero_point = node.constant(zero_point_slot);
  if (scale == nullptr || (node.input(zero_point_slot) && zero_point == nullptr)) {
    return std::nullopt;
  }
  QuantConstants out{scale->ToFloats(), {}};
  for (const float value : out.scales) {
    const bool fits = value > 0 || (value == 0 && rule == ScaleRule::kPositiveOrZero);
    if (!fits || !std::isfinite(value)) return std::nullopt;  // the reference reports the node
  }
  if (zero_point) {
    const std::vector<int64_t> values = zero_point->ToInts();
    out.zero_points.assign(values.begin(), values.end());
  } else {
    out.zero_points.assign(out.scales.size(), 0);
  }
  return out;
}

std::optional<QuantConstants> Expand(QuantConstants constants, int32_t channels) {
  const auto wanted = static_cast<size_t>(channels);
  if (constants.scales.size() == 1) constants.scales.resize(wanted, constants.scales[0]);
  if (constants.zero_points.size() == 1) {
    constants.zero_points.resize(wanted, constants.zero_points[0]);
  }
  if (constants.scales.size() != wanted || constants.zero_points.size() != wanted) {
    return std::nullopt;
  }
  return constants;
}

CodeRange ClampOf(DType dtype, const ClampBounds& bounds) {
  const double lo = dtype == DType::kInt8 ? -128 : 0;
  return {static_cast<int32_t>(std::clamp(bounds.lo, lo, lo + 255)),
          static_cast<int32_t>(std::clamp(bounds.hi, lo, lo + 255))};
}

CodeRange InputCodes(const PlanBuilder& builder, const Value* value, int32_t zero_point) {
  return Join(builder.RangeOf(value), {zero_point, zero_point});
}

const ConvQ8Kernel& ChooseConvQ8(const PlanBuilder& builder, const ConvQ8Weights& weights,
                                 const ConvGeometry& geometry, const std::string& tuning) {
  // The later one of two exact rows is faster, if this machine has its instructions or it is
  // forced.
  const bool relaxed = rq_variant() != 0 || builder.IsForced("conv_q8");
  const bool packs = builder.options().compact && HasPackedRow(weights, geometry, relaxed);
  return builder.Choose(
      "conv_q8", ConvQ8Kernels(),
      [&](const ConvQ8Kernel& row) {
        return IsUsable(row, relaxed) && row.supports(weights, geometry) &&
               !(packs && !IsLowBits(row.missing));
      },
      [&](const ConvQ8Kernel& row) { return row.is_preferred(weights, geometry); }, tuning);
}

void AddDepthwiseQ8Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                        const QProduct& product, int input, int output, const Epilogue& epilogue) {
  const int64_t taps = int64_t{geometry.kernel_h} * geometry.kernel_w;
  const CodeRange codes = InputCodes(builder, node.inputs[0], product.input_zero_point);
  const DwConvQ8Weights weights{
      {geometry.in_c, geometry.kernel_h, geometry.kernel_w, taps, geometry.kernel_w, 1},
      product.weights.data,
      product.weights.is_signed,
      product.weights.zero_points,
      product.weights.bias,
      codes.lo,
      codes.hi};
  const bool relaxed = rq_variant() != 0 || builder.IsForced("dwconv_q8");
  const auto rows = DwConvQ8Kernels();
  const auto packs = [&](const DwConvQ8Kernel& row) {
    return row.missing == MissingLowBits && IsUsable(row, relaxed) && row.supports(weights);
  };
  // Kernels on whole bytes cannot read or write two codes to a byte (plan/pack/pack_activations.h).
  const bool compact = builder.options().compact && codes.hi - codes.lo <= kFewBitsRange &&
                       std::any_of(rows.begin(), rows.end(), packs);
  std::string tuning = QTuningOf("dwconv_q8", geometry, codes, product.weights);
  const DwConvQ8Kernel& kernel = builder.Choose(
      "dwconv_q8", rows,
      [&](const DwConvQ8Kernel& row) {
        return IsUsable(row, relaxed) && row.supports(weights) &&
               !(compact && row.missing == MissingDot8);
      },
      tuning);
  const DType output_type = node.outputs[0]->type.dtype;
  const CodeRange clamp = ClampOf(output_type, epilogue.clamp);
  auto& step = AddQ8Step<DepthwiseQ8Step>(builder, node, kernel, weights, product, codes, clamp,
                                          {input}, output);
  step.op = epilogue.op;
  step.tuning = std::move(tuning);
  step.params.output_signed = output_type == DType::kInt8;
  builder.SetRange(epilogue.output, clamp);
  // Parts are whole lines, whose windows share inputs.
  step.Set(builder, kernel, geometry, step.params.weights, taps, geometry.out_w, kSlowMacsPerPart);
}

void AddConvQ8Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                   QProduct product, Layout layout, int input) {
  const Epilogue epilogue = TakeEpilogue(builder, node, true);
  std::vector<int> inputs = {input};
  if (epilogue.residual) inputs.push_back(builder.In(epilogue.residual, layout));
  const int output = builder.Out(epilogue.output, layout);
  AddConvQ8Step(builder, node, geometry, std::move(product), inputs, output, epilogue);
}

void AddConvQ8Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                   QProduct product, const std::vector<int>& inputs, int output,
                   const Epilogue& epilogue) {
  const CodeRange codes = InputCodes(builder, node.inputs[0], product.input_zero_point);
  product.weights.input_lo = codes.lo;
  product.weights.input_hi = codes.hi;
  std::string tuning = QTuningOf("conv_q8", geometry, codes, product.weights);
  const ConvQ8Kernel& kernel = ChooseConvQ8(builder, product.weights, geometry, tuning);
  const DType own_type = node.outputs[0]->type.dtype;
  const CodeRange own = ClampOf(own_type, epilogue.own);
  const CodeRange clamp = ClampOf(epilogue.output->type.dtype, epilogue.clamp);
  auto& step = AddQ8Step<ConvQ8Step>(builder, node, kernel, product.weights, product, codes, own,
                                     inputs, output);
  step.op = epilogue.op;
  step.tuning = std::move(tuning);
  step.params.output_type = own_type == DType::kInt8 ? ConvQ8Output::kInt8 : ConvQ8Output::kUint8;
  builder.SetRange(epilogue.output, clamp);
  if (epilogue.addition) {
    const RequantizeMode mode = builder.options().requantize;
    const CodeRange other = builder.RangeOf(epilogue.residual);
    const bool first = epilogue.addition->inputs[0] == epilogue.residual;
    QAddParams& addition = step.params.addition;
    addition = *QAddOf(builder, *epilogue.addition);
    addition.lo = clamp.lo;
    addition.hi = clamp.hi;
    FindNarrow(mode, first ? other : own, first ? own : other, addition);
    step.params.addition_is_float = mode == RequantizeMode::kFloat;
    step.params.residual_first = first;
    step.params.residual_stride = geometry.out_c;
  }
  step.Set(builder, kernel, geometry, step.params.weights, TapsOf(product.weights.layout),
           TileOf(kernel.walk, geometry), kMacsPerPart);
}

std::vector<int32_t> NonZero(const std::vector<int32_t>& zero_points) {
  const auto zero = [](int32_t value) { return value == 0; };
  return std::all_of(zero_points.begin(), zero_points.end(), zero) ? std::vector<int32_t>()
                                                                   : zero_points;
}

bool LowerQLinearConv(PlanBuilder& builder, const Node& node) {
  const Tensor* weights = node.constant(3);
  const Tensor* bias = node.constant(8);
  const auto x = ReadQuant(node, 1, 2);
  const auto w = ReadWeightQuant(node);
  const auto y = ReadQuant(node, 6, 7);
  if (weights == nullptr || !IsByte(weights->dtype()) || !x || !w || !y ||
      (node.input(8) && bias == nullptr) || x->scales.size() != 1 || y->scales.size() != 1) {
    return false;
  }
  const Shape& shape = weights->shape();
  const auto geometry =
      GeometryOf(node, node.inputs[0]->type.StaticShape(), node.outputs[0]->type.StaticShape(),
                 Shape(shape.begin() + 2, shape.end()));
  if (!geometry) return false;
  const auto per_channel = Expand(*w, geometry->out_c);
  if (!per_channel) return false;
  QProduct product;
  product.weight_zero_points = NonZero(per_channel->zero_points);
  product.weights =
      ByteWeightsOf(builder,
                    OihwLayout(geometry->out_c, geometry->in_c / geometry->groups,
                               geometry->kernel_h, geometry->kernel_w, geometry->groups),
                    *weights, product.zero_points());
  product.weights.bias = bias ? bias->data<int32_t>() : nullptr;
  product.input_scale = x->scales[0];
  product.input_zero_point = x->zero_points[0];
  product.weight_scales = per_channel->scales;
  product.output_scale = y->scales[0];
  product.output_zero_point = y->zero_points[0];
  const int input = builder.In(node.inputs[0], Layout::kChannelsLast);
  if (IsDepthwise(*geometry)) {
    const Epilogue epilogue = TakeEpilogue(builder, node, false);
    const int output = builder.Out(epilogue.output, Layout::kChannelsLast);
    AddDepthwiseQ8Step(builder, node, *geometry, product, input, output, epilogue);
  } else {
    AddConvQ8Step(builder, node, *geometry, std::move(product), Layout::kChannelsLast, input);
  }
  return true;
}

RQ_STEP(ConvQ8, ConvQ8Step)
RQ_STEP(DepthwiseQ8, DepthwiseQ8Step)

}  // namespace requant
