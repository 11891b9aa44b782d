// Attention of ONNX (opset 23), MultiHeadAttention and GroupQueryAttention of com.microsoft, and
// HeadsAttention of ai.requant: types and reference. Sums are taken in double.
#include "ops/attention/attention.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/attention/attention_head.h"
#include "ops/function/function_text.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

/// The slots of the keys' past and of inputs that are not float32.
struct Slots {
  size_t past, integers[3];
};
Slots SlotsOf(const Node& node) {
  if (HasOnnxOperands(node)) return {4, {6, 6, 6}};
  return node.Is(Op::kMultiHeadAttention) ? Slots{6, {4, 8, 9}} : Slots{3, {5, 6, 9}};
}

bool IsByToken(const Node& node) {
  return node.Is(Op::kHeadsAttention) && node.attributes.Int("by_token", 0) != 0;
}

/// The shape of y for a query of `rank` dimensions.
Shape ResultShape(const Node& node, const AttentionForm& form, size_t rank) {
  if (rank != 4) return {form.batch, form.queries, form.heads * form.value_width};
  if (IsByToken(node)) return {form.batch, form.queries, form.heads, form.value_width};
  return {form.batch, form.heads, form.queries, form.value_width};
}

/// The number of keys with those of the past; -1: not known yet.
int64_t TotalOf(const Node& node, const Tensor* given) {
  if (!node.Is(Op::kGroupQueryAttention)) return 0;
  return given && given->count() == 1 ? given->AsInt64(0) : -1;
}

/// Infers the parts of the result's shape that follow from dimensions of which some are no numbers.
void InferOpen(InferContext& context) {
  const Node& node = context.node;
  const DType dtype = context.inputs[0].dtype;
  const SymbolicShape* q = context.shape(0);
  const SymbolicShape* k = context.shape(1);
  const SymbolicShape* v = context.shape(2);
  const bool grouped = node.Is(Op::kGroupQueryAttention);
  const int64_t heads =
      node.attributes.Int(node.Is(Op::kAttention) ? "q_num_heads" : "num_heads", 0);
  const int64_t kv_heads =
      node.Is(Op::kMultiHeadAttention) ? heads : node.attributes.Int("kv_num_heads", 0);
  std::optional<SymbolicShape> y;
  if (q && q->size() == 4 && HasOnnxOperands(node)) {
    y = SymbolicShape{(*q)[0], (*q)[1], (*q)[2], v && v->size() == 4 ? (*v)[3] : Dim()};
    if (IsByToken(node)) std::swap((*y)[1], (*y)[2]);
  } else if (q && q->size() >= 3) {
    Dim columns;
    if (grouped) {
      columns = (*q)[2];
      if (!context.has(1)) {
        columns = Dim();
        const int64_t rows = heads + 2 * kv_heads;
        if ((*q)[2].known() && rows > 0) columns = (*q)[2].value / rows * heads;
      }
    } else if (q->size() == 5) {
      columns = MultiplyDims((*q)[2], (*q)[4]);
    } else if (v && v->size() == 3) {
      columns = (*v)[2];
      if (kv_heads > 0 && heads != kv_heads) {
        columns = columns.known() ? Dim(columns.value / kv_heads * heads) : Dim();
      }
    } else if (v && v->size() == 4) {
      columns = MultiplyDims((*v)[1], (*v)[3]);
    }
    y = SymbolicShape{(*q)[0], (*q)[1], columns};
  }
  SetOutput(context, 0, dtype, std::move(y));
  const size_t past = SlotsOf(node).past;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const SymbolicShape* operand = i == 0 ? k : v;
    const SymbolicShape* kept = context.shape(past + i);
    std::optional<SymbolicShape> present;
    if (kept && kept->size() == 4) {
      present = SymbolicShape{(*kept)[0], (*kept)[1], Dim(), (*kept)[3]};
    } else if (operand && operand->size() == 4) {
      present = *operand;
    } else if (operand && operand->size() == 3 && kv_heads > 0 && !grouped) {
      const Dim& columns = (*operand)[2];
      present = SymbolicShape{(*operand)[0], kv_heads, context.has(past) ? Dim() : (*operand)[1],
                              columns.known() ? Dim(columns.value / kv_heads) : Dim()};
    }
    SetOutput(context, 1 + i, dtype, std::move(present));
  }
  SetOutput(context, 3, dtype, std::nullopt);
}

