// The operators of ai.onnx.ml that prepare features (onnx docs/Operators-ml.md). Where ONNX leaves
// something open, they follow ONNX Runtime.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/elementwise/cast.h"
#include "ops/infer_util.h"
#include "ops/ml/scores.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

void InferFloats(InferContext& context) {
  RequireFeatures(context);
  SetOutput(context, 0, DType::kFloat32, context.inputs[0].shape);
}

// --- Scaler, Normalizer, Binarizer

void EvaluateScaler(EvalContext& context) {
  const FeatureRows x = ReadFeatures(context.input(0));
  const std::vector<float> scale = context.attributes().Floats("scale", {1});
  const std::vector<float> offset = context.attributes().Floats("offset", {0});
  for (const std::vector<float>* list : {&scale, &offset}) {
    if (list->size() != 1 && static_cast<int64_t>(list->size()) != x.columns) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat(RQ_LATE_TEXT("Scaler has "), list->size(), RQ_LATE_TEXT(" factors for "),
                  x.columns, RQ_LATE_TEXT(" columns")));
    }
  }
  Tensor out(DType::kFloat32, context.input(0).shape());
  for (int64_t i = 0; i < out.count(); ++i) {
    const auto column = static_cast<size_t>(i % x.columns);
    const float by = offset[offset.size() == 1 ? 0 : column];
    out.data<float>()[i] = (static_cast<float>(x.values[static_cast<size_t>(i)]) - by) *
                           scale[scale.size() == 1 ? 0 : column];
  }
  context.outputs[0] = out;
}

/// Returns the number by which Normalizer divides a row; 0 leaves the row as it is.
double NormOf(const std::string& norm, const double* row, int64_t columns) {
  double out = norm == "MAX" ? -INFINITY : 0;
  for (int64_t i = 0; i < columns; ++i) {
    if (norm == "MAX") {
      out = std::max(out, row[i]);
    } else {
      out += norm == "L1" ? std::fabs(row[i]) : row[i] * row[i];
    }
  }
  return norm == "L2" ? std::sqrt(out) : out;
}

void EvaluateNormalizer(EvalContext& context) {
  const FeatureRows x = ReadFeatures(context.input(0));
  const std::string norm = context.attributes().String("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2") {
    Fail(ErrorCode::kInvalidModel, StrCat(RQ_LATE_TEXT("Normalizer with norm "), norm));
  }
  Tensor out(DType::kFloat32, context.input(0).shape());
  float* to = out.data<float>();
  for (int64_t row = 0; row < x.rows; ++row) {
    const double by = NormOf(norm, x.row(row), x.columns);
    for (int64_t i = 0; i < x.columns; ++i) {
      *to++ = static_cast<float>(by == 0 ? x.row(row)[i] : x.row(row)[i] / by);
    }
  }
  context.outputs[0] = out;
}

void InferBinarizer(InferContext& context) {
  RequireFeatures(context);
  SameAsInput(context);
}

void EvaluateBinarizer(EvalContext& context) {
  const Tensor& x = context.input(0);
  const float threshold = context.attributes().Float("threshold", 0);
  Tensor out(DType::kFloat32, x.shape());
  for (int64_t i = 0; i < x.count(); ++i) out.data<float>()[i] = x.AsDouble(i) > threshold;
  context.outputs[0] = CastTensor(out, x.dtype());
}

// --- ArrayFeatureExtractor, FeatureVectorizer

void InferExtractor(InferContext& context) {
  RequireMinRank(context, 0, 1);
  RequireDType(context, 1, {DType::kInt64});
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* x = context.shape(0)) {
    shape = *x;
    if (shape->size() == 1) shape->insert(shape->begin(), 1);
    shape->back() =
        context.shape(1) ? ProductOfDims(*context.shape(1), 0, context.shape(1)->size()) : Dim();
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateExtractor(EvalContext& context) {
  const Tensor& x = context.input(0);
  const std::vector<int64_t> columns = context.input(1).ToInts();
  if (x.rank() < 1)
    Fail(ErrorCode::kShapeMismatch, RQ_LATE_TEXT("ArrayFeatureExtractor of a scalar"));
  const int64_t width = x.dim(x.rank() - 1);
  for (const int64_t column : columns) {
    if (column >= 0 && column < width) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat(RQ_LATE_TEXT("ArrayFeatureExtractor picks column "), column, " of ", width));
  }
  Shape shape = x.shape();
  if (shape.size() == 1) shape.insert(shape.begin(), 1);
  shape.back() = static_cast<int64_t>(columns.size());
  Tensor out(x.dtype(), shape);
  const size_t element = ElementBytes(x.dtype());
  const auto* from = static_cast<const uint8_t*>(x.raw());
  auto* to = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < out.count(); ++i) {
    const int64_t row = i / shape.back();
    const int64_t at = row * width + columns[static_cast<size_t>(i % shape.back())];
    std::memcpy(to + static_cast<size_t>(i) * element, from + static_cast<size_t>(at) * element,
                element);
  }
  context.outputs[0] = out;
}

