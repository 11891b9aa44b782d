// What a file's Q/DQ nodes say, between their removal and the record that is made of it.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "ir/graph.h"
#include "quant/record.h"

namespace requant {

using SlotKey = std::pair<std::string, size_t>;  // node name, input slot

struct FileQuantization {
  std::map<SlotKey, TensorQuantizationConfig> reads;
  std::map<std::string, TensorQuantizationConfig> writes;  // by value name
};

/// The same scales, zero points and type. Fewer codes than the type has are not compared.
bool SameQuantization(const TensorQuantizationConfig& a, const TensorQuantizationConfig& b);

/// They are compared.
bool SameCodes(const TensorQuantizationConfig& a, const TensorQuantizationConfig& b);

/// Takes the pairs out of the graph, which is float then. With `keep_weights` false, weights that
/// only layers read become placeholders: dtype and shape without values.
FileQuantization RemovePairs(Graph& graph, bool keep_weights);

/// The record of the float graph that RemovePairs left, prepared. Formats that passive operators
/// hand on are added to `file`.
QuantizationRecord BuildRecord(const Graph& graph, FileQuantization& file);

}  // namespace requant
