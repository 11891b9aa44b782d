// The operators of ONNX that draw random numbers (onnx docs/Operators.md), by generator.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/elementwise/cast.h"
#include "ops/infer_util.h"
#include "ops/random/generator.h"
#include "ops/table.h"

namespace requant {
namespace {

/// The type of the result: the attribute dtype, or `fallback`.
DType ResultType(const Node& node, DType fallback) {
  const int64_t number = node.attributes.Int("dtype", static_cast<int64_t>(fallback));
  const DType dtype = number > 0 && number < 256 ? static_cast<DType>(number) : DType::kUndefined;
  if (DTypeBits(dtype) < 8 && number != 0) {
    Fail(ErrorCode::kUnsupported, StrCat(node.op_type, RQ_LATE_TEXT(" of type "), number));
  }
  return dtype;
}

bool IsLike(const Node& node) { return node.op_type.ends_with("Like"); }

/// float32, or the type of the input that the result is like.
DType NumberType(const Node& node, DType input) {
  return ResultType(node, IsLike(node) ? input : DType::kFloat32);
}

Shape ShapeOf(const Node& node) {
  Shape shape = node.attributes.Ints("shape");
  if (!node.attributes.Has("shape")) {
    Fail(ErrorCode::kInvalidModel, StrCat(node.op_type, RQ_LATE_TEXT(" without a shape")));
  }
  NumElements(shape);
  return shape;
}

void InferNumbers(InferContext& context) {
  if (IsLike(context.node)) {
    return SetOutput(context, 0, NumberType(context.node, context.inputs[0].dtype),
                     context.inputs[0].shape);
  }
  SetOutput(context, 0, NumberType(context.node, DType::kUndefined),
            ToSymbolic(ShapeOf(context.node)));
}

void EvaluateNumbers(EvalContext& context) {
  const Node& node = context.node;
  const Tensor* like = IsLike(node) ? &context.input(0) : nullptr;
  const DType dtype = NumberType(node, like ? like->dtype() : DType::kUndefined);
  const bool normal = node.op_type.starts_with("RandomNormal");
  const double low = node.attributes.Float(normal ? "mean" : "low", 0);
  const double high = node.attributes.Float(normal ? "scale" : "high", 1);
  RandomStream stream(node.attributes);
  Tensor out(DType::kFloat64, like ? like->shape() : ShapeOf(node));
  for (int64_t i = 0; i < out.count(); ++i) {
    out.data<double>()[i] =
        normal ? low + high * stream.Normal() : low + (high - low) * stream.Uniform();
  }
  out = CastTensor(out, dtype);
  context.outputs[0] = out;
  if (normal || !IsFloat(dtype) || dtype == DType::kFloat64) return;
  // Rounding may have reached the end of the half-open interval.
  const double last = static_cast<float>(high);
  if (dtype != DType::kFloat32) return;
  for (int64_t i = 0; i < out.count(); ++i) {
    float& x = out.data<float>()[i];
    if (x == last && low < high) x = std::nextafter(x, static_cast<float>(low));
  }
}

// --- Bernoulli

void InferBernoulli(InferContext& context) {
  RequireFloat(context, 0);
  SetOutput(context, 0, ResultType(context.node, context.inputs[0].dtype), context.inputs[0].shape);
}

void EvaluateBernoulli(EvalContext& context) {
  const Tensor& x = context.input(0);
  RandomStream stream(context.attributes());
  Tensor out(DType::kInt8, x.shape());
  for (int64_t i = 0; i < x.count(); ++i) {
    out.data<int8_t>()[i] = stream.Uniform() < x.AsDouble(i);
  }
  context.outputs[0] = CastTensor(out, ResultType(context.node, x.dtype()));
}

// --- Multinomial

int64_t SamplesOf(const AttributeMap& attributes) {
  const int64_t samples = attributes.Int("sample_size", 1);
  if (samples < 1 || samples > int64_t{1} << 31) {
    Fail(ErrorCode::kInvalidModel, StrCat(RQ_LATE_TEXT("Multinomial with sample_size "), samples));
  }
  return samples;
}

void InferMultinomial(InferContext& context) {
  RequireFloat(context, 0);
  RequireRank(context, 0, 2);
  SetOutput(context, 0, ResultType(context.node, DType::kInt32),
            SymbolicShape{context.shape(0) ? (*context.shape(0))[0] : Dim(),
                          SamplesOf(context.attributes())});
}

/// Samples classes by their unnormalized logarithmic probabilities.
void EvaluateMultinomial(EvalContext& context) {
  const Tensor& x = context.input(0);
  if (x.rank() != 2 || x.dim(1) < 1) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat(RQ_LATE_TEXT("Multinomial of "), ShapeToString(x.shape())));
  }
  const int64_t classes = x.dim(1);
  RandomStream stream(context.attributes());
  Tensor out(DType::kInt64, {x.dim(0), SamplesOf(context.attributes())});
  int64_t* to = out.data<int64_t>();
  for (int64_t row = 0; row < x.dim(0); ++row) {
    double most = -INFINITY;
    for (int64_t i = 0; i < classes; ++i) most = std::max(most, x.AsDouble(row * classes + i));
    std::vector<double> sums;
    double sum = 0;
    for (int64_t i = 0; i < classes; ++i) {
      sums.push_back(sum += PortableExp(x.AsDouble(row * classes + i) - most));
    }
    for (int64_t i = 0; i < out.dim(1); ++i) {
      const auto at = std::upper_bound(sums.begin(), sums.end(), stream.Uniform() * sum);
      *to++ = std::min<int64_t>(at - sums.begin(), classes - 1);
    }
  }
  context.outputs[0] = CastTensor(out, ResultType(context.node, DType::kInt32));
}

constexpr OpDef kRows[] = {
    Random({"RandomNormal", "", 1, 0, 0, 1, InferNumbers, EvaluateNumbers, QuantRule::kFloat}),
    Random({"RandomNormalLike", "", 1, 1, 1, 1, InferNumbers, EvaluateNumbers, QuantRule::kFloat}),
    Random({"RandomUniform", "", 1, 0, 0, 1, InferNumbers, EvaluateNumbers, QuantRule::kFloat}),
    Random({"RandomUniformLike", "", 1, 1, 1, 1, InferNumbers, EvaluateNumbers, QuantRule::kFloat}),
    Random({"Bernoulli", "", 15, 1, 1, 1, InferBernoulli, EvaluateBernoulli, QuantRule::kFloat}),
    Random(
        {"Multinomial", "", 7, 1, 1, 1, InferMultinomial, EvaluateMultinomial, QuantRule::kFloat}),
};

}  // namespace

std::span<const OpDef> RandomOps() { return kRows; }

}  // namespace requant