/// The columns that each input gets: those of the attribute.
std::vector<int64_t> WidthsOf(const Node& node) {
  std::vector<int64_t> widths = node.attributes.Ints("inputdimensions");
  const auto bad = [](int64_t width) { return width < 0 || width > (int64_t{1} << 31); };
  if (widths.size() != node.inputs.size() || std::any_of(widths.begin(), widths.end(), bad)) {
    Fail(ErrorCode::kInvalidModel,
         StrCat(RQ_LATE_TEXT("FeatureVectorizer of "), node.inputs.size(),
                RQ_LATE_TEXT(" inputs has inputdimensions "), ShapeToString(widths)));
  }
  return widths;
}

void InferVectorizer(InferContext& context) {
  RequireFeatures(context);
  int64_t columns = 0;
  for (const int64_t width : WidthsOf(context.node)) columns += width;
  SetOutput(context, 0, DType::kFloat32, SymbolicShape{RowsOf(context), columns});
}

void EvaluateVectorizer(EvalContext& context) {
  const std::vector<int64_t> widths = WidthsOf(context.node);
  std::vector<FeatureRows> inputs;
  int64_t columns = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    inputs.push_back(ReadFeatures(context.input(i)));
    columns += widths[i];
    if (inputs[i].rows != inputs[0].rows) {
      Fail(ErrorCode::kShapeMismatch, StrCat(RQ_LATE_TEXT("FeatureVectorizer of "), inputs[0].rows,
                                             " and ", inputs[i].rows, " rows"));
    }
  }
  Tensor out(DType::kFloat32, {inputs[0].rows, columns});
  int64_t first = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    const FeatureRows& x = inputs[i];
    for (int64_t row = 0; row < x.rows; ++row) {
      for (int64_t c = 0; c < std::min(widths[i], x.columns); ++c) {
        out.data<float>()[row * columns + first + c] = static_cast<float>(x.row(row)[c]);
      }
    }
    first += widths[i];
  }
  context.outputs[0] = out;
}

// --- Imputer

void EvaluateImputer(EvalContext& context) {
  const Tensor& x = context.input(0);
  const AttributeMap& attributes = context.attributes();
  const bool real = IsFloat(x.dtype());
  std::vector<double> imputed;
  for (const float value : attributes.Floats("imputed_value_floats")) imputed.push_back(value);
  if (!real) {
    imputed.clear();
    for (const int64_t value : attributes.Ints("imputed_value_int64s")) {
      imputed.push_back(static_cast<double>(value));
    }
  }
  const int64_t columns = x.rank() > 0 ? x.dim(x.rank() - 1) : 1;
  if (imputed.size() != 1 && static_cast<int64_t>(imputed.size()) != columns) {
    Fail(ErrorCode::kInvalidModel,
         StrCat(RQ_LATE_TEXT("Imputer has "), imputed.size(), RQ_LATE_TEXT(" values of "),
                DTypeName(x.dtype()), " for ", columns, RQ_LATE_TEXT(" columns")));
  }
  const double replaced = real ? attributes.Float("replaced_value_float", 0)
                               : static_cast<double>(attributes.Int("replaced_value_int64", 0));
  Tensor out(DType::kFloat64, x.shape());
  for (int64_t i = 0; i < x.count(); ++i) {
    const double value = x.AsDouble(i);
    const bool hit = std::isnan(replaced) ? std::isnan(value) : value == replaced;
    out.data<double>()[i] =
        hit ? imputed[imputed.size() == 1 ? 0 : static_cast<size_t>(i % columns)] : value;
  }
  context.outputs[0] = CastTensor(out, x.dtype());
}

constexpr OpDef kRows[] = {
    {"Scaler", kMlDomain, 1, 1, 1, 1, InferFloats, EvaluateScaler, QuantRule::kFloat},
    {"Normalizer", kMlDomain, 1, 1, 1, 1, InferFloats, EvaluateNormalizer, QuantRule::kFloat},
    {"Binarizer", kMlDomain, 1, 1, 1, 1, InferBinarizer, EvaluateBinarizer, QuantRule::kFloat},
    {"ArrayFeatureExtractor", kMlDomain, 1, 2, 2, 1, InferExtractor, EvaluateExtractor,
     QuantRule::kFloat},
    {"FeatureVectorizer", kMlDomain, 1, 1, kVariadic, 1, InferVectorizer, EvaluateVectorizer,
     QuantRule::kFloat},
    {"Imputer", kMlDomain, 1, 1, 1, 1, InferBinarizer, EvaluateImputer, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> MlFeaturesOps() { return kRows; }

}  // namespace requant
