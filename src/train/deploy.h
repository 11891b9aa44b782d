#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/quantizer.h"

namespace requant {

struct TrainedLayer {
  std::vector<float> weights, bias;  // as the model has them; no bias: none
};

/// Puts trained layers (by node) into the model: its float graph gets their weights, its record the
/// integers for the scales that it has, both as the quantizer would have made them.
void Deploy(const std::map<std::string, TrainedLayer>& layers, QuantizedModel& model);

}  // namespace requant
