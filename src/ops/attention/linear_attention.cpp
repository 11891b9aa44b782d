// LinearAttention and CausalConvWithState of ONNX 27 and of com.microsoft: recurrent layers of
// hybrid language models (onnx docs/Operators.md, onnxruntime docs/ContribOperators.md).
#include <cmath>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/convolution/convolve.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

void RefuseWindow(const Node& node) {
  if (node.attributes.Int("state_window", 0) == 0) return;
  Fail(ErrorCode::kUnsupported, StrCat(node.op_type, RQ_LATE_TEXT(" with a state_window")),
       {.hint = RQ_LATE_TEXT("export the model with the state after the last token only")});
}

// --- LinearAttention

struct Heads {
  int64_t q, kv;
};

Heads HeadsOf(const Node& node) {
  const Heads heads{node.attributes.Int("q_num_heads", 0), node.attributes.Int("kv_num_heads", 0)};
  RefuseWindow(node);
  if (heads.q < 1 || heads.kv < 1 || heads.q % heads.kv != 0) {
    Fail(ErrorCode::kUnsupported,
         StrCat(RQ_LATE_TEXT("LinearAttention of "), heads.q, RQ_LATE_TEXT(" query heads and "),
                heads.kv, RQ_LATE_TEXT(" key heads")));
  }
  return heads;
}

Dim Divided(const Dim& dim, int64_t by) {
  return dim.known() && dim.value % by == 0 ? Dim(dim.value / by) : Dim();
}

void InferLinearAttention(InferContext& context) {
  const Heads heads = HeadsOf(context.node);
  for (size_t slot = 0; slot < 3; ++slot) {
    RequireFloat(context, slot);
    RequireRank(context, slot, 3);
    RequireSameDType(context, 0, slot);
  }
  SymbolicShape out(3);
  SymbolicShape state(4);
  state[1] = heads.kv;
  if (const SymbolicShape* q = context.shape(0)) {
    out[0] = state[0] = (*q)[0];
    out[1] = (*q)[1];
    state[2] = Divided((*q)[2], heads.q);
  }
  if (const SymbolicShape* v = context.shape(2)) {
    state[3] = Divided((*v)[2], heads.kv);
    if (state[3].known()) out[2] = CheckedMul64(state[3].value, heads.q);
  }
  SetOutput(context, 0, context.inputs[0].dtype, out);
  SetOutput(context, 1, context.inputs[context.has(3) ? 3 : 0].dtype, state);
}

