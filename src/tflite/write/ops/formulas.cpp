// Functions that are several of TFLite's operators, and those with a table of their own: LRN, TopK.
#include <cmath>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "tflite/write/ops/window.h"

namespace requant::tflite {

void WriteFormula(Writer& w);
void WriteLrn(Writer& w);
void WriteMod(Writer& w);
void RefuseRecurrent(Writer& w);
void WriteTopK(Writer& w);

namespace {

/// The operators of one node's formula, on floats in the order of its input.
class Formula {
 public:
  explicit Formula(Writer& w) : w_(w), value_(w.node().inputs[0]), order_(w.NativeOrder(value_)) {
    if (w.TypeOf(value_) != TensorType::kFloat32) {
      w.Refuse(RQ_LATE_TEXT("it computes on integers"), RQ_LATE_TEXT("use float32 there"), value_);
    }
    shape_ = Ordered(w.ShapeOf(value_), order_);
    x_ = w.Need(value_, order_, Form::kNumbers);
  }

  int32_t x() const { return x_; }
  int32_t Number(float number) { return w_.AddConstant("number", Tensor::Scalar(number)); }
  int32_t Of(Builtin op, std::vector<int32_t> inputs, TensorType type = TensorType::kFloat32) {
    return w_.Add(op, std::move(inputs), w_.node().output()->name, type, shape_);
  }
  void Finish(int32_t y) { w_.Hold(w_.node().output(), y, order_, Form::kNumbers); }

  /// gamma * (max(x, 0) + alpha * (exp(min(x, 0) / width) - 1)): Elu, Selu, Celu.
  int32_t Exponential(float alpha, float gamma, float width) {
    int32_t low = Of(Builtin::kMINIMUM, {x_, Number(0)});
    if (width != 1) low = Of(Builtin::kMUL, {low, Number(1 / width)});
    low = Of(Builtin::kSUB, {Of(Builtin::kEXP, {low}), Number(1)});
    low = Of(Builtin::kMUL, {low, Number(alpha)});
    const int32_t sum = Of(Builtin::kADD, {Of(Builtin::kRELU, {x_}), low});
    return gamma == 1 ? sum : Of(Builtin::kMUL, {sum, Number(gamma)});
  }

  /// sign(x) (1 - P(t) t exp(-x^2)) with t = 1 / (1 + p |x|) and a polynomial P: Abramowitz and
  /// Stegun, Handbook of Mathematical Functions, 7.1.26, which errs by at most 1.5e-7.
  int32_t Erf() {
    constexpr float kP = 0.3275911F;
    constexpr float kSteps[] = {1.061405429F, -1.453152027F, 1.421413741F, -0.284496736F,
                                0.254829592F};
    const int32_t size = Of(Builtin::kABS, {x_});
    const int32_t below = Of(Builtin::kADD, {Of(Builtin::kMUL, {size, Number(kP)}), Number(1)});
    const int32_t t = Of(Builtin::kDIV, {Number(1), below});
    int32_t sum = Of(Builtin::kMUL, {t, Number(kSteps[0])});
    for (const float step : {kSteps[1], kSteps[2], kSteps[3], kSteps[4]}) {
      sum = Of(Builtin::kMUL, {Of(Builtin::kADD, {sum, Number(step)}), t});
    }
    const int32_t square = Of(Builtin::kMUL, {x_, x_});
    const int32_t tail = Of(Builtin::kEXP, {Of(Builtin::kNEG, {square})});
    const int32_t rest = Of(Builtin::kSUB, {Number(1), Of(Builtin::kMUL, {sum, tail})});
    return Of(Builtin::kMUL, {Of(Builtin::kSIGN, {x_}), rest});
  }

  /// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))
  int32_t Softplus() {
    const int32_t power = Of(Builtin::kEXP, {Of(Builtin::kNEG, {Of(Builtin::kABS, {x_})})});
    const int32_t rest = Of(Builtin::kLOG, {Of(Builtin::kADD, {power, Number(1)})});
    return Of(Builtin::kADD, {Of(Builtin::kRELU, {x_}), rest});
  }

