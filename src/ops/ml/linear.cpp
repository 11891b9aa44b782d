// LinearClassifier and LinearRegressor of ai.onnx.ml (onnx docs/Operators-ml.md).
#include <vector>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/ml/scores.h"
#include "ops/table.h"

namespace requant {
namespace {

/// Weights [outputs, columns] and biases.
struct LinearForm {
  std::vector<float> weights, biases;
  size_t outputs;

  LinearForm(const Node& node, int64_t columns, size_t given_outputs)
      : weights(node.attributes.Floats("coefficients")),
        biases(node.attributes.Floats("intercepts")),
        outputs(given_outputs) {
    if (outputs < 1 || columns < 0 || weights.size() / outputs != static_cast<size_t>(columns) ||
        weights.size() % outputs != 0 || (!biases.empty() && biases.size() != outputs)) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat(node.op_type, " has ", weights.size(), RQ_LATE_TEXT(" coefficients for "),
                  columns, RQ_LATE_TEXT(" columns and "), outputs, RQ_LATE_TEXT(" outputs")));
    }
  }
  double Output(const double* x, int64_t columns, size_t output) const {
    double sum = biases.empty() ? 0 : biases[output];
    const float* w = weights.data() + output * static_cast<size_t>(columns);
    for (int64_t i = 0; i < columns; ++i) sum += x[i] * w[i];
    return sum;
  }
};

// --- LinearRegressor

size_t TargetsOf(const AttributeMap& attributes) {
  const int64_t targets = attributes.Int("targets", 1);
  if (targets < 1 || targets > int64_t{1} << 31) {
    Fail(ErrorCode::kInvalidModel,
         StrCat(RQ_LATE_TEXT("LinearRegressor with "), targets, RQ_LATE_TEXT(" targets")));
  }
  return static_cast<size_t>(targets);
}

void InferLinearRegressor(InferContext& context) {
  RequireFeatures(context);
  SetOutput(context, 0, DType::kFloat32,
            SymbolicShape{RowsOf(context), static_cast<int64_t>(TargetsOf(context.attributes()))});
}

void EvaluateLinearRegressor(EvalContext& context) {
  const FeatureRows x = ReadFeatures(context.input(0));
  const LinearForm form(context.node, x.columns, TargetsOf(context.attributes()));
  const PostTransform transform = ReadPostTransform(context.attributes());
  Tensor out(DType::kFloat32, {x.rows, static_cast<int64_t>(form.outputs)});
  float* to = out.data<float>();
  for (int64_t row = 0; row < x.rows; ++row) {
    std::vector<double> scores;
    for (size_t i = 0; i < form.outputs; ++i) {
      scores.push_back(form.Output(x.row(row), x.columns, i));
    }
    ApplyPostTransform(transform, scores);
    for (const double score : scores) *to++ = static_cast<float>(score);
  }
  context.outputs[0] = out;
}

// --- LinearClassifier

struct Classes {
  ClassLabels labels;
  size_t scores;  // numbers that are computed
  bool pair;      // of a single score for two classes
  size_t columns() const { return pair ? 2 : scores; }
};

Classes ClassesOf(const Node& node) {
  ClassLabels labels(node.attributes, "classlabels_ints");
  const size_t biases = node.attributes.Floats("intercepts").size();
  const size_t scores = biases > 0 ? biases : labels.size();
  const bool pair = scores == 1 && labels.size() == 2;
  if (scores == 0 || (scores > 1 && labels.size() != scores)) {
    Fail(ErrorCode::kInvalidModel,
         StrCat(RQ_LATE_TEXT("LinearClassifier has "), labels.size(), RQ_LATE_TEXT(" labels for "),
                scores, RQ_LATE_TEXT(" scores")));
  }
  return {std::move(labels), scores, pair};
}

void InferLinearClassifier(InferContext& context) {
  const Classes classes = ClassesOf(context.node);
  InferClassifier(context, classes.columns(), classes.labels);
}

void EvaluateLinearClassifier(EvalContext& context) {
  const FeatureRows x = ReadFeatures(context.input(0));
  const Classes classes = ClassesOf(context.node);
  const LinearForm form(context.node, x.columns, classes.scores);
  const PostTransform transform = ReadPostTransform(context.attributes());
  RowLabels labels(classes.labels, x.rows);
  Tensor out(DType::kFloat32, {x.rows, static_cast<int64_t>(classes.columns())});
  float* to = out.data<float>();
  for (int64_t row = 0; row < x.rows; ++row) {
    std::vector<double> scores;
    for (size_t i = 0; i < classes.scores; ++i) {
      scores.push_back(form.Output(x.row(row), x.columns, i));
    }
    int64_t& label = labels[row];
    if (classes.scores == 1) {
      const bool positive = scores[0] > 0;
      label = classes.pair ? classes.labels[positive ? 1 : 0] : classes.labels.Answer(positive);
      scores = ScoresOf(scores[0], transform,
                        classes.pair ? SecondClass::kComplement : SecondClass::kNone);
    } else {
      label = classes.labels[LargestOf(scores)];
      ApplyPostTransform(transform, scores);
    }
    for (const double score : scores) *to++ = static_cast<float>(score);
  }
  context.outputs[0] = labels.tensor;
  if (context.outputs.size() > 1) context.outputs[1] = out;
}

constexpr OpDef kRows[] = {
    {"LinearRegressor", kMlDomain, 1, 1, 1, 1, InferLinearRegressor, EvaluateLinearRegressor,
     QuantRule::kFloat},
    {"LinearClassifier", kMlDomain, 1, 1, 1, 2, InferLinearClassifier, EvaluateLinearClassifier,
     QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> MlLinearOps() { return kRows; }

}  // namespace requant
