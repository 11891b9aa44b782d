// RNN, its sequences, and SVDF (tensorflow/lite/kernels/rnn.cc, unidirectional_sequence_rnn.cc,
// bidirectional_sequence_rnn.cc, svdf.cc). Their states are zero when a run begins unless the file
// gives them.
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/convert/weights.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

/// ONNX's name of an activation.
const char* ActivationName(const Context& context, int8_t activation) {
  switch (static_cast<Activation>(activation)) {
    case Activation::kNone:
      return "Affine";
    case Activation::kRelu:
      return "Relu";
    case Activation::kTanh:
      return "Tanh";
    default:
      context.Refuse(RQ_LATE_TEXT("has another activation than RELU and TANH"),
                     RQ_LATE_TEXT("convert the model with one of these"));
  }
}

/// The states of all steps, [time, batch, units], of an input [time, batch, features]. The weights,
/// those of the states, the bias and the state are in the slots from `first` on.
Value* Layer(Context& context, Value* x, size_t first, int8_t activation, bool reverse) {
  const SymbolicShape& recurrent = context.input(first + 1).shape;
  if (recurrent.size() != 2 || !recurrent[0].known())
    context.Invalid(RQ_LATE_TEXT("has weights that do not fit"));
  const int64_t units = recurrent[0].value;
  const auto one = [&context](Value* value) {
    return context.Add("Unsqueeze", {value, context.Ints({0})});
  };
  Value* zeros = context.graph().AddConstant(Tensor(DType::kFloat32, {units}));
  Value* biases =
      context.Add("Concat", {context.Reals(first + 2), zeros}, With("axis", int64_t{0}));
  std::vector<Value*> inputs = {x, one(context.Reals(first)), one(context.Reals(first + 1)),
                                one(biases)};
  if (context.has(first + 3) && !context.input(first + 3).variable) {
    inputs.push_back(nullptr);
    inputs.push_back(one(context.Reals(first + 3)));
  }
  const std::string name = ActivationName(context, activation);
  AttributeMap attributes = With("hidden_size", units);
  attributes.Set("activations", std::vector<std::string>{name});
  if (name == "Affine") {
    attributes.Set("activation_alpha", std::vector<float>{1});
    attributes.Set("activation_beta", std::vector<float>{0});
  }
  if (reverse) attributes.Set("direction", std::string("reverse"));
  Value* all = context.graph().AddMany("RNN", std::move(inputs), 1, std::move(attributes))[0];
  return context.Add("Squeeze", {all, context.Ints({1})});
}

Value* Turned(Context& context, Value* sequence, bool time_major) {
  return time_major ? sequence : context.graph().Transposed(sequence, {1, 0, 2});
}

}  // namespace

/// One step of a sequence.
void ConvertRnn(Context& context, const char*) {
  const auto activation = context.options().Get<int8_t>(field::RnnOptions::kActivation, 0);
  Value* x = context.Add("Unsqueeze", {context.Reals(0), context.Ints({0})});
  Value* steps = Layer(context, x, 1, activation, false);
  context.Define(context.Add("Squeeze", {steps, context.Ints({0})}));
}

void ConvertSequenceRnn(Context& context, const char*) {
  using Options = field::SequenceRnnOptions;
  const bool time_major = context.options().Flag(Options::kTimeMajor);
  if (context.rank(0) != 3) context.Invalid(RQ_LATE_TEXT("has no sequence"));
  Value* x = Turned(context, context.Reals(0), time_major);
  Value* steps =
      Layer(context, x, 1, context.options().Get<int8_t>(Options::kActivation, 0), false);
  context.Define(Turned(context, steps, time_major));
}

void ConvertBidirectionalRnn(Context& context, const char*) {
  using Options = field::BidirectionalRnnOptions;
  const TableView& options = context.options();
  if (context.has(9)) {
    context.Refuse(RQ_LATE_TEXT("has an auxiliary input"),
                   RQ_LATE_TEXT("convert the model with its loops unrolled"));
  }
  if (context.rank(0) != 3) context.Invalid(RQ_LATE_TEXT("has no sequence"));
  const bool time_major = options.Flag(Options::kTimeMajor);
  const auto activation = options.Get<int8_t>(Options::kActivation, 0);
  Value* x = Turned(context, context.Reals(0), time_major);
  Value* forward = Turned(context, Layer(context, x, 1, activation, false), time_major);
  Value* backward = Turned(context, Layer(context, x, 5, activation, true), time_major);
  if (!options.Flag(Options::kMergeOutputs)) {
    context.Define(forward);
    return context.Define(backward, Order::kPlain, 1);
  }
  context.Define(context.Add("Concat", {forward, backward}, With("axis", int64_t{2})));
}

/// Every filter projects the input, remembers its last `memory` projections, and weighs them;
/// `rank` filters make a unit.
void ConvertSvdf(Context& context, const char*) {
  using Options = field::SvdfOptions;
  enum Slot : size_t { kInput, kFeatures, kTime, kBias, kState };
  const int64_t rank = context.options().Get<int32_t>(Options::kRank, 0);
  const SymbolicShape& time = context.input(kTime).shape;
  if (time.size() != 2 || !time[0].known() || !time[1].known() || rank < 1 ||
      time[0].value % rank != 0 || time[1].value < 1) {
    context.Invalid(RQ_LATE_TEXT("has weights that do not fit"));
  }
  const int64_t filters = time[0].value;
  const int64_t memory = time[1].value;
  Value* projected = context.Add("Gemm", {context.Reals(kInput), context.Reals(kFeatures)},
                                 With("transB", int64_t{1}));
  Value* last = context.Add("Unsqueeze", {projected, context.Ints({-1})});
  Value* weights = context.Reals(kTime);
  Value* sums = nullptr;
  if (context.input(kState).variable) {
    Value* newest = context.Add(
        "Slice", {weights, context.Ints({memory - 1}), context.Ints({memory}), context.Ints({1})});
    sums = context.Add("Mul", {last, newest});
  } else {
    Value* state =
        context.Add("Reshape", {context.Reals(kState), context.Ints({-1, filters, memory})});
    Value* kept =
        context.Add("Slice", {state, context.Ints({1}), context.Ints({memory}), context.Ints({2})});
    Value* all = context.Add("Concat", {kept, last}, With("axis", int64_t{2}));
    sums = context.Add("Mul", {all, weights});
  }
  sums = context.Add("ReduceSum", {sums, context.Ints({2})}, With("keepdims", int64_t{0}));
  sums = context.Add("Reshape", {sums, context.Ints({-1, filters / rank, rank})});
  sums = context.Add("ReduceSum", {sums, context.Ints({2})}, With("keepdims", int64_t{0}));
  if (context.has(kBias)) sums = context.Add("Add", {sums, context.Reals(kBias)});
  context.DefineActivated(sums, context.options().Get<int8_t>(Options::kActivation, 0));
}

}  // namespace requant::tflite
