#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/quantizer.h"

namespace requant {

struct TrainedLayer {
  std::vector<float> weights, bias;  // as in the model; an empty bias means none
};

/// Puts trained layers (by node) into the model. Its float graph gets their weights, its record the
/// integers for the scales that it has; both are what the quantizer would have made of them.
void Deploy(const std::map<std::string, TrainedLayer>& layers, QuantizedModel& model);

}  // namespace requant
