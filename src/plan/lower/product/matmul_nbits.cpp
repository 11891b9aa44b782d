// Lowers com.microsoft::MatMulNBits with weights of 4 or 8 bits that stay packed. This file is
// among the extended operators, which a model with this operator loads for packing.
#include "plan/lower/product/matmul_nbits.h"

#include "kernels/matmul_nbits/pack.h"
#include "kernels/variant/kernel.h"
#include "ops/matrix/matmul_nbits.h"
#include "plan/lower/parts.h"
#include "plan/lower/rows.h"

namespace requant {
namespace {

void PointAt(MatMulNBitsWeights& weights, const Tensor* bytes) {
  weights.codes = bytes[0].data<uint8_t>();
  weights.scales = bytes[1].data<float>();
}

}  // namespace

bool LowerMatMulNBits(PlanBuilder& builder, const Node& node) {
  const Value* a = node.inputs[0];
  const int64_t elements = NumElements(a->type.StaticShape());
  if (a->type.dtype != DType::kFloat32 || elements == 0 || node.input(5) ||
      !IsPackedProduct(node)) {
    return false;
  }
  const PackedForm form = PackedFormOf(node.attributes);
  const int64_t rows = elements / form.k;
  if (rows * form.n > INT32_MAX) return false;
  MatMulNBitsParams params;
  params.rows = static_cast<int32_t>(rows);
  params.k = static_cast<int32_t>(form.k);
  params.n = static_cast<int32_t>(form.n);
  params.block = static_cast<int32_t>(form.block);
  params.bits = static_cast<int32_t>(form.bits);
  params.has_zero_points = node.constant(3) != nullptr ? 1 : 0;
  params.end = (params.n + 7) / 8;
  params.portable = builder.options().portable ? 1 : 0;
  const bool integer = TakesInt8Activations(node.attributes) ||
                       (builder.options().int8_activations.value_or(false) && form.bits == 4);
  const bool relaxed = rq_variant() != 0 || builder.IsForced("matmul_nbits");
  const MatMulNBitsKernel& kernel = builder.Choose(
      "matmul_nbits", MatMulNBitsKernels(), [integer, relaxed](const MatMulNBitsKernel& row) {
        return row.integer == integer && IsUsable(row, relaxed);
      });
  MatMulNBitsWeights weights{
      params.k,
      params.n,
      params.block,
      params.bits,
      nullptr,
      nullptr,
      params.has_zero_points != 0 ? node.constant(3)->data<uint8_t>() : nullptr};
  const Tensor* constants[] = {node.constant(1), node.constant(2)};
  if (constants[0]->lean() && constants[1]->lean()) {
    params.weights = builder.PackLean(kernel, weights, {constants, PointAt, nbits::Unpack});
  } else {
    weights.codes = constants[0]->data<uint8_t>();
    weights.scales = constants[1]->data<float>();
    params.weights = builder.Pack(kernel, weights);
  }
  const int input = builder.In(a);
  const int output = builder.Out(node.outputs[0]);
  auto& step = builder.Add<MatMulNBitsStep>(node, kernel.name, {input}, {output});
  step.run = kernel.run;
  step.params = params;
  step.macs = rows * form.k * form.n;
  // The step is divided by columns, since there may be only one row.
  DivideRows(builder, step, KernelEntryOf(kernel.run),
             {offsetof(MatMulNBitsParams, begin), offsetof(MatMulNBitsParams, end),
              offsetof(MatMulNBitsParams, workspace)},
             params.end, 1, step.macs, kMacsPerPart, kernel.workspace_size(params));
  return true;
}

}  // namespace requant
