// Lowers float elementwise operators of one and two operands.
#include "kernels/elementwise/table.h"

#include "plan/lower/elementwise/broadcast.h"
#include "plan/lower/elementwise/epilogue.h"
#include "plan/lower/kernel_step.h"
#include "plan/lower/parts.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

class BinaryStep : public KernelStep<StepKind::kBinary, BinaryF32Kernels, BinaryF32Params> {
 public:
  void Fields(PlanArchive& archive) override {
    KernelStep::Fields(archive);
    archive.Fields(blocks, out_bytes);
  }
  void Run(const RunContext& context) const override {
    BinaryF32Params call = params;
    call.a = context.Read<float>(inputs[0]);
    call.b = context.Read<float>(inputs[1]);
    call.out = context.Write(outputs[0]);
    RunBlocks(context, parts, run, call, blocks, sizeof(float), out_bytes);
  }

  std::vector<int64_t> blocks;  // where the operands of each block begin, if there are several
  size_t out_bytes = sizeof(float);
};

using UnaryStep = UnaryKernelStep<StepKind::kUnary, UnaryF32Kernels, UnaryF32Params>;

struct BinaryName {
  const char* op;
  BinaryF32Op kernel;
  int32_t greater = 0, equal = 0;  // BinaryF32Params; -1 or 0
  bool swap = false;
};
constexpr BinaryName kBinaryNames[] = {{"Add", BinaryF32Op::kAdd},
                                       {"Sub", BinaryF32Op::kSub},
                                       {"Mul", BinaryF32Op::kMul},
                                       {"Div", BinaryF32Op::kDiv},
                                       {"Max", BinaryF32Op::kMax},
                                       {"Min", BinaryF32Op::kMin},
                                       {"PRelu", BinaryF32Op::kPRelu},
                                       {"Equal", BinaryF32Op::kCompare, 0, -1},
                                       {"Greater", BinaryF32Op::kCompare, -1, 0},
                                       {"GreaterOrEqual", BinaryF32Op::kCompare, -1, -1},
                                       {"Less", BinaryF32Op::kCompare, -1, 0, true},
                                       {"LessOrEqual", BinaryF32Op::kCompare, -1, -1, true}};

struct UnaryName {
  const char* op;
  UnaryF32Op kernel;
  float alpha, beta;  // the operator's defaults
};
// HardSwish is x * max(0, min(1, x/6 + 0.5)) (onnx docs/Operators.md).
constexpr UnaryName kUnaryNames[] = {{"LeakyRelu", UnaryF32Op::kLeakyRelu, 0.01F, 0},
                                     {"HardSigmoid", UnaryF32Op::kHardSigmoid, 0.2F, 0.5F},
                                     {"HardSwish", UnaryF32Op::kHardSwish, 1.0F / 6.0F, 0.5F},
                                     {"Abs", UnaryF32Op::kAbs, 0, 0},
                                     {"Neg", UnaryF32Op::kNeg, 0, 0},
                                     {"Sqrt", UnaryF32Op::kSqrt, 0, 0},
                                     {"Sigmoid", UnaryF32Op::kSigmoid, 0, 0},
                                     {"Tanh", UnaryF32Op::kTanh, 0, 0},
                                     {"Erf", UnaryF32Op::kErf, 0, 0},
                                     {"Gelu", UnaryF32Op::kGelu, 0, 0},
                                     {"FastGelu", UnaryF32Op::kGeluTanh, 0, 0},
                                     {"QuickGelu", UnaryF32Op::kQuickGelu, 1.702F, 0},
                                     {"Swish", UnaryF32Op::kQuickGelu, 1, 0},
                                     {"FastExp", UnaryF32Op::kFastExp, 0, 0},
                                     {"FastTanh", UnaryF32Op::kFastTanh, 0, 0},
                                     {"FastSigmoid", UnaryF32Op::kFastSigmoid, 0, 0},
                                     {"FastErf", UnaryF32Op::kFastErf, 0, 0},
                                     {"FastErfGelu", UnaryF32Op::kFastGelu, 0, 0}};

}  // namespace

