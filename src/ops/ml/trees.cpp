#include "ops/ml/trees.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/convolution/convolve.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

bool Takes(const Trees& trees, const TreeNode& node, double x, bool single) {
  if (std::isnan(x) && node.missing_is_true) return true;
  // Features of float32 meet splits in float32.
  const double split = single ? static_cast<float>(node.split) : node.split;
  switch (node.mode) {
    case TreeMode::kLeq:
      return x <= split;
    case TreeMode::kLt:
      return x < split;
    case TreeMode::kGte:
      return x >= split;
    case TreeMode::kGt:
      return x > split;
    case TreeMode::kEq:
      return x == split;
    case TreeMode::kNeq:
      return x != split;
    default:
      return std::find(trees.members.begin() + node.first, trees.members.begin() + node.last, x) !=
             trees.members.begin() + node.last;
  }
}

void CheckColumns(const Node& node, const Trees& trees, int64_t columns) {
  for (const TreeNode& tree_node : trees.nodes) {
    if (tree_node.mode == TreeMode::kLeaf || tree_node.feature < columns) continue;
    Fail(ErrorCode::kShapeMismatch,
         StrCat(node.op_type, RQ_LATE_TEXT(" compares feature "), tree_node.feature,
                RQ_LATE_TEXT(" of rows with "), columns));
  }
}

}  // namespace

Trees::Scores Trees::Run(const double* row, bool single) const {
  Scores out{std::vector<double>(targets), std::vector<bool>(targets)};
  for (uint32_t at : roots) {
    while (nodes[at].mode != TreeMode::kLeaf) {
      at = Takes(*this, nodes[at], row[nodes[at].feature], single) ? nodes[at].yes : nodes[at].no;
    }
    for (uint32_t i = nodes[at].first; i < nodes[at].last; ++i) {
      const auto& [target, value] = weights[i];
      double& score = out.values[target];
      if (!out.given[target]) {
        score = value;
      } else if (sum == TreeSum::kMin) {
        score = std::min(score, value);
      } else if (sum == TreeSum::kMax) {
        score = std::max(score, value);
      } else {
        score += value;
      }
      out.given[target] = true;
    }
  }
  if (sum != TreeSum::kAverage) return out;
  for (double& score : out.values) score /= static_cast<double>(roots.size());
  return out;
}

namespace {

// --- TreeEnsembleRegressor, TreeEnsemble

PostTransform TransformOf(const Node& node) {
  if (node.op_type != "TreeEnsemble") return ReadPostTransform(node.attributes);
  const int64_t transform = node.attributes.Int("post_transform", 0);
  if (transform >= 0 && transform <= static_cast<int64_t>(PostTransform::kProbit)) {
    return static_cast<PostTransform>(transform);
  }
  Fail(ErrorCode::kInvalidModel, StrCat(RQ_LATE_TEXT("post_transform "), transform));
}

Trees TreesOf(const Node& node) {
  return node.op_type == "TreeEnsemble" ? ReadTrees(node) : ReadOldTrees(node, 0);
}

/// TreeEnsemble's result has the type of its input, the older form's is float32.
DType ResultType(const Node& node, DType input) {
  return node.op_type == "TreeEnsemble" && input == DType::kFloat64 ? input : DType::kFloat32;
}

void InferRegressor(InferContext& context) {
  RequireFeatures(context);
  const int64_t targets = context.attributes().Int("n_targets", 1);
  SetOutput(context, 0, ResultType(context.node, context.inputs[0].dtype),
            SymbolicShape{RowsOf(context), targets < 1 ? Dim() : Dim(targets)});
}

void EvaluateRegressor(EvalContext& context) {
  const FeatureRows x = ReadFeatures(context.input(0));
  const DType type = context.input(0).dtype();
  const Trees trees = TreesOf(context.node);
  CheckColumns(context.node, trees, x.columns);
  if (!trees.base.empty() && trees.base.size() != trees.targets) {
    Fail(ErrorCode::kInvalidModel,
         StrCat(context.node.op_type, " has ", trees.base.size(), RQ_LATE_TEXT(" base values for "),
                trees.targets, RQ_LATE_TEXT(" targets")));
  }
  const PostTransform transform = TransformOf(context.node);
  Tensor out(ResultType(context.node, type), {x.rows, static_cast<int64_t>(trees.targets)});
  int64_t at = 0;
  for (int64_t row = 0; row < x.rows; ++row) {
    std::vector<double> scores = trees.Run(x.row(row), type == DType::kFloat32).values;
    for (size_t i = 0; i < trees.base.size(); ++i) scores[i] += trees.base[i];
    ApplyPostTransform(transform, scores);
    for (const double score : scores) StoreSum(out, at++, score);
  }
  context.outputs[0] = out;
}

// --- TreeEnsembleClassifier

ClassLabels LabelsOf(const Node& node) {
  ClassLabels labels(node.attributes, "classlabels_int64s");
  if (labels.size() == 0) {
    Fail(ErrorCode::kInvalidModel, RQ_LATE_TEXT("TreeEnsembleClassifier without class labels"));
  }
  return labels;
}

void InferTreeClassifier(InferContext& context) {
  const ClassLabels labels = LabelsOf(context.node);
  InferClassifier(context, std::max<size_t>(2, labels.size()), labels);
}

/// The scores and the label of one row.
class TreeClassifier {
 public:
  explicit TreeClassifier(const Node& node)
      : labels_(LabelsOf(node)),
        trees_(ReadOldTrees(node, labels_.size())),
        transform_(ReadPostTransform(node.attributes)) {
    std::set<uint32_t> classes;
    for (const auto& [target, value] : trees_.weights) {
      classes.insert(target);
      positive_ = positive_ && value >= 0;
    }
    // One class of two has all weights: its score decides.
    single_ = labels_.size() == 2 && classes.size() == 1;
    second_ = classes.contains(1);
  }
  const Trees& trees() const { return trees_; }
  const ClassLabels& labels() const { return labels_; }

