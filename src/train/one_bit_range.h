// The range of a value of one bit that training observes.
#pragma once

#include <span>

#include "quant/config/tensor_quantization_config.h"
#include "quant/observers/observer.h"
#include "tensor/tensor.h"

namespace requant {

/// The moving average of the range that one bit needs: for signs the mean magnitude of the batch,
/// for 0 and 1 the mean of the values that are 1 (k-means of two, with one mean kept at 0). `mean`
/// is the average of this magnitude, 0 before the first batch.
Range FollowOneBit(const TensorQuantizationConfig& config, std::span<const Tensor> batch,
                   double& mean);

}  // namespace requant
