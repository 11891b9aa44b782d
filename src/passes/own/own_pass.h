// Passes of the user's own: a pattern and a function that says what replaces it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "passes/own/pattern.h"

namespace requant {

/// An operand of a new operator: a value of the graph, or an output of a new operator before it.
struct OperandRef {
  Value* value = nullptr;
  int64_t node = -1;  // index in Replacement::nodes
  size_t output = 0;
  bool absent() const { return value == nullptr && node < 0; }
};

struct NewOperator {
  std::string op, domain, name;  // an empty name: one after the root of the match
  std::vector<OperandRef> inputs;
  size_t outputs = 1;
  AttributeMap attributes;
};

/// A replacement of a match: its operators in topological order, and the operand that replaces each
/// output of the root (absent for one that stays).
struct Replacement {
  std::vector<NewOperator> nodes;
  std::vector<OperandRef> results;
};

struct OwnPassSpec {
  std::string name, summary;
  std::string before, after;  // the pass that it runs before or after; both empty: it runs last
  double bound = 0;           // as in Pass
  bool by_default = false;    // runs without being named, in sessions too
  int64_t limit = 10000;      // the most rewrites of one run
  PatternNode pattern;
  /// Returns what replaces the match, or nullopt to leave it. Values that it adds to the graph must
  /// be constants.
  std::function<std::optional<Replacement>(Graph&, const PatternMatch&)> rewrite;
};

/// Adds a pass to every pipeline (OwnPasses, passes/runner.h). It rewrites each match, and checks
/// the graph after each rewrite: operators are known and their inputs fit, no cycles, unique names,
/// and results have the types of what they replace. Errors name the pass and the root. After
/// `limit` rewrites in one run it throws kInvalidArgument. Throws kInvalidArgument for a name that
/// is taken, a `before` or `after` that is no pass, and more than kMostOwnPasses passes.
void AddOwnPass(OwnPassSpec spec);
/// Takes the pass out again; returns whether there was one.
bool RemoveOwnPass(const std::string& name);

inline constexpr size_t kMostOwnPasses = 16;

}  // namespace requant