void InferAttention(InferContext& context) {
  const Slots slots = SlotsOf(context.node);
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) {
    if (!context.has(slot)) continue;
    if (std::find(std::begin(slots.integers), std::end(slots.integers), slot) !=
        std::end(slots.integers)) {
      RequireDType(context, slot, {DType::kInt32, DType::kInt64});
    } else if (slot == 3 && HasOnnxOperands(context.node)) {
      RequireDType(context, slot, {DType::kFloat32, DType::kBool});
    } else {
      RequireDType(context, slot, {DType::kFloat32});
    }
  }
  if (context.node.Is(Op::kGroupQueryAttention)) {
    RequireInput(context, 5);
    RequireInput(context, 6);
  }
  std::vector<Shape> known;
  known.reserve(context.inputs.size());
  std::vector<const Shape*> shapes;
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) {
    if (!context.has(slot)) {
      shapes.push_back(nullptr);
      continue;
    }
    if (!context.inputs[slot].IsStatic()) return InferOpen(context);
    known.push_back(context.inputs[slot].StaticShape());
    shapes.push_back(&known.back());
  }
  const int64_t total = TotalOf(context.node, context.constant(6));
  if (total < 0) return InferOpen(context);
  const AttentionForm form = AttentionFormOf(context.node, shapes, total);
  const DType dtype = DType::kFloat32;
  SetOutput(context, 0, dtype,
            ToSymbolic(ResultShape(context.node, form, context.shape(0)->size())));
  SetOutput(context, 1, dtype, SymbolicShape{form.batch, form.kv_heads, form.keys, form.width});
  SetOutput(context, 2, dtype,
            SymbolicShape{form.batch, form.kv_heads, form.keys, form.value_width});
  SetOutput(context, 3, dtype, SymbolicShape{form.batch, form.heads, form.queries, form.keys});
}

void EvaluateAttention(EvalContext& context) {
  if (HasAttentionBias(context.node)) return EvaluateByBody(context);
  std::vector<const Shape*> shapes;
  for (const Tensor* input : context.inputs) shapes.push_back(input ? &input->shape() : nullptr);
  const int64_t total = TotalOf(context.node, context.has(6) ? &context.input(6) : nullptr);
  const AttentionForm form = AttentionFormOf(context.node, shapes, total);
  const AttentionInputs inputs(form, context.inputs);
  const auto rank = static_cast<size_t>(context.input(0).rank());
  Tensor y(DType::kFloat32, ResultShape(context.node, form, rank));
  Tensor present_k(DType::kFloat32, {form.batch, form.kv_heads, form.keys, form.width});
  Tensor present_v(DType::kFloat32, {form.batch, form.kv_heads, form.keys, form.value_width});
  Tensor stage;
  if (context.node.output(3)) {
    stage = Tensor(DType::kFloat32, {form.batch, form.heads, form.queries, form.keys});
  }
  const float none = 0;
  const float* sinks = form.sink_slot >= 0 ? inputs.data(form.sink_slot) : nullptr;
  const int64_t shown = context.attributes().Int("qk_matmul_output_mode", 0);
  std::vector<float> bias(static_cast<size_t>(form.masks() ? form.queries * form.keys : 0));
  std::vector<float> q(static_cast<size_t>(form.queries * form.width));
  AttentionHead head(form);
  for (int64_t b = 0; b < form.batch; ++b) {
    float* k = present_k.data<float>() + b * form.kv_heads * form.keys * form.width;
    float* v = present_v.data<float>() + b * form.kv_heads * form.keys * form.value_width;
    inputs.Keys(b, {k, form.keys * form.width});
    inputs.Values(b, {v, form.keys * form.value_width});
    for (int64_t h = 0; h < form.heads; ++h) {
      if (!bias.empty() && (h == 0 || inputs.mask_per_head())) inputs.Mask(b, h, bias.data());
      inputs.Queries(b, h, 0, form.queries, q.data());
      const int64_t shared = h / form.group();
      head.SetKeys(k + shared * form.keys * form.width);
      head.SetValues(v + shared * form.keys * form.value_width);
      head.SetMask(bias.empty() ? nullptr : bias.data());
      head.SetSink(sinks ? sinks + h : (form.smooth ? &none : nullptr));
      if (!stage.empty()) {
        head.Show(shown, stage.data<float>() + (b * form.heads + h) * form.queries * form.keys);
      }
      head.Evaluate(q.data(), y.data<float>() + form.y.At(b, h));
    }
  }
  context.outputs[0] = std::move(y);
  if (context.outputs.size() > 1) context.outputs[1] = std::move(present_k);
  if (context.outputs.size() > 2) context.outputs[2] = std::move(present_v);
  if (context.outputs.size() > 3) context.outputs[3] = std::move(stage);
}

}  // namespace

std::span<const OpDef> AttentionOps() {
  static constexpr OpDef kRows[] = {
      Expensive(
          {"Attention", "", 23, 3, 7, 4, InferAttention, EvaluateAttention, QuantRule::kFloat}),
      Expensive({"HeadsAttention", kRequantDomain, 1, 3, 8, 1, InferAttention, EvaluateAttention,
                 QuantRule::kFloat}),
      // Without key and value the query holds all three; the past may be missing, too.
      {"GroupQueryAttention", kMicrosoftDomain, 1, 1, 14, 4, InferAttention, EvaluateAttention,
       QuantRule::kFloat},
      {"MultiHeadAttention", kMicrosoftDomain, 1, 1, 10, 4, InferAttention, EvaluateAttention,
       QuantRule::kFloat, FusionRule::kOpaque, ExpandMultiHeadAttention},
  };
  return kRows;
}

}  // namespace requant
