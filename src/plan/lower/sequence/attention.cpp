// Lowers the attention operators (ops/attention/attention.h), in floats here and in bytes by
// attention_bytes.cpp.
#include "ops/attention/attention.h"

#include <cstring>

#include "kernels/elementwise/table.h"
#include "kernels/softmax/table.h"
#include "plan/lower/product/dynamic.h"
#include "plan/lower/rows.h"
#include "plan/lower/sequence/attention_bytes.h"
#include "plan/lower/sequence/attention_places.h"
#include "plan/lower/sequence/attention_step.h"
#include "plan/lower/sequence/score_rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

/// Scores of a panel, which fill a quarter of a second-level cache.
constexpr int64_t kPanelScores = 1 << 16;

/// Attention by the float kernels of convolutions.
class FloatAttentionStep : public AttentionStep {
 public:
  StepKind kind() const override { return StepKind::kAttention; }
  void Fields(PlanArchive& archive) override {
    CommonFields(archive);
    archive.Fields(scores, mix);
    archive.Kernel(ConvF32Kernels(), kernel, run);
  }

  DynamicProduct scores, mix;  // the two products of a panel
  void (*run)(const ConvF32Params*) = nullptr;

 protected:
  void Pack(const RunContext&, std::span<const Lane> heads) const override {
    if (form.queries < kFewRows) return;
    const ConvF32Kernel& row = ConvF32KernelOf(kernel);
    for (const Lane& lane : heads) {
      PackMatrix(row, scores.matrix, lane.keys, lane.memory + places.keys);
      PackMatrix(row, mix.matrix, lane.values, lane.memory + places.values);
    }
  }

  void RunPanel(const RunContext& context, const AttentionInputs& source, int64_t b, int64_t query,
                std::span<const Lane> used) const override {
    const int64_t count = CountAt(query);
    ConvF32Params products[kMaxThreads];
    SoftmaxF32Params rows[kMaxThreads];
    const int total = static_cast<int>(used.size());
    for (int i = 0; i < total; ++i) {
      const Lane& lane = used[static_cast<size_t>(i)];
      auto* q = lane.At<float>(places.queries);
      Scale(source, b, lane.head, query, count, q);
      ConvF32Params& call = products[i];
      call = scores.params;
      call.row_end = static_cast<int32_t>(count);
      call.input = q;
      call.weights = lane.memory + places.keys;
      call.output = lane.At<float>(places.scores);
      if (lane.mask && form.softcap == 0) {
        call.residual = lane.MaskAt(query);
        call.residual_stride = static_cast<int32_t>(lane.mask_stride);
      }
      SoftmaxF32Params& softmax = rows[i];
      softmax.in = softmax.out = call.output;
      softmax.rows = static_cast<size_t>(count);
      softmax.cols = softmax.in_row_stride = softmax.out_row_stride =
          static_cast<size_t>(ScoreColumns(form));
      softmax.masked_to_zero = 1;
    }
    Multiply(context, scores.matrix, products, used, true);
    for (int i = 0; i < total; ++i) {
      const Lane& lane = used[static_cast<size_t>(i)];
      FinishScores(form, source, lane.head,
                   {products[i].output, count, form.keys, ScoreColumns(form)}, lane.MaskAt(query),
                   lane.mask_stride);
    }
    RunLanes(context, SoftmaxRow(), rows, total);
    for (int i = 0; i < total; ++i) {
      const Lane& lane = used[static_cast<size_t>(i)];
      const float* from = products[i].output;
      ConvF32Params& call = products[i];
      call = mix.params;
      call.row_end = static_cast<int32_t>(count);
      call.input = from;
      call.weights = lane.memory + places.values;
      call.output = context.Write<float>(outputs[0]) + form.y.At(b, lane.head, query);
    }
    Multiply(context, mix.matrix, products, used, false);
  }

