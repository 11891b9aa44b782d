// Lowers LSTM, GRU and RNN with their default activations. One product projects all inputs, each
// time step is a product of the state with weights packed at planning, and vector kernels compute
// activations. onnx/docs/Operators.md has the formulas and the order of gates (i o f c, z r h).
#include <array>
#include <cstring>

#include "base/checked_math.h"
#include "kernels/elementwise/table.h"
#include "plan/lower/product/dynamic.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

enum class Cell : int32_t { kRnn, kGru, kLstm };

struct RecurrentForm {
  Cell cell = Cell::kRnn;
  int32_t directions = 1;
  int32_t reverse = 0;      // whether the only direction is reversed; a second one always is
  int32_t reset_after = 0;  // GRU: the reset gate multiplies the product instead of the state
  int64_t steps = 0, batch = 0, input = 0, hidden = 0;

  int64_t gates() const { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }
};

/// The products of one direction: with the inputs, with the state, and with the state for GRU's
/// third gate.
using Products = std::array<ConvF32Params, 3>;

template <typename Rows, typename Op>
auto BestRow(const Rows& rows, Op op) {
  auto best = rows.front().run;
  for (const auto& row : rows) {
    if (row.op == op) best = row.run;
  }
  return best;
}

void Activate(UnaryF32Op op, float* x, int64_t count) {
  UnaryF32Params call{};
  call.in = call.out = x;
  call.n = static_cast<size_t>(count);
  BestRow(UnaryF32Kernels(), op)(&call);
}

