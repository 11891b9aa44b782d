// Matrix products.
#include "base/str_cat.h"
#include "codegen/emit.h"
#include "numeric/multiplier.h"

namespace requant {
namespace {

/// Product of [batches][rows][inner] and [batches][inner][columns], with strides in elements.
struct Product {
  int64_t batches = 1, rows = 1, columns = 1, inner = 1;
  int64_t a_batch = 0, b_batch = 0;
};

/// The product of a MatMul. One of the operands may have a single matrix for all batches; other
/// broadcasts are not supported.
Product ProductOf(const EmitContext& context, size_t a_slot, size_t b_slot) {
  const Shape a = context.InputShape(a_slot), b = context.InputShape(b_slot);
  Product out;
  out.inner = a.back();
  out.rows = a.size() > 1 ? a[a.size() - 2] : 1;
  out.columns = b.size() > 1 ? b.back() : 1;
  const int64_t count_a = NumElements(a), count_b = NumElements(b);
  const int64_t count = NumElements(context.OutputShape());
  if (count == 0 || count_a == 0) context.Unsupported("a matrix product of nothing");
  const int64_t of_a = count_a / (out.rows * out.inner);
  const int64_t of_b = count_b / (out.columns * out.inner);
  out.batches = count / (out.rows * out.columns);
  if (of_b == 1) {  // a single matrix: the rows of all batches are rows of one product
    out.rows *= out.batches;
    out.batches = 1;
    return out;
  }
  if ((of_a != 1 && of_a != out.batches) || of_b != out.batches) {
    context.Unsupported(StrCat(context.node.op_type, " of stacks that repeat each other"));
  }
  out.a_batch = of_a == 1 ? 0 : out.rows * out.inner;
  out.b_batch = out.columns * out.inner;
  return out;
}

/// Converts a constant [inner][columns], or [columns][inner] if `transposed`, to [columns][inner].
std::vector<int32_t> Columns(const Tensor& b, const Product& p, bool transposed) {
  std::vector<int32_t> out;
  const std::vector<int64_t> values = b.ToInts();
  for (int64_t c = 0; c < p.columns; ++c) {
    for (int64_t k = 0; k < p.inner; ++k) {
      const int64_t at = transposed ? c * p.inner + k : k * p.columns + c;
      out.push_back(static_cast<int32_t>(values[static_cast<size_t>(at)]));
    }
  }
  return out;
}

struct Bias {
  std::string values = "NULL";
  int64_t row = 0, column = 0;
};

/// The members of an rq_matmul.
Fields MatMulFields(const Product& p, int64_t a_row, int64_t a_step, const ByteReading& a,
                    const ByteReading& b, const Bias& bias, const Fields& output) {
  return Fields() << p.batches << p.rows << p.columns << p.inner << p.a_batch << a_row << a_step
                  << a.zero << b.zero << a.flip << b.flip << bias.values << bias.row << bias.column
                  << output;
}

/// Throws kUnsupported unless the operand has one scale and one zero point.
void RequireOne(const EmitContext& context, const QuantOperand& operand) {
  if (operand.scales.size() == 1 && operand.zeros.size() == 1) return;
  context.Unsupported(StrCat(context.node.op_type, " with scales of rows"));
}

/// Calls a kernel whose right operand is constant; `more` are further members.
void CallConstant(EmitContext& context, const std::string& kernel, const Fields& weights,
                  const Fields& product, const Fields& more = {}) {
  context.file.Use(kernel);
  Fields arguments = Fields() << context.In(0) << context.file.Struct("rq_weights", weights)
                              << context.Out() << context.file.Struct("rq_matmul", product);
  if (!more.text().empty()) arguments << more.text();
  context.file.Call("rq_" + kernel, arguments);
}

}  // namespace

void EmitQLinearMatMul(EmitContext& context) {
  context.RequireByte(0);
  context.RequireByte(3);
  const Product p = ProductOf(context, 0, 3);
  const QuantOperand a = context.Operand(1, 2);
  const QuantOperand b = context.Operand(4, 5, ScaleRule::kPositiveOrZero);
  const QuantOperand y = context.Operand(6, 7);
  RequireOne(context, a);
  const auto columns = static_cast<size_t>(p.columns);
  if (b.scales.size() != 1 && b.scales.size() != columns) {
    context.Unsupported("QLinearMatMul with scales of every matrix");
  }
  std::vector<double> multipliers;
  for (const float scale : b.scales) {
    multipliers.push_back(
        ProductMultiplier(context.file.requantize(), a.scales[0], scale, y.scales[0]));
  }
  const Fields output = OutputFields(context, multipliers, y.zeros[0], context.OutputType());
  const ByteReading reading = ReadingOf(context.InputType(0), a.zeros[0]);
  const Tensor* constant = context.node.constant(3);
  if (constant != nullptr && p.b_batch == 0) {
    const Fields weights = WeightsFields(context, Columns(*constant, p, false),
                                         context.ForChannels(b.zeros, p.columns));
    CallConstant(context, "matmul_constant", weights,
                 MatMulFields(p, p.inner, 1, reading, {0, 0}, {}, output));
    return;
  }
  RequireOne(context, b);
  context.file.Use("matmul_dynamic");
  const ByteReading right = ReadingOf(context.InputType(3), b.zeros[0]);
  const Fields text = MatMulFields(p, p.inner, 1, reading, right, {}, output);
  context.file.Call("rq_matmul_dynamic", Fields() << context.In(0) << context.In(3) << p.b_batch
                                                  << context.Out()
                                                  << context.file.Struct("rq_matmul", text));
}

void EmitMatMulInteger(EmitContext& context) {
  context.RequireByte(0);
  const Product p = ProductOf(context, 0, 1);
  const Tensor& b = context.Constant(1);
  if (p.b_batch != 0) context.Unsupported("MatMulInteger with a stack of constants");
  const ByteReading reading = ReadingOf(context.InputType(0), context.Zero(2));
  const Fields weights = WeightsFields(context, Columns(b, p, false),
                                       context.ForChannels(context.Zeros(3), p.columns));
  CallConstant(context, "matmul_constant", weights,
               MatMulFields(p, p.inner, 1, reading, {0, 0}, {}, NoOutput()));
}

void EmitQGemm(EmitContext& context) {
  context.RequireByte(0);
  const AttributeMap& attributes = context.node.attributes;
  const Shape shape = context.OutputShape(), a_shape = context.InputShape(0);
  const bool trans_a = attributes.Int("transA", 0) != 0;
  const bool trans_b = attributes.Int("transB", 0) != 0;
  const float alpha = attributes.Float("alpha", 1);
  if (!(alpha > 0)) context.Unsupported(StrCat("QGemm with an alpha of ", alpha));
  Product p;
  p.rows = shape[0];
  p.columns = shape[1];
  p.inner = a_shape[trans_a ? 0 : 1];
  const QuantOperand a = context.Operand(1, 2);
  const QuantOperand b = context.Operand(4, 5, ScaleRule::kPositiveOrZero);
  const bool quantized = context.has(7);
  const QuantOperand y = quantized ? context.Operand(7, 8) : QuantOperand{{1}, {0}};
  // The multiplication has this order in ONNX Runtime (contrib_ops/cpu/quantization/quant_gemm.cc).
  const float scale_a = alpha * a.scales[0];
  std::vector<double> multipliers;
  for (const float scale : b.scales) {
    multipliers.push_back(
        ProductMultiplier(context.file.requantize(), scale_a, scale, y.scales[0]));
  }
  Bias bias;
  if (context.has(6)) {
    const Tensor& c = context.Constant(6);
    bias.values = context.file.Ints(IntsOf(c));
    const int64_t width = c.rank() == 0 ? 1 : c.dim(c.rank() - 1);
    bias.column = width == 1 ? 0 : 1;
    bias.row = c.rank() < 2 || c.dim(0) == 1 ? 0 : width;
  }
  const ByteReading reading = ReadingOf(context.InputType(0), a.zeros[0]);
  const Fields weights = WeightsFields(context, Columns(context.Constant(3), p, trans_b),
                                       context.ForChannels(b.zeros, p.columns));
  const int64_t a_row = trans_a ? 1 : p.inner, a_step = trans_a ? p.rows : 1;
  const Fields output =
      quantized ? OutputFields(context, multipliers, y.zeros[0], context.OutputType()) : NoOutput();
  const Fields text = MatMulFields(p, a_row, a_step, reading, {0, 0}, bias, output);
  if (quantized) return CallConstant(context, "matmul_constant", weights, text);
  const std::vector<float> factors(multipliers.begin(), multipliers.end());
  CallConstant(context, "matmul_float", weights, text,
               Fields() << context.file.Floats(factors) << (factors.size() > 1 ? 1 : 0));
}

namespace {

/// Calls rq_matmul_real_run with the strides of a's rows and b's columns, and the factor of the
/// bias in `bias_slot`, if there is one.
void CallReal(EmitContext& context, const Product& p, bool trans_a, bool trans_b, float alpha,
              float beta, size_t bias_slot) {
  int64_t bias_row = 0, bias_column = 0;
  const bool biased = context.has(bias_slot) && bias_slot > 1;
  if (biased) {
    const Shape c = context.InputShape(bias_slot);
    const int64_t width = c.empty() ? 1 : c.back();
    bias_column = width == 1 ? 0 : 1;
    bias_row = c.size() < 2 || c[0] == 1 ? 0 : width;
  }
  context.file.Use("matmul_real");
  const Fields text = Fields() << p.batches << p.rows << p.columns << p.inner << p.a_batch
                               << (trans_a ? 1 : p.inner) << (trans_a ? p.rows : 1) << p.b_batch
                               << (trans_b ? 1 : p.columns) << (trans_b ? p.inner : 1) << bias_row
                               << bias_column << CFloat(alpha) << CFloat(beta);
  context.file.Call("rq_matmul_real_run", Fields() << context.In(0) << context.In(1)
                                                   << (biased ? context.In(bias_slot) : "NULL")
                                                   << context.Out()
                                                   << context.file.Struct("rq_matmul_real", text));
}

}  // namespace

void EmitFloatMatMul(EmitContext& context) {
  context.RequireFloat(0);
  context.RequireFloat(1);
  CallReal(context, ProductOf(context, 0, 1), false, false, 1, 0, 0);
}

void EmitFloatGemm(EmitContext& context) {
  context.RequireFloat(0);
  context.RequireFloat(1);
  const AttributeMap& attributes = context.node.attributes;
  const bool trans_a = attributes.Int("transA", 0) != 0;
  const Shape shape = context.OutputShape();
  Product p;
  p.rows = shape[0];
  p.columns = shape[1];
  p.inner = context.InputShape(0)[trans_a ? 0 : 1];
  CallReal(context, p, trans_a, attributes.Int("transB", 0) != 0, attributes.Float("alpha", 1),
           attributes.Float("beta", 1), 2);
}

}  // namespace requant
