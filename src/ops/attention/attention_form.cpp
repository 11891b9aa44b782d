// Reads inputs and attributes of the attention operators into an AttentionForm (attention.h).
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/attention/attention.h"
#include "ops/infer_util.h"

namespace requant {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

[[noreturn]] void Mismatch(const Node& node, const std::string& what) {
  Fail(ErrorCode::kShapeMismatch, StrCat(node.op_type, ": ", what));
}

[[noreturn]] void Unsupported(const Node& node, const std::string& what) {
  Fail(ErrorCode::kUnsupported, StrCat(node.op_type, " with ", what));
}

/// The shapes of a node's inputs.
struct Shapes {
  const Node& node;
  std::span<const Shape* const> shapes;

  bool has(size_t slot) const { return slot < shapes.size() && shapes[slot] != nullptr; }
  const Shape& At(size_t slot) const {
    if (!has(slot)) {
      Fail(ErrorCode::kInvalidModel, StrCat("input ", slot, " of ", node.op_type, " is missing"));
    }
    return *shapes[slot];
  }
  int32_t SlotIf(size_t slot) const { return has(slot) ? static_cast<int32_t>(slot) : -1; }
};

int64_t Positive(const Node& node, const char* attribute) {
  const int64_t value = node.attributes.Int(attribute, 0);
  if (value < 1) {
    Fail(ErrorCode::kInvalidModel, StrCat(node.op_type, " needs the attribute ", attribute));
  }
  return value;
}

int64_t DividedBy(const Node& node, int64_t size, int64_t heads, const char* what) {
  if (size % heads != 0) Mismatch(node, StrCat(size, " ", what, " for ", heads, " heads"));
  return size / heads;
}

/// [batch, tokens, heads * width]
HeadLayout Flat(int64_t tokens, int64_t row, int64_t width, int64_t offset = 0) {
  return {offset, CheckedMul64(tokens, row), width, row};
}
/// [batch, heads, tokens, width]
HeadLayout ByHead(int64_t heads, int64_t tokens, int64_t width) {
  const int64_t head = CheckedMul64(tokens, width);
  return {0, CheckedMul64(heads, head), head, width};
}

/// Reads the past of k and v: [batch, kv_heads, past, width].
void ReadPast(const Shapes& in, size_t slot, AttentionForm& form) {
  if (in.has(slot) != in.has(slot + 1)) {
    Fail(ErrorCode::kInvalidModel,
         StrCat(in.node.op_type, " has the past of only one of key and value"));
  }
  if (!in.has(slot)) return;
  const Shape& k = in.At(slot);
  const Shape& v = in.At(slot + 1);
  if (k.size() != 4 || k[0] != form.batch || k[1] != form.kv_heads || k[3] != form.width ||
      v != Shape{form.batch, form.kv_heads, k[2], form.value_width}) {
    Mismatch(in.node, StrCat("a past of ", ShapeToString(k), " and ", ShapeToString(v)));
  }
  form.past = k[2];
  form.past_k_slot = static_cast<int32_t>(slot);
  form.past_v_slot = static_cast<int32_t>(slot + 1);
}

/// Reads a mask that broadcasts to [batch, heads, queries, keys]. With `pads` its last dimension
/// may be shorter; the keys beyond it are forbidden.
void ReadMask(const Shapes& in, size_t slot, bool pads, AttentionForm& form) {
  form.mask_slot = in.SlotIf(slot);
  form.mask_pads = pads;
  if (form.mask_slot < 0) return;
  const Shape& mask = in.At(slot);
  const Shape whole = {form.batch, form.heads, form.queries, form.keys};
  bool fits = !mask.empty() && mask.size() <= 4;
  for (size_t i = 0; fits && i < mask.size(); ++i) {
    const int64_t size = mask[mask.size() - 1 - i];
    const int64_t most = whole[3 - i];
    fits = size == most || (i == 0 && pads ? size < most : size == 1);
  }
  if (!fits) {
    Mismatch(in.node,
             StrCat("a mask of ", ShapeToString(mask), " for scores of ", ShapeToString(whole)));
  }
}

void Complete(const Node& node, AttentionForm& form) {
  if (form.heads % form.kv_heads != 0) {
    Mismatch(node, StrCat(form.heads, " heads of queries share ", form.kv_heads, " of keys"));
  }
  const float scale = node.attributes.Float("scale", 0);
  const bool given = scale != 0 && node.attributes.Has("scale");
  form.scale = given ? scale : 1.0F / std::sqrt(static_cast<float>(form.width));
  form.softcap = node.attributes.Float("softcap", 0);
  // Every product of these sizes fits, so later sizes need no checks.
  const int64_t scores = CheckedMul64(CheckedMul64(form.batch, form.heads),
                                      CheckedMul64(form.queries, CheckedMul64(form.keys, 8)));
  CheckedMul64(scores, std::max<int64_t>(1, form.width));
}

/// Attention of ONNX: q, k, v, mask, past k, past v, lengths (docs/Operators.md). HeadsAttention
/// has sinks behind them.
AttentionForm OnnxForm(const Shapes& in) {
  const Node& node = in.node;
  AttentionForm form;
  const Shape& q = in.At(0);
  const Shape& k = in.At(1);
  const Shape& v = in.At(2);
  if ((q.size() != 3 && q.size() != 4) || k.size() != q.size() || v.size() != q.size() ||
      k[0] != q[0] || v[0] != q[0]) {
    Mismatch(node, StrCat("q, k and v are ", ShapeToString(q), ", ", ShapeToString(k), " and ",
                          ShapeToString(v)));
  }
  form.batch = q[0];
  if (q.size() == 3) {
    form.heads = Positive(node, "q_num_heads");
    form.kv_heads = Positive(node, "kv_num_heads");
    form.queries = q[1];
    form.fresh = k[1];
    form.width = DividedBy(node, q[2], form.heads, "columns of q");
    form.value_width = DividedBy(node, v[2], form.kv_heads, "columns of v");
    if (k[2] != form.kv_heads * form.width || v[1] != k[1]) {
      Mismatch(node, StrCat("k and v are ", ShapeToString(k), " and ", ShapeToString(v)));
    }
    form.q = Flat(q[1], q[2], form.width);
    form.k = Flat(k[1], k[2], form.width);
    form.v = Flat(v[1], v[2], form.value_width);
    form.y = Flat(q[1], form.heads * form.value_width, form.value_width);
  } else {
    form.heads = q[1];
    form.kv_heads = std::max<int64_t>(1, k[1]);
    form.queries = q[2];
    form.fresh = k[2];
    form.width = q[3];
    form.value_width = v[3];
    if (k[3] != form.width || v[1] != k[1] || v[2] != k[2]) {
      Mismatch(node, StrCat("k and v are ", ShapeToString(k), " and ", ShapeToString(v)));
    }
    form.q = ByHead(form.heads, form.queries, form.width);
    form.k = ByHead(k[1], form.fresh, form.width);
    form.v = ByHead(k[1], form.fresh, form.value_width);
    form.y = ByHead(form.heads, form.queries, form.value_width);
  }
  ReadPast(in, 4, form);
  form.keys = CheckedAdd64(form.past, form.fresh);
  form.forbidden = form.hidden = -kInfinity;
  ReadMask(in, 3, true, form);
  form.causal = node.attributes.Int("is_causal", 0) != 0;
  form.lengths_slot = in.SlotIf(6);
  if (form.lengths_slot >= 0) {
    if (in.At(6) != Shape{form.batch}) {
      Mismatch(node, StrCat("lengths are ", ShapeToString(in.At(6))));
    }
    if (form.past_k_slot >= 0) Unsupported(node, "both a past and nonpad_kv_seqlen");
  }
  if (!node.Is(Op::kHeadsAttention)) return form;
  if (q.size() != 4) Mismatch(node, StrCat("a query of ", ShapeToString(q)));
  if (node.attributes.Int("by_token", 0) != 0) {
    form.y = Flat(form.queries, form.heads * form.value_width, form.value_width);
  }
  form.sink_slot = in.SlotIf(7);
  if (form.sink_slot >= 0 && in.At(7) != Shape{form.heads}) {
    Mismatch(node, StrCat("sinks of ", ShapeToString(in.At(7))));
  }
  return form;
}

/// q [batch, queries, heads, 3, width], or k [batch, keys, heads, 2, width]: one tensor of all
/// operands.
HeadLayout Interleaved(const Shape& shape, int64_t part) {
  const int64_t width = shape[4];
  const int64_t head = shape[3] * width;
  return {part * width, shape[1] * shape[2] * head, head, shape[2] * head};
}

/// MultiHeadAttention: q, k, v, bias, key padding, mask, past k, past v.
AttentionForm MultiHeadForm(const Shapes& in) {
  const Node& node = in.node;
  AttentionForm form;
  const Shape& q = in.At(0);
  form.heads = form.kv_heads = Positive(node, "num_heads");
  if (q.size() != 3 && q.size() != 5) Mismatch(node, StrCat("a query of ", ShapeToString(q)));
  form.batch = q[0];
  form.queries = q[1];
  const auto packed = [&](const Shape& shape, int64_t parts) {
    if (shape[0] != form.batch || shape[2] != form.heads || shape[3] != parts) {
      Mismatch(node, StrCat("packed operands of ", ShapeToString(shape)));
    }
  };
  if (q.size() == 5) {
    packed(q, 3);
    form.width = form.value_width = q[4];
    form.fresh = q[1];
    form.k_slot = form.v_slot = 0;
    form.q = Interleaved(q, 0);
    form.k = Interleaved(q, 1);
    form.v = Interleaved(q, 2);
  } else {
    form.width = DividedBy(node, q[2], form.heads, "columns of the query");
    form.q = Flat(q[1], q[2], form.width);
    const Shape& k = in.At(1);
    if (k.size() == 5) {
      packed(k, 2);
      if (k[4] != form.width) Mismatch(node, StrCat("keys of ", ShapeToString(k)));
      form.value_width = k[4];
      form.fresh = k[1];
      form.v_slot = 1;
      form.k = Interleaved(k, 0);
      form.v = Interleaved(k, 1);
    } else {
      const Shape& v = in.At(2);
      const bool by_head = k.size() == 4;  // cross attention has keys by head
      if ((k.size() != 3 && !by_head) || v.size() != k.size() || k[0] != form.batch ||
          v[0] != form.batch) {
        Mismatch(node, StrCat("k and v are ", ShapeToString(k), " and ", ShapeToString(v)));
      }
      form.fresh = k[by_head ? 2 : 1];
      const int64_t columns = by_head ? CheckedMul64(v[1], v[3]) : v[2];
      form.value_width = DividedBy(node, columns, form.heads, "columns of the value");
      const bool fits = by_head ? k[1] == form.heads && k[3] == form.width && v[1] == k[1]
                                : k[2] == form.heads * form.width;
      if (!fits || v[by_head ? 2 : 1] != form.fresh) {
        Mismatch(node, StrCat("k and v are ", ShapeToString(k), " and ", ShapeToString(v)));
      }
      form.k =
          by_head ? ByHead(form.heads, form.fresh, form.width) : Flat(form.fresh, k[2], form.width);
      form.v = by_head ? ByHead(form.heads, form.fresh, form.value_width)
                       : Flat(form.fresh, v[2], form.value_width);
    }
  }
  form.y = Flat(form.queries, form.heads * form.value_width, form.value_width);
  if (in.has(3) && q.size() == 3 && in.At(1).size() == 3 &&
      in.At(3) != Shape{2 * q[2] + in.At(2)[2]}) {
    Mismatch(node, StrCat("a bias of ", ShapeToString(in.At(3))));
  }
  ReadPast(in, 6, form);
  if (in.has(8) || in.has(9)) Unsupported(node, "past_sequence_length or cache_indirection");
  form.keys = CheckedAdd64(form.past, form.fresh);
  form.forbidden = node.attributes.Float("mask_filter_value", -10000.0F);
  form.hidden = -kInfinity;
  ReadMask(in, 5, false, form);
  form.causal = node.attributes.Int("unidirectional", 0) != 0;
  form.padding_slot = in.SlotIf(4);
  if (form.padding_slot >= 0) {
    const Shape& padding = in.At(4);
    const bool fits = padding == Shape{form.batch} || padding == Shape{form.batch, form.keys} ||
                      padding == Shape{form.batch, form.queries, form.keys};
    if (padding == Shape{3 * form.batch + 2}) Unsupported(node, "cumulated lengths as its mask");
    if (!fits) {
      Mismatch(node, StrCat("a key padding mask of ", ShapeToString(padding), " for ", form.queries,
                            " queries and ", form.keys, " keys"));
    }
  }
  return form;
}

/// GroupQueryAttention: q, k, v, past k, past v, lengths less one, largest length, cos, sin,
/// positions, mask, sinks.
AttentionForm GroupQueryForm(const Shapes& in, int64_t total) {
  const Node& node = in.node;
  AttentionForm form;
  form.heads = Positive(node, "num_heads");
  form.kv_heads = Positive(node, "kv_num_heads");
  form.smooth = node.attributes.Int("smooth_softmax", 0) == 1;
  form.sink_slot = in.SlotIf(11);
  if (form.sink_slot >= 0 && in.At(11) != Shape{form.heads}) {
    Mismatch(node, StrCat("a head_sink of ", ShapeToString(in.At(11))));
  }
  for (const char* bits : {"k_quant_type", "v_quant_type"}) {
    const std::string type = node.attributes.String(bits, "NONE");
    if (type != "NONE") Unsupported(node, StrCat(bits, " ", type));
  }
  const Shape& q = in.At(0);
  if (q.size() != 3) Mismatch(node, StrCat("a query of ", ShapeToString(q)));
  form.batch = q[0];
  form.queries = form.fresh = q[1];
  const bool packed = !in.has(1);
  form.width = DividedBy(node, q[2], packed ? form.heads + 2 * form.kv_heads : form.heads,
                         "columns of the query");
  form.value_width = form.width;
  form.q = Flat(q[1], q[2], form.width);
  if (packed) {
    form.k_slot = form.v_slot = 0;
    form.k = Flat(q[1], q[2], form.width, form.heads * form.width);
    form.v = Flat(q[1], q[2], form.width, (form.heads + form.kv_heads) * form.width);
  } else {
    const Shape row = {form.batch, form.queries, form.kv_heads * form.width};
    if (in.At(1) != row || in.At(2) != row) {
      Mismatch(node, StrCat("k and v are ", ShapeToString(in.At(1)), " and ",
                            ShapeToString(in.At(2)), ", not ", ShapeToString(row)));
    }
    form.k = form.v = Flat(q[1], row[2], form.width);
  }
  form.y = Flat(q[1], form.heads * form.width, form.width);
  ReadPast(in, 3, form);
  form.lengths_slot = 5;
  if (NumElements(in.At(5)) != form.batch) {
    Mismatch(node, StrCat("lengths are ", ShapeToString(in.At(5))));
  }
  if (total < form.queries) Mismatch(node, StrCat("a total length of ", total));
  form.cached = form.causal = true;
  form.first = total == form.queries;
  form.window = node.attributes.Int("local_window_size", -1);
  form.hidden = form.forbidden = -kInfinity;
  form.keys = std::max(form.past, total);
  ReadMask(in, 10, false, form);
  if (node.attributes.Int("do_rotary", 0) != 0) {
    const Shape& cos = in.At(7);
    form.cos_slot = 7;
    form.sin_slot = 8;
    form.positions_slot = in.SlotIf(9);
    form.interleaved = node.attributes.Int("rotary_interleaved", 0) != 0;
    if (cos.size() != 2 || in.At(8) != cos || cos[1] * 2 > form.width) {
      Mismatch(node, StrCat("rotary caches of ", ShapeToString(cos)));
    }
    form.rotary_positions = cos[0];
    form.rotary_half = cos[1];
    if (form.positions_slot >= 0 && in.At(9) != Shape{form.batch, form.queries}) {
      Mismatch(node, StrCat("positions are ", ShapeToString(in.At(9))));
    }
  }
  return form;
}

}  // namespace

bool HasAttentionBias(const Node& node) {
  return node.Is(Op::kMultiHeadAttention) && node.input(3) != nullptr;
}

AttentionForm AttentionFormOf(const Node& node, std::span<const Shape* const> shapes,
                              int64_t total) {
  const Shapes in{node, shapes};
  AttentionForm form = HasOnnxOperands(node)              ? OnnxForm(in)
                       : node.Is(Op::kMultiHeadAttention) ? MultiHeadForm(in)
                                                          : GroupQueryForm(in, total);
  Complete(node, form);
  return form;
}

}  // namespace requant
