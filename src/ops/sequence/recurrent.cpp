// LSTM, GRU and RNN (onnx docs/Operators.md), float32 and float64. Gates lie in ONNX's order: i o f
// c, z r h, i. Sums are kept in the tensor's own type.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

enum class Cell : uint8_t { kRnn, kGru, kLstm };

Cell CellOf(const Node& node) {
  return node.op_type == "LSTM" ? Cell::kLstm : node.op_type == "GRU" ? Cell::kGru : Cell::kRnn;
}

int64_t GatesOf(Cell cell) { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }

// --- activations

struct Activation {
  double (*apply)(double x, double a, double b);
  double a, b;
};

struct ActivationRow {
  const char* name;  // in lower case
  double (*apply)(double x, double a, double b);
  int parameters;
  double a, b;
};

double Sigmoid(double x, double, double) { return 1 / (1 + std::exp(-x)); }
double Tanh(double x, double, double) { return std::tanh(x); }

constexpr ActivationRow kActivations[] = {
    {"sigmoid", Sigmoid, 0, 0, 0},
    {"tanh", Tanh, 0, 0, 0},
    {"relu", [](double x, double, double) { return x < 0 ? 0 : x; }, 0, 0, 0},
    {"affine", [](double x, double a, double b) { return a * x + b; }, 2, 1, 0},
    {"leakyrelu", [](double x, double a, double) { return x < 0 ? a * x : x; }, 1, 0.01F, 0},
    {"thresholdedrelu", [](double x, double a, double) { return x > a ? x : 0; }, 1, 1, 0},
    {"scaledtanh", [](double x, double a, double b) { return a * std::tanh(b * x); }, 2, 1, 1},
    {"hardsigmoid", [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); }, 2,
     0.2F, 0.5},
    {"elu", [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; }, 1, 1, 0},
    {"softsign", [](double x, double, double) { return x / (1 + std::fabs(x)); }, 0, 0, 0},
    {"softplus",
     [](double x, double, double) { return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x))); },
     0, 0, 0},
};

/// Reads the activations of all directions, three (LSTM), two or one for each. Parameters go in
/// order to the functions that take any.
std::vector<Activation> ReadActivations(const Node& node, Cell cell, int64_t directions) {
  std::vector<std::string> names;
  if (const Attribute* given = node.attributes.Find("activations")) {
    if (const auto* list = std::get_if<std::vector<std::string>>(given)) names = *list;
  }
  const std::vector<std::string> usual =
      cell == Cell::kLstm  ? std::vector<std::string>{"sigmoid", "tanh", "tanh"}
      : cell == Cell::kGru ? std::vector<std::string>{"sigmoid", "tanh"}
                           : std::vector<std::string>{"tanh"};
  const size_t wanted = usual.size() * static_cast<size_t>(directions);
  if (names.empty()) {
    for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), usual.begin(), usual.end());
  }
  if (names.size() != wanted) {
    Fail(ErrorCode::kInvalidModel,
         StrCat(node.op_type, " has ", names.size(), " activations where ", wanted, " are needed"));
  }
  const std::vector<float> alphas = node.attributes.Floats("activation_alpha");
  const std::vector<float> betas = node.attributes.Floats("activation_beta");
  size_t next_alpha = 0;
  size_t next_beta = 0;
  std::vector<Activation> out;
  for (const std::string& name : names) {
    std::string lower;
    for (const char c : name) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    const auto* row =
        std::find_if(std::begin(kActivations), std::end(kActivations),
                     [&lower](const ActivationRow& candidate) { return lower == candidate.name; });
    if (row == std::end(kActivations)) {
      Fail(ErrorCode::kUnsupported, StrCat("activation ", name, " of ", node.op_type));
    }
    Activation activation{row->apply, row->a, row->b};
    if (row->parameters > 0 && next_alpha < alphas.size()) activation.a = alphas[next_alpha++];
    if (row->parameters > 1 && next_beta < betas.size()) activation.b = betas[next_beta++];
    out.push_back(activation);
  }
  return out;
}

// --- shapes

struct Form {
  Cell cell;
  int64_t directions;
  bool reverse;      // whether the only direction is reversed; a second one always is
  bool batch_first;  // layout 1
};

