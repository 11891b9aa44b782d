// Lowers MatMul and Gemm of two dynamic operands: the step packs every right-hand matrix when it
// runs.
#include "base/checked_math.h"
#include "plan/lower/product/dynamic.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "plan/lower/table.h"

namespace requant {
namespace {

class MatMulStep : public StepOf<StepKind::kMatMul> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(product, lanes, bias_stride, a_at, b_at);
    archive.Kernel(ConvF32Kernels(), kernel, run);
  }
  void Run(const RunContext& context) const override {
    const auto* a = context.Read<float>(inputs[0]);
    const auto* b = context.Read<float>(inputs[1]);
    const float* bias = inputs.size() > 2 ? context.Read<float>(inputs[2]) : nullptr;
    auto* out = context.Write<float>(outputs[0]);
    auto* packed = context.Write<uint8_t>(workspace);
    const ConvF32Kernel& row = ConvF32KernelOf(kernel);
    const size_t each = Padded(product.packed_bytes);
    const ConvGeometry& g = product.params.geometry;
    const int64_t image = int64_t{g.out_w} * g.output_stride;
    const int many = LanesOf(context, lanes);
    const auto count = static_cast<int64_t>(a_at.size());
    if (g.out_w < kFewRows) {
      const FewRows few{product.matrix, g.out_w, g.input_stride, bias_stride, g.output_stride};
      for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(i);
        MultiplyFew(few, a + a_at[at], b + b_at[at], bias, out + i * image);
      }
      return;
    }
    // As many products run at a time as there are threads, or a single one in parts.
    ConvF32Params blocks[kMaxThreads];
    for (int64_t first = 0; first < count; first += many) {
      const int products = static_cast<int>(std::min<int64_t>(many, count - first));
      const int parts = std::max(1, std::min(many / products, g.out_w / 8));
      int used = 0;
      for (int i = 0; i < products; ++i) {
        const auto at = static_cast<size_t>(first + i);
        void* weights = packed + each * static_cast<size_t>(i);
        PackMatrix(row, product.matrix, b + b_at[at], weights);
        for (int part = 0; part < parts; ++part) {
          ConvF32Params& call = blocks[used++];
          call = product.params;
          call.input = a + a_at[at];
          call.weights = weights;
          call.residual = bias;
          call.residual_stride = bias_stride;
          call.output = out + (first + i) * image;
          call.row_begin = static_cast<int32_t>(int64_t{g.out_w} * part / parts / 4 * 4);
          call.row_end = part + 1 == parts
                             ? g.out_w
                             : static_cast<int32_t>(int64_t{g.out_w} * (part + 1) / parts / 4 * 4);
        }
      }
      RunLanes(context, run, blocks, used);
    }
  }

  DynamicProduct product;
  int lanes = 1;
  int32_t bias_stride = 0;
  std::vector<int64_t> a_at, b_at;  // where the matrices of each product begin
  void (*run)(const ConvF32Params*) = nullptr;
};

/// Adds the step; nullptr when the sizes exceed what the kernels take.
MatMulStep* AddStep(PlanBuilder& builder, const Node& node, const DynamicMatrix& matrix,
                    int64_t rows, int64_t products, const std::vector<const Value*>& operands) {
  const ConvF32Kernel& kernel = ChooseProductF32(builder);
  const auto product = PlanProduct(builder, kernel, matrix, rows, matrix.k, matrix.n);
  if (!product) return nullptr;
  std::vector<int> inputs;
  for (const Value* operand : operands) inputs.push_back(builder.In(operand));
  const int output = builder.Out(node.outputs[0]);
  auto& step = builder.Add<MatMulStep>(node, kernel.name, inputs, {output});
  step.run = kernel.run;
  step.product = *product;
  const int64_t macs = rows * matrix.k * matrix.n;
  step.macs = macs * products;
  const int threads = std::clamp(builder.options().threads, 1, kMaxThreads);
  step.lanes = static_cast<int>(std::clamp<int64_t>(step.macs / kMacsPerPart, 1, threads));
  const int64_t most = std::min<int64_t>(step.lanes, products);
  step.workspace =
      builder.Workspace(CheckedMul(Padded(product->packed_bytes), static_cast<size_t>(most)));
  return &step;
}

}  // namespace