class RecurrentStep : public StepOf<StepKind::kRecurrent> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(form, products, places, state_slots, results, lanes);
    for (Products& direction : products) {
      for (ConvF32Params& product : direction) archive.Blob(product.weights);
    }
    archive.Kernel(ConvF32Kernels(), kernel, run);
  }

  void Run(const RunContext& context) const override {
    for (int32_t d = 0; d < form.directions; ++d) RunDirection(context, d);
  }

  /// Offsets in the workspace, in floats: projected inputs, gates, h, c, scratch memory.
  struct Places {
    size_t inputs = 0, gates = 0, h = 0, c = 0, scratch = 0;
  };
  RecurrentForm form;
  std::array<Products, 2> products;
  Places places;
  std::array<int, 2> state_slots{-1, -1};  // slots of the initial h and c
  std::array<int, 3> results{-1, -1, -1};  // slots of y, the last h and the last c
  int lanes = 1;
  void (*run)(const ConvF32Params*) = nullptr;

 private:
  void Project(const RunContext& context, const Products& own, float* out) const {
    const int many = LanesOf(context, lanes);
    ConvF32Params blocks[kMaxThreads];
    const int32_t rows = own[0].row_end;
    for (int i = 0; i < many; ++i) {
      ConvF32Params& call = blocks[i];
      call = own[0];
      call.input = context.Read<float>(inputs[0]);
      call.output = out;
      call.row_begin = static_cast<int32_t>(int64_t{rows} * i / many / 4 * 4);
      call.row_end =
          i + 1 == many ? rows : static_cast<int32_t>(int64_t{rows} * (i + 1) / many / 4 * 4);
    }
    RunLanes(context, run, blocks, many);
  }

  /// out = product with `state` (+ `residual`), whose rows are `stride` floats apart.
  void Multiply(const ConvF32Params& product, const float* state, const float* residual,
                float* out) const {
    ConvF32Params call = product;
    call.input = state;
    call.residual = residual;
    call.output = out;
    run(&call);
  }

  void RunDirection(const RunContext& context, int32_t d) const {
    auto* memory = context.Write<float>(workspace);
    const Products& own = products[static_cast<size_t>(d)];
    const int64_t state = form.batch * form.hidden;
    const int64_t row = form.gates() * form.hidden;
    float* projected = memory + places.inputs;
    float* h = memory + places.h;
    float* c = memory + places.c;
    Project(context, own, projected);
    for (const size_t i : {size_t{0}, size_t{1}}) {
      float* to = i == 0 ? h : c;
      if (state_slots[i] >= 0) {
        std::copy_n(context.Read<float>(state_slots[i]) + d * state, state, to);
      } else {
        std::fill(to, to + state, 0.0F);
      }
    }
    const bool backward = d == 1 || form.reverse != 0;
    for (int64_t i = 0; i < form.steps; ++i) {
      const int64_t t = backward ? form.steps - 1 - i : i;
      const float* x = projected + t * form.batch * row;
      if (form.cell == Cell::kGru) {
        StepGru(own, x, memory);
      } else {
        StepLstm(own, x, memory);
      }
      if (results[0] >= 0) {
        std::copy_n(h, state, context.Write<float>(results[0]) + (t * form.directions + d) * state);
      }
    }
    if (results[1] >= 0) std::copy_n(h, state, context.Write<float>(results[1]) + d * state);
    if (results[2] >= 0) std::copy_n(c, state, context.Write<float>(results[2]) + d * state);
  }

  /// One time step of an LSTM, or of an RNN.
  void StepLstm(const Products& own, const float* x, float* memory) const {
    const int64_t n = form.hidden;
    float* gates = memory + places.gates;
    Multiply(own[1], memory + places.h, x, gates);
    for (int64_t b = 0; b < form.batch; ++b, gates += form.gates() * n) {
      float* h = memory + places.h + b * n;
      if (form.cell == Cell::kRnn) {
        Activate(UnaryF32Op::kTanh, gates, n);
        std::copy_n(gates, n, h);
        continue;
      }
      float* c = memory + places.c + b * n;
      Activate(UnaryF32Op::kSigmoid, gates, 3 * n);
      Activate(UnaryF32Op::kTanh, gates + 3 * n, n);
      const float* out = gates + n;
      const float* forget = gates + 2 * n;
      const float* candidate = gates + 3 * n;
      for (int64_t i = 0; i < n; ++i) {
        c[i] = forget[i] * c[i] + gates[i] * candidate[i];
        h[i] = c[i];
      }
      Activate(UnaryF32Op::kTanh, h, n);
      for (int64_t i = 0; i < n; ++i) h[i] *= out[i];
    }
  }

  void StepGru(const Products& own, const float* x, float* memory) const {
    const int64_t n = form.hidden;
    float* all = memory + places.gates;
    float* h = memory + places.h;
    float* scratch = memory + places.scratch;
    Multiply(own[1], h, x, all);
    for (int64_t b = 0; b < form.batch; ++b) {
      float* gates = all + b * 3 * n;
      Activate(UnaryF32Op::kSigmoid, gates, 2 * n);
      for (int64_t i = 0; i < n; ++i) scratch[b * n + i] = gates[n + i] * h[b * n + i];
    }
    if (form.reset_after != 0) {
      Multiply(own[2], h, nullptr, scratch);
    } else {
      Multiply(own[2], scratch, x + 2 * n, all + 2 * n);
    }
    for (int64_t b = 0; b < form.batch; ++b) {
      float* gates = all + b * 3 * n;
      float* candidate = gates + 2 * n;
      if (form.reset_after != 0) {
        const float* projected = x + b * 3 * n + 2 * n;
        for (int64_t i = 0; i < n; ++i) {
          candidate[i] = projected[i] + gates[n + i] * scratch[b * n + i];
        }
      }
      Activate(UnaryF32Op::kTanh, candidate, n);
      float* state = h + b * n;
      for (int64_t i = 0; i < n; ++i) {
        state[i] = (1 - gates[i]) * candidate[i] + gates[i] * state[i];
      }
    }
  }
};

/// Whether every activation is the operator's default.
bool HasUsualActivations(const Node& node, Cell cell) {
  const Attribute* given = node.attributes.Find("activations");
  if (given == nullptr) return true;
  const auto* names = std::get_if<std::vector<std::string>>(given);
  const std::vector<std::string> usual =
      cell == Cell::kLstm  ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
      : cell == Cell::kGru ? std::vector<std::string>{"Sigmoid", "Tanh"}
                           : std::vector<std::string>{"Tanh"};
  if (names == nullptr || names->size() % usual.size() != 0) return false;
  for (size_t i = 0; i < names->size(); ++i) {
    if ((*names)[i] != usual[i % usual.size()]) return false;
  }
  return true;
}

