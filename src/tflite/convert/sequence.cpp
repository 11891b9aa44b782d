// LSTM and its sequences as ONNX's LSTM (tensorflow/lite/kernels/lstm.cc,
// unidirectional_sequence_lstm.cc, bidirectional_sequence_lstm.cc).
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/convert/weights.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

/// TFLite has the gates in the order input, forget, cell, output; ONNX in the order i, o, f, c.
constexpr size_t kGates[] = {0, 3, 1, 2};
constexpr size_t kForget = 1;
constexpr size_t kNone = SIZE_MAX;

/// The slots of a layer.
struct Slots {
  size_t weights = 1;    // of four gates
  size_t recurrent = 5;  // of four gates
  size_t peepholes = 9;  // of input, forget and output gates
  size_t biases = 12;    // of four gates
  size_t projection = 16;
  size_t hidden = 18;
  size_t cell = 19;
  size_t normalization = 20;  // of four gates
};

bool Has(const Context& context, size_t slot) { return slot != kNone && context.has(slot); }

const char* Hint() {
  return RQ_LATE_TEXT("convert the model with its LSTM unrolled (unroll=True in Keras)");
}

/// A gate's numbers. Where the input gate is left out it is 1 less the forget gate, and
/// 1 - sigmoid(z) is sigmoid(-z). Biases are those of products with `weights`.
Value* Gate(Context& context, size_t first, size_t gate, size_t weights = kNone) {
  const bool coupled = gate == 0 && !context.has(first);
  const size_t from = coupled ? kForget : gate;
  Value* numbers = weights == kNone ? context.Reals(first + from)
                                    : Bias(context, first + from, 0, weights + from);
  return coupled ? context.Add("Neg", {numbers}) : numbers;
}

Value* Joined(Context& context, size_t first, size_t weights = kNone) {
  std::vector<Value*> parts;
  for (const size_t gate : kGates) parts.push_back(Gate(context, first, gate, weights));
  Value* joined = context.Add("Concat", std::move(parts), With("axis", int64_t{0}));
  return context.Add("Unsqueeze", {joined, context.Ints({0})});
}

/// A state as [1, batch, units]; nullptr where it is a variable, which is zero at the beginning.
Value* State(Context& context, size_t slot) {
  if (!context.has(slot) || context.input(slot).variable) return nullptr;
  return context.Add("Unsqueeze", {context.Reals(slot), context.Ints({0})});
}

/// Refuses what ONNX's LSTM does not compute.
void Check(const Context& context, const Slots& slots, float cell_clip, Activation activation) {
  if (Has(context, slots.projection)) context.Refuse(RQ_LATE_TEXT("has a projection"), Hint());
  for (size_t gate = 0; gate < 4; ++gate) {
    if (slots.normalization != kNone && context.has(slots.normalization + gate))
      context.Refuse(RQ_LATE_TEXT("normalizes its gates"), Hint());
  }
  if (cell_clip != 0) context.Refuse(RQ_LATE_TEXT("clips its cell"), Hint());
  if (activation != Activation::kTanh)
    context.Refuse(RQ_LATE_TEXT("has another activation than TANH"), Hint());
  const SymbolicShape& recurrent = context.input(slots.recurrent + kForget).shape;
  if (recurrent.size() != 2 || context.constant(slots.recurrent + kForget) == nullptr)
    context.Invalid(RQ_LATE_TEXT("has weights that do not fit"));
}

/// The states of all steps, [time, batch, units], of an input [time, batch, features].
Value* Layer(Context& context, Value* x, const Slots& slots, bool reverse) {
  const int64_t units = context.input(slots.recurrent + kForget).shape[0].value;
  Value* input_bias = Joined(context, slots.biases, slots.weights);
  std::vector<Value*> inputs = {x, Joined(context, slots.weights),
                                Joined(context, slots.recurrent)};
  // ONNX has a second bias, of the recurrent weights.
  Value* zeros = context.graph().AddConstant(Tensor(DType::kFloat32, {1, 4 * units}));
  inputs.push_back(context.Add("Concat", {input_bias, zeros}, With("axis", int64_t{1})));
  inputs.push_back(nullptr);
  inputs.push_back(State(context, slots.hidden));
  inputs.push_back(State(context, slots.cell));
  // A state that is left out beside one that is given would be zero, too.
  if ((inputs[5] == nullptr) != (inputs[6] == nullptr)) {
    context.Refuse(RQ_LATE_TEXT("has one state that is a variable and one that is none"), Hint());
  }
  if (context.has(slots.peepholes + 1)) {
    std::vector<Value*> parts;
    for (const size_t gate : {0, 2, 1}) {
      parts.push_back(Gate(context, slots.peepholes, gate));
    }
    Value* joined = context.Add("Concat", std::move(parts), With("axis", int64_t{0}));
    inputs.push_back(context.Add("Unsqueeze", {joined, context.Ints({0})}));
  }
  while (inputs.back() == nullptr) inputs.pop_back();
  AttributeMap attributes = With("hidden_size", units);
  if (reverse) attributes.Set("direction", std::string("reverse"));
  Value* all = context.graph().AddMany("LSTM", std::move(inputs), 1, std::move(attributes))[0];
  return context.Add("Squeeze", {all, context.Ints({1})});
}

}  // namespace