 private:
  /// Computes the lanes' products; few queries do without packed weights.
  void Multiply(const RunContext& context, const DynamicMatrix& matrix,
                const ConvF32Params* products, std::span<const Lane> used, bool keys) const {
    if (form.queries >= kFewRows) {
      return RunLanes(context, run, products, static_cast<int>(used.size()));
    }
    for (const Lane& lane : used) {
      const ConvF32Params& call = *products++;
      const FewRows few{matrix, call.row_end, call.geometry.input_stride, call.residual_stride,
                        call.geometry.output_stride};
      MultiplyFew(few, call.input, keys ? lane.keys : lane.values, call.residual, call.output);
    }
  }

  /// out[count][width] = scale * q
  void Scale(const AttentionInputs& source, int64_t b, int64_t h, int64_t query, int64_t count,
             float* out) const {
    const bool rotated = form.cos_slot >= 0;
    if (rotated) source.Queries(b, h, query, count, out);
    BinaryF32Params call{};
    call.a = rotated ? out : source.data(0) + form.q.At(b, h, query);
    call.b = &form.scale;
    call.out = out;
    call.rows = static_cast<size_t>(count);
    call.cols = call.out_row_stride = static_cast<size_t>(form.width);
    call.a_row_stride = static_cast<size_t>(rotated ? form.width : form.q.token);
    call.a_step = 1;
    call.lo = -std::numeric_limits<float>::infinity();
    call.hi = std::numeric_limits<float>::infinity();
    BinaryRow(BinaryF32Op::kMul)(&call);
  }
};

/// The input, or nullptr, of keys or values [batch, heads, tokens, width].
const Value* ByHeadInput(const Node& node, const AttentionForm& form, bool keys) {
  const Value* input = node.input(static_cast<size_t>(keys ? form.k_slot : form.v_slot));
  return input && input->type.StaticShape().size() == 4 && !form.joins() ? input : nullptr;
}

/// The slots of a node's operands.
struct Operands {
  std::vector<int> slots;  // as AttentionStep::slots
  std::vector<int> inputs, outputs;
  int present[2] = {-1, -1};
  bool grows[2] = {false, false};
  bool joins = false;  // keys and values are read neither from inputs nor from outputs
};

Operands OperandsOf(PlanBuilder& builder, const Node& node, const AttentionForm& form) {
  Operands out;
  out.joins = form.joins() || node.output(1) || node.output(2);
  for (const bool keys : {true, false}) {
    const size_t at = keys ? 0 : 1;
    const int32_t past = keys ? form.past_k_slot : form.past_v_slot;
    if (const Value* whole = node.output(1 + at)) {
      const Value* from = past < 0 ? nullptr : node.input(static_cast<size_t>(past));
      if (from) out.present[at] = builder.Grow(from, whole, 2);
      out.grows[at] = out.present[at] >= 0;
      if (!out.grows[at]) out.present[at] = builder.Out(whole);
    } else if (const Value* input = ByHeadInput(node, form, keys)) {
      out.grows[at] = builder.Growing(input) >= 0;
    }
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    out.slots.push_back(-1);
    const Value* input = node.inputs[i];
    if (input == nullptr) continue;
    const auto at = static_cast<int32_t>(i);
    const bool read_as_rows = (out.grows[0] && (at == form.k_slot || at == form.past_k_slot)) ||
                              (out.grows[1] && (at == form.v_slot || at == form.past_v_slot));
    const int rows = read_as_rows ? builder.Growing(input) : -1;
    out.slots.back() = rows >= 0 ? rows : builder.In(input);
    out.inputs.push_back(out.slots.back());
    out.joins = out.joins || builder.slot(out.slots.back()).coded;
  }
  out.outputs = {builder.Out(node.outputs[0])};
  for (const int slot : out.present) {
    if (slot >= 0) out.outputs.push_back(slot);
  }
  return out;
}

/// As AttentionStep::mask_in_place.
bool IsMaskInPlace(const Node& node, const AttentionForm& form) {
  if (form.mask_slot < 0) return false;
  const Value* mask = node.inputs[static_cast<size_t>(form.mask_slot)];
  return mask->type.dtype == DType::kFloat32 && form.padding_slot < 0 && form.lengths_slot < 0 &&
         !form.causal && form.window < 0 && mask->type.StaticShape().back() == form.keys;
}

}  // namespace

