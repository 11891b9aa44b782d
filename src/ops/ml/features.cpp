// The operators of ai.onnx.ml that prepare features (onnx docs/Operators-ml.md). Where ONNX leaves
// something open, they follow ONNX Runtime.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

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

[[noreturn]] void RefuseTexts(const Node& node) {
  Fail(ErrorCode::kUnsupported, StrCat(node.op_type, RQ_LATE_TEXT(" of texts")),
       {.hint = RQ_LATE_TEXT("give numbers to the model, and look texts up in JavaScript")});
}

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

// --- OneHotEncoder, LabelEncoder

void InferOneHotEncoder(InferContext& context) {
  RequireFeatures(context);
  const std::vector<int64_t> cats = context.attributes().Ints("cats_int64s");
  if (cats.empty()) RefuseTexts(context.node);
  std::optional<SymbolicShape> shape = context.inputs[0].shape;
  if (shape) shape->emplace_back(static_cast<int64_t>(cats.size()));
  SetOutput(context, 0, DType::kFloat32, shape);
}

void EvaluateOneHotEncoder(EvalContext& context) {
  const Tensor x = CastTensor(context.input(0), DType::kInt64);
  const std::vector<int64_t> cats = context.attributes().Ints("cats_int64s");
  const bool zeros = context.attributes().Int("zeros", 1) != 0;
  Shape shape = x.shape();
  shape.push_back(static_cast<int64_t>(cats.size()));
  Tensor out(DType::kFloat32, shape);
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t value = x.data<int64_t>()[i];
    const auto found = std::find(cats.begin(), cats.end(), value);
    if (found != cats.end()) {
      out.data<float>()[i * shape.back() + (found - cats.begin())] = 1;
    } else if (!zeros) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat(RQ_LATE_TEXT("OneHotEncoder has no category "), value));
    }
  }
  context.outputs[0] = out;
}

/// A list that the attributes give as `<what>_int64s`, `<what>_floats` or `<what>_tensor`; empty:
/// texts.
Tensor ListOf(const AttributeMap& attributes, const char* ints, const char* floats,
              const char* tensor) {
  if (attributes.Has(ints)) return Tensor::Vector(attributes.Ints(ints));
  if (attributes.Has(floats)) return Tensor::Vector(attributes.Floats(floats));
  const Tensor* given = attributes.TensorValue(tensor);
  return given ? *given : Tensor();
}

struct LabelMap {
  Tensor keys, values;
};

LabelMap ReadLabelMap(const Node& node) {
  LabelMap map{ListOf(node.attributes, "keys_int64s", "keys_floats", "keys_tensor"),
               ListOf(node.attributes, "values_int64s", "values_floats", "values_tensor")};
  if (map.keys.empty() || map.values.empty()) RefuseTexts(node);
  if (map.keys.count() != map.values.count()) {
    Fail(ErrorCode::kInvalidModel,
         StrCat(RQ_LATE_TEXT("LabelEncoder has "), map.keys.count(), RQ_LATE_TEXT(" keys and "),
                map.values.count(), RQ_LATE_TEXT(" values")));
  }
  return map;
}

void InferLabelEncoder(InferContext& context) {
  RequireNumeric(context, 0);
  SetOutput(context, 0, ReadLabelMap(context.node).values.dtype(), context.inputs[0].shape);
}

/// The value of keys that are missing. ONNX's default is -0 for floats and -1 for integers.
double MissingLabel(const AttributeMap& attributes, DType dtype) {
  const Tensor* given = attributes.TensorValue("default_tensor");
  if (given && given->count() == 1) return given->AsDouble(0);
  if (IsFloat(dtype)) return attributes.Float("default_float", -0.0F);
  return static_cast<double>(attributes.Int("default_int64", -1));
}

void EvaluateLabelEncoder(EvalContext& context) {
  const Tensor& x = context.input(0);
  const LabelMap map = ReadLabelMap(context.node);
  // NaN is a key like any other, and the first of equal keys counts.
  const bool exact = !IsFloat(x.dtype());
  std::map<double, int64_t> reals;
  std::map<int64_t, int64_t> integers;
  int64_t nan = -1;
  for (int64_t i = 0; i < map.keys.count(); ++i) {
    const double key = map.keys.AsDouble(i);
    if (exact) {
      integers.emplace(map.keys.AsInt64(i), i);
    } else if (std::isnan(key)) {
      if (nan < 0) nan = i;
    } else {
      reals.emplace(key, i);
    }
  }
  const double missing = MissingLabel(context.attributes(), map.values.dtype());
  Tensor fallback(DType::kFloat64, {1});
  fallback.data<double>()[0] = missing;
  fallback = CastTensor(fallback, map.values.dtype());
  Tensor out(map.values.dtype(), x.shape());
  const size_t element = ElementBytes(out.dtype());
  auto* to = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t at = -1;
    const double key = x.AsDouble(i);
    if (exact) {
      const auto found = integers.find(x.AsInt64(i));
      if (found != integers.end()) at = found->second;
    } else if (std::isnan(key)) {
      at = nan;
    } else if (const auto found = reals.find(key); found != reals.end()) {
      at = found->second;
    }
    const auto* from = static_cast<const uint8_t*>(at < 0 ? fallback.raw() : map.values.raw());
    std::memcpy(to + static_cast<size_t>(i) * element,
                from + static_cast<size_t>(std::max<int64_t>(at, 0)) * element, element);
  }
  context.outputs[0] = out;
}

// --- ZipMap

/// The map of each row becomes the row itself: column i belongs to class label i.
void EvaluateZipMap(EvalContext& context) { context.outputs[0] = context.input(0); }

constexpr OpDef kRows[] = {
    {"Scaler", kMlDomain, 1, 1, 1, 1, InferFloats, EvaluateScaler, QuantRule::kFloat},
    {"Normalizer", kMlDomain, 1, 1, 1, 1, InferFloats, EvaluateNormalizer, QuantRule::kFloat},
    {"Binarizer", kMlDomain, 1, 1, 1, 1, InferBinarizer, EvaluateBinarizer, QuantRule::kFloat},
    {"ArrayFeatureExtractor", kMlDomain, 1, 2, 2, 1, InferExtractor, EvaluateExtractor,
     QuantRule::kFloat},
    {"FeatureVectorizer", kMlDomain, 1, 1, kVariadic, 1, InferVectorizer, EvaluateVectorizer,
     QuantRule::kFloat},
    {"Imputer", kMlDomain, 1, 1, 1, 1, InferBinarizer, EvaluateImputer, QuantRule::kFloat},
    {"OneHotEncoder", kMlDomain, 1, 1, 1, 1, InferOneHotEncoder, EvaluateOneHotEncoder,
     QuantRule::kFloat},
    {"LabelEncoder", kMlDomain, 2, 1, 1, 1, InferLabelEncoder, EvaluateLabelEncoder,
     QuantRule::kFloat},
    {"ZipMap", kMlDomain, 1, 1, 1, 1, SameAsInput, EvaluateZipMap, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> MlFeaturesOps() { return kRows; }

}  // namespace requant