/// One head of one batch: its state [keys, values] goes from token to token.
class Recurrence {
 public:
  explicit Recurrence(EvalContext& context)
      : context_(context),
        q_(context.input(0)),
        k_(context.input(1)),
        v_(context.input(2)),
        heads_(HeadsOf(context.node)) {
    const std::string rule = context.attributes().String("update_rule", "gated_delta");
    gated_ = rule == "gated" || rule == "gated_delta";
    delta_ = rule == "delta" || rule == "gated_delta";
    if (!gated_ && !delta_ && rule != "linear") {
      Fail(ErrorCode::kInvalidModel,
           StrCat(RQ_LATE_TEXT("LinearAttention with update_rule "), rule));
    }
    if ((gated_ && !context.has(4)) || (delta_ && !context.has(5))) {
      Fail(ErrorCode::kInvalidModel,
           StrCat(RQ_LATE_TEXT("LinearAttention by "), rule, RQ_LATE_TEXT(" lacks decay or beta")));
    }
    steps_ = q_.rank() == 3 ? q_.dim(1) : 0;
    keys_ = q_.rank() == 3 ? q_.dim(2) / heads_.q : 0;
    values_ = v_.rank() == 3 ? v_.dim(2) / heads_.kv : 0;
    const Shape key = {q_.dim(0), steps_, heads_.kv * keys_};
    const Shape value = {q_.dim(0), steps_, heads_.kv * values_};
    const Shape past = {q_.dim(0), heads_.kv, keys_, values_};
    if (q_.rank() != 3 || q_.dim(2) != heads_.q * keys_ || k_.shape() != key ||
        v_.shape() != value || (context.has(3) && context.input(3).shape() != past)) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat(RQ_LATE_TEXT("LinearAttention of "), ShapeToString(q_.shape()), ", ",
                  ShapeToString(k_.shape()), " and ", ShapeToString(v_.shape())));
    }
    CheckGate(gated_, 4, heads_.kv * keys_);
    CheckGate(delta_, 5, 1);
    scale_ = context.attributes().Float("scale", 0);
    if (scale_ == 0) scale_ = 1 / std::sqrt(static_cast<double>(keys_));
    out_ = Tensor(q_.dtype(), {q_.dim(0), steps_, heads_.q * values_});
    state_ = Tensor(context.has(3) ? context.input(3).dtype() : q_.dtype(), past);
  }

  void Run() {
    for (int64_t batch = 0; batch < q_.dim(0); ++batch) {
      for (int64_t head = 0; head < heads_.kv; ++head) RunHead(batch, head);
    }
    context_.outputs[0] = out_;
    if (context_.outputs.size() > 1) context_.outputs[1] = state_;
  }

 private:
  /// A gate is [batch, steps, heads], or has as many numbers of a token as `wide`.
  void CheckGate(bool used, size_t slot, int64_t wide) const {
    if (!used) return;
    const Tensor& gate = context_.input(slot);
    if (gate.rank() == 3 && gate.dim(0) == q_.dim(0) && gate.dim(1) == steps_ &&
        (gate.dim(2) == heads_.kv || gate.dim(2) == wide)) {
      return;
    }
    Fail(ErrorCode::kShapeMismatch,
         StrCat(RQ_LATE_TEXT("input "), slot, RQ_LATE_TEXT(" of LinearAttention is "),
                ShapeToString(gate.shape())));
  }

  void RunHead(int64_t batch, int64_t head) {
    std::vector<double> state(static_cast<size_t>(keys_ * values_));
    const int64_t first = (batch * heads_.kv + head) * keys_ * values_;
    for (size_t i = 0; context_.has(3) && i < state.size(); ++i) {
      state[i] = context_.input(3).AsDouble(first + static_cast<int64_t>(i));
    }
    for (int64_t step = 0; step < steps_; ++step) {
      const int64_t token = batch * steps_ + step;
      Update(state, token, head);
      const int64_t share = heads_.q / heads_.kv;
      for (int64_t q = head * share; q < (head + 1) * share; ++q) Read(state, token, q);
    }
    for (size_t i = 0; i < state.size(); ++i) {
      StoreSum(state_, first + static_cast<int64_t>(i), state[i]);
    }
  }

  void Update(std::vector<double>& state, int64_t token, int64_t head) const {
    const auto values = static_cast<size_t>(values_);
    const int64_t key = (token * heads_.kv + head) * keys_;
    if (gated_) {
      const Tensor& decay = context_.input(4);
      const bool each = decay.dim(2) != heads_.kv;
      for (int64_t i = 0; i < keys_; ++i) {
        const double by = std::exp(decay.AsDouble(each ? key + i : token * heads_.kv + head));
        for (size_t j = 0; j < values; ++j) state[static_cast<size_t>(i) * values + j] *= by;
      }
    }
    double beta = 1;
    if (delta_) {
      const Tensor& rates = context_.input(5);
      beta = rates.AsDouble(token * rates.dim(2) + (rates.dim(2) == 1 ? 0 : head));
    }
    for (size_t j = 0; j < values; ++j) {
      double change = v_.AsDouble((token * heads_.kv + head) * values_ + static_cast<int64_t>(j));
      for (int64_t i = 0; delta_ && i < keys_; ++i) {
        change -= state[static_cast<size_t>(i) * values + j] * k_.AsDouble(key + i);
      }
      for (int64_t i = 0; i < keys_; ++i) {
        state[static_cast<size_t>(i) * values + j] += beta * k_.AsDouble(key + i) * change;
      }
    }
  }

  void Read(const std::vector<double>& state, int64_t token, int64_t head) {
    const int64_t row = token * heads_.q + head;
    for (int64_t j = 0; j < values_; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < keys_; ++i) {
        sum += q_.AsDouble(row * keys_ + i) * state[static_cast<size_t>(i * values_ + j)];
      }
      StoreSum(out_, row * values_ + j, scale_ * sum);
    }
  }

  EvalContext& context_;
  const Tensor& q_;
  const Tensor& k_;
  const Tensor& v_;
  Heads heads_;
  bool gated_ = false;
  bool delta_ = false;
  int64_t steps_ = 0, keys_ = 0, values_ = 0;
  double scale_ = 0;
  Tensor out_;
  Tensor state_;
};

void EvaluateLinearAttention(EvalContext& context) { Recurrence(context).Run(); }

// --- CausalConvWithState

