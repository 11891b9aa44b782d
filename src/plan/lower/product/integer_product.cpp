// Lowers ConvInteger and MatMulInteger with constant weights to the 8-bit kernels. The output is
// the accumulators, or the floats that the operators behind them make of these. The step reads the
// input's zero point when it runs.
#include "plan/lower/product/integer_product.h"

#include "base/str_cat.h"
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/elementwise/broadcast.h"
#include "plan/lower/elementwise/epilogue.h"
#include "plan/lower/parts.h"
#include "plan/lower/product/float_sums_step.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

/// Inputs: the data, its zero point if given, and the residual if `adds`.
class IntegerProductStep : public FloatSumsStep {
 public:
  StepKind kind() const override { return StepKind::kIntegerProduct; }
  void Run(const RunContext& context) const override {
    ConvQ8Params call = Call(context);
    if (inputs.size() > (adds ? 2 : 1)) {
      const uint8_t zero = *context.Read<uint8_t>(inputs[1]);
      call.input_zero_point = call.input_signed != 0 ? static_cast<int8_t>(zero) : zero;
    }
    RunParts(context, parts, run, call);
  }
};

/// Takes the Cast behind an integer product, a Mul and an Add with constants for its channels
/// (which lie along `axis`), and the epilogue of a float product. nullopt when there is no Cast.
std::optional<Epilogue> TakeFloatSums(PlanBuilder& builder, const Node& node, size_t axis,
                                      int32_t channels, FloatSums& sums) {
  static constexpr const char* kOps[] = {"Cast", "Mul", "Add"};
  const Tensor one = Tensor::Vector(std::vector<float>{1});
  const Tensor* numbers[] = {&one, &one, nullptr};
  const Node* last = &node;
  std::string op = node.op_type;
  for (size_t i = 0; i < 3; ++i) {
    const Node* next = builder.Follower(*last);
    const bool fits = next && next->Is(kOps[i]) && next->output()->type.dtype == DType::kFloat32;
    const Tensor* number = fits && i > 0 ? ConstantAlong(*next, last->output(), axis) : nullptr;
    if (i == 0 && !fits) return std::nullopt;
    if (i > 0 && number == nullptr) continue;
    if (number) numbers[i] = number;
    builder.Absorb(next, node);
    op += StrCat("+", kOps[i]);
    last = next;
  }
  sums.scale = PackChannels(builder, numbers[1], channels);
  sums.bias = PackChannels(builder, numbers[2], channels);
  Epilogue epilogue = TakeEpilogue(builder, *last, true, &node);
  epilogue.op = op + epilogue.op.substr(last->op_type.size());
  sums.residual_stride = channels;
  sums.lo = static_cast<float>(epilogue.clamp.lo);
  sums.hi = static_cast<float>(epilogue.clamp.hi);
  return epilogue;
}

/// Inputs: A, B, zero point of A, zero point of B. Channels lie along `axis` of the output.
bool AddIntegerProduct(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                       ConvWeightsLayout weights_layout, Layout layout, size_t axis) {
  const Tensor* weights = node.constant(1);
  const Value* input_zero = node.input(2);
  const auto zeros = WeightZeros(node, geometry.out_c);
  if (!zeros || !HasOneInputZero(node)) return false;
  const Tensor* zero = node.constant(2);
  // A dynamic zero point may have any value.
  const CodeRange codes =
      input_zero && !zero
          ? CodesOf(node.inputs[0]->type.dtype)
          : InputCodes(builder, node.inputs[0], zero ? static_cast<int32_t>(zero->AsInt64(0)) : 0);
  ByteWeights packing =
      ByteWeightsOf(builder, weights_layout, *weights, zeros->empty() ? nullptr : zeros->data());
  packing.input_lo = codes.lo;
  packing.input_hi = codes.hi;
  std::string tuning = QTuningOf("conv_q8", geometry, codes, packing);
  const ConvQ8Kernel& kernel = ChooseConvQ8(builder, packing, geometry, tuning);
  const uint8_t* packed = PackBytes(builder, kernel, packing);
  std::vector<int> inputs = {builder.In(node.inputs[0], layout)};
  if (input_zero) inputs.push_back(builder.In(input_zero));
  FloatSums sums;
  const auto epilogue = TakeFloatSums(builder, node, axis, geometry.out_c, sums);
  const Value* residual = epilogue ? epilogue->residual : nullptr;
  if (residual) inputs.push_back(builder.In(residual, layout));
  const int output = builder.Out(epilogue ? epilogue->output : node.outputs[0], layout);
  auto& step = builder.Add<IntegerProductStep>(node, kernel.name, inputs, {output});
  if (epilogue) step.op = epilogue->op;
  step.tuning = std::move(tuning);
  step.adds = residual != nullptr;
  step.params.sums = sums;
  step.params.input_signed = node.inputs[0]->type.dtype == DType::kInt8;
  step.params.output_type = epilogue ? ConvQ8Output::kFloat32 : ConvQ8Output::kInt32;
  step.Set(builder, kernel, geometry, packed, TapsOf(weights_layout), TileOf(kernel.walk, geometry),
           kMacsPerPart);
  return true;
}

