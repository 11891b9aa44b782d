#include "plan/lower/sequence/attention_step.h"

#include "plan/lower/product/dynamic.h"

namespace requant {

void AttentionStep::CommonFields(PlanArchive& archive) {
  archive.Fields(form, places, panel, lanes, mask_in_place, slots, present, grows);
}

void AttentionStep::Run(const RunContext& context) const {
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

/// The operand of image b in its own memory, or joined with its past: in the output if there is
/// one.
AttentionStep::Operand AttentionStep::OperandOf(const RunContext& context,
                                                const AttentionInputs& source, int64_t b,
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
CodedTokens AttentionStep::CodedPast(const RunContext& context, int64_t b, bool keys, int slot,
                                     int64_t count) const {
  const int64_t width = keys ? form.width : form.value_width, heads = form.kv_heads;
  return {TokenCodesOp::kDecode,      slot, b * heads, heads, 0, count, width, form.keys * width,
          JoinedFloats(context, keys)};
}

/// Memory for an image's keys or values with their past.
float* AttentionStep::JoinedFloats(const RunContext& context, bool keys) const {
  return reinterpret_cast<float*>(context.Write<uint8_t>(workspace) +
                                  (keys ? places.joined_keys : places.joined_values));
}

void AttentionStep::RunImage(const RunContext& context, const AttentionInputs& source,
                             int64_t b) const {
  const Operand k = OperandOf(context, source, b, true);
  const Operand v = OperandOf(context, source, b, false);
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
      own.key_stride = k.token;
      own.value_stride = v.token;
      SetMask(context, source, b, memory, own);
    }
    if (many > 1 || first % form.group() == 0) Pack(context, {lane, static_cast<size_t>(used)});
    for (int64_t query = 0; query < form.queries; query += panel) {
      RunPanel(context, source, b, query, {lane, static_cast<size_t>(used)});
    }
  }
}

void AttentionStep::SetMask(const RunContext& context, const AttentionInputs& source, int64_t b,
                            uint8_t* memory, Lane& lane) const {
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

void FinishScores(const AttentionForm& form, const AttentionInputs& source, int64_t head,
                  const ScoreRows& rows, const float* mask, int64_t mask_stride) {
  if (form.softcap != 0) CapScores(rows, form.softcap, mask, mask_stride);
  if (!form.sinks()) return;
  const float* sinks = source.data(form.sink_slot);
  SetSinks(rows, sinks ? sinks[head] : 0);
}

}  // namespace requant