std::optional<RecurrentForm> FormOf(const Node& node) {
  RecurrentForm form;
  form.cell = node.Is(Op::kLSTM) ? Cell::kLstm : node.Is(Op::kGRU) ? Cell::kGru : Cell::kRnn;
  const AttributeMap& attributes = node.attributes;
  const std::string direction = attributes.String("direction", "forward");
  form.directions = direction == "bidirectional" ? 2 : 1;
  form.reverse = direction == "reverse" ? 1 : 0;
  form.reset_after = attributes.Int("linear_before_reset", 0) != 0 ? 1 : 0;
  const Tensor* w = node.constant(1);
  const Tensor* r = node.constant(2);
  const Tensor* bias = node.constant(3);
  const Shape x = node.inputs[0]->type.StaticShape();
  if (node.inputs[0]->type.dtype != DType::kFloat32 || w == nullptr || r == nullptr ||
      (node.input(3) && bias == nullptr) || node.input(4) || node.input(7) ||
      attributes.Int("layout", 0) != 0 || attributes.Float("clip", 0) > 0 ||
      attributes.Int("input_forget", 0) != 0 || !HasUsualActivations(node, form.cell)) {
    return std::nullopt;
  }
  form.steps = x[0];
  form.batch = x[1];
  form.input = x[2];
  form.hidden = r->dim(2);
  const int64_t rows = CheckedMul64(form.gates(), form.hidden);
  const Shape state = {form.directions, form.batch, form.hidden};
  const bool fits = w->shape() == Shape{form.directions, rows, form.input} &&
                    r->shape() == Shape{form.directions, rows, form.hidden} &&
                    (bias == nullptr || bias->shape() == Shape{form.directions, 2 * rows});
  if (!fits || NumElements(x) == 0 || form.hidden == 0) return std::nullopt;
  for (const size_t slot : {size_t{5}, size_t{6}}) {
    if (node.input(slot) && node.inputs[slot]->type.StaticShape() != state) return std::nullopt;
  }
  return form;
}

/// Plans one product with rows [first, first + count) of a matrix [all, k] and these biases.
bool AddProduct(PlanBuilder& builder, const ConvF32Kernel& kernel, const float* matrix, int64_t k,
                int64_t count, const std::vector<float>& bias, int64_t rows, int64_t stride,
                ConvF32Params& out) {
  out.geometry = MatMulGeometry(rows, k, count);
  out.geometry.output_stride = static_cast<int32_t>(stride);
  if (!FitsInt32(out.geometry)) return false;
  ConvWeightsLayout layout;
  layout.out_c = static_cast<int32_t>(count);
  layout.in_c_per_group = static_cast<int32_t>(k);
  layout.stride_o = k;
  layout.stride_i = 1;
  const ConvF32Weights weights{layout, matrix, bias.empty() ? nullptr : bias.data()};
  const uint8_t* packed = builder.Pack(kernel, weights);
  out.weights = packed;
  out.row_end = ConvRows(out.geometry);
  out.residual_stride = static_cast<int32_t>(stride);
  out.portable = builder.options().portable ? 1 : 0;
  return true;
}

