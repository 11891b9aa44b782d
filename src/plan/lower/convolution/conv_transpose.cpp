// Lowers float ConvTranspose as convolutions (transposition.h).
#include "plan/lower/convolution/transposition.h"
#include "plan/lower/convolution/window.h"
#include "plan/lower/rows.h"

namespace requant {

bool LowerConvTranspose(PlanBuilder& builder, const Node& node) {
  if (node.inputs[0]->type.StaticShape().size() == 5) return LowerTransposedVolume(builder, node);
  const Tensor* weights = node.constant(1);
  const Tensor* bias = node.constant(2);
  if (weights == nullptr || weights->dtype() != DType::kFloat32 || weights->count() == 0 ||
      (node.input(2) && !bias)) {
    return false;
  }
  const auto geometry = TransposedGeometryOf(node, node.inputs[0]->type.StaticShape(),
                                             node.outputs[0]->type.StaticShape(), weights->shape());
  if (!geometry || !FitsInt32(*geometry)) return false;
  const Transposition transposition(*geometry);
  if (!transposition.Fits()) return false;
  const auto add = [&](const PhaseConvolution& convolution, int input, int output,
                       const Epilogue& epilogue) {
    const ConvGeometry& phase = convolution.geometry;
    std::vector<float> values, sums;
    values.reserve(convolution.weights.size());
    for (const int32_t from : convolution.weights) {
      values.push_back(from < 0 ? 0 : weights->data<float>()[from]);
    }
    for (const int32_t channel : convolution.channels) {
      if (bias) sums.push_back(bias->data<float>()[channel]);
    }
    const float* bias_data = bias ? sums.data() : nullptr;
    if (IsDepthwise(phase)) {
      AddDepthwiseF32Step(builder, node, phase, values.data(), bias_data, input, output, epilogue);
    } else {
      const ConvF32Weights source{OihwLayout(phase.out_c, phase.in_c / phase.groups, phase.kernel_h,
                                             phase.kernel_w, phase.groups),
                                  values.data(), bias_data};
      AddConvF32Step(builder, node, phase, source, {input}, output, epilogue);
    }
  };
  transposition.Plan(builder, node, sizeof(float), add);
  return true;
}

}  // namespace requant