  std::vector<double> Row(const double* row, bool single, int64_t& label) const {
    Trees::Scores sums = trees_.Run(row, single);
    if (single_) return Pair(sums, label);
    for (size_t i = 0; i < trees_.base.size() && i < sums.values.size(); ++i) {
      sums.values[i] += trees_.base[i];
    }
    label = labels_[LargestOf(sums.values)];
    ApplyPostTransform(transform_, sums.values);
    return std::move(sums.values);
  }

 private:
  std::vector<double> Pair(const Trees::Scores& sums, int64_t& label) const {
    const auto base = [this](size_t i) { return i < trees_.base.size() ? trees_.base[i] : 0; };
    const double score =
        second_ ? sums.values[1] + base(1) : sums.values[0] + base(trees_.base.size() > 1 ? 1 : 0);
    label = labels_[score > (positive_ ? 0.5 : 0) ? 1 : 0];
    if (!second_ && trees_.base.size() < 2) {
      return ScoresOf(score, transform_,
                      positive_ ? SecondClass::kComplement : SecondClass::kNegative);
    }
    std::vector<double> scores = {second_ ? base(0) : -score, score};
    ApplyPostTransform(transform_, scores);
    return scores;
  }

  ClassLabels labels_;
  Trees trees_;
  PostTransform transform_;
  bool positive_ = true;
  bool single_ = false;
  bool second_ = false;
};

void EvaluateTreeClassifier(EvalContext& context) {
  const FeatureRows x = ReadFeatures(context.input(0));
  const TreeClassifier classifier(context.node);
  CheckColumns(context.node, classifier.trees(), x.columns);
  const bool single = context.input(0).dtype() == DType::kFloat32;
  const auto classes = static_cast<int64_t>(std::max<size_t>(2, classifier.labels().size()));
  RowLabels labels(classifier.labels(), x.rows);
  Tensor out(DType::kFloat32, {x.rows, classes});
  for (int64_t row = 0; row < x.rows; ++row) {
    const std::vector<double> scores = classifier.Row(x.row(row), single, labels[row]);
    for (size_t i = 0; i < scores.size(); ++i) {
      StoreSum(out, row * classes + static_cast<int64_t>(i), scores[i]);
    }
  }
  context.outputs[0] = labels.tensor;
  if (context.outputs.size() > 1) context.outputs[1] = out;
}

constexpr OpDef kRows[] = {
    {"TreeEnsemble", kMlDomain, 5, 1, 1, 1, InferRegressor, EvaluateRegressor, QuantRule::kFloat},
    {"TreeEnsembleRegressor", kMlDomain, 1, 1, 1, 1, InferRegressor, EvaluateRegressor,
     QuantRule::kFloat},
    {"TreeEnsembleClassifier", kMlDomain, 1, 1, 1, 2, InferTreeClassifier, EvaluateTreeClassifier,
     QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> TreesOps() { return kRows; }

}  // namespace requant
