// Reductions, ARG_MAX, ARG_MIN, CUMSUM and TOPK_V2.
#include <algorithm>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

/// A reduction in an order of dimensions that leaves the result in plain order, or that keeps all
/// dimensions.
struct Reduction {
  Order from = Order::kPlain;
  Order to = Order::kPlain;
  std::vector<int64_t> axes;
};

Reduction Plan(const Context& context, std::vector<int64_t> axes, bool keep) {
  const size_t rank = context.rank(0);
  for (int64_t& axis : axes) axis = context.Axis(axis, rank);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  Reduction plain{Order::kPlain, Order::kPlain, axes};
  if (context.order(0) == Order::kPlain) return plain;
  Reduction planar{Order::kPlanar, keep ? Order::kPlanar : Order::kPlain, {}};
  for (const int64_t axis : axes) planar.axes.push_back(PlanarAxis(axis, rank));
  std::sort(planar.axes.begin(), planar.axes.end());
  if (keep) return planar;
  std::vector<int64_t> left;
  for (const int64_t axis : PlanarOrder(rank)) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) left.push_back(axis);
  }
  return std::is_sorted(left.begin(), left.end()) ? planar : plain;
}

Value* Reduce(Context& context, const char* onnx, Value* x, const Reduction& plan, bool keep) {
  AttributeMap attributes = With("keepdims", static_cast<int64_t>(keep));
  // No axis at all means that nothing is reduced.
  if (plan.axes.empty()) return context.Add("Identity", {x});
  return context.Add(onnx, {x, context.Ints(plan.axes)}, std::move(attributes));
}

}  // namespace

void ConvertReduce(Context& context, const char* onnx) {
  const bool keep = context.options().Flag(field::ReducerOptions::kKeepDims);
  const Reduction plan = Plan(context, context.ints(1), keep);
  Converter& graph = context.graph();
  const int32_t output = context.out();
  // The mean of an image is one of integers if its codes are made before dimensions are dropped.
  const bool first = !keep && plan.from == Order::kPlanar && !plan.axes.empty() &&
                     graph.quantized(output) && context.output().quantization.scales.size() == 1;
  Value* result = Reduce(context, onnx, context.Reals(0, plan.from), plan, keep || first);
  if (first) {
    const FileTensor& file = context.output();
    Value* codes = graph.Quantize(result, output, plan.to);
    result = graph.Dequantize(codes, file.quantization, file.dtype, 0);
    result = context.Add("Squeeze", {result, context.Ints(plan.axes)});
  }
  context.Define(result, plan.to);
}

/// REDUCE_ANY and REDUCE_ALL: the maximum and the minimum of 0 and 1.
void ConvertReduceBools(Context& context, const char* onnx) {
  const bool keep = context.options().Flag(field::ReducerOptions::kKeepDims);
  const Reduction plan = Plan(context, context.ints(1), keep);
  Value* bits = context.Cast(context.Codes(0, plan.from), DType::kInt32);
  context.Define(context.Cast(Reduce(context, onnx, bits, plan, keep), DType::kBool), plan.to);
}

void ConvertArg(Context& context, const char* onnx) {
  const std::vector<int64_t> axes = context.ints(1);
  if (axes.size() != 1) context.Invalid(RQ_LATE_TEXT("needs one axis"));
  const Reduction plan = Plan(context, axes, false);
  Value* found = context.Add(onnx, {context.Reals(0, plan.from)},
                             With("axis", plan.axes[0], "keepdims", int64_t{0}));
  context.DefineInts(found);
}

void ConvertCumSum(Context& context, const char*) {
  using Options = field::CumsumOptions;
  const std::vector<int64_t> axes = context.ints(1);
  if (axes.size() != 1) context.Invalid(RQ_LATE_TEXT("needs one axis"));
  const int64_t axis = context.Axis(axes[0], context.rank(0));
  AttributeMap attributes;
  attributes.Set("exclusive", static_cast<int64_t>(context.options().Flag(Options::kExclusive)));
  attributes.Set("reverse", static_cast<int64_t>(context.options().Flag(Options::kReverse)));
  Value* at = context.graph().AddConstant(Tensor::Scalar(axis));
  context.Define(context.Add("CumSum", {context.Reals(0), at}, std::move(attributes)));
}

void ConvertTopK(Context& context, const char*) {
  Value* count = context.Add("Reshape", {context.Int64(1), context.Ints({1})});
  const std::vector<Value*> found = context.graph().AddMany("TopK", {context.Reals(0), count}, 2);
  context.Define(found[0]);
  context.DefineInts(found[1], 1);
}

}  // namespace requant::tflite