bool LowerAttention(PlanBuilder& builder, const Node& node) {
  std::vector<Shape> shapes;
  shapes.reserve(node.inputs.size());
  std::vector<const Shape*> given;
  for (const Value* input : node.inputs) {
    given.push_back(nullptr);
    if (input == nullptr) continue;
    shapes.push_back(input->type.StaticShape());
    given.back() = &shapes.back();
  }
  // The pass that moves a bias in front of the products has not run on this node, so the reference
  // does.
  if (!node.output(0) || node.output(3) || HasAttentionBias(node)) return false;
  const Tensor* total = node.constant(6);
  const bool grouped = node.op_type == "GroupQueryAttention";
  if (grouped && (total == nullptr || total->count() != 1)) return false;
  const AttentionForm form = AttentionFormOf(node, given, grouped ? total->AsInt64(0) : 0);
  if (form.batch == 0 || form.queries == 0 || form.keys == 0 || form.width == 0 ||
      form.value_width == 0) {
    return false;
  }
  // A panel is whole register tiles.
  const int64_t panel =
      std::min(form.queries, std::max<int64_t>(16, kPanelScores / form.keys / 4 * 4));
  const bool joins = form.joins();
  const int64_t k_token = joins || node.output(1) ? form.width : form.k.token;
  const int64_t v_token = joins || node.output(2) ? form.value_width : form.v.token;
  std::optional<PlannedBytes> bytes;
  if (builder.options().int8_activations.value_or(false)) {
    bytes = PlanByteAttention(builder, form, panel);
  }
  const ConvF32Kernel& kernel = ChooseProductF32(builder);
  std::optional<DynamicProduct> scores, mix;
  if (!bytes) {
    scores = PlanProduct(builder, kernel, {form.width, form.keys, 1, k_token}, panel, form.width,
                         ScoreColumns(form));
    mix = PlanProduct(builder, kernel, {form.keys, form.value_width, v_token, 1}, panel,
                      ScoreColumns(form), form.y.token);
    if (!scores || !mix) return false;
  }

  const Operands operands = OperandsOf(builder, node, form);
  AttentionStep* step = nullptr;
  AttentionNeeds needs;
  if (bytes) {
    step = &AddByteAttention(builder, node, *bytes, operands.inputs, operands.outputs);
    needs.packed_keys = bytes->products.packed_keys;
    needs.packed_values = bytes->products.packed_values;
    needs.own = bytes->own;
  } else {
    auto& added =
        builder.Add<FloatAttentionStep>(node, kernel.name, operands.inputs, operands.outputs);
    added.run = kernel.run;
    added.scores = *scores;
    added.mix = *mix;
    needs.packed_keys = scores->packed_bytes;
    needs.packed_values = mix->packed_bytes;
    needs.queries = form.width;
    step = &added;
  }
  step->form = form;
  step->panel = needs.panel = panel;
  step->slots = operands.slots;
  std::copy_n(operands.present, 2, step->present);
  std::copy_n(operands.grows, 2, step->grows);
  const int64_t each = form.queries * form.keys * (form.width + form.value_width);
  step->macs = form.batch * form.heads * each;
  const int64_t threads = std::clamp(builder.options().threads, 1, kMaxThreads);
  step->lanes = needs.lanes = static_cast<int>(
      std::clamp<int64_t>(std::min(step->macs / kMacsPerPart, form.heads), 1, threads));
  step->mask_in_place = IsMaskInPlace(node, form);
  needs.mask = form.masks() && !step->mask_in_place;
  needs.joined = operands.joins;
  size_t end = 0;
  step->places = PlaceAttention(form, needs, end);
  step->workspace = builder.Workspace(end);
  return true;
}

RQ_STEP(Attention, FloatAttentionStep)

}  // namespace requant