Form FormOf(const Node& node) {
  const std::string direction = node.attributes.String("direction", "forward");
  const bool both = direction == "bidirectional";
  if (!both && direction != "forward" && direction != "reverse") {
    Fail(ErrorCode::kInvalidModel, StrCat("direction '", direction, "' does not exist"),
         {.hint = "use forward, reverse or bidirectional"});
  }
  return {CellOf(node), both ? 2 : 1, direction == "reverse",
          node.attributes.Int("layout", 0) != 0};
}

void InferRecurrent(InferContext& context) {
  const Form form = FormOf(context.node);
  const bool lstm = form.cell == Cell::kLstm;
  RequireFloat(context, 0);
  for (const size_t slot : {1, 2, 3, 5, 6, 7}) {
    if (context.has(slot)) RequireSameDType(context, 0, slot);
  }
  RequireRank(context, 0, 3);
  RequireRank(context, 1, 3);
  RequireRank(context, 2, 3);
  if (context.has(4)) RequireDType(context, 4, {DType::kInt32});
  Dim hidden = context.attributes().Int("hidden_size", -1) > 0
                   ? Dim(context.attributes().Int("hidden_size", -1))
                   : Dim();
  if (const SymbolicShape* r = context.shape(2)) {
    hidden = MergeDims(hidden, (*r)[2], "hidden_size and the recurrent weights");
    MergeDims((*r)[0], form.directions, "directions and weights");
    if (hidden.known()) {
      MergeDims((*r)[1], CheckedMul64(GatesOf(form.cell), hidden.value), "gates of the weights");
    }
  }
  Dim steps, batch;
  if (const SymbolicShape* x = context.shape(0)) {
    steps = (*x)[form.batch_first ? 1 : 0];
    batch = (*x)[form.batch_first ? 0 : 1];
    if (const SymbolicShape* w = context.shape(1)) {
      MergeDims((*x)[2], (*w)[2], "the input and its weights");
    }
  }
  const Dim directions = form.directions;
  const DType dtype = context.inputs[0].dtype;
  const SymbolicShape state = form.batch_first ? SymbolicShape{batch, directions, hidden}
                                               : SymbolicShape{directions, batch, hidden};
  SetOutput(context, 0, dtype,
            form.batch_first ? SymbolicShape{batch, steps, directions, hidden}
                             : SymbolicShape{steps, directions, batch, hidden});
  SetOutput(context, 1, dtype, state);
  if (lstm) SetOutput(context, 2, dtype, state);
}

// --- the computation

/// sums[rows] += matrix[rows, columns] * vector.
template <typename T>
void AddProduct(const T* matrix, const T* vector, int64_t rows, int64_t columns, T* sums) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* line = matrix + row * columns;
    // Four partial sums do not wait for each other.
    T part[4] = {};
    int64_t i = 0;
    for (; i + 4 <= columns; i += 4) {
      for (int k = 0; k < 4; ++k) part[k] += line[i + k] * vector[i + k];
    }
    for (; i < columns; ++i) part[0] += line[i] * vector[i];
    sums[row] += (part[0] + part[1]) + (part[2] + part[3]);
  }
}

template <typename T>
struct Weights {
  const T *w, *r;      // [gates * hidden, input], [gates * hidden, hidden]
  const T *wb, *rb;    // [gates * hidden] or nullptr
  const T* peepholes;  // i, o, f: [3 * hidden] or nullptr
};

template <typename T>
class Recurrence {
 public:
  Recurrence(const Node& node, const Form& form, int64_t input, int64_t hidden)
      : form_(form),
        input_(input),
        hidden_(hidden),
        activations_(ReadActivations(node, form.cell, form.directions)),
        clip_(node.attributes.Float("clip", 0)),
        coupled_(node.attributes.Int("input_forget", 0) != 0),
        reset_after_(node.attributes.Int("linear_before_reset", 0) != 0),
        sums_(static_cast<size_t>(GatesOf(form.cell) * hidden)),
        scratch_(static_cast<size_t>(hidden)) {}

