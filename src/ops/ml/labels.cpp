// The operators of ai.onnx.ml that map categories, numbers or strings (onnx docs/Operators-ml.md).
// Where ONNX leaves something open, they follow ONNX Runtime.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/container/container.h"
#include "ops/elementwise/cast.h"
#include "ops/infer_util.h"
#include "ops/ml/scores.h"
#include "ops/shape/select.h"
#include "ops/table.h"
#include "ops/text/text_list.h"

namespace requant {
namespace {

/// The tensor; strings as their handles, which are equal where the strings are.
Tensor KeysOf(const Tensor& tensor) {
  if (!IsText(tensor.dtype())) return tensor;
  return Tensor::Unowned(DType::kInt64, tensor.shape(), const_cast<void*>(tensor.raw()));
}

/// Throws kTypeMismatch unless both are strings, or neither is.
void RequireSameKind(const Node& node, DType input, DType keys) {
  if (input == DType::kUndefined || IsText(input) == IsText(keys)) return;
  Fail(ErrorCode::kTypeMismatch, StrCat(node.op_type, RQ_LATE_TEXT(" of "), DTypeName(keys),
                                        RQ_LATE_TEXT(" keys cannot take "), DTypeName(input)));
}

// --- OneHotEncoder

Tensor CategoriesOf(const AttributeMap& attributes) {
  const std::vector<int64_t> numbers = attributes.Ints("cats_int64s");
  return numbers.empty() ? TextList(attributes, "cats_strings") : Tensor::Vector(numbers);
}

void InferOneHotEncoder(InferContext& context) {
  const Tensor categories = CategoriesOf(context.attributes());
  RequireSameKind(context.node, context.inputs[0].dtype, categories.dtype());
  if (!IsText(categories.dtype())) RequireFeatures(context);
  std::optional<SymbolicShape> shape = context.inputs[0].shape;
  if (shape) shape->emplace_back(categories.count());
  SetOutput(context, 0, DType::kFloat32, shape);
}

void EvaluateOneHotEncoder(EvalContext& context) {
  const Tensor list = CategoriesOf(context.attributes());
  RequireSameKind(context.node, context.input(0).dtype(), list.dtype());
  const Tensor categories = KeysOf(list);
  const Tensor x = CastTensor(KeysOf(context.input(0)), DType::kInt64);
  const auto known = categories.values<int64_t>();
  const bool zeros = context.attributes().Int("zeros", 1) != 0;
  Shape shape = x.shape();
  shape.push_back(categories.count());
  Tensor out(DType::kFloat32, shape);
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t value = x.data<int64_t>()[i];
    const auto found = std::find(known.begin(), known.end(), value);
    if (found != known.end()) {
      out.data<float>()[i * shape.back() + (found - known.begin())] = 1;
    } else if (!zeros) {
      const std::string shown = IsText(list.dtype())
                                    ? StrCat("\"", TextOf(static_cast<uint64_t>(value)), "\"")
                                    : std::to_string(value);
      Fail(ErrorCode::kInvalidArgument,
           StrCat(RQ_LATE_TEXT("OneHotEncoder has no category "), shown));
    }
  }
  context.outputs[0] = out;
}

// --- LabelEncoder, CategoryMapper

struct LabelMap {
  Tensor keys, values;
  Tensor missing;  // [1], the value of other keys
};

/// A list that the attributes give as `<what>_int64s`, `<what>_floats`, `<what>_strings` or
/// `<what>_tensor`.
Tensor ListOf(const Node& node, const std::string& what) {
  const AttributeMap& attributes = node.attributes;
  const std::string ints = what + "_int64s";
  const std::string floats = what + "_floats";
  const std::string texts = what + "_strings";
  if (attributes.Has(ints)) return Tensor::Vector(attributes.Ints(ints));
  if (attributes.Has(floats)) return Tensor::Vector(attributes.Floats(floats));
  if (attributes.Has(texts)) return TextList(attributes, texts);
  if (const Tensor* given = attributes.TensorValue(what + "_tensor")) return *given;
  Fail(ErrorCode::kInvalidModel, StrCat(node.op_type, RQ_LATE_TEXT(" has no "), what));
}

/// The value of keys that are missing. ONNX's defaults are "_Unused", -0 for floats and -1 for
/// integers.
Tensor MissingLabel(const AttributeMap& attributes, DType dtype) {
  const Tensor* given = attributes.TensorValue("default_tensor");
  if (given && given->count() == 1 && IsText(given->dtype()) == IsText(dtype)) {
    return CastTensor(*given, dtype);
  }
  if (IsText(dtype)) {
    const std::string text = attributes.String("default_string", "_Unused");
    return TextTensor({&text, 1}, {1});
  }
  const double number = IsFloat(dtype) ? attributes.Float("default_float", -0.0F)
                                       : static_cast<double>(attributes.Int("default_int64", -1));
  return CastTensor(Tensor::Scalar(number), dtype);
}

/// The numbers from 0 on.
Tensor Counting(int64_t count) { return Tensor::Vector(Sequence(count)); }

LabelMap ReadLabelMap(const Node& node, DType input) {
  const AttributeMap& attributes = node.attributes;
  const bool mapper = node.op_type == "CategoryMapper";
  LabelMap map;
  if (mapper || attributes.Has("classes_strings")) {
    // One list of strings; a number is the position of a string in it, or has a list of its own.
    Tensor texts = TextList(attributes, mapper ? "cats_strings" : "classes_strings");
    Tensor numbers = mapper ? ListOf(node, "cats") : Counting(texts.count());
    map.keys = IsText(input) ? texts : numbers;
    map.values = IsText(input) ? numbers : texts;
  } else {
    map.keys = ListOf(node, "keys");
    map.values = ListOf(node, "values");
  }
  if (map.keys.count() != map.values.count()) {
    Fail(ErrorCode::kInvalidModel,
         StrCat(node.op_type, RQ_LATE_TEXT(" has "), map.keys.count(), RQ_LATE_TEXT(" keys and "),
                map.values.count(), RQ_LATE_TEXT(" values")));
  }
  RequireSameKind(node, input, map.keys.dtype());
  map.missing = MissingLabel(attributes, map.values.dtype());
  return map;
}

void InferLabelEncoder(InferContext& context) {
  const DType input = context.inputs[0].dtype;
  if (!IsText(input)) RequireNumeric(context, 0);
  const DType result =
      input == DType::kUndefined ? input : ReadLabelMap(context.node, input).values.dtype();
  SetOutput(context, 0, result, context.inputs[0].shape);
}

void EvaluateLabelEncoder(EvalContext& context) {
  const LabelMap map = ReadLabelMap(context.node, context.input(0).dtype());
  const Tensor x = KeysOf(context.input(0));
  const Tensor known = KeysOf(map.keys);
  // NaN is a key like any other, and the first of equal keys counts.
  const bool exact = !IsFloat(x.dtype());
  std::map<double, int64_t> reals;
  std::map<int64_t, int64_t> integers;
  int64_t nan = -1;
  for (int64_t i = 0; i < known.count(); ++i) {
    if (exact) {
      integers.emplace(known.AsInt64(i), i);
      continue;
    }
    const double key = known.AsDouble(i);
    if (!std::isnan(key)) {
      reals.emplace(key, i);
    } else if (nan < 0) {
      nan = i;
    }
  }
  Tensor out(map.values.dtype(), x.shape());
  const size_t element = ElementBytes(out.dtype());
  auto* to = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t at = -1;
    if (exact) {
      const auto found = integers.find(x.AsInt64(i));
      if (found != integers.end()) at = found->second;
    } else if (const double key = x.AsDouble(i); std::isnan(key)) {
      at = nan;
    } else if (const auto found = reals.find(key); found != reals.end()) {
      at = found->second;
    }
    const auto* from = static_cast<const uint8_t*>(at < 0 ? map.missing.raw() : map.values.raw());
    std::memcpy(to + static_cast<size_t>(i) * element,
                from + static_cast<size_t>(std::max<int64_t>(at, 0)) * element, element);
  }
  context.outputs[0] = out;
}