bool LowerBinary(PlanBuilder& builder, const Node& node) {
  const Value* a = node.inputs[0];
  if (a->type.dtype != DType::kFloat32 || node.inputs.size() != 2) return false;
  const Value* b = node.inputs[1];
  const BinaryName* name = nullptr;
  for (const BinaryName& row : kBinaryNames) {
    if (node.op_type == row.op) name = &row;
  }
  if (name == nullptr) return false;
  if (name->swap) std::swap(a, b);
  std::vector<int64_t> blocks;
  const auto walk = PlanBroadcast(builder, a, b, node.outputs[0], blocks);
  if (!walk) return false;
  const BinaryF32Kernel& kernel =
      builder.Choose("binary_f32", BinaryF32Kernels(),
                     [name](const BinaryF32Kernel& row) { return row.op == name->kernel; });
  const int slot_a = WalkedOperand(builder, a, node.outputs[0], walk->layout);
  const int slot_b = WalkedOperand(builder, b, node.outputs[0], walk->layout);
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  const int output = builder.Out(epilogue.output, walk->layout);
  auto& step = builder.Add<BinaryStep>(node, kernel.name, {slot_a, slot_b}, {output});
  step.op = epilogue.op;
  step.run = kernel.run;
  step.blocks.swap(blocks);
  step.out_bytes = DTypeBits(node.outputs[0]->type.dtype) / 8;
  step.may_overwrite = step.out_bytes == sizeof(float) &&
                       a->type.StaticShape() == node.outputs[0]->type.StaticShape();
  step.params.rows = walk->rows;
  step.params.cols = walk->cols;
  step.params.a_row_stride = walk->a_row_stride;
  step.params.b_row_stride = walk->b_row_stride;
  step.params.out_row_stride = walk->cols;
  step.params.a_step = walk->a_step;
  step.params.b_step = walk->b_step;
  step.params.lo = static_cast<float>(epilogue.clamp.lo);
  step.params.hi = static_cast<float>(epilogue.clamp.hi);
  step.params.greater = name->greater;
  step.params.equal = name->equal;
  DivideBinary(builder, step, kernel.run, step.params, sizeof(float), step.out_bytes);
  return true;
}

bool LowerUnary(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  if (node.op_type == "FastGelu" && node.input(1)) return false;  // with a bias
  if (x->type.dtype != DType::kFloat32) return LowerByteUnary(builder, node);
  UnaryF32Op op = UnaryF32Op::kClamp;
  float alpha = 0;
  float beta = 0;
  if (node.Is(Op::kRelu) || node.Is(Op::kClip)) {
    const auto bounds = ReadClamp(node);
    if (!bounds) return false;
    alpha = static_cast<float>(bounds->lo);
    beta = static_cast<float>(bounds->hi);
  } else {
    const UnaryName* name = nullptr;
    for (const UnaryName& row : kUnaryNames) {
      if (node.op_type == row.op) name = &row;
    }
    if (name == nullptr) return false;
    op = name->kernel;
    if (op == UnaryF32Op::kGelu && node.attributes.String("approximate", "none") == "tanh") {
      op = UnaryF32Op::kGeluTanh;
    }
    alpha = node.attributes.Float("alpha", name->alpha);
    beta = node.attributes.Float("beta", name->beta);
  }
  const UnaryF32Kernel& kernel = builder.Choose(
      "unary_f32", UnaryF32Kernels(), [op](const UnaryF32Kernel& row) { return row.op == op; });
  const Layout layout = builder.LayoutOf(x);
  const int input = builder.In(x, layout);
  const int output = builder.Out(node.outputs[0], layout);
  auto& step = builder.Add<UnaryStep>(node, kernel.name, {input}, {output});
  step.run = kernel.run;
  step.may_overwrite = true;
  step.params.n = static_cast<size_t>(NumElements(x->type.StaticShape()));
  step.params.alpha = alpha;
  step.params.beta = beta;
  DivideElements(builder, step, kernel.run, offsetof(UnaryF32Params, n), step.params.n,
                 sizeof(float), sizeof(float));
  return true;
}

RQ_STEP(Binary, BinaryStep)
RQ_STEP(Unary, UnaryStep)

}  // namespace requant