  /// Runs one time step: h (and c) become the next state.
  void Step(const Weights<T>& weights, size_t direction, const T* x, T* h, T* c) {
    const Activation* f = activations_.data() +
                          direction * (activations_.size() / static_cast<size_t>(form_.directions));
    const int64_t n = hidden_;
    const int64_t rows = GatesOf(form_.cell) * n;
    if (weights.wb) {
      std::copy_n(weights.wb, rows, sums_.data());
    } else {
      std::fill(sums_.begin(), sums_.end(), T{0});
    }
    AddProduct(weights.w, x, rows, input_, sums_.data());
    if (form_.cell == Cell::kGru) return StepGru(weights, f, h);
    AddProduct(weights.r, h, rows, n, sums_.data());
    if (weights.rb) {
      for (int64_t i = 0; i < rows; ++i) sums_[static_cast<size_t>(i)] += weights.rb[i];
    }
    T* s = sums_.data();
    if (form_.cell == Cell::kRnn) {
      for (int64_t i = 0; i < n; ++i) h[i] = Apply(f[0], s[i]);
      return;
    }
    const T* p = weights.peepholes;
    for (int64_t i = 0; i < n; ++i) {
      const T before = c[i];
      const T in = Apply(f[0], s[i] + (p ? p[i] * before : T{0}));
      const T forget =
          coupled_ ? 1 - in : Apply(f[0], s[2 * n + i] + (p ? p[2 * n + i] * before : T{0}));
      c[i] = forget * before + in * Apply(f[1], s[3 * n + i]);
      const T out = Apply(f[0], s[n + i] + (p ? p[n + i] * c[i] : T{0}));
      // The last activation gets the unclipped state, since clipping applies to the gates.
      h[i] = out * static_cast<T>(f[2].apply(c[i], f[2].a, f[2].b));
    }
  }

 private:
  T Apply(const Activation& f, T x) const {
    if (clip_ > 0) x = std::clamp(x, static_cast<T>(-clip_), static_cast<T>(clip_));
    return static_cast<T>(f.apply(x, f.a, f.b));
  }