bool AddDirection(PlanBuilder& builder, const ConvF32Kernel& kernel, const Node& node,
                  const RecurrentForm& form, int64_t d, Products& out) {
  const int64_t n = form.hidden;
  const int64_t rows = form.gates() * n;
  std::vector<float> input_bias(static_cast<size_t>(rows)), last_bias;
  if (const Tensor* bias = node.constant(3)) {
    const float* from = bias->data<float>() + d * 2 * rows;
    // The bias of the state's product joins the inputs' bias where nothing is computed in between.
    const int64_t joined = form.cell == Cell::kGru && form.reset_after != 0 ? 2 * n : rows;
    for (int64_t i = 0; i < rows; ++i) {
      input_bias[static_cast<size_t>(i)] = i < joined ? from[i] + from[rows + i] : from[i];
    }
    if (joined < rows) last_bias.assign(from + rows + joined, from + 2 * rows);
  }
  const float* w = node.constant(1)->data<float>() + d * rows * form.input;
  const float* r = node.constant(2)->data<float>() + d * rows * n;
  const bool gru = form.cell == Cell::kGru;
  if (!AddProduct(builder, kernel, w, form.input, rows, input_bias, form.steps * form.batch, rows,
                  out[0]) ||
      !AddProduct(builder, kernel, r, n, gru ? 2 * n : rows, {}, form.batch, rows, out[1])) {
    return false;
  }
  return !gru || AddProduct(builder, kernel, r + 2 * n * n, n, n, last_bias, form.batch,
                            form.reset_after != 0 ? n : rows, out[2]);
}

}  // namespace

bool LowerRecurrent(PlanBuilder& builder, const Node& node) {
  const auto form = FormOf(node);
  if (!form) return false;
  const int64_t rows = form->gates() * form->hidden;
  // Sizes are checked first, since nothing may have been packed when the answer is no.
  const double most = static_cast<double>(form->steps) * static_cast<double>(form->batch) *
                      static_cast<double>(std::max(rows, form->input));
  const double weights =
      static_cast<double>(rows) * static_cast<double>(std::max(form->input, form->hidden));
  if (most * 4 >= INT32_MAX || weights * 4 >= INT32_MAX) return false;
  const ConvF32Kernel& kernel = ChooseProductF32(builder);
  std::array<Products, 2> products;
  for (int64_t d = 0; d < form->directions; ++d) {
    if (!AddDirection(builder, kernel, node, *form, d, products[static_cast<size_t>(d)])) {
      return false;
    }
  }
  std::vector<int> inputs = {builder.In(node.inputs[0])};
  std::array<int, 2> state_slots{-1, -1};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (node.input(5 + i) == nullptr) continue;
    state_slots[i] = builder.In(node.inputs[5 + i]);
    inputs.push_back(state_slots[i]);
  }
  std::vector<int> outputs;
  std::array<int, 3> results{-1, -1, -1};
  for (size_t i = 0; i < 3; ++i) {
    if (node.output(i) == nullptr) continue;
    results[i] = builder.Out(node.outputs[i]);
    outputs.push_back(results[i]);
  }
  auto& step = builder.Add<RecurrentStep>(node, kernel.name, inputs, outputs);
  step.run = kernel.run;
  step.form = *form;
  step.products = products;
  step.state_slots = state_slots;
  step.results = results;
  step.macs = form->directions * form->steps * form->batch * rows * (form->input + form->hidden);
  const int64_t threads = std::clamp(builder.options().threads, 1, kMaxThreads);
  step.lanes = static_cast<int>(
      std::clamp<int64_t>(form->steps * form->batch * rows * form->input / kMacsPerPart, 1,
                          std::min(threads, form->steps * form->batch)));
  size_t end = 0;
  const auto take = [&end](int64_t a, int64_t b) {
    const size_t at = end;
    const size_t bytes =
        CheckedMul(CheckedMul(static_cast<size_t>(a), static_cast<size_t>(b)), sizeof(float));
    end = CheckedAdd(end, Padded(bytes) / sizeof(float));
    return at;
  };
  step.places.inputs = take(form->steps * form->batch, rows);
  step.places.gates = take(form->batch, rows);
  step.places.h = take(form->batch, form->hidden);
  step.places.c = take(form->batch, form->hidden);
  step.places.scratch = take(form->batch, form->hidden);
  step.workspace = builder.Workspace(CheckedMul(end, sizeof(float)));
  return true;
}

RQ_STEP(Recurrent, RecurrentStep)

}  // namespace requant
