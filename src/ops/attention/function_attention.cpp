// Bodies of Attention and QAttention of com.microsoft and of MultiHeadAttention with a bias:
// projections and a MultiHeadAttention without a bias (onnxruntime docs/ContribOperators.md).
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/attention/attention.h"
#include "ops/function/function_text.h"

namespace requant {
namespace {

/// Writes %q, %k, %v = the columns of `whole`, of these widths.
void SplitColumns(FunctionText& text, const std::string& whole, const std::vector<int64_t>& widths,
                  int axis, const char* names) {
  if (text.opset() < 13) {
    std::string list;
    for (const int64_t width : widths) list += StrCat(list.empty() ? "" : ", ", width);
    text.Line("$0 = Split($1) {axis = $2, split = [$3]}", names, whole, axis, list);
    return;
  }
  text.Ints("widths", widths);
  text.Line("$0 = Split($1, %widths) {axis = $2}", names, whole, axis);
}

/// The number of columns of an input, as far as it is known.
int64_t LastDim(const FunctionText& text, size_t slot) {
  const Value* value = text.node().input(slot);
  if (value == nullptr || !value->type.shape || value->type.shape->empty()) return -1;
  return value->type.shape->back().value;
}

/// The bias [Q + K + V] is divided at the operands' widths, which need not be known yet.
void WriteMultiHead(FunctionText& text) {
  const Node& node = text.node();
  for (const size_t slot : {size_t{0}, size_t{1}, size_t{2}}) {
    if (!text.Has(slot) ||
        (node.inputs[slot]->type.shape && node.inputs[slot]->type.shape->size() != 3)) {
      Fail(ErrorCode::kUnsupported, "MultiHeadAttention with packed operands and the input bias",
           {.hint = "add the bias before the operator"});
    }
    if (!node.inputs[slot]->type.shape) return text.Wait();
  }
  const std::vector<int64_t> widths = {LastDim(text, 0), LastDim(text, 1), LastDim(text, 2)};
  if (*std::min_element(widths.begin(), widths.end()) >= 0) {
    SplitColumns(text, "%i3", widths, 0, "%bq, %bk, %bv");
  } else if (text.opset() < 10) {
    return text.Wait();  // Slice takes no dynamic ends
  } else {
    text.Ints("zero", {0});
    text.Ints("last", {2});
    text.Line(
        "%q_shape = Shape(%i0)\n"
        "%k_shape = Shape(%i1)\n"
        "%v_shape = Shape(%i2)\n"
        "%q_end = Gather(%q_shape, %last)\n"
        "%k_size = Gather(%k_shape, %last)\n"
        "%v_size = Gather(%v_shape, %last)\n"
        "%k_end = Add(%q_end, %k_size)\n"
        "%v_end = Add(%k_end, %v_size)\n"
        "%bq = Slice(%i3, %zero, %q_end, %zero)\n"
        "%bk = Slice(%i3, %q_end, %k_end, %zero)\n"
        "%bv = Slice(%i3, %k_end, %v_end, %zero)");
  }
  text.Line(
      "%q = Add(%i0, %bq)\n"
      "%k = Add(%i1, %bk)\n"
      "%v = Add(%i2, %bv)");
  std::string inputs = "%q, %k, %v, _";
  for (size_t slot = 4; slot < node.inputs.size(); ++slot) {
    inputs += text.Has(slot) ? StrCat(", %i", slot) : ", _";
  }
  text.Line("%y, %pk, %pv, %s = com.microsoft::MultiHeadAttention($0) $1", inputs,
            text.AttributesWithout({}));
  for (const char* output : {"%y", "%pk", "%pv", "%s"}) text.Output(output);
}

/// The slots of the operands behind x, weights and bias.
struct PackedSlots {
  size_t mask, past, bias, length;
};
PackedSlots SlotsOf(const Node& node) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  return node.op_type == "QAttention" ? PackedSlots{5, 8, kNone, kNone} : PackedSlots{3, 4, 5, 6};
}

/// Writes the numbers of queries and of keys. Keys are those of a buffer (`shared`), or the past's
/// and the new ones; `places` numbers them.
void WriteCounts(FunctionText& text, const PackedSlots& slots, bool shared) {
  text.Ints("first", {0});
  text.Ints("column", {-1, 1});
  text.Line(
      "const %i_zero: int64[] = {0}\n"
      "const %i_one: int64[] = {1}\n"
      "const %i_three: int64[] = {3}\n"
      "%x_shape = Shape(%i0)\n"
      "%fresh = Gather(%x_shape, %i_one)");
  if (text.Has(slots.past)) {
    text.Line("%past_shape = Shape(%i$0)", slots.past);
    text.Line("%kept = Gather(%past_shape, %i_three)");
    text.Line(shared ? "%keys = Identity(%kept)" : "%keys = Add(%fresh, %kept)");
  } else {
    text.Line("%keys = Identity(%fresh)");
  }
  text.Line("%places = Range(%i_zero, %keys, %i_one)");
}

/// Writes a mask of every key from ends and starts [2 B]: a key between them is seen. When the mask
/// `may` hold only ends [B], or ends and cumulated lengths [3 B + 2], which is known at run time,
/// all starts are 0, as in ONNX Runtime (contrib_ops/cpu/bert/attention_helper.h, PrepareMask).
void WriteRangeMask(FunctionText& text, const std::string& mask, bool may) {
  text.Ints("row", {1, -1});
  text.Line(
      "%images = Gather(%x_shape, %first)\n"
      "%both = Add(%images, %images)");
  text.Line("%limits = Cast($0) {to = 7}", mask);
  text.Line("%ends = Slice(%limits, %first, %images, %first)");
  if (may) {
    text.Line(
        "%none = Sub(%ends, %ends)\n"
        "%padded = Concat(%limits, %none) {axis = 0}\n"
        "%second = Slice(%padded, %images, %both, %first)\n"
        "%count = Shape(%limits)\n"
        "%ranged = Equal(%count, %both)\n"
        "%starts = Where(%ranged, %second, %none)");
  } else {
    text.Line("%starts = Slice(%limits, %images, %both, %first)");
  }
  text.Line(
      "%end = Reshape(%ends, %column)\n"
      "%start = Reshape(%starts, %column)\n"
      "%place = Reshape(%places, %row)\n"
      "%before = Less(%place, %start)\n"
      "%begun = Not(%before)\n"
      "%going = Less(%place, %end)\n"
      "%seen = And(%begun, %going)\n"
      "%range_mask = Cast(%seen) {to = 6}");
}

/// Writes a mask cut out of squares [B, 1, M, M] for the largest number of tokens: the rows of the
/// queries, which follow the past, and the columns of the keys.
void WriteSquareMask(FunctionText& text, const PackedSlots& slots, bool shared) {
  const char* before = shared ? "%written" : text.Has(slots.past) ? "%kept" : "%i_zero";
  text.Ints("axis1", {1});
  text.Line("%queries = Range(%i_zero, %fresh, %i_one)");
  text.Line("%rows = Add(%queries, $0)", before);
  text.Line("%row_masks = Gather(%i$0, %rows) {axis = 2}", slots.mask);
  text.Line("%square_mask = Gather(%row_masks, %places) {axis = 3}");
  text.Line(text.opset() < 13 ? "%picked_mask = Squeeze(%square_mask) {axes = [1]}"
                              : "%picked_mask = Squeeze(%square_mask, %axis1)");
}

/// Widens an operand for the existing keys, [..., past and new ones], to the keys of a buffer;
/// %hide hides the rest.
std::string Widened(FunctionText& text, size_t slot, size_t rank) {
  text.Line(
      "const %axis$0: int64[] = {$1}\n"
      "%dims$0 = Shape(%i$0)\n"
      "%size$0 = Gather(%dims$0, %axis$0)\n"
      "%there$0 = Less(%places, %size$0)\n"
      "%from$0 = Where(%there$0, %places, %i_zero)\n"
      "%wide$0 = Gather(%i$0, %from$0) {axis = $1}",
      slot, rank - 1);
  return StrCat("%wide", slot);
}

/// Writes keys and values in buffers [B, N, M, H] of which %written tokens exist: the new ones go
/// behind them (%k_all, %v_all), and keys that a query must not see get %hide.
void WriteBuffers(FunctionText& text, int64_t heads) {
  text.Ints("heads_shape", {0, 0, heads, -1});
  text.Line(
      "%offset = Sub(%places, %written)\n"
      "%old = Less(%offset, %i_zero)\n"
      "%not_old = Not(%old)\n"
      "%not_behind = Less(%offset, %fresh)\n"
      "%is_new = And(%not_old, %not_behind)\n"
      "%source = Where(%is_new, %offset, %i_zero)\n"
      "%new_column = Reshape(%is_new, %column)");
  for (const char* name : {"k", "v"}) {
    const char* kept = name[0] == 'k' ? "%kept0" : "%kept1";
    text.Line(
        "%$0_split = Reshape(%$0, %heads_shape)\n"
        "%$0_heads = Transpose(%$0_split) {perm = [0, 2, 1, 3]}\n"
        "%$0_new = Gather(%$0_heads, %source) {axis = 2}\n"
        "%$0_all = Where(%new_column, %$0_new, $1)",
        name, kept);
  }
  // Query i sees the keys before its limit.
  const bool causal = text.node().attributes.Int("unidirectional", 0) != 0;
  text.Line(causal ? "%seen_keys = Range(%i_one, %behind, %i_one)"
                   : "%seen_keys = Reshape(%fresh, %column)");
  text.Line(
      "%limits_flat = Add(%seen_keys, %written)\n"
      "%limit = Reshape(%limits_flat, %column)\n"
      "%visible = Less(%places, %limit)");
  text.Scalar("nothing", 0);
  text.Scalar("least", -std::numeric_limits<double>::infinity());
  text.Line("%hide = Where(%visible, %nothing, %least)");
}

/// The meaning of the numbers in a mask of one dimension.
enum class FlatMask : uint8_t { kNone, kEnds, kRanges, kUnknown };
FlatMask FlatMaskOf(const Node& node, const Value* mask) {
  if (mask == nullptr || mask->type.shape->size() != 1) return FlatMask::kNone;
  const std::optional<SymbolicShape>& x = node.inputs[0]->type.shape;
  const Dim& count = (*mask->type.shape)[0];
  const Dim images = x && !x->empty() ? (*x)[0] : Dim();
  if (!images.known() || !count.known()) {
    return !images.symbol.empty() && count == images ? FlatMask::kEnds : FlatMask::kUnknown;
  }
  if (count == images) return FlatMask::kEnds;
  if (count.value == 2 * images.value) return FlatMask::kRanges;
  if (count.value == 3 * images.value + 2) return FlatMask::kUnknown;
  Fail(ErrorCode::kShapeMismatch, StrCat("com.microsoft::Attention with a mask of ", count.value,
                                         " numbers for ", images.value, " images"));
}

}  // namespace

