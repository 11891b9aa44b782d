// The quantization in a file's Q/DQ nodes, between their removal and the record that is made of it.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "ir/graph.h"
#include "quant/config/record.h"

namespace requant {

using SlotKey = std::pair<std::string, size_t>;  // node name, input slot

struct FileQuantization {
  std::map<SlotKey, TensorQuantizationConfig> reads;
  std::map<std::string, TensorQuantizationConfig> writes;  // indexed by value name
};

/// Whether scales, zero points and type are equal. Ignores whether fewer codes are in use than the
/// type has.
bool SameQuantization(const TensorQuantizationConfig& a, const TensorQuantizationConfig& b);

/// Whether the same codes are in use.
bool SameCodes(const TensorQuantizationConfig& a, const TensorQuantizationConfig& b);

/// Removes the pairs from the graph, which is then a float graph. With keep_weights false, weights
/// that only layers read become placeholders with dtype and shape but no values.
FileQuantization RemovePairs(Graph& graph, bool keep_weights);

/// Makes the record of the prepared float graph that RemovePairs left. Adds the formats that
/// passive operators pass on to `file`.
QuantizationRecord BuildRecord(const Graph& graph, FileQuantization& file);

}  // namespace requant
