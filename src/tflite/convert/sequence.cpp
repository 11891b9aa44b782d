// UNIDIRECTIONAL_SEQUENCE_LSTM as ONNX's LSTM
// (tensorflow/lite/kernels/unidirectional_sequence_lstm.cc, inputs 0 to 23).
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

/// TFLite has the gates in the order input, forget, cell, output; ONNX in the order i, o, f, c.
constexpr size_t kGates[] = {0, 3, 1, 2};

enum Slot : size_t {
  kInput = 0,
  kInputWeights = 1,      // of four gates
  kRecurrentWeights = 5,  // of four gates
  kPeepholes = 9,         // of input, forget and output gates
  kBiases = 12,           // of four gates
  kProjection = 16,
  kHidden = 18,
  kCell = 19,
  kNormalization = 20,  // of four gates
};

Value* Joined(Context& context, size_t first) {
  std::vector<Value*> parts;
  for (const size_t gate : kGates) parts.push_back(context.Reals(first + gate));
  Value* joined = context.Add("Concat", std::move(parts), With("axis", int64_t{0}));
  return context.Add("Unsqueeze", {joined, context.Ints({0})});
}

/// A state as [1, batch, units]; nullptr where it is a variable, which is zero at the beginning.
Value* State(Context& context, size_t slot) {
  if (!context.has(slot) || context.input(slot).variable) return nullptr;
  return context.Add("Unsqueeze", {context.Reals(slot), context.Ints({0})});
}

}  // namespace

void ConvertSequenceLstm(Context& context, const char*) {
  using Options = field::SequenceLstmOptions;
  const TableView& options = context.options();
  const char* const kHint =
      RQ_LATE_TEXT("convert the model with its LSTM unrolled (unroll=True in Keras)");
  if (!context.has(kInputWeights))
    context.Refuse(RQ_LATE_TEXT("couples its input and forget gates"), kHint);
  if (context.has(kProjection)) context.Refuse(RQ_LATE_TEXT("has a projection"), kHint);
  for (size_t gate = 0; gate < 4; ++gate) {
    if (context.has(kNormalization + gate))
      context.Refuse(RQ_LATE_TEXT("normalizes its gates"), kHint);
  }
  if (options.Get<float>(Options::kCellClip, 0) != 0)
    context.Refuse(RQ_LATE_TEXT("clips its cell"), kHint);
  const auto activation = static_cast<Activation>(options.Get<int8_t>(Options::kActivation, 0));
  if (activation != Activation::kTanh)
    context.Refuse(RQ_LATE_TEXT("has another activation than TANH"), kHint);
  if (context.graph().quantized(context.in(kInput))) {
    context.Refuse(RQ_LATE_TEXT("has quantized inputs"),
                   RQ_LATE_TEXT("leave the LSTM in float when quantizing"));
  }
  const SymbolicShape& recurrent = context.input(kRecurrentWeights).shape;
  if (recurrent.size() != 2 || context.constant(kRecurrentWeights) == nullptr ||
      context.rank(kInput) != 3) {
    context.Invalid(RQ_LATE_TEXT("has weights that do not fit"));
  }
  const int64_t units = recurrent[0].value;
  const bool time_major = options.Flag(Options::kTimeMajor);
  Value* x = context.Reals(kInput);
  if (!time_major) x = context.graph().Transposed(x, {1, 0, 2});
  Value* input_bias = Joined(context, kBiases);
  std::vector<Value*> inputs = {x, Joined(context, kInputWeights),
                                Joined(context, kRecurrentWeights)};
  // ONNX has a second bias, of the recurrent weights.
  Value* zeros = context.graph().AddConstant(Tensor(DType::kFloat32, {1, 4 * units}));
  inputs.push_back(context.Add("Concat", {input_bias, zeros}, With("axis", int64_t{1})));
  inputs.push_back(nullptr);
  inputs.push_back(State(context, kHidden));
  inputs.push_back(State(context, kCell));
  if (context.has(kPeepholes + 1)) {
    std::vector<Value*> parts;
    for (const size_t gate : {0, 2, 1}) parts.push_back(context.Reals(kPeepholes + gate));
    Value* joined = context.Add("Concat", std::move(parts), With("axis", int64_t{0}));
    inputs.push_back(context.Add("Unsqueeze", {joined, context.Ints({0})}));
  }
  while (inputs.back() == nullptr) inputs.pop_back();
  // A state that is left out beside one that is given would be zero, too.
  if (inputs.size() > 5 && (inputs[5] == nullptr) != (inputs.size() < 7 || inputs[6] == nullptr)) {
    context.Refuse(RQ_LATE_TEXT("has one state that is a variable and one that is none"), kHint);
  }
  Value* all = context.graph().AddMany("LSTM", std::move(inputs), 1, With("hidden_size", units))[0];
  Value* steps = context.Add("Squeeze", {all, context.Ints({1})});
  if (!time_major) steps = context.graph().Transposed(steps, {1, 0, 2});
  context.Define(steps);
}

}  // namespace requant::tflite
