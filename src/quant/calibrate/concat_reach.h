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

/// What a Concat's result reaches.
struct Reach {
  struct Layer {
    Node* node;
    const Value* input;
    int axis;  // of its input: where the operands are joined
  };
  std::vector<Layer> layers;             // that can take factors
  std::vector<Value*> values;            // between the Concat and them, its own result first
  std::map<const Value*, int> averages;  // those of them that are averages, and the joined axis
  std::set<const Node*> movers;          // passive operators behind it
  std::vector<const Value*> selected;    // what those select of it
  std::vector<Node*> products;           // that cannot take factors and read all of it
  bool whole = true;                     // layers and operators that let factors through, no others
};

Reach FindReach(const Graph& graph, const QuantizationRecord& record, const Node& concat);

}  // namespace requant
