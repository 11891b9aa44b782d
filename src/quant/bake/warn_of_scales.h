// Scales that leave too little of most samples.
#pragma once

#include <map>

#include "quant/calibrate/calibration.h"
#include "quant/config/record.h"
#include "quant/config/settings.h"

namespace requant {

/// Warns of values whose steps are too wide for half of the samples, once for all of each kind.
/// `slots`: what calibration saw, by config; the configs have their scales.
void WarnOfScales(const std::map<int, Watch>& slots, const QuantizeOptions& options,
                  QuantizationRecord& record);

}  // namespace requant