void ConvertSequenceLstm(Context& context, const char*) {
  using Options = field::SequenceLstmOptions;
  const TableView& options = context.options();
  const Slots slots;
  Check(context, slots, options.Get<float>(Options::kCellClip, 0),
        static_cast<Activation>(options.Get<int8_t>(Options::kActivation, 0)));
  if (context.rank(0) != 3) context.Invalid(RQ_LATE_TEXT("has no sequence"));
  const bool time_major = options.Flag(Options::kTimeMajor);
  Value* x = context.Reals(0);
  if (!time_major) x = context.graph().Transposed(x, {1, 0, 2});
  Value* steps = Layer(context, x, slots, false);
  if (!time_major) steps = context.graph().Transposed(steps, {1, 0, 2});
  context.Define(steps);
}

void ConvertBidirectionalLstm(Context& context, const char*) {
  using Options = field::BidirectionalLstmOptions;
  const TableView& options = context.options();
  const Slots forward{.hidden = 35, .cell = 36, .normalization = kNone};
  const Slots backward{18, 22, 26, 29, 33, 37, 38, kNone};
  for (const Slots* slots : {&forward, &backward}) {
    Check(context, *slots, options.Get<float>(Options::kCellClip, 0),
          static_cast<Activation>(options.Get<int8_t>(Options::kActivation, 0)));
  }
  if (context.has(39)) context.Refuse(RQ_LATE_TEXT("has an auxiliary input"), Hint());
  if (context.rank(0) != 3) context.Invalid(RQ_LATE_TEXT("has no sequence"));
  const bool time_major = options.Get<int8_t>(Options::kTimeMajor, 1) != 0;
  Value* x = context.Reals(0);
  if (!time_major) x = context.graph().Transposed(x, {1, 0, 2});
  std::vector<Value*> steps;
  for (const bool reverse : {false, true}) {
    steps.push_back(Layer(context, x, reverse ? backward : forward, reverse));
    if (!time_major) steps.back() = context.graph().Transposed(steps.back(), {1, 0, 2});
  }
  if (!options.Flag(Options::kMergeOutputs)) {
    context.Define(steps[0]);
    return context.Define(steps[1], Order::kPlain, 1);
  }
  context.Define(context.Add("Concat", std::move(steps), With("axis", int64_t{2})));
}

namespace {

/// The older form: the weights of all gates are one matrix [4 units, features + units], in the
/// order input, cell, forget, output.
void ConvertBasicLstm(Context& context) {
  Value* joined =
      context.Add("Concat", {context.Reals(0), context.Reals(1)}, With("axis", int64_t{1}));
  Value* gates = context.Add("Gemm", {joined, context.Reals(2), Bias(context, 3, 0, 2)},
                             With("transB", int64_t{1}));
  const std::vector<Value*> parts = context.graph().AddMany(
      "Split", {gates}, 4, With("axis", int64_t{1}, "num_outputs", int64_t{4}));
  Value* fresh =
      context.Add("Mul", {context.Add("Sigmoid", {parts[0]}), context.Add("Tanh", {parts[1]})});
  Value* kept = context.Add("Mul", {context.Add("Sigmoid", {parts[2]}), context.Reals(4)});
  Value* cell = context.Add("Add", {fresh, kept});
  Value* open = context.Add("Sigmoid", {parts[3]});
  context.Define(context.Add("Mul", {open, context.Add("Tanh", {cell})}));
  Value* const results[] = {cell, joined, gates};
  for (size_t slot = 1; slot < context.outputs() && slot < 4; ++slot) {
    context.Define(results[slot - 1], Order::kPlain, slot);
  }
}

}  // namespace

/// One step of a sequence.
void ConvertLstm(Context& context, const char*) {
  using Options = field::LstmOptions;
  const TableView& options = context.options();
  if (options.Get<int8_t>(Options::kKernelType, 0) == 1) return ConvertBasicLstm(context);
  const Slots slots;
  Check(context, slots, options.Get<float>(Options::kCellClip, 0),
        static_cast<Activation>(options.Get<int8_t>(Options::kActivation, 0)));
  Value* x = context.Add("Unsqueeze", {context.Reals(0), context.Ints({0})});
  Value* steps = Layer(context, x, slots, false);
  context.Define(context.Add("Squeeze", {steps, context.Ints({0})}));
}

}  // namespace requant::tflite
