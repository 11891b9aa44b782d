// Lowers the attention operators (ops/attention/attention.h). Every head takes two products by the
// float kernels of convolutions and a softmax between them. Queries go in panels, so that their
// scores stay in a cache; as many heads run at a time as there are threads.
#include "ops/attention/attention.h"

#include <cstring>

#include "kernels/elementwise/table.h"
#include "kernels/softmax/table.h"
#include "plan/lower/product/dynamic.h"
#include "plan/lower/rows.h"
#include "plan/lower/sequence/attention_places.h"
#include "plan/lower/sequence/growing.h"
#include "plan/lower/sequence/score_rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

/// Scores of a panel, which fill a quarter of a second-level cache.
constexpr int64_t kPanelScores = 1 << 16;

/// The operands and memory of one lane's head.
struct Lane {
  int64_t head = 0;
  uint8_t* memory = nullptr;
  const float* keys = nullptr;
  const float* values = nullptr;
  const float* mask = nullptr;
  int64_t mask_stride = 0;
};

class AttentionStep : public StepOf<StepKind::kAttention> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(form, scores, mix, places, panel, lanes, mask_in_place, slots, present, grows);
    archive.Kernel(ConvF32Kernels(), kernel, run);
  }

  void Run(const RunContext& context) const override {
    std::vector<Tensor> tensors;
    tensors.reserve(slots.size());
    std::vector<const Tensor*> pointers;
    for (const int slot : slots) {
      pointers.push_back(nullptr);
      if (slot < 0) continue;
      const Slot& place = context.slot(slot);
      tensors.push_back(Tensor::Unowned(place.dtype, place.shape, context.Write(slot)));
      pointers.back() = &tensors.back();
    }
    const AttentionInputs source(form, pointers);
    for (int64_t b = 0; b < form.batch; ++b) RunImage(context, source, b);
  }

  AttentionForm form;
  DynamicProduct scores, mix;  // the two products of a panel
  AttentionPlaces places;
  int64_t panel = 0;  // queries of a panel
  int lanes = 1;
  /// Whether the mask is added from its own memory: it has numbers for all keys, and nothing else
  /// hides any.
  bool mask_in_place = false;
  std::vector<int> slots;     // indexed by input slot of the node; -1 where left out
  int present[2] = {-1, -1};  // slots of the outputs; -1 where nothing reads them
  /// Whether the keys, or the values, are read where they grow: the output that has their past in
  /// its memory, or an input.
  bool grows[2] = {false, false};
  void (*run)(const ConvF32Params*) = nullptr;

 private:
  /// k or v as [heads][tokens], with the distances between heads and tokens.
  struct Operand {
    const float* data;
    int64_t head, token;
  };

  /// The operand of image b in its own memory, or joined with its past: in the output if there is
  /// one.
  Operand OperandOf(const RunContext& context, const AttentionInputs& source, int64_t b,
                    bool keys) const {
    const HeadLayout& layout = keys ? form.k : form.v;
    const int64_t width = keys ? form.width : form.value_width;
    const int output = present[keys ? 0 : 1];
    const bool growing = grows[keys ? 0 : 1];
    if (!form.joins() && output < 0) {
      const int32_t input = keys ? form.k_slot : form.v_slot;
      if (!growing) return {source.data(input) + layout.At(b, 0), layout.head, layout.token};
      const int slot = slots[static_cast<size_t>(input)];
      if (context.slot(slot).coded) {
        const CodedTokens tokens = CodedPast(context, b, keys, slot, form.keys);
        RecodeTokens(context, TokenCodesRow(tokens.op), tokens);
        return {tokens.floats, tokens.stride, width};
      }
      const int64_t head = context.Room(slot) * width;
      return {source.data(input) + b * form.kv_heads * head, head, width};
    }
    const bool as_codes = growing && context.slot(output).coded;
    const int64_t head = (growing && !as_codes ? context.Room(output) : form.keys) * width;
    JoinedTokens joined{nullptr, head, growing};
    joined.data = output >= 0 && !as_codes ? context.Write<float>(output) + b * form.kv_heads * head
                                           : JoinedFloats(context, keys);
    CodedTokens tokens = CodedPast(context, b, keys, output, form.past);
    if (as_codes) RecodeTokens(context, TokenCodesRow(tokens.op), tokens);
    if (keys) {
      source.Keys(b, joined);
    } else {
      source.Values(b, joined);
    }
    if (as_codes) {
      // New tokens stay floats in this run, and are codes from the next one on.
      tokens.op = TokenCodesOp::kEncode;
      tokens.begin = std::min(form.past, source.PastOf(b));
      tokens.end = form.keys;
      tokens.floats += tokens.begin * width;
      RecodeTokens(context, TokenCodesRow(tokens.op), tokens);
    }
    return {joined.data, head, width};
  }

  /// The first `count` tokens of an image's keys or values in a slot, as codes, to become floats.
  CodedTokens CodedPast(const RunContext& context, int64_t b, bool keys, int slot,
                        int64_t count) const {
    const int64_t width = keys ? form.width : form.value_width, heads = form.kv_heads;
    return {TokenCodesOp::kDecode,      slot, b * heads, heads, 0, count, width, form.keys * width,
            JoinedFloats(context, keys)};
  }

  /// Memory for an image's keys or values with their past.
  float* JoinedFloats(const RunContext& context, bool keys) const {
    return reinterpret_cast<float*>(context.Write<uint8_t>(workspace) +
                                    (keys ? places.joined_keys : places.joined_values));
  }

  void RunImage(const RunContext& context, const AttentionInputs& source, int64_t b) const {
    const Operand k = OperandOf(context, source, b, true);
    const Operand v = OperandOf(context, source, b, false);
    const ConvF32Kernel& row = ConvF32KernelOf(kernel);
    auto* memory = context.Write<uint8_t>(workspace);
    const int many = LanesOf(context, lanes);
    Lane lane[kMaxThreads];
    for (int64_t first = 0; first < form.heads; first += many) {
      const int used = static_cast<int>(std::min<int64_t>(many, form.heads - first));
      for (int i = 0; i < used; ++i) {
        Lane& own = lane[i];
        own.head = first + i;
        own.memory = memory + places.lane * static_cast<size_t>(i);
        const int64_t shared = own.head / form.group();
        // With one lane, heads that share keys follow each other, so their keys are packed once.
        own.keys = k.data + shared * k.head;
        own.values = v.data + shared * v.head;
        if (form.queries >= kFewRows && (many > 1 || own.head % form.group() == 0)) {
          PackMatrix(row, scores.matrix, k.data + shared * k.head, own.memory + places.keys);
          PackMatrix(row, mix.matrix, v.data + shared * v.head, own.memory + places.values);
        }
        SetMask(context, source, b, memory, own);
      }
      for (int64_t query = 0; query < form.queries; query += panel) {
        RunPanel(context, source, b, query, {lane, static_cast<size_t>(used)});
      }
    }
  }

  void SetMask(const RunContext& context, const AttentionInputs& source, int64_t b, uint8_t* memory,
               Lane& lane) const {
    if (!form.masks()) return;
    lane.mask_stride = form.keys;
    if (mask_in_place) {
      const int slot = slots[static_cast<size_t>(form.mask_slot)];
      const Shape& shape = context.slot(slot).shape;
      const size_t rank = shape.size();
      const int64_t rows = rank > 1 ? shape[rank - 2] : 1;
      const int64_t heads = rank > 2 ? shape[rank - 3] : 1;
      const int64_t images = rank > 3 ? shape[0] : 1;
      const int64_t plane = (images > 1 ? b * heads : 0) + (heads > 1 ? lane.head : 0);
      lane.mask = context.Read<float>(slot) + plane * rows * form.keys;
      lane.mask_stride = rows > 1 ? form.keys : 0;
      return;
    }
    // The mask is filled once for an image, or for every head.
    const bool own = source.mask_per_head();
    auto* to = reinterpret_cast<float*>((own ? lane.memory : memory) + places.mask);
    if (own || lane.head == 0) source.Mask(b, lane.head, to);
    lane.mask = to;
  }

  /// Computes queries [query, query + panel) of the lanes' heads.
  void RunPanel(const RunContext& context, const AttentionInputs& source, int64_t b, int64_t query,
                std::span<const Lane> used) const {
    const int64_t count = std::min(panel, form.queries - query);
    ConvF32Params products[kMaxThreads];
    SoftmaxF32Params rows[kMaxThreads];
    const int total = static_cast<int>(used.size());
    for (int i = 0; i < total; ++i) {
      const Lane& lane = used[static_cast<size_t>(i)];
      auto* q = reinterpret_cast<float*>(lane.memory + places.queries);
      Scale(source, b, lane.head, query, count, q);
      ConvF32Params& call = products[i];
      call = scores.params;
      call.row_end = static_cast<int32_t>(count);
      call.input = q;
      call.weights = lane.memory + places.keys;
      call.output = reinterpret_cast<float*>(lane.memory + places.scores);
      if (lane.mask && form.softcap == 0) {
        call.residual = lane.mask + query * lane.mask_stride;
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
      const ScoreRows panel_rows{products[i].output, count, form.keys, ScoreColumns(form)};
      if (form.softcap != 0) {
        CapScores(panel_rows, form.softcap,
                  lane.mask ? lane.mask + query * lane.mask_stride : nullptr, lane.mask_stride);
      }
      if (!form.sinks()) continue;
      const float* sinks = source.data(form.sink_slot);
      SetSinks(panel_rows, sinks ? sinks[lane.head] : 0);
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
  const ConvF32Kernel& kernel = ChooseProductF32(builder);
  // A panel is whole register tiles.
  const int64_t panel =
      std::min(form.queries, std::max<int64_t>(16, kPanelScores / form.keys / 4 * 4));
  bool joins = form.joins() || node.output(1) || node.output(2);
  const int64_t k_token = form.joins() || node.output(1) ? form.width : form.k.token;
  const int64_t v_token = form.joins() || node.output(2) ? form.value_width : form.v.token;
  const auto scores = PlanProduct(builder, kernel, {form.width, form.keys, 1, k_token}, panel,
                                  form.width, ScoreColumns(form));
  const auto mix = PlanProduct(builder, kernel, {form.keys, form.value_width, v_token, 1}, panel,
                               ScoreColumns(form), form.y.token);
  if (!scores || !mix) return false;

  int present[2] = {-1, -1};
  bool grows[2] = {false, false};
  for (const bool keys : {true, false}) {
    const size_t at = keys ? 0 : 1;
    const int32_t past = keys ? form.past_k_slot : form.past_v_slot;
    if (const Value* whole = node.output(1 + at)) {
      const Value* from = past < 0 ? nullptr : node.input(static_cast<size_t>(past));
      if (from) present[at] = builder.Grow(from, whole, 2);
      grows[at] = present[at] >= 0;
      if (!grows[at]) present[at] = builder.Out(whole);
    } else if (const Value* input = ByHeadInput(node, form, keys)) {
      grows[at] = builder.Growing(input) >= 0;
    }
  }
  std::vector<int> slots;
  std::vector<int> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    slots.push_back(-1);
    const Value* input = node.inputs[i];
    if (input == nullptr) continue;
    const auto at = static_cast<int32_t>(i);
    const bool read_as_rows = (grows[0] && (at == form.k_slot || at == form.past_k_slot)) ||
                              (grows[1] && (at == form.v_slot || at == form.past_v_slot));
    const int rows = read_as_rows ? builder.Growing(input) : -1;
    slots.back() = rows >= 0 ? rows : builder.In(input);
    inputs.push_back(slots.back());
    joins = joins || builder.slot(slots.back()).coded;
  }
  std::vector<int> outputs = {builder.Out(node.outputs[0])};
  for (const int slot : present) {
    if (slot >= 0) outputs.push_back(slot);
  }
  auto& step = builder.Add<AttentionStep>(node, kernel.name, inputs, outputs);
  step.run = kernel.run;
  step.form = form;
  step.scores = *scores;
  step.mix = *mix;
  step.panel = panel;
  step.slots = std::move(slots);
  std::copy_n(present, 2, step.present);
  std::copy_n(grows, 2, step.grows);
  const int64_t each = form.queries * form.keys * (form.width + form.value_width);
  step.macs = form.batch * form.heads * each;
  const int64_t threads = std::clamp(builder.options().threads, 1, kMaxThreads);
  step.lanes = static_cast<int>(
      std::clamp<int64_t>(std::min(step.macs / kMacsPerPart, form.heads), 1, threads));
  if (form.mask_slot >= 0) {
    const Value* mask = node.inputs[static_cast<size_t>(form.mask_slot)];
    step.mask_in_place = mask->type.dtype == DType::kFloat32 && form.padding_slot < 0 &&
                         form.lengths_slot < 0 && !form.causal && form.window < 0 &&
                         mask->type.StaticShape().back() == form.keys;
  }
  size_t end = 0;
  const bool own_mask = form.masks() && !step.mask_in_place;
  step.places = PlaceAttention(
      form, {panel, step.lanes, scores->packed_bytes, mix->packed_bytes, own_mask, joins}, end);
  step.workspace = builder.Workspace(end);
  return true;
}

RQ_STEP(Attention, AttentionStep)

}  // namespace requant