bool IsConstantBytes(const Node& node) {
  const Tensor* weights = node.constant(1);
  return weights && IsByte(weights->dtype()) && IsByte(node.inputs[0]->type.dtype) &&
         weights->count() > 0;
}

}  // namespace

const float* PackChannels(PlanBuilder& builder, const Tensor* numbers, int32_t channels) {
  if (numbers == nullptr) return nullptr;
  const auto count = static_cast<size_t>(channels);
  // Kernels load whole vectors from any channel (FloatSums).
  auto* packed = reinterpret_cast<float*>(builder.Packed((count + 3) * sizeof(float)));
  const float* from = numbers->data<float>();
  for (size_t c = 0; c < count; ++c) packed[c] = from[numbers->count() == 1 ? 0 : c];
  return packed;
}

std::optional<std::vector<int32_t>> WeightZeros(const Node& node, int32_t channels) {
  const Tensor* given = node.constant(3);
  if (node.input(3) && given == nullptr) return std::nullopt;
  std::vector<int32_t> zeros;
  if (given == nullptr) return zeros;
  for (const int64_t zero : given->ToInts()) zeros.push_back(static_cast<int32_t>(zero));
  if (zeros.size() == 1) zeros.resize(static_cast<size_t>(channels), zeros[0]);
  if (zeros.size() != static_cast<size_t>(channels)) return std::nullopt;
  return NonZero(zeros);
}

bool HasOneInputZero(const Node& node) {
  const Value* zero = node.input(2);
  return zero == nullptr || NumElements(zero->type.StaticShape()) == 1;
}

std::optional<ConvGeometry> IntegerConvGeometry(const Node& node) {
  if (!IsConstantBytes(node)) return std::nullopt;
  const Shape& shape = node.constant(1)->shape();
  if (shape.size() < 3) return std::nullopt;
  return GeometryOf(node, node.inputs[0]->type.StaticShape(), node.outputs[0]->type.StaticShape(),
                    Shape(shape.begin() + 2, shape.end()));
}

std::optional<ConvGeometry> IntegerMatrixGeometry(const Node& node, ConvWeightsLayout& layout) {
  const Shape a = node.inputs[0]->type.StaticShape();
  if (!IsConstantBytes(node) || node.constant(1)->rank() != 2 || NumElements(a) == 0 || a.empty()) {
    return std::nullopt;
  }
  const int64_t k = node.constant(1)->dim(0);
  const int64_t n = node.constant(1)->dim(1);
  const ConvGeometry geometry = MatMulGeometry(NumElements(a) / k, k, n);
  if (!FitsInt32(geometry)) return std::nullopt;
  layout.out_c = static_cast<int32_t>(n);
  layout.in_c_per_group = static_cast<int32_t>(k);
  layout.stride_o = 1;
  layout.stride_i = n;
  return geometry;
}

bool LowerConvInteger(PlanBuilder& builder, const Node& node) {
  const auto geometry = IntegerConvGeometry(node);
  return geometry &&
         AddIntegerProduct(builder, node, *geometry,
                           OihwLayout(geometry->out_c, geometry->in_c / geometry->groups,
                                      geometry->kernel_h, geometry->kernel_w, geometry->groups),
                           Layout::kChannelsLast, 1);
}

bool LowerMatMulInteger(PlanBuilder& builder, const Node& node) {
  ConvWeightsLayout layout;
  const auto geometry = IntegerMatrixGeometry(node, layout);
  return geometry && AddIntegerProduct(builder, node, *geometry, layout, Layout::kPlain,
                                       node.inputs[0]->type.StaticShape().size() - 1);
}

RQ_STEP(IntegerProduct, IntegerProductStep)

}  // namespace requant
