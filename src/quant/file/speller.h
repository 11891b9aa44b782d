// QOperator -> Q/DQ pairs, operator by operator (spell_pairs.cpp has the form, spell_sums.cpp that
// of layers that write floats).
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace requant {

struct QLinearRow;

class Speller {
 public:
  explicit Speller(Graph& graph) : graph_(graph) {}

  /// Replaces the operators named in `only`, with the Clips behind them; all operators if it is
  /// empty.
  bool Run(std::string_view only);

 private:
  struct Format {
    Value* scale;
    Value* zero_point;
  };

  // spell_pairs.cpp
  std::string RealName(const Value* integers) const;
  bool IsMade(const Node& node) const;
  Value* Spread(const Value* one, int64_t count);
  Value* Dequantized(const Node& node, Value* integers, const Format& format, int64_t axis = -1);
  Value* Replace(Node& node, std::string op_type, std::vector<Value*> inputs, const Format& format,
                 AttributeMap attributes);
  bool IsSpelled(const Node& node, const QLinearRow& row);
  void Compute(Node& node, const QLinearRow& row);
  Value* Bias(const Node& node, Value* integers);
  void Concat(Node& node);
  void Move(Node& node);
  bool Limit(Node& clip, const Format& format);
  // spell_sums.cpp
  bool Sums(Node& node);

  Graph& graph_;
  std::map<const Value*, Format> formats_;  // of the values that are integers
  std::set<const Value*> made_;             // float values that this pass made
  std::set<const Node*> erased_;            // visited nodes that are removed already
};

}  // namespace requant
