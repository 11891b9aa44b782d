// What a Concat's result reaches, on the way to layers and other readers (separate_concats.h).
#pragma once

#include <map>
#include <set>
#include <vector>

#include "quant/config/record.h"

namespace requant {

/// The rank of a value, 0 where it is not known.
inline size_t RankOf(const Value& value) { return value.type.shape ? value.type.shape->size() : 0; }

/// A Concat of several floats of known rank.
bool JoinsFloats(const Node& node);
/// The axis along which it joins, counted from the front.
int64_t AxisOf(const Node& concat);

/// Nullptr for operators that are not quantized.
const OperatorQuantization* Quantized(const QuantizationRecord& record, const Node* node);

/// The part of the graph that depends on a Concat's result.
struct Reach {
  struct Layer {
    Node* node;
    const Value* input;
    int axis;  // axis of its input along which the operands are joined
  };
  std::vector<Layer> layers;   // layers that can take factors
  std::vector<Value*> values;  // values between the Concat and these layers, its own result first
  std::map<const Value*, int> averages;  // the averages among the values, and their joined axis
  std::set<const Node*> movers;          // passive operators that read the result
  std::vector<const Value*> selected;    // values that such operators select from it
  std::vector<Node*> products;           // layers that read all of it and cannot take factors
  bool whole = true;  // only layers and operators that commute with factors read it
};

Reach FindReach(const Graph& graph, const QuantizationRecord& record, const Node& concat);

}  // namespace requant