  void StepGru(const Weights<T>& weights, const Activation* f, T* h) {
    const int64_t n = hidden_;
    T* s = sums_.data();
    AddProduct(weights.r, h, 2 * n, n, s);
    if (weights.rb) {
      for (int64_t i = 0; i < 2 * n; ++i) s[i] += weights.rb[i];
    }
    for (int64_t i = 0; i < 2 * n; ++i) s[i] = Apply(f[0], s[i]);
    const T* matrix = weights.r + 2 * n * n;
    T* reset = s + n;
    if (reset_after_) {
      // r * (h R + Rb)
      std::fill(scratch_.begin(), scratch_.end(), T{0});
      AddProduct(matrix, h, n, n, scratch_.data());
      for (int64_t i = 0; i < n; ++i) {
        const T bias = weights.rb ? weights.rb[2 * n + i] : T{0};
        s[2 * n + i] += reset[i] * (scratch_[static_cast<size_t>(i)] + bias);
      }
    } else {
      for (int64_t i = 0; i < n; ++i) scratch_[static_cast<size_t>(i)] = reset[i] * h[i];
      AddProduct(matrix, scratch_.data(), n, n, s + 2 * n);
      if (weights.rb) {
        for (int64_t i = 0; i < n; ++i) s[2 * n + i] += weights.rb[2 * n + i];
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      const T candidate = Apply(f[1], s[2 * n + i]);
      h[i] = (1 - s[i]) * candidate + s[i] * h[i];
    }
  }

  Form form_;
  int64_t input_, hidden_;
  std::vector<Activation> activations_;
  float clip_;
  bool coupled_, reset_after_;
  std::vector<T> sums_, scratch_;
};

/// The part of an optional parameter that belongs to one direction.
template <typename T>
const T* Part(const EvalContext& context, size_t slot, int64_t direction, int64_t size) {
  if (!context.has(slot)) return nullptr;
  const Tensor& tensor = context.input(slot);
  if (tensor.count() < (direction + 1) * size) {
    Fail(ErrorCode::kShapeMismatch, StrCat("input ", slot, " of ", context.node.op_type, " is ",
                                           ShapeToString(tensor.shape())));
  }
  return tensor.data<T>() + direction * size;
}

template <typename T>
void Run(EvalContext& context, const Form& form) {
  const Tensor& x = context.input(0);
  const Tensor& r = context.input(2);
  const int64_t steps = x.dim(form.batch_first ? 1 : 0);
  const int64_t batch = x.dim(form.batch_first ? 0 : 1);
  const int64_t input = x.dim(2);
  const int64_t hidden = r.dim(2);
  const int64_t rows = CheckedMul64(GatesOf(form.cell), hidden);
  const bool lstm = form.cell == Cell::kLstm;
  const bool fits = r.dim(0) == form.directions && r.dim(1) == rows &&
                    context.input(1).shape() == Shape{form.directions, rows, input};
  if (!fits) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("the weights of ", context.node.op_type, " do not fit ", ShapeToString(x.shape())));
  }
  const Shape state_shape = form.batch_first ? Shape{batch, form.directions, hidden}
                                             : Shape{form.directions, batch, hidden};
  Tensor y(x.dtype(), form.batch_first ? Shape{batch, steps, form.directions, hidden}
                                       : Shape{steps, form.directions, batch, hidden});
  Tensor states[2] = {Tensor(x.dtype(), state_shape), Tensor(x.dtype(), state_shape)};
  for (const size_t k : {size_t{0}, size_t{1}}) {
    const size_t slot = 5 + k;
    if (!context.has(slot) || (k == 1 && !lstm)) continue;
    if (context.input(slot).shape() != state_shape) {
      Fail(ErrorCode::kShapeMismatch, StrCat("the initial state of ", context.node.op_type, " is ",
                                             ShapeToString(context.input(slot).shape()), ", not ",
                                             ShapeToString(state_shape)));
    }
    states[k] = context.input(slot).Clone();
  }
  std::vector<int64_t> lengths(static_cast<size_t>(batch), steps);
  if (context.has(4)) {
    const std::vector<int64_t> given = context.input(4).ToInts();
    if (static_cast<int64_t>(given.size()) != batch) {
      Fail(ErrorCode::kShapeMismatch, StrCat(given.size(), " sequence lengths for ", batch));
    }
    for (size_t b = 0; b < given.size(); ++b) {
      if (given[b] < 0 || given[b] > steps) {
        Fail(ErrorCode::kInvalidArgument,
             StrCat("sequence length ", given[b], " of ", steps, " steps"));
      }
      lengths[b] = given[b];
    }
  }
  Recurrence<T> recurrence(context.node, form, input, hidden);
  for (int64_t d = 0; d < form.directions; ++d) {
    const T* bias = Part<T>(context, 3, d, 2 * rows);
    const Weights<T> weights{context.input(1).data<T>() + d * rows * input,
                             r.data<T>() + d * rows * hidden, bias, bias ? bias + rows : nullptr,
                             lstm ? Part<T>(context, 7, d, 3 * hidden) : nullptr};
    const bool backward = form.reverse || d == 1;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t at = (form.batch_first ? b * form.directions + d : d * batch + b) * hidden;
      T* h = states[0].data<T>() + at;
      T* c = states[1].data<T>() + at;
      const int64_t length = lengths[static_cast<size_t>(b)];
      for (int64_t i = 0; i < length; ++i) {
        const int64_t t = backward ? length - 1 - i : i;
        const int64_t place = form.batch_first ? b * steps + t : t * batch + b;
        recurrence.Step(weights, static_cast<size_t>(d), x.data<T>() + place * input, h, c);
        const int64_t to = form.batch_first ? (b * steps + t) * form.directions + d
                                            : (t * form.directions + d) * batch + b;
        std::copy_n(h, hidden, y.data<T>() + to * hidden);
      }
    }
  }
  context.outputs[0] = std::move(y);
  if (context.outputs.size() > 1) context.outputs[1] = std::move(states[0]);
  if (context.outputs.size() > 2) context.outputs[2] = std::move(states[1]);
}

void EvaluateRecurrent(EvalContext& context) {
  const Form form = FormOf(context.node);
  if (context.input(0).rank() != 3 || context.input(1).rank() != 3 ||
      context.input(2).rank() != 3) {
    Fail(ErrorCode::kShapeMismatch, StrCat(context.node.op_type, " takes tensors of rank 3"));
  }
  if (context.input(0).dtype() == DType::kFloat64) return Run<double>(context, form);
  Run<float>(context, form);
}

constexpr OpDef kRows[] = {
    Expensive({"GRU", "", 7, 3, 6, 2, InferRecurrent, EvaluateRecurrent, QuantRule::kFloat}),
    Expensive({"LSTM", "", 7, 3, 8, 3, InferRecurrent, EvaluateRecurrent, QuantRule::kFloat}),
    Expensive({"RNN", "", 7, 3, 6, 2, InferRecurrent, EvaluateRecurrent, QuantRule::kFloat}),
};

}  // namespace

std::span<const OpDef> RecurrentOps() { return kRows; }

}  // namespace requant