 private:
  Writer& w_;
  const Value* value_;
  Order order_;
  Shape shape_;
  int32_t x_ = 0;
};

}  // namespace

void WriteFormula(Writer& w) {
  const Node& node = w.node();
  const auto number = [&](const char* name, float fallback) {
    return node.attributes.Float(name, fallback);
  };
  Formula f(w);
  const int32_t x = f.x();
  int32_t y = x;
  if (node.Is("Softplus")) {
    y = f.Softplus();
  } else if (node.Is("Softsign")) {
    const int32_t below = f.Of(Builtin::kADD, {f.Of(Builtin::kABS, {x}), f.Number(1)});
    y = f.Of(Builtin::kDIV, {x, below});
  } else if (node.Is("Mish")) {
    y = f.Of(Builtin::kMUL, {x, f.Of(Builtin::kTANH, {f.Softplus()})});
  } else if (node.Is("Selu")) {
    y = f.Exponential(number("alpha", 1.67326319F), number("gamma", 1.05070102F), 1);
  } else if (node.Is("Celu")) {
    const float alpha = number("alpha", 1);
    y = f.Exponential(alpha, 1, alpha);
  } else if (node.Is("ThresholdedRelu")) {
    const int32_t above =
        f.Of(Builtin::kGREATER, {x, f.Number(number("alpha", 1))}, TensorType::kBool);
    y = f.Of(Builtin::kSELECT_V2, {above, x, f.Number(0)});
  } else if (node.Is("Tan")) {
    y = f.Of(Builtin::kDIV, {f.Of(Builtin::kSIN, {x}), f.Of(Builtin::kCOS, {x})});
  } else if (node.Is("Erf")) {
    y = f.Erf();
  } else if (node.Is("Elu")) {
    y = f.Exponential(number("alpha", 1), 1, 1);
  }
  f.Finish(y);
}

void WriteMod(Writer& w) {
  // FLOOR_MOD has the sign of the divisor. With fmod the remainder has that of the dividend.
  const Node& node = w.node();
  const int64_t rank = w.RankOf(node.output());
  const Order order = PlainOrder(rank);
  const Shape shape = w.ShapeOf(node.output());
  const TensorType type = w.TypeOf(node.output());
  const std::string& name = node.output()->name;
  const int32_t a = w.NeedPlain(node.inputs[0], Form::kNumbers);
  const int32_t b = w.NeedPlain(node.inputs[1], Form::kNumbers);
  int32_t y = 0;
  if (node.attributes.Int("fmod", 0) == 0) {
    y = w.Add(Builtin::kFLOOR_MOD, {a, b}, name, type, shape);
  } else if (type == TensorType::kFloat32) {
    const auto unary = [&](Builtin op, int32_t x) {
      return w.Add(op, {x}, name, type, w.tensor(x).shape);
    };
    const int32_t rest = w.Add(
        Builtin::kFLOOR_MOD, {unary(Builtin::kABS, a), unary(Builtin::kABS, b)}, name, type, shape);
    y = w.Add(Builtin::kMUL, {rest, unary(Builtin::kSIGN, a)}, name, type, shape,
              {ByteOption(field::ActivationOptions::kActivation, 0)});
  } else {
    w.Refuse(RQ_LATE_TEXT("its remainder of integers has the sign of the dividend"),
             RQ_LATE_TEXT("use fmod = 0"));
  }
  w.Hold(node.output(), y, order, Form::kNumbers);
}

void RefuseRecurrent(Writer& w) {
  w.Refuse(RQ_LATE_TEXT("LiteRT's operators of sequences keep their states from run to run, which "
                        "LiteRT.js does not load"),
           RQ_LATE_TEXT("run the model as ONNX, or export it with its steps unrolled"));
}

void WriteLrn(Writer& w) {
  // x / (bias + alpha / size * the sum of squares of `size` channels)^beta
  const Node& node = w.node();
  const int64_t size = node.attributes.Int("size", 1);
  if (size % 2 == 0) {
    w.Refuse(StrCat("its size is ", size), RQ_LATE_TEXT("use an odd size"));
  }
  using Field = field::LocalResponseNormalizationOptions;
  const Image x = ImageOf(w, node.inputs[0], Form::kNumbers);
  Tail tail;
  tail.value = node.output();
  const float alpha = node.attributes.Float("alpha", 1e-4F);
  const int32_t y = w.Add(Builtin::kLOCAL_RESPONSE_NORMALIZATION, {x.tensor}, tail.value->name,
                          TensorType::kFloat32, x.shape,
                          {IntOption(Field::kRadius, size / 2),
                           RealOption(Field::kBias, node.attributes.Float("bias", 1)),
                           RealOption(Field::kAlpha, alpha / static_cast<float>(size)),
                           RealOption(Field::kBeta, node.attributes.Float("beta", 0.75F))});
  FinishImage(w, tail, y, Form::kNumbers);
}

void WriteTopK(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const int64_t rank = w.RankOf(x);
  const int64_t axis = NormalizeAxis(node.attributes.Int("axis", -1), rank);
  if (node.attributes.Int("largest", 1) == 0) {
    w.Refuse(RQ_LATE_TEXT("it takes the smallest"), RQ_LATE_TEXT("take the largest of Neg"));
  }
  const auto count = w.Ints(1, "k");
  if (!count || count->size() != 1) w.Refuse("it has no K", RQ_LATE_TEXT("give it one"));
  Order order = w.NativeOrder(x);
  order.erase(order.begin() + PlaceOf(order, axis));
  order.push_back(axis);
  const int32_t input = w.Need(x, order, Form::kNumbers);
  Shape shape = w.tensor(input).shape;
  shape.back() = count->at(0);
  const std::string& name = node.outputs[0] ? node.outputs[0]->name : node.name;
  const int32_t values = w.AddTensor(name, w.tensor(input).type, shape);
  const int32_t places = w.AddTensor(StrCat(name, "_places"), TensorType::kInt32, shape);
  const int32_t k = w.AddConstant("k", Tensor::Scalar(static_cast<int32_t>(count->at(0))));
  w.AddOperator(Builtin::kTOPK_V2, {input, k}, {values, places});
  if (node.output(0) != nullptr) w.Hold(node.outputs[0], values, order, Form::kNumbers);
  if (node.output(1) == nullptr) return;
  const int32_t wide =
      w.Add(Builtin::kCAST, {places}, node.outputs[1]->name, TensorType::kInt64, shape);
  w.Hold(node.outputs[1], wide, order, Form::kNumbers);
}

}  // namespace requant::tflite