std::unique_ptr<Graph> ExpandMultiHeadAttention(const Graph& graph, const Node& node) {
  return HasAttentionBias(node) ? GraphOfText(graph, node, WriteMultiHead) : nullptr;
}

/// Attention has the inputs x [B, S, I], weights [I, Q + K + V], bias [Q + K + V], mask, past [2,
/// B, N, P, H], attention bias, length of the past. With past_present_share_buffer the past is a
/// buffer with room for more, and the present the same buffer with the new keys and values.
/// QAttention has x, weights, bias, scales of x and weights, mask, zero points of x and weights,
/// past.
void WritePackedAttention(FunctionText& text) {
  const Node& node = text.node();
  const AttributeMap& attributes = node.attributes;
  const int64_t heads = attributes.Int("num_heads", 0);
  const int64_t columns = LastDim(text, 1);
  const PackedSlots slots = SlotsOf(node);
  const Value* mask_value = node.input(slots.mask);
  if (columns < 0 || (mask_value && !mask_value->type.shape)) return text.Wait();
  if (attributes.Int("do_rotary", 0) != 0) {
    // The documentation specifies neither the angles nor the columns that rotate together.
    Fail(ErrorCode::kUnsupported, StrCat("com.microsoft::", node.op_type, " with do_rotary"),
         {.hint = "export RotaryEmbedding as an operator of its own"});
  }
  const bool shared = attributes.Int("past_present_share_buffer", 0) != 0;
  if (shared && !(text.Has(slots.past) && text.Has(slots.length))) {
    Fail(ErrorCode::kInvalidModel,
         StrCat("com.microsoft::", node.op_type,
                " with past_present_share_buffer and without past or past_sequence_length"));
  }
  std::vector<int64_t> widths = attributes.Ints("qkv_hidden_sizes");
  if (widths.empty()) widths.assign(3, columns / 3);
  if (heads < 1 || widths.size() != 3 || widths[0] + widths[1] + widths[2] != columns ||
      widths[0] != widths[1] || widths[0] % heads != 0 || widths[2] % heads != 0) {
    Fail(ErrorCode::kInvalidModel, StrCat("com.microsoft::", node.op_type, " of ", heads,
                                          " heads with ", columns, " columns"));
  }
  if (node.op_type == "QAttention") {
    text.Line("%product = com.microsoft::MatMulIntegerToFloat(%i0, %i1, %i3, %i4, ?6, ?7, ?2)");
    SplitColumns(text, "%product", widths, 2, "%q, %k, %v");
  } else {
    text.Line("%product = MatMul(%i0, %i1)");
    SplitColumns(text, text.Plus("%product", 2), widths, 2, "%q, %k, %v");
  }
  // The past holds keys and values one behind the other.
  const bool old = text.opset() < 13;
  if (text.Has(slots.past)) {
    text.Ints("zero", {0});
    text.Ints("one", {1});
    text.Ints("two", {2});
    text.Line(
        "%past0 = Slice(%i$0, %zero, %one, %zero)\n"
        "%past1 = Slice(%i$0, %one, %two, %zero)",
        slots.past);
    for (const char* i : {"0", "1"}) {
      text.Line("%kept$0 = Squeeze(%past$1$2", i, i, old ? ") {axes = [0]}" : ", %zero)");
    }
  }
  const size_t mask_rank = mask_value ? mask_value->type.shape->size() : 0;
  const FlatMask flat = FlatMaskOf(node, mask_value);
  const bool range = flat == FlatMask::kRanges || flat == FlatMask::kUnknown;
  if (shared || range || mask_rank == 4) WriteCounts(text, slots, shared);
  if (shared) {
    text.Line("const %scalar: int64[0] = {}");
    text.Line("%written_long = Cast(%i$0) {to = 7}", slots.length);
    text.Line(
        "%written = Reshape(%written_long, %scalar)\n"
        "%behind = Add(%fresh, %i_one)");
    WriteBuffers(text, heads);
  }
  const bool biased = text.Has(slots.bias);
  std::string mask = mask_value ? FunctionText::In(slots.mask) : "_";
  std::string bias = biased ? FunctionText::In(slots.bias) : "_";
  if (range) {
    WriteRangeMask(text, mask, flat == FlatMask::kUnknown);
    mask = "%range_mask";
  } else if (mask_rank == 4) {
    WriteSquareMask(text, slots, shared);
    mask = "%picked_mask";
  } else if (shared && mask_rank > 1) {
    mask = Widened(text, slots.mask, mask_rank);
  }
  if (shared) {
    if (biased) text.Line("%bias = Add($0, %hide)", Widened(text, slots.bias, 4));
    bias = biased ? "%bias" : "%hide";
    text.Line("%y = com.microsoft::MultiHeadAttention(%q, %k_all, %v_all, _, $0, $1) $2", mask,
              bias,
              text.AttributesWithout({"unidirectional", "qkv_hidden_sizes", "do_rotary",
                                      "rotary_embedding_dim", "past_present_share_buffer"}));
  } else {
    text.Line("%y, %k_all, %v_all = com.microsoft::MultiHeadAttention(%q, %k, %v, _, $0, $1$2$3",
              mask, bias, text.Has(slots.past) ? ", %kept0, %kept1) " : ") ",
              text.AttributesWithout({"qkv_hidden_sizes", "do_rotary", "rotary_embedding_dim",
                                      "past_present_share_buffer"}));
  }
  text.Output("%y");
  if (node.output(1) == nullptr) return;
  if (!text.Has(slots.past)) text.Ints("zero", {0});
  for (const char* name : {"k", "v"}) {
    text.Line("%$0_one = Unsqueeze(%$1$2", name, name, old ? "_all) {axes = [0]}" : "_all, %zero)");
  }
  text.Line("%present = Concat(%k_one, %v_one) {axis = 0}");
  text.Output("%present");
}

}  // namespace requant
