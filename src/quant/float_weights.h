// Which weights quantization left in float, and why.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "quant/record.h"
#include "quant/settings.h"

namespace requant {

/// Weights that stay float, and why.
struct FloatWeights {
  struct Layer {
    std::string name;  // with those of the nodes and bodies that it is in
    std::string op_type, reason;
  };
  std::vector<Layer> layers;
  size_t total = 0;  // weights that there are

  /// One line for people; empty without any.
  std::string Summary() const;
  /// { operators: [{ name, type, reason }], summary }
  std::string Json() const;
};

/// Whether a constant is worth to be quantized: floats of some number, in two dimensions or more.
bool AreWeights(const Tensor& tensor);

/// Quantizes the weights in bodies of If, Loop and Scan (QuantizeBodiesDynamically), lists the
/// operators there in the record, and warns in one line of the weights that stay float, there and
/// outside.
void SettleBodies(Graph& graph, const QuantizeOptions& options, QuantizationRecord& record);

}  // namespace requant
