// Operands that broadcast to one shape.
#pragma once

#include "tflite/converter.h"

namespace requant::tflite {

struct Operands {
  std::vector<Value*> values;
  Order order = Order::kPlain;
};

/// The reals of the inputs [first, last), all in one order of dimensions: planar if one of them
/// already is and the others are constants or have as many dimensions.
Operands BroadcastOperands(Context& context, size_t first, size_t last);

}  // namespace requant::tflite
