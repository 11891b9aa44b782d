// Lists the weights that quantization left in float, and why.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "quant/config/record.h"
#include "quant/config/settings.h"

namespace requant {

/// Weights that stay float, and why.
struct FloatWeights {
  struct Layer {
    std::string name;  // behind the names of the nodes and bodies around it
    std::string op_type, reason;
  };
  std::vector<Layer> layers;
  size_t total = 0;  // number of all weights

  /// One line for people; empty if there are none.
  std::string Summary() const;
  /// JSON: { operators: [{ name, type, reason }], summary }
  std::string Json() const;
};

/// Whether a constant is worth quantizing: a number of floats in two dimensions or more.
bool AreWeights(const Tensor& tensor);

/// Quantizes the weights in bodies of If, Loop and Scan (QuantizeBodiesDynamically), lists the
/// operators there in the record, and warns in one line of the weights that stay float, inside
/// bodies and outside.
void SettleBodies(Graph& graph, const QuantizeOptions& options, QuantizationRecord& record);

}  // namespace requant