// --- ZipMap

void InferZipMap(InferContext& context) {
  RequireDType(context, 0, {DType::kFloat32});
  SetOutput(context, 0, SequenceOf(DType::kFloat32), ContainerShape());
}

/// The maps of all rows are a sequence of two tensors: the keys, and a row of values for each map.
/// unpackMaps() makes Maps of them (web/base/sequence.ts).
void EvaluateZipMap(EvalContext& context) {
  const Tensor& x = context.input(0);
  const AttributeMap& attributes = context.attributes();
  const std::vector<int64_t> numbers = attributes.Ints("classlabels_int64s");
  const Tensor keys =
      numbers.empty() ? TextList(attributes, "classlabels_strings") : Tensor::Vector(numbers);
  if (x.rank() < 1 || x.rank() > 2 || x.dim(x.rank() - 1) != keys.count()) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat(RQ_LATE_TEXT("ZipMap with "), keys.count(), RQ_LATE_TEXT(" keys takes no "),
                ShapeToString(x.shape())));
  }
  const Tensor rows = x.rank() == 1 ? x.Reshaped({1, x.count()}) : x;
  context.outputs[0] = ContainerOf(SequenceOf(DType::kFloat32), {keys, rows});
}

constexpr OpDef kRows[] = {
    {"OneHotEncoder", kMlDomain, 1, 1, 1, 1, InferOneHotEncoder, EvaluateOneHotEncoder,
     QuantRule::kFloat},
    {"LabelEncoder", kMlDomain, 1, 1, 1, 1, InferLabelEncoder, EvaluateLabelEncoder,
     QuantRule::kFloat},
    {"CategoryMapper", kMlDomain, 1, 1, 1, 1, InferLabelEncoder, EvaluateLabelEncoder,
     QuantRule::kFloat},
    {"ZipMap", kMlDomain, 1, 1, 1, 1, InferZipMap, EvaluateZipMap, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> MlLabelsOps() { return kRows; }

}  // namespace requant
