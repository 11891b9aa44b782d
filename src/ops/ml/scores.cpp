#include "ops/ml/scores.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/late_text.h"
#include "base/parse_name.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/text/text_list.h"
#include "tensor/text.h"

namespace requant {
namespace {

/// Winitzki's approximation of the inverse error function, which ONNX Runtime uses.
double InverseErf(double x) {
  constexpr double kA = 0.147;
  const double log = std::log((1 - x) * (1 + x));
  const double v = 2 / (std::numbers::pi * kA) + 0.5 * log;
  return std::copysign(std::sqrt(std::sqrt(v * v - log / kA) - v), x);
}

void Softmax(std::vector<double>& scores, bool keep_zeros) {
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) {
    // ONNX Runtime takes numbers of at most 1e-7 for zeros.
    const bool zero = keep_zeros && std::fabs(score) <= 1e-7;
    score = zero ? score * std::exp(-most) : std::exp(score - most);
    if (!zero) sum += score;
  }
  for (double& score : scores) score /= sum;
}

}  // namespace

FeatureRows ReadFeatures(const Tensor& x) {
  if (x.rank() < 1 || x.rank() > 2) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat(RQ_LATE_TEXT("features are [rows, columns], not "), ShapeToString(x.shape())));
  }
  return {x.rank() == 1 ? 1 : x.dim(0), x.dim(x.rank() - 1), x.ToDoubles()};
}

Dim RowsOf(const InferContext& context) {
  const SymbolicShape* shape = context.shape(0);
  if (shape == nullptr) return {};
  return shape->size() == 1 ? Dim(1) : shape->empty() ? Dim() : (*shape)[0];
}

void RequireFeatures(const InferContext& context) {
  RequireDType(context, 0, {DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kInt32});
}

ClassLabels::ClassLabels(const AttributeMap& attributes, const char* ints)
    : tensor(TextList(attributes, "classlabels_strings")) {
  if (tensor.count() == 0) tensor = Tensor::Vector(attributes.Ints(ints));
}

int64_t ClassLabels::Answer(bool positive) const {
  if (!IsText(tensor.dtype())) return positive ? 1 : 0;
  return static_cast<int64_t>(TextHandle(positive ? "1" : "0"));
}

PostTransform ReadPostTransform(const AttributeMap& attributes) {
  constexpr const char* kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  PostTransform transform = PostTransform::kNone;
  const std::string name = attributes.String("post_transform", kNames[0]);
  if (!ParseName(name, kNames, &transform)) {
    Fail(ErrorCode::kInvalidModel, StrCat(RQ_LATE_TEXT("post_transform "), name));
  }
  return transform;
}

double Logistic(double x) {
  const double v = 1 / (1 + std::exp(-std::fabs(x)));
  return x < 0 ? 1 - v : v;
}

void ApplyPostTransform(PostTransform transform, std::vector<double>& scores) {
  if (scores.empty() || (scores.size() == 1 && transform != PostTransform::kProbit)) return;
  switch (transform) {
    case PostTransform::kNone:
      return;
    case PostTransform::kSoftmax:
    case PostTransform::kSoftmaxZero:
      return Softmax(scores, transform == PostTransform::kSoftmaxZero);
    case PostTransform::kLogistic:
      for (double& score : scores) score = Logistic(score);
      return;
    case PostTransform::kProbit:
      for (double& score : scores) score = std::numbers::sqrt2 * InverseErf(2 * score - 1);
      return;
  }
}

std::vector<double> ScoresOf(double score, PostTransform transform, SecondClass second) {
  std::vector<double> scores = {score};
  if (transform == PostTransform::kProbit || second == SecondClass::kNone) {
    ApplyPostTransform(transform, scores);
    return scores;
  }
  if (transform == PostTransform::kLogistic) return {Logistic(-score), Logistic(score)};
  return {second == SecondClass::kComplement ? 1 - score : -score, score};
}

size_t LargestOf(const std::vector<double>& scores) {
  return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

void InferClassifier(InferContext& context, size_t classes, const ClassLabels& labels) {
  RequireFeatures(context);
  const Dim rows = RowsOf(context);
  SetOutput(context, 0, labels.tensor.dtype(), SymbolicShape{rows});
  SetOutput(context, 1, DType::kFloat32, SymbolicShape{rows, static_cast<int64_t>(classes)});
}

}  // namespace requant
