// Classifiers and regressors of ai.onnx.ml share these: rows of features, labels of classes, and
// the functions that make scores of raw ones (onnx docs/Operators-ml.md). Where ONNX leaves
// something open, they follow ONNX Runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/op.h"

namespace requant {

inline constexpr const char* kMlDomain = "ai.onnx.ml";

/// A matrix of features; a vector is one row.
struct FeatureRows {
  int64_t rows, columns;
  std::vector<double> values;
  const double* row(int64_t i) const { return values.data() + i * columns; }
};
/// Throws kShapeMismatch for more than two dimensions.
FeatureRows ReadFeatures(const Tensor& x);
/// The number of rows, as far as it is known.
Dim RowsOf(const InferContext& context);
/// Requires an input that features can be read of.
void RequireFeatures(const InferContext& context);

/// The labels of a classifier's classes: the attribute `ints`, or classlabels_strings.
struct ClassLabels {
  Tensor tensor;  // int64 or string
  ClassLabels(const AttributeMap& attributes, const char* ints);
  size_t size() const { return static_cast<size_t>(tensor.count()); }
  /// The number, or the handle of the string.
  int64_t operator[](size_t i) const { return static_cast<const int64_t*>(tensor.raw())[i]; }
  /// The label of a classifier without labels for its two answers: 1 or 0.
  int64_t Answer(bool positive) const;
};

/// A tensor for the labels of rows, which takes what ClassLabels gives.
struct RowLabels {
  Tensor tensor;
  RowLabels(const ClassLabels& labels, int64_t rows) : tensor(labels.tensor.dtype(), {rows}) {}
  int64_t& operator[](int64_t row) { return static_cast<int64_t*>(tensor.raw())[row]; }
};

enum class PostTransform : uint8_t { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };
/// The attribute post_transform. Throws kInvalidModel for an unknown one.
PostTransform ReadPostTransform(const AttributeMap& attributes);
/// Applies the function to the scores of one row. As in ONNX Runtime, a single score stays what it
/// is, except by PROBIT.
void ApplyPostTransform(PostTransform transform, std::vector<double>& scores);
/// The logistic function.
double Logistic(double x);

/// How a single score becomes those of two classes.
enum class SecondClass : uint8_t {
  kNone,        // it stays alone
  kComplement,  // 1 - score and score
  kNegative,    // -score and score
};
/// The scores of two classes, or the score alone.
std::vector<double> ScoresOf(double score, PostTransform transform, SecondClass second);

/// The index of the first of the largest scores.
size_t LargestOf(const std::vector<double>& scores);

/// Sets the outputs of a classifier: labels [rows], and scores [rows, classes] of float32.
void InferClassifier(InferContext& context, size_t classes, const ClassLabels& labels);

}  // namespace requant
