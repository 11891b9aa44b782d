// Checks the model that quantize() made before it is returned.
#pragma once

#include <string>
#include <vector>

#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "quant/quantizer.h"

namespace requant {

/// Name, type and shape of one feed.
struct FeedType {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape shape;
};
std::vector<FeedType> TypesOf(const TensorMap& feeds);

/// Plans the model for these inputs (for the declared ones if there are none and all are known) and
/// drops the plan. Operators that cannot be planned become float ones, with a warning each. Throws
/// what a session of the model would throw for any other reason.
void KeepRunnable(QuantizedModel& model, const std::vector<FeedType>& feeds);

}  // namespace requant
