// FULLY_CONNECTED and BATCH_MATMUL.
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/convert/dynamic.h"
#include "tflite/convert/weights.h"
#include "tflite/operators.h"

namespace requant::tflite {

void ConvertFullyConnected(Context& context, const char*) {
  using Options = field::FullyConnectedOptions;
  const TableView& options = context.options();
  if (options.Get<int8_t>(Options::kWeightsFormat, 0) != 0) {
    context.Refuse(RQ_LATE_TEXT("has shuffled weights"),
                   RQ_LATE_TEXT("convert the model with weights in the default format"));
  }
  const SymbolicShape& weights = context.input(1).shape;
  if (weights.size() != 2 || !weights[1].known() || context.rank(0) == 0) {
    context.Invalid(RQ_LATE_TEXT("has weights of no two dimensions"));
  }
  const auto activation = options.Get<int8_t>(Options::kActivation, 0);
  Converter& graph = context.graph();
  const size_t rank = context.rank(0);
  const bool dynamic = IsDynamicLayer(context, 0, 1, 0);
  if (options.Flag(Options::kKeepNumDims) && rank > 2) {
    if (dynamic) {
      Value* result = DynamicProduct(context, context.Reals(0), false, 1, 2);
      return context.DefineActivated(result, activation);
    }
    Value* result = context.Add("MatMul", {context.Reals(0), Weights(context, 1, {1, 0})});
    if (context.has(2)) result = context.Add("Add", {result, Bias(context, 2, 0, 1)});
    return context.DefineActivated(result, activation);
  }
  const FileTensor& file = context.input(0);
  Value* rows = context.Reals(0);
  if (rank != 2 || !(file.shape[1] == weights[1])) {
    rows = context.Add("Reshape", {rows, context.Ints({-1, weights[1].value})});
    if (graph.quantized(context.in(0))) {
      if (file.quantization.scales.size() != 1) {
        context.Invalid(RQ_LATE_TEXT("has an input of several scales"));
      }
      // A product is one of integers if DequantizeLinear is beside it.
      Value* codes = graph.Quantize(rows, context.in(0), Order::kPlain);
      rows = graph.Dequantize(codes, file.quantization, file.dtype, 0);
    }
  }
  if (dynamic) {
    const bool one_row = context.output().shape.size() == 2 && context.output().shape[0] == Dim(1);
    return context.DefineActivated(DynamicProduct(context, rows, one_row, 1, 2), activation);
  }
  std::vector<Value*> inputs = {rows, Weights(context, 1, {0, 1})};
  if (context.has(2)) inputs.push_back(Bias(context, 2, 0, 1));
  Value* result = context.Add("Gemm", std::move(inputs), With("transB", int64_t{1}));
  context.DefineActivated(result, activation);
}

void ConvertBatchMatMul(Context& context, const char*) {
  using Options = field::BatchMatMulOptions;
  std::vector<Value*> inputs;
  for (size_t slot = 0; slot < 2; ++slot) {
    Value* operand = context.Reals(slot);
    if (context.options().Flag(slot == 0 ? Options::kAdjX : Options::kAdjY)) {
      const size_t rank = context.rank(slot);
      if (rank < 2)
        context.Invalid(StrCat(RQ_LATE_TEXT("has an input "), slot,
                               RQ_LATE_TEXT(" of less than two dimensions")));
      std::vector<int64_t> perm;
      for (size_t i = 0; i + 2 < rank; ++i) perm.push_back(static_cast<int64_t>(i));
      perm.push_back(static_cast<int64_t>(rank) - 1);
      perm.push_back(static_cast<int64_t>(rank) - 2);
      operand = context.graph().Transposed(operand, perm);
    }
    inputs.push_back(operand);
  }
  context.Define(context.Add("MatMul", std::move(inputs)));
}

}  // namespace requant::tflite