int64_t DilationOf(const Node& node) {
  const int64_t dilation = node.attributes.Int("dilation", 1);
  RefuseWindow(node);
  if (dilation >= 1 && dilation < int64_t{1} << 31 && node.attributes.Int("ndim", 1) == 1 &&
      node.attributes.Int("channels_last", 0) == 0) {
    return dilation;
  }
  Fail(ErrorCode::kUnsupported, RQ_LATE_TEXT("CausalConvWithState in this form"),
       {.hint = RQ_LATE_TEXT("one spatial dimension behind the channels is supported")});
}

void InferCausalConv(InferContext& context) {
  const int64_t dilation = DilationOf(context.node);
  RequireFloat(context, 0);
  for (const size_t slot : {size_t{0}, size_t{1}, size_t{3}}) {
    RequireRank(context, slot, 3);
    RequireSameDType(context, 0, slot);
  }
  SameAsInput(context);
  SymbolicShape state(3);
  if (const SymbolicShape* x = context.shape(0)) {
    state[0] = (*x)[0];
    state[1] = (*x)[1];
  }
  if (const SymbolicShape* w = context.shape(1); w && (*w)[2].known() && (*w)[2].value > 0) {
    state[2] = CheckedMul64((*w)[2].value - 1, dilation);
  }
  SetOutput(context, 1, context.inputs[0].dtype, state);
}

void EvaluateCausalConv(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(1);
  const int64_t dilation = DilationOf(context.node);
  if (x.rank() != 3 || w.rank() != 3 || w.dim(0) != x.dim(1) || w.dim(1) != 1 || w.dim(2) < 1) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat(RQ_LATE_TEXT("CausalConvWithState of "), ShapeToString(x.shape()),
                RQ_LATE_TEXT(" with "), ShapeToString(w.shape())));
  }
  const int64_t taps = w.dim(2);
  const int64_t length = x.dim(2);
  const int64_t kept = CheckedMul64(taps - 1, dilation);
  const Shape past = {x.dim(0), x.dim(1), kept};
  if ((context.has(3) && context.input(3).shape() != past) ||
      (context.has(2) && context.input(2).count() != x.dim(1))) {
    Fail(ErrorCode::kShapeMismatch,
         RQ_LATE_TEXT("the state or bias of CausalConvWithState does not fit"));
  }
  const std::string activation = context.attributes().String("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    Fail(ErrorCode::kInvalidModel,
         StrCat(RQ_LATE_TEXT("CausalConvWithState with activation "), activation));
  }
  Tensor out(x.dtype(), x.shape());
  Tensor state(x.dtype(), past);
  for (int64_t row = 0; row < x.dim(0) * x.dim(1); ++row) {
    const int64_t channel = row % x.dim(1);
    // Element i of the row behind its state.
    const auto at = [&](int64_t i) {
      if (i >= kept) return x.AsDouble(row * length + i - kept);
      return context.has(3) ? context.input(3).AsDouble(row * kept + i) : 0.0;
    };
    for (int64_t i = 0; i < length; ++i) {
      double sum = context.has(2) ? context.input(2).AsDouble(channel) : 0;
      for (int64_t tap = 0; tap < taps; ++tap) {
        sum += w.AsDouble(channel * taps + tap) * at(i + tap * dilation);
      }
      StoreSum(out, row * length + i, activation == "none" ? sum : sum / (1 + std::exp(-sum)));
    }
    for (int64_t i = 0; i < kept; ++i) StoreSum(state, row * kept + i, at(length + i));
  }
  context.outputs[0] = out;
  if (context.outputs.size() > 1) context.outputs[1] = state;
}

constexpr OpDef kRows[] = {
    Expensive({"LinearAttention", "", 27, 3, 6, 2, InferLinearAttention, EvaluateLinearAttention,
               QuantRule::kFloat}),
    Expensive({"LinearAttention", kMicrosoftDomain, 1, 3, 6, 2, InferLinearAttention,
               EvaluateLinearAttention, QuantRule::kFloat}),
    Expensive({"CausalConvWithState", "", 27, 2, 4, 2, InferCausalConv, EvaluateCausalConv,
               QuantRule::kFloat}),
    Expensive({"CausalConvWithState", kMicrosoftDomain, 1, 2, 4, 2, InferCausalConv,
               EvaluateCausalConv, QuantRule::kFloat}),
};

}  // namespace

std::span<const OpDef> LinearAttentionOps() { return kRows; }

}  // namespace requant
