#include "quant/recover/recover.h"

namespace requant {

std::vector<double> MeanShift(const Tensor& weights, const Tensor& integers,
                              const InputMoments& moments, const TensorQuantizationConfig& config) {
  const WeightMatrix& view = moments.view();
  std::vector<double> shift(static_cast<size_t>(view.rows));
  const float* data = weights.data<float>();
  for (int64_t group = 0; group < view.groups; ++group) {
    const std::vector<double> mean = moments.Mean(group);
    for (int64_t i = 0; i < view.rows_per_group(); ++i) {
      const int64_t row = group * view.rows_per_group() + i;
      const size_t channel = config.scale.size() > 1 ? static_cast<size_t>(row) : 0;
      const double scale = static_cast<double>(config.scale[channel]);
      double sum = 0;
      for (int64_t column = 0; column < view.k; ++column) {
        const int64_t at = row * view.row_stride + column * view.k_stride;
        const double error =
            static_cast<double>(integers.AsInt64(at)) * scale - static_cast<double>(data[at]);
        sum += error * mean[static_cast<size_t>(column)];
      }
      shift[static_cast<size_t>(row)] = sum;
    }
  }
  return shift;
}

}  // namespace requant
