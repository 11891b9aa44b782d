// Lowers DynamicQuantizeRows and MatMulIntegerRows (numeric/row_codes.h): a step makes the
// codes of the rows, and a product of 8 bits with the scales of its rows makes floats again.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/quantize/table.h"
#include "numeric/row_codes.h"
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/elementwise/epilogue.h"
#include "plan/lower/kernel_step.h"
#include "plan/lower/product/float_sums_step.h"
#include "plan/lower/product/integer_product.h"
#include "plan/lower/product/value_range.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

/// Computes codes, scales and zero points of this run, one row after the other.
class DynamicQuantizeRowsStep
    : public KernelStep<StepKind::kDynamicQuantizeRows, QuantizeKernels, QuantizeParams> {
 public:
  void Run(const RunContext& context) const override {
    QuantizeParams call = params;
    call.rows = 1;
    call.in = context.Read<float>(inputs[0]);
    auto* codes = context.Write<uint8_t>(outputs[0]);
    auto* scales = context.Write<float>(outputs[1]);
    auto* zeros = context.Write<uint8_t>(outputs[2]);
    for (size_t row = 0; row < params.rows; ++row) {
      const ValueRange range = RangeOfValues(call.in, call.cols);
      const RowGrid grid = range.has_nan ? RowGridOf(NAN, NAN) : RowGridOf(range.lo, range.hi);
      call.scale = grid.scale;
      call.zero = grid.zero;
      scales[row] = call.scale;
      zeros[row] = static_cast<uint8_t>(call.zero);
      call.out = codes;
      run(&call);
      call.in += call.cols;
      codes += call.cols;
    }
  }
};

/// Inputs: codes, scales of the rows, their zero points if any, and the residual if `adds`.
class IntegerProductRowsStep : public FloatSumsStep {
 public:
  StepKind kind() const override { return StepKind::kIntegerProductRows; }
  void Fields(PlanArchive& archive) override {
    FloatSumsStep::Fields(archive);
    archive.Blob(params.sums.column_sum);
  }
  void Run(const RunContext& context) const override {
    ConvQ8Params call = Call(context);
    call.sums.row_scale = context.Read<float>(inputs[1]);
    if (call.sums.column_sum) call.sums.row_zero = context.Read<uint8_t>(inputs[2]);
    RunParts(context, parts, run, call);
  }
};

/// Whether constant numbers are given for each column or once for all.
bool FitColumns(const Tensor* numbers, int64_t columns) {
  return numbers && (numbers->count() == 1 || numbers->count() == columns);
}

/// Copies numbers of columns and three more behind them, since kernels load whole vectors.
const int32_t* PackSums(PlanBuilder& builder, const Tensor& sums) {
  const auto columns = static_cast<size_t>(sums.count());
  auto* packed = reinterpret_cast<int32_t*>(builder.Packed((columns + 3) * sizeof(int32_t)));
  std::copy_n(sums.data<int32_t>(), columns, packed);
  std::fill_n(packed + columns, 3, 0);
  return packed;
}

}  // namespace

bool LowerDynamicQuantizeRows(PlanBuilder& builder, const Node& node) {
  const Shape shape = node.inputs[0]->type.StaticShape();
  for (size_t i = 0; i < 3; ++i) {
    if (node.output(i) == nullptr) return false;
  }
  if (NumElements(shape) == 0) return false;
  const QuantizeKernel& kernel = builder.Choose("quantize", QuantizeKernels());
  const int input = builder.In(node.inputs[0]);
  std::vector<int> outputs;
  for (size_t i = 0; i < 3; ++i) outputs.push_back(builder.Out(node.outputs[i]));
  auto& step = builder.Add<DynamicQuantizeRowsStep>(node, kernel.name, {input}, outputs);
  step.run = kernel.run;
  step.params.cols = step.params.in_row_stride = step.params.out_row_stride =
      static_cast<size_t>(shape.back());
  step.params.rows = static_cast<size_t>(NumElements(shape)) / step.params.cols;
  step.params.hi = 255;
  return true;
}

bool LowerMatMulIntegerRows(PlanBuilder& builder, const Node& node) {
  ConvWeightsLayout layout;
  const auto geometry = IntegerMatrixGeometry(node, layout);
  if (!geometry) return false;
  const int64_t columns = geometry->out_c;
  const Tensor* scales = node.constant(3);
  const Tensor* bias = node.constant(4);
  const Tensor* sums_of_weights = node.constant(6);
  if (!FitColumns(scales, columns) || (node.input(4) && !FitColumns(bias, columns)) ||
      (node.input(5) && (sums_of_weights == nullptr || sums_of_weights->count() != columns)) ||
      NumElements(node.inputs[2]->type.StaticShape()) != ConvRows(*geometry)) {
    return false;
  }
  const Tensor& weights = *node.constant(1);
  const CodeRange codes = InputCodes(builder, node.inputs[0], 0);
  ByteWeights packing = ByteWeightsOf(builder, layout, weights, nullptr);
  packing.input_lo = codes.lo;
  packing.input_hi = codes.hi;
  std::string tuning = QTuningOf("conv_q8", *geometry, codes, packing);
  const ConvQ8Kernel& kernel = ChooseConvQ8(builder, packing, *geometry, tuning);
  const uint8_t* packed = PackBytes(builder, kernel, packing);
  std::vector<int> inputs = {builder.In(node.inputs[0]), builder.In(node.inputs[2])};
  if (node.input(5)) inputs.push_back(builder.In(node.input(5)));
  const Epilogue epilogue = TakeEpilogue(builder, node, true);
  if (epilogue.residual) inputs.push_back(builder.In(epilogue.residual));
  const int output = builder.Out(epilogue.output);
  auto& step = builder.Add<IntegerProductRowsStep>(node, kernel.name, inputs, {output});
  step.op = epilogue.op;
  step.tuning = std::move(tuning);
  step.adds = epilogue.residual != nullptr;
  FloatSums& sums = step.params.sums;
  sums.scale = PackChannels(builder, scales, geometry->out_c);
  sums.bias = PackChannels(builder, bias, geometry->out_c);
  if (node.input(5)) sums.column_sum = PackSums(builder, *sums_of_weights);
  sums.residual_stride = geometry->out_c;
  sums.lo = static_cast<float>(epilogue.clamp.lo);
  sums.hi = static_cast<float>(epilogue.clamp.hi);
  step.params.input_signed = node.inputs[0]->type.dtype == DType::kInt8;
  step.params.output_type = ConvQ8Output::kFloat32;
  step.Set(builder, kernel, *geometry, packed, TapsOf(layout), TileOf(kernel.walk, *geometry),
           kMacsPerPart);
  return true;
}

RQ_STEP(DynamicQuantizeRows, DynamicQuantizeRowsStep)
RQ_STEP(IntegerProductRows, IntegerProductRowsStep)

}  // namespace requant