bool IsTransposedOperand(const Node& node) {
  const Value* out = node.outputs[0];
  const std::vector<int64_t> perm = node.attributes.Ints("perm");
  const size_t rank = perm.size();
  if (rank < 2 || out->consumers.size() != 1) return false;
  for (size_t i = 0; i < rank; ++i) {
    const size_t from = i + 2 < rank ? i : 2 * rank - 3 - i;
    if (perm[i] != static_cast<int64_t>(from)) return false;
  }
  const Node& reader = *out->consumers[0];
  return reader.Is(Op::kMatMul) && reader.inputs[1] == out && reader.inputs[0] != out &&
         out->type.dtype == DType::kFloat32 && NumElements(out->type.StaticShape()) > 0;
}

bool LowerTransposedOperand(PlanBuilder& builder, const Node& node) {
  // The product reads the untransposed operand, and plans this operator itself if it cannot.
  return builder.options().fuse && builder.graph().SoleConsumer(node.outputs[0]) != nullptr;
}

namespace {

bool LowerProducts(PlanBuilder& builder, const Node& node) {
  const Value* left = node.inputs[0];
  const Value* right = node.inputs[1];
  const Shape a = left->type.StaticShape();
  const Shape b = right->type.StaticShape();
  if (left->type.dtype != DType::kFloat32 || right->type.dtype != DType::kFloat32 || a.empty() ||
      b.empty() || NumElements(a) == 0 || NumElements(b) == 0) {
    return false;
  }
  const Node* turn = builder.Has(right) ? nullptr : right->producer;
  const int64_t k = a.back();
  const int64_t n = b.size() > 1 ? b.back() : 1;
  int64_t rows = a.size() > 1 ? a[a.size() - 2] : 1;
  const int64_t b_size = k * n;
  const bool one = NumElements(b) == b_size;
  if (one) rows = NumElements(a) / k;
  const int64_t products = NumElements(node.outputs[0]->type.StaticShape()) / (rows * n);
  const DynamicMatrix matrix = turn ? DynamicMatrix{k, n, 1, k} : DynamicMatrix{k, n, n, 1};
  MatMulStep* step =
      AddStep(builder, node, matrix, rows, products, {left, turn ? turn->inputs[0] : right});
  if (step == nullptr) return false;
  if (turn) {
    builder.Absorb(turn, node);
    step->op = "Transpose+MatMul";
  }
  if (one) {
    step->a_at = step->b_at = {0};
  } else {
    PlaceMatrices(a, b, rows * k, b_size, step->a_at, step->b_at);
  }
  return true;
}

}  // namespace

bool LowerDynamicMatMul(PlanBuilder& builder, const Node& node) {
  if (LowerProducts(builder, node)) return true;
  const Value* right = node.inputs[1];
  if (!builder.Has(right) && !LowerTranspose(builder, *right->producer)) {
    LowerByReference(builder, *right->producer);
  }
  return false;
}

bool LowerDynamicGemm(PlanBuilder& builder, const Node& node) {
  const AttributeMap& attributes = node.attributes;
  const Value* left = node.inputs[0];
  const Value* right = node.inputs[1];
  const Value* bias = node.input(2);
  const Shape out = node.outputs[0]->type.StaticShape();
  if (left->type.dtype != DType::kFloat32 || attributes.Int("transA", 0) != 0 ||
      attributes.Float("alpha", 1) != 1 || attributes.Float("beta", 1) != 1 ||
      NumElements(out) == 0) {
    return false;
  }
  const int64_t k = left->type.StaticShape()[1];
  if (k == 0) return false;
  int32_t bias_stride = 0;
  if (bias) {
    const Shape shape = bias->type.StaticShape();
    const bool whole = shape == out;
    if (!whole && NumElements(shape) != (shape.empty() ? 0 : out[1])) return false;
    if (!whole && shape.back() != out[1]) return false;
    bias_stride = whole ? static_cast<int32_t>(out[1]) : 0;
  }
  const bool transposed = attributes.Int("transB", 0) != 0;
  const DynamicMatrix matrix =
      transposed ? DynamicMatrix{k, out[1], 1, k} : DynamicMatrix{k, out[1], out[1], 1};
  std::vector<const Value*> operands = {left, right};
  if (bias) operands.push_back(bias);
  MatMulStep* step = AddStep(builder, node, matrix, out[0], 1, operands);
  if (step == nullptr) return false;
  step->a_at = step->b_at = {0};
  step->bias_stride = bias_stride;
  return true;
}

RQ_STEP(MatMul, MatMulStep)

}  // namespace requant
