#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/late_text.h"
#include "base/parse_name.h"
#include "base/str_cat.h"
#include "ops/ml/trees.h"

namespace requant {
namespace {

[[noreturn]] void Broken(const Node& node, const char* what) {
  Fail(ErrorCode::kInvalidModel, StrCat(RQ_LATE_TEXT("the trees of "), node.op_type, " ", what),
       {.node = node.name});
}
uint32_t Checked(const Node& node, int64_t index, size_t count, const char* what) {
  if (index < 0 || static_cast<uint64_t>(index) >= count) Broken(node, what);
  return static_cast<uint32_t>(index);
}
constexpr const char* kNoNode = "refer to nodes that are not there";

/// Refuses cycles, in which a row would never meet a leaf: walks from the roots must meet every
/// node exactly once.
void CheckTrees(const Node& node, const Trees& trees) {
  std::vector<bool> met(trees.nodes.size());
  std::vector<uint32_t> open = trees.roots;
  size_t count = 0;
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    if (met[at]) Broken(node, "have a node with two parents");
    met[at] = true;
    ++count;
    const TreeNode& tree_node = trees.nodes[at];
    if (tree_node.mode == TreeMode::kLeaf) continue;
    open.push_back(tree_node.yes);
    if (tree_node.no != tree_node.yes) open.push_back(tree_node.no);
  }
  if (count < met.size()) Broken(node, "have nodes that no root leads to");
}

std::vector<double> Reals(const Node& node, const char* floats, const char* tensor) {
  if (const Tensor* given = node.attributes.TensorValue(tensor)) return given->ToDoubles();
  const std::vector<float> list = node.attributes.Floats(floats);
  return {list.begin(), list.end()};
}

TreeMode ModeOf(const Node& node, const std::string& name) {
  constexpr const char* kNames[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                    "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  TreeMode mode = TreeMode::kLeaf;
  if (!ParseName(name, kNames, &mode)) Broken(node, "have an unknown mode");
  return mode;
}

std::vector<std::string> Texts(const Node& node, const char* name) {
  const Attribute* given = node.attributes.Find(name);
  const auto* list = given ? std::get_if<std::vector<std::string>>(given) : nullptr;
  return list ? *list : std::vector<std::string>();
}

}  // namespace

Trees ReadOldTrees(const Node& node, size_t classes) {
  const AttributeMap& a = node.attributes;
  const std::vector<int64_t> tree_ids = a.Ints("nodes_treeids");
  const std::vector<int64_t> node_ids = a.Ints("nodes_nodeids");
  const std::vector<int64_t> features = a.Ints("nodes_featureids");
  const std::vector<int64_t> yes = a.Ints("nodes_truenodeids");
  const std::vector<int64_t> no = a.Ints("nodes_falsenodeids");
  const std::vector<int64_t> missing = a.Ints("nodes_missing_value_tracks_true");
  const std::vector<std::string> modes = Texts(node, "nodes_modes");
  const std::vector<double> splits = Reals(node, "nodes_values", "nodes_values_as_tensor");
  const size_t count = tree_ids.size();
  const bool fit = node_ids.size() == count && features.size() == count && yes.size() == count &&
                   no.size() == count && modes.size() == count && splits.size() == count &&
                   (missing.empty() || missing.size() == count);
  if (!fit || count == 0) Broken(node, "have lists of different sizes");
  Trees trees;
  using Key = std::pair<int64_t, int64_t>;
  std::map<Key, uint32_t> index;
  for (size_t i = 0; i < count; ++i) {
    if (!index.emplace(Key{tree_ids[i], node_ids[i]}, static_cast<uint32_t>(i)).second) {
      Broken(node, "have two nodes of one number");
    }
  }
  const auto find = [&](int64_t tree, int64_t id) {
    const auto found = index.find({tree, id});
    if (found == index.end()) Broken(node, kNoNode);
    return found->second;
  };
  trees.nodes.resize(count);
  std::vector<bool> child(count);
  for (size_t i = 0; i < count; ++i) {
    TreeNode& to = trees.nodes[i];
    to.mode = ModeOf(node, modes[i]);
    if (to.mode == TreeMode::kMember) Broken(node, "have an unknown mode");
    to.split = splits[i];
    to.missing_is_true = !missing.empty() && missing[i] != 0;
    if (to.mode == TreeMode::kLeaf) continue;
    to.feature = Checked(node, features[i], size_t{1} << 31, "have a negative feature");
    to.yes = find(tree_ids[i], yes[i]);
    to.no = find(tree_ids[i], no[i]);
    child[to.yes] = child[to.no] = true;
  }
  for (size_t i = 0; i < count; ++i) {
    if (!child[i]) trees.roots.push_back(static_cast<uint32_t>(i));
  }
  const bool old = classes > 0;
  const std::vector<int64_t> at_tree = a.Ints(old ? "class_treeids" : "target_treeids");
  const std::vector<int64_t> at_node = a.Ints(old ? "class_nodeids" : "target_nodeids");
  const std::vector<int64_t> ids = a.Ints(old ? "class_ids" : "target_ids");
  const std::vector<double> weights =
      old ? Reals(node, "class_weights", "class_weights_as_tensor")
          : Reals(node, "target_weights", "target_weights_as_tensor");
  if (at_node.size() != at_tree.size() || ids.size() != at_tree.size() ||
      weights.size() != at_tree.size()) {
    Broken(node, "have lists of different sizes");
  }
  const int64_t targets = old ? static_cast<int64_t>(classes) : a.Int("n_targets", 1);
  if (targets < 1 || targets > int64_t{1} << 24) Broken(node, "have an absurd number of targets");
  trees.targets = static_cast<size_t>(targets);
  std::vector<std::pair<uint32_t, size_t>> order;  // leaf, weight
  for (size_t i = 0; i < ids.size(); ++i) order.emplace_back(find(at_tree[i], at_node[i]), i);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  for (const auto& [leaf, i] : order) {
    TreeNode& to = trees.nodes[leaf];
    if (to.mode != TreeMode::kLeaf) continue;  // weights of branches are never met
    const auto at = static_cast<uint32_t>(trees.weights.size());
    if (to.last == 0) to.first = at;
    trees.weights.push_back(
        {Checked(node, ids[i], trees.targets, "have a target beyond their number"), weights[i]});
    to.last = at + 1;
  }
  trees.base = Reals(node, "base_values", "base_values_as_tensor");
  constexpr const char* kSums[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  if (!ParseName(a.String("aggregate_function", "SUM"), kSums, &trees.sum)) {
    Broken(node, "have an unknown aggregate_function");
  }
  CheckTrees(node, trees);
  return trees;
}

Trees ReadTrees(const Node& node) {
  const AttributeMap& a = node.attributes;
  const std::vector<int64_t> features = a.Ints("nodes_featureids");
  const std::vector<int64_t> yes = a.Ints("nodes_truenodeids");
  const std::vector<int64_t> no = a.Ints("nodes_falsenodeids");
  const std::vector<int64_t> yes_leaf = a.Ints("nodes_trueleafs");
  const std::vector<int64_t> no_leaf = a.Ints("nodes_falseleafs");
  const std::vector<int64_t> missing = a.Ints("nodes_missing_value_tracks_true");
  const std::vector<int64_t> leaf_targets = a.Ints("leaf_targetids");
  const std::vector<double> splits = Reals(node, "", "nodes_splits");
  const std::vector<double> modes = Reals(node, "", "nodes_modes");
  const std::vector<double> weights = Reals(node, "", "leaf_weights");
  const size_t count = features.size();
  const bool fit = yes.size() == count && no.size() == count && yes_leaf.size() == count &&
                   no_leaf.size() == count && splits.size() == count && modes.size() == count &&
                   (missing.empty() || missing.size() == count) &&
                   weights.size() == leaf_targets.size();
  if (!fit || count == 0) Broken(node, "have lists of different sizes");
  Trees trees;
  const int64_t targets = a.Int("n_targets", 1);
  if (targets < 1 || targets > int64_t{1} << 24) Broken(node, "have an absurd number of targets");
  trees.targets = static_cast<size_t>(targets);
  // Leaves follow the other nodes; each has one weight.
  trees.nodes.resize(count);
  const auto reach = [&](int64_t leaf, int64_t index) {
    const uint32_t checked = Checked(node, index, leaf ? weights.size() : count, kNoNode);
    if (!leaf) return checked;
    // Several branches may lead to one leaf.
    TreeNode made;
    made.first = checked;
    made.last = checked + 1;
    trees.nodes.push_back(made);
    return static_cast<uint32_t>(trees.nodes.size() - 1);
  };
  const std::vector<double> members = Reals(node, "", "membership_values");
  size_t member = 0;
  for (size_t i = 0; i < count; ++i) {
    const double mode = modes[i];
    if (!(mode >= 0 && mode <= static_cast<double>(TreeMode::kMember))) {
      Broken(node, "have an unknown mode");
    }
    TreeNode made;
    made.mode = static_cast<TreeMode>(mode);
    made.split = splits[i];
    made.missing_is_true = !missing.empty() && missing[i] != 0;
    made.feature = Checked(node, features[i], size_t{1} << 31, "have a negative feature");
    made.yes = reach(yes_leaf[i], yes[i]);
    made.no = reach(no_leaf[i], no[i]);
    if (made.mode == TreeMode::kMember) {
      // The members of each set end at a NaN.
      made.first = static_cast<uint32_t>(member);
      while (member < members.size() && !std::isnan(members[member])) ++member;
      made.last = static_cast<uint32_t>(member++);
    }
    trees.nodes[i] = made;
  }
  trees.members = members;
  for (size_t i = 0; i < weights.size(); ++i) {
    trees.weights.push_back(
        {Checked(node, leaf_targets[i], trees.targets, "have a target beyond their number"),
         weights[i]});
  }
  for (const int64_t root : a.Ints("tree_roots")) {
    trees.roots.push_back(Checked(node, root, count, kNoNode));
  }
  const int64_t sum = a.Int("aggregate_function", 1);
  if (sum < 0 || sum > 3) Broken(node, "have an unknown aggregate_function");
  trees.sum = static_cast<TreeSum>(sum);
  CheckTrees(node, trees);
  return trees;
}

}  // namespace requant
