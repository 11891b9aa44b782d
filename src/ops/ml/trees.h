// Ensembles of decision trees (onnx docs/Operators-ml.md: TreeEnsemble, and its older forms
// TreeEnsembleClassifier and TreeEnsembleRegressor).
#pragma once

#include <cstdint>
#include <vector>

#include "ops/ml/scores.h"

namespace requant {

/// The comparison of a node, in the order of TreeEnsemble's nodes_modes.
enum class TreeMode : uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember, kLeaf };

struct TreeNode {
  TreeMode mode = TreeMode::kLeaf;
  bool missing_is_true = false;
  uint32_t feature = 0;
  uint32_t yes = 0, no = 0;      // nodes
  uint32_t first = 0, last = 0;  // weights of a leaf, or members of a set
  double split = 0;
};

struct TreeWeight {
  uint32_t target;
  double value;
};

enum class TreeSum : uint8_t { kAverage, kSum, kMin, kMax };

struct Trees {
  std::vector<TreeNode> nodes;
  std::vector<uint32_t> roots;
  std::vector<TreeWeight> weights;
  std::vector<double> members;
  std::vector<double> base;  // of each target; empty: 0
  TreeSum sum = TreeSum::kSum;
  size_t targets = 0;

  /// The sums of one row, and which targets have any weight.
  struct Scores {
    std::vector<double> values;
    std::vector<bool> given;
  };
  Scores Run(const double* row, bool single) const;
};

/// Reads the attributes of TreeEnsembleClassifier (`classes`: the number of them) or of
/// TreeEnsembleRegressor (0), or those of TreeEnsemble. Throws kInvalidModel for lists that do not
/// fit, nodes that are not there, and cycles.
Trees ReadOldTrees(const Node& node, size_t classes);
Trees ReadTrees(const Node& node);

}  // namespace requant
