#include "quant/recover/weights/layer_weights.h"

namespace requant {

std::vector<double> MeanShift(const Tensor& weights, const Tensor& integers,
                              const InputMoments& moments, const TensorQuantizationConfig& config,
                              LayerNoise* noise) {
  LayerNoise unused;
  if (noise == nullptr) noise = &unused;
  const WeightMatrix& view = moments.view();
  std::vector<double> shift(static_cast<size_t>(view.rows));
  const float* data = weights.data<float>();
  for (int64_t group = 0; group < view.groups; ++group) {
    const std::vector<double> mean = moments.Mean(group);
    const std::vector<double> variance = moments.Diagonal(group, true);
    for (int64_t i = 0; i < view.rows_per_group(); ++i) {
      const int64_t row = group * view.rows_per_group() + i;
      const double scale = config.ScaleOfRow(row);
      const int32_t offset = config.OffsetOfRow(row);
      double sum = 0;
      double output = 0;  // mean of the output
      for (int64_t column = 0; column < view.k; ++column) {
        const int64_t at = view.At(row, column);
        const auto k = static_cast<size_t>(column);
        const auto weight = static_cast<double>(data[at]);
        const double error = static_cast<double>(integers.AsInt64(at) - offset) * scale - weight;
        sum += error * mean[k];
        output += weight * mean[k];
        noise->signal += variance[k] * weight * weight;
        noise->after += variance[k] * error * error;
      }
      noise->signal += output * output;
      noise->before += sum * sum;
      shift[static_cast<size_t>(row)] = sum;
    }
  }
  noise->before += noise->after;
  return shift;
}

void CorrectBias(LayerWeights& layer, LayerNoise& noise) {
  const std::vector<double> shift =
      MeanShift(layer.weights, layer.config.baked, layer.inputs, layer.config, &noise);
  layer.bias.resize(shift.size());
  for (size_t i = 0; i < shift.size(); ++i) layer.bias[i] -= shift[i];
}

}  // namespace requant
