// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss (onnx docs/Operators.md).
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

bool IsReduced(const Node& node) {
  const std::string reduction = node.attributes.String("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    Fail(ErrorCode::kInvalidModel, StrCat("reduction '", reduction, "' does not exist"),
         {.hint = "use mean, sum or none"});
  }
  return reduction != "none";
}

void InferLoss(InferContext& context) {
  RequireFloat(context, 0);
  RequireDType(context, 1, {DType::kInt32, DType::kInt64});
  RequireMinRank(context, 0, 2);
  if (context.has(2)) RequireSameDType(context, 0, 2);
  const DType dtype = context.inputs[0].dtype;
  SetOutput(context, 0, dtype,
            IsReduced(context.node) ? std::optional(SymbolicShape{}) : context.inputs[1].shape);
  SetOutput(context, 1, dtype, context.inputs[0].shape);
}

/// The logarithms of the probabilities of scores [N, C, ...].
std::vector<double> LogSoftmax(const std::vector<double>& x, int64_t outer, int64_t classes,
                               int64_t inner) {
  std::vector<double> out(x.size());
  for (int64_t line = 0; line < outer * inner; ++line) {
    const auto at = [&](int64_t c) {
      return static_cast<size_t>((line / inner * classes + c) * inner + line % inner);
    };
    double largest = x[at(0)];
    for (int64_t c = 1; c < classes; ++c) largest = std::max(largest, x[at(c)]);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[at(c)] - largest);
    for (int64_t c = 0; c < classes; ++c) out[at(c)] = x[at(c)] - largest - std::log(sum);
  }
  return out;
}

Tensor FromDoubles(const std::vector<double>& values, DType dtype, const Shape& shape) {
  if (dtype == DType::kFloat64) return Tensor::FromVector(values, shape);
  return Tensor::FromVector(std::vector<float>(values.begin(), values.end()), shape);
}

void EvaluateLoss(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& target = context.input(1);
  Shape expected = x.shape();
  if (x.rank() >= 2) expected.erase(expected.begin() + 1);
  if (x.rank() < 2 || target.shape() != expected || x.dim(1) < 1 ||
      (context.has(2) && context.input(2).count() != x.dim(1))) {
    Fail(ErrorCode::kShapeMismatch, StrCat(context.node.op_type, " of ", ShapeToString(x.shape()),
                                           " with targets ", ShapeToString(target.shape())));
  }
  const int64_t classes = x.dim(1);
  const int64_t outer = x.dim(0);
  const int64_t inner = NumElements(Shape(x.shape().begin() + 2, x.shape().end()));
  std::vector<double> scores = x.ToDoubles();
  if (context.node.op_type == "SoftmaxCrossEntropyLoss") {
    scores = LogSoftmax(scores, outer, classes, inner);
    if (context.outputs.size() > 1) {
      context.outputs[1] = FromDoubles(scores, x.dtype(), x.shape());
    }
  }
  const bool ignores = context.attributes().Has("ignore_index");
  const int64_t ignored = context.attributes().Int("ignore_index", 0);
  std::vector<double> losses;
  double sum = 0;
  double weights = 0;
  for (int64_t i = 0; i < target.count(); ++i) {
    const int64_t category = target.AsInt64(i);
    double loss = 0;
    if (!ignores || category != ignored) {
      if (category < 0 || category >= classes) {
        Fail(ErrorCode::kInvalidArgument, StrCat("class ", category, " of ", classes));
      }
      const double weight = context.has(2) ? context.input(2).AsDouble(category) : 1;
      const int64_t at = (i / inner * classes + category) * inner + i % inner;
      loss = -weight * scores[static_cast<size_t>(at)];
      weights += weight;
    }
    sum += loss;
    losses.push_back(loss);
  }
  if (!IsReduced(context.node)) {
    context.outputs[0] = FromDoubles(losses, x.dtype(), target.shape());
    return;
  }
  const bool mean = context.attributes().String("reduction", "mean") == "mean";
  context.outputs[0] = FromDoubles({mean ? sum / weights : sum}, x.dtype(), {});
}

constexpr OpDef kRows[] = {
    {"NegativeLogLikelihoodLoss", "", 12, 2, 3, 1, InferLoss, EvaluateLoss, QuantRule::kFloat},
    {"SoftmaxCrossEntropyLoss", "", 12, 2, 3, 2, InferLoss, EvaluateLoss, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> LossOps() { return kRows; }

}  // namespace requant
