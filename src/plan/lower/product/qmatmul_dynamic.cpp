// Lowers QLinearMatMul of two dynamic operands: the step packs every right-hand matrix when it
// runs.
#include <algorithm>
#include <limits>

#include "base/checked_math.h"
#include "numeric/multiplier.h"
#include "ops/elementwise/elementwise.h"
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/convolution/window_step.h"
#include "plan/lower/product/dynamic.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

/// Computes one product after the other and divides each among the threads.
class QMatMulStep : public ConvQ8Step {
 public:
  StepKind kind() const override { return StepKind::kQMatMul; }
  void Fields(PlanArchive& archive) override {
    ConvQ8Step::Fields(archive);
    archive.Fields(layout, is_signed, zero_points, packed_at, a_at, b_at);
  }
  void Run(const RunContext& context) const override {
    ConvQ8Params call = params;
    call.requantize = requantize.Params();
    call.workspace = context.Write(workspace);
    auto* packed = context.Write<uint8_t>(workspace) + packed_at;
    call.weights = packed;
    ConvQ8Weights weights;
    weights.dynamic = true;
    weights.layout = layout;
    weights.is_signed = is_signed != 0;
    weights.zero_points = zero_points.empty() ? nullptr : zero_points.data();
    const ConvQ8Kernel& row = ConvQ8KernelOf(kernel);
    const ConvGeometry& g = params.geometry;
    const int64_t image = int64_t{ConvRows(g)} * g.output_stride;
    for (size_t i = 0; i < a_at.size(); ++i) {
      weights.data = context.Read<uint8_t>(inputs[1]) + b_at[i];
      row.pack_weights(weights, packed);
      call.input = context.Read<uint8_t>(inputs[0]) + a_at[i];
      call.output = context.Write<uint8_t>(outputs[0]) + static_cast<int64_t>(i) * image;
      RunParts(context, parts, run, call);
    }
  }

  ConvWeightsLayout layout;
  int32_t is_signed = 0;
  std::vector<int32_t> zero_points;  // one for each column, or empty when all are 0
  size_t packed_at = 0;              // offset in the workspace, behind the kernel's own part
  std::vector<int64_t> a_at, b_at;   // where the matrices of each product begin
};

/// Whether int32 holds sums of k products of bytes less their zero points.
bool FitsAccumulators(int64_t k) { return k <= std::numeric_limits<int32_t>::max() / (255 * 255); }

}  // namespace

bool LowerDynamicQMatMul(PlanBuilder& builder, const Node& node) {
  const Value* left = node.inputs[0];
  const Value* right = node.inputs[3];
  const auto a_quant = ReadQuant(node, 1, 2);
  const auto b_quant = ReadQuant(node, 4, 5);
  const auto y_quant = ReadQuant(node, 6, 7);
  const Shape a = left->type.StaticShape();
  const Shape b = right->type.StaticShape();
  if (!a_quant || !b_quant || !y_quant || a_quant->scales.size() != 1 ||
      y_quant->scales.size() != 1 || a.empty() || b.size() < 2 || NumElements(a) == 0 ||
      NumElements(b) == 0) {
    return false;
  }
  const int64_t k = a.back();
  const int64_t n = b.back();
  const bool one = NumElements(b) == k * n;
  const int64_t rows = one ? NumElements(a) / k : a.size() > 1 ? a[a.size() - 2] : 1;
  const ConvGeometry geometry = MatMulGeometry(rows, k, n);
  if (!FitsInt32(geometry) || !FitsAccumulators(k)) return false;
  const auto per_column = Expand(*b_quant, geometry.out_c);
  if (!per_column) return false;

  // The row is chosen for weights that may have any codes.
  std::vector<uint8_t> any(CheckedMul(static_cast<size_t>(k), static_cast<size_t>(n)));
  for (size_t i = 0; i < any.size(); ++i)
    any[i] = i / static_cast<size_t>(n) % 2 == 0 ? 0x80 : 0x7f;
  if (right->type.dtype == DType::kUint8) {
    for (uint8_t& code : any) code ^= 0x80;
  }
  const std::vector<int32_t> zeros = NonZero(per_column->zero_points);
  ConvQ8Weights weights;
  weights.dynamic = true;
  weights.layout.out_c = static_cast<int32_t>(n);
  weights.layout.in_c_per_group = static_cast<int32_t>(k);
  weights.layout.stride_o = 1;
  weights.layout.stride_i = n;
  weights.data = any.data();
  weights.is_signed = right->type.dtype == DType::kInt8;
  weights.zero_points = zeros.empty() ? nullptr : zeros.data();
  const ConvQ8Kernel& kernel = ChooseConvQ8(builder, weights, geometry, "");

  const RequantizeMode mode = builder.options().requantize;
  std::vector<double> multipliers;
  for (const float scale : per_column->scales) {
    multipliers.push_back(ProductMultiplier(mode, a_quant->scales[0], scale, y_quant->scales[0]));
  }
  const int output = builder.Out(node.outputs[0]);
  auto& step =
      builder.Add<QMatMulStep>(node, kernel.name, {builder.In(left), builder.In(right)}, {output});
  const DType type = node.outputs[0]->type.dtype;
  const CodeRange codes = CodesOf(type);
  step.params.input_signed = left->type.dtype == DType::kInt8;
  step.params.input_zero_point = a_quant->zero_points[0];
  step.params.output_type = type == DType::kInt8 ? ConvQ8Output::kInt8 : ConvQ8Output::kUint8;
  step.requantize = PrepareRequantize(mode, multipliers, {255 * 255 * k}, y_quant->zero_points[0],
                                      codes.lo, codes.hi);
  step.layout = weights.layout;
  step.is_signed = weights.is_signed ? 1 : 0;
  step.zero_points = zeros;
  step.Set(builder, kernel, geometry, nullptr, k, TileOf(kernel.walk, geometry), kMacsPerPart);
  step.packed_at = Padded(builder.slot(step.workspace).bytes);
  step.workspace =
      builder.Workspace(CheckedAdd(step.packed_at, Padded(kernel.packed_size(weights))));
  if (one) {
    step.a_at = step.b_at = {0};
  } else {
    PlaceMatrices(a, b, rows * k, k * n, step.a_at, step.b_at);
  }
  step.macs *= static_cast<int64_t>(step.a_at.size());
  return true;
}

RQ_STEP(QMatMul, QMatMulStep)

}  // namespace requant
