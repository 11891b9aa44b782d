// Patterns that a user's pass looks for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// A tree of operators. An operator fits if its name and domain do and, where `inputs` are given,
/// there are as many inputs and all of them fit; `commutes` lets the two inputs of an operator fit
/// in either order.
struct PatternNode {
  enum class Kind : uint8_t {
    kOperator,
    kValue,     // any value
    kConstant,  // a constant
    kAbsent,    // an optional input that is left out
  };
  Kind kind = Kind::kValue;
  std::string op, domain;
  /// The key of the match under which the operator or value is found; equal names of values must
  /// be one value. Empty: none.
  std::string name;
  bool commutes = false;
  bool has_inputs = false;
  std::vector<PatternNode> inputs;
};

/// The nodes and values that the names of a pattern stand for.
struct PatternMatch {
  Node* root = nullptr;
  std::map<std::string, Node*> nodes;
  std::map<std::string, Value*> values;
};

/// Whether the tree fits at `root`, whose pattern is an operator. Fills in the match.
bool MatchPattern(const PatternNode& pattern, Node* root, PatternMatch& match);

}  // namespace requant
