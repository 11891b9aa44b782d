// Lowers QLinearConvTranspose as convolutions on the 8-bit kernels (transposition.h), with the same
// int32 products as the definition.
#include <utility>

#include "plan/lower/convolution/qconv.h"
#include "plan/lower/convolution/transposition.h"
#include "plan/lower/convolution/window.h"
#include "plan/lower/rows.h"

namespace requant {
namespace {

/// Adds the step of one convolution; `whole` describes the ConvTranspose.
void AddPhase(PlanBuilder& builder, const Node& node, const QProduct& whole,
              const PhaseConvolution& convolution, int input, int output,
              const Epilogue& epilogue) {
  const ConvGeometry& geometry = convolution.geometry;
  const auto* source = static_cast<const uint8_t*>(whole.weights.data);
  const size_t each = convolution.weights.size() / convolution.channels.size();
  QProduct product = whole;
  product.weight_scales.clear();
  product.weight_zero_points.clear();
  std::vector<uint8_t> weights;
  std::vector<int32_t> bias;
  for (const int32_t index : convolution.channels) {
    const auto channel = static_cast<size_t>(index);
    const auto& zeros = whole.weight_zero_points;
    const int32_t zero = zeros.empty() ? 0 : zeros[channel];
    product.weight_scales.push_back(whole.weight_scales[channel]);
    product.weight_zero_points.push_back(zero);
    if (whole.weights.bias) bias.push_back(whole.weights.bias[channel]);
    for (size_t i = 0; i < each; ++i) {
      const int32_t from = convolution.weights[weights.size()];
      weights.push_back(from < 0 ? static_cast<uint8_t>(zero) : source[from]);
    }
  }
  product.weight_zero_points = NonZero(product.weight_zero_points);
  product.weights = ConvQ8Weights{OihwLayout(geometry.out_c, geometry.in_c / geometry.groups,
                                             geometry.kernel_h, geometry.kernel_w, geometry.groups),
                                  weights.data(), whole.weights.is_signed, product.zero_points(),
                                  bias.empty() ? nullptr : bias.data()};
  if (IsDepthwise(geometry)) {
    AddDepthwiseQ8Step(builder, node, geometry, product, input, output, epilogue);
  } else {
    AddConvQ8Step(builder, node, geometry, std::move(product), {input}, output, epilogue);
  }
}

}  // namespace

bool LowerQLinearConvTranspose(PlanBuilder& builder, const Node& node) {
  if (node.inputs[0]->type.StaticShape().size() == 5) return LowerTransposedVolume(builder, node);
  const Tensor* weights = node.constant(3);
  const Tensor* bias = node.constant(8);
  const auto x = ReadQuant(node, 1, 2);
  auto w = ReadWeightQuant(node);
  const auto y = ReadQuant(node, 6, 7);
  if (weights == nullptr || weights->count() == 0 || !x || !w || !y || (node.input(8) && !bias) ||
      x->scales.size() != 1 || y->scales.size() != 1) {
    return false;
  }
  const auto geometry = TransposedGeometryOf(node, node.inputs[0]->type.StaticShape(),
                                             node.outputs[0]->type.StaticShape(), weights->shape());
  if (!geometry) return false;
  // The groups of the weights may share scales and zero points.
  const size_t own = w->scales.size();
  const bool shared = own > 1 && own == w->zero_points.size();
  while (shared && w->scales.size() < static_cast<size_t>(geometry->out_c)) {
    w->scales.push_back(w->scales[w->scales.size() - own]);
    w->zero_points.push_back(w->zero_points[w->zero_points.size() - own]);
  }
  const auto per_channel = Expand(*w, geometry->out_c);
  if (!per_channel) return false;
  QProduct product;
  product.weight_zero_points = NonZero(per_channel->zero_points);
  product.weights.data = weights->raw();
  product.weights.is_signed = weights->dtype() == DType::kInt8;
  product.weights.bias = bias ? bias->data<int32_t>() : nullptr;
  product.input_scale = x->scales[0];
  product.input_zero_point = x->zero_points[0];
  product.weight_scales = per_channel->scales;
  product.output_scale = y->scales[0];
  product.output_zero_point = y->zero_points[0];
  const Transposition transposition(*geometry);
  if (!transposition.Fits()) return false;
  transposition.Plan(
      builder, node, 1,
      [&](const PhaseConvolution& convolution, int input, int output, const Epilogue& epilogue) {
        AddPhase(builder, node, product, convolution, input, output, epilogue);
      });
  return true;
}

}  // namespace requant
