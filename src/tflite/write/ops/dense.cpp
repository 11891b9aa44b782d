// Gemm and MatMul: FULLY_CONNECTED with constant weights, else BATCH_MATMUL.
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/write/ops/weights.h"
#include "tflite/write/writer.h"

namespace requant::tflite {

void WriteGemm(Writer& w);
void WriteMatMul(Writer& w);

namespace {

/// Multiplies floats by a factor other than 1.
Tensor Scaled(const Tensor& floats, float factor) {
  if (factor == 1) return floats;
  Tensor out = floats.Clone();
  for (int64_t i = 0; i < out.count(); ++i) out.data<float>()[i] *= factor;
  return out;
}

/// FULLY_CONNECTED with weights [inputs, outputs], or transposed.
void WriteDense(Writer& w, const Value* weights, bool transposed, const Value* bias, float alpha,
                float beta) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Shape kernel = w.ShapeOf(weights);
  const int64_t outputs = transposed ? kernel[0] : kernel[1];
  const bool plain = alpha == 1 && beta == 1;
  const Tail tail = w.TailOf(true);
  auto codes = LayerCodes(w, weights, transposed ? 0 : 1);
  if (!plain) codes.reset();
  const bool on_codes = codes && w.OnCodes(tail, {node.inputs[0]});
  const Form form = on_codes ? Form::kCodes : Form::kNumbers;
  const int32_t input = w.NeedPlain(x, form);
  const Tensor data = codes ? codes->codes : w.ConstantOf(weights, "weights");
  const Tensor arranged = TransposedData(data, transposed ? Order{0, 1} : Order{1, 0});
  int32_t filter = 0;
  int32_t offset = 0;
  if (on_codes) {
    offset = AddCodeBias(w, bias, outputs, w.GridOf(x).scales[0], codes->scales);
    filter = AddCodeWeights(w, weights->name, std::move(*codes), arranged, 0);
  } else {
    filter = codes ? AddFloatWeights(w, weights, codes, arranged, 0)
                   : w.AddFloats(weights->name, Scaled(arranged, alpha));
    offset = AddFloatBias(w, bias, outputs);
    if (beta != 1 && bias != nullptr) {
      offset = w.AddConstant(bias->name, Scaled(w.tensor(offset).data, beta));
    }
  }
  using Field = field::FullyConnectedOptions;
  const Shape shape = w.ShapeOf(tail.value);
  const int32_t y = w.Add(Builtin::kFULLY_CONNECTED, {input, filter, offset}, tail.value->name,
                          TensorType::kFloat32, shape,
                          {ByteOption(Field::kActivation, static_cast<int32_t>(tail.activation)),
                           FlagOption(Field::kKeepNumDims, shape.size() != 2)},
                          on_codes ? *tail.grid : Grid{});
  w.Finish(tail, y, PlainOrder(static_cast<int64_t>(shape.size())), form);
}

/// BATCH_MATMUL of two values with at least two dimensions each.
int32_t AddProduct(Writer& w, const std::string& name, bool adjoint_a, bool adjoint_b, Form form,
                   const Shape& shape, const Grid& grid) {
  const Node& node = w.node();
  const int32_t a = w.NeedPlain(node.inputs[0], form);
  const int32_t b = w.NeedPlain(node.inputs[1], form);
  using Field = field::BatchMatMulOptions;
  return w.Add(Builtin::kBATCH_MATMUL, {a, b}, name, TensorType::kFloat32, shape,
               {FlagOption(Field::kAdjX, adjoint_a), FlagOption(Field::kAdjY, adjoint_b)}, grid);
}

/// Whether a bias can be that of FULLY_CONNECTED.
bool IsRow(const Writer& w, const Value* bias, int64_t outputs) {
  if (bias == nullptr) return true;
  if (!w.IsConstant(bias)) return false;
  const Shape shape = w.ShapeOf(bias);
  const int64_t count = NumElements(shape);
  return count == 1 || (count == outputs && !shape.empty() && shape.back() == outputs);
}

}  // namespace

void WriteGemm(Writer& w) {
  const Node& node = w.node();
  const bool transposed_a = node.attributes.Int("transA", 0) != 0;
  const bool transposed_b = node.attributes.Int("transB", 0) != 0;
  const float alpha = node.attributes.Float("alpha", 1);
  const float beta = node.attributes.Float("beta", 1);
  const Value* bias = node.input(2);
  const Shape shape = w.ShapeOf(node.output());
  if (!transposed_a && w.IsConstant(node.inputs[1]) && IsRow(w, bias, shape[1])) {
    WriteDense(w, node.inputs[1], transposed_b, bias, alpha, beta);
    return;
  }
  if (alpha != 1 || (bias != nullptr && beta != 1)) {
    w.Refuse(
        StrCat("alpha is ", static_cast<double>(alpha), " and beta ", static_cast<double>(beta)),
        "multiply with Mul", node.inputs[1]);
  }
  int32_t y =
      AddProduct(w, node.output()->name, transposed_a, transposed_b, Form::kNumbers, shape, {});
  if (bias != nullptr) {
    const int32_t offset = w.NeedPlain(bias, Form::kNumbers);
    y = w.Add(Builtin::kADD, {y, offset}, node.output()->name, TensorType::kFloat32, shape);
  }
  w.Hold(node.output(), y, {0, 1}, Form::kNumbers);
}

void WriteMatMul(Writer& w) {
  const Node& node = w.node();
  const int64_t rank_a = w.RankOf(node.inputs[0]);
  const int64_t rank_b = w.RankOf(node.inputs[1]);
  if (rank_b == 2 && w.IsConstant(node.inputs[1])) {
    WriteDense(w, node.inputs[1], false, nullptr, 1, 1);
    return;
  }
  if (rank_a < 2 || rank_b < 2) {
    w.Refuse(RQ_LATE_TEXT("an operand is a vector"),
             RQ_LATE_TEXT("give it two dimensions with Unsqueeze"),
             node.inputs[rank_a < 2 ? 0 : 1]);
  }
  if (rank_a > 5 || rank_b > 5) {
    w.Refuse(RQ_LATE_TEXT("an operand has more than 5 dimensions"),
             RQ_LATE_TEXT("join dimensions with Reshape"));
  }
  const Tail tail = w.TailOf(false);
  const bool on_codes =
      w.code_type() == TensorType::kInt8 && w.OnCodes(tail, {node.inputs[0], node.inputs[1]});
  const Value* result = on_codes ? tail.value : node.output();
  const Shape shape = w.ShapeOf(result);
  const int32_t y =
      AddProduct(w, result->name, false, false, on_codes ? Form::kCodes : Form::kNumbers, shape,
                 on_codes ? *tail.grid : Grid{});
  const Order order = PlainOrder(static_cast<int64_t>(shape.size()));
  if (on_codes) {
    w.Finish(tail, y, order, Form::kCodes);
  } else {
    w.Hold(result, y, order, Form::kNumbers);
  }
}

}  // namespace requant::tflite
