// Attention of com.microsoft and MultiHeadAttention with a bias, by projections and a
// MultiHeadAttention without one (onnxruntime docs/ContribOperators.md).
#include <algorithm>

#include "base/error.h"
#include "ops/attention.h"
#include "ops/function_text.h"

namespace requant {
namespace {

/// %q, %k, %v = the columns of `whole`, of these widths.
void SplitColumns(FunctionText& text, const std::string& whole, const std::vector<int64_t>& widths,
                  int axis, const char* names) {
  if (text.opset() < 13) {
    std::string list;
    for (const int64_t width : widths) list += StrCat(list.empty() ? "" : ", ", width);
    text.Line(StrCat(names, " = Split(", whole, ") {axis = ", axis, ", split = [", list, "]}"));
    return;
  }
  text.Ints("widths", widths);
  text.Line(StrCat(names, " = Split(", whole, ", %widths) {axis = ", axis, "}"));
}

/// The number of columns of an input, as far as it is known.
int64_t LastDim(const FunctionText& text, size_t slot) {
  const Value* value = text.node().input(slot);
  if (value == nullptr || !value->type.shape || value->type.shape->empty()) return -1;
  return value->type.shape->back().value;
}

/// The bias [Q + K + V] is cut where the operands end, which need not be known yet.
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
    return text.Wait();  // Slice takes no computed ends
  } else {
    text.Ints("zero", {0});
    text.Ints("last", {2});
    text.Line("%q_shape = Shape(%i0)");
    text.Line("%k_shape = Shape(%i1)");
    text.Line("%v_shape = Shape(%i2)");
    text.Line("%q_end = Gather(%q_shape, %last)");
    text.Line("%k_size = Gather(%k_shape, %last)");
    text.Line("%v_size = Gather(%v_shape, %last)");
    text.Line("%k_end = Add(%q_end, %k_size)");
    text.Line("%v_end = Add(%k_end, %v_size)");
    text.Line("%bq = Slice(%i3, %zero, %q_end, %zero)");
    text.Line("%bk = Slice(%i3, %q_end, %k_end, %zero)");
    text.Line("%bv = Slice(%i3, %k_end, %v_end, %zero)");
  }
  text.Line("%q = Add(%i0, %bq)");
  text.Line("%k = Add(%i1, %bk)");
  text.Line("%v = Add(%i2, %bv)");
  std::string inputs = "%q, %k, %v, _";
  for (size_t slot = 4; slot < node.inputs.size(); ++slot) {
    inputs += text.Has(slot) ? StrCat(", %i", slot) : ", _";
  }
  text.Line(StrCat("%y, %pk, %pv, %s = com.microsoft::MultiHeadAttention(", inputs, ") ",
                   text.AttributesWithout({})));
  for (const char* output : {"%y", "%pk", "%pv", "%s"}) text.Output(output);
}

/// How many queries there are, and keys: those of a buffer (`shared`) or the past's and the new
/// ones; `places` numbers them.
void WriteCounts(FunctionText& text, bool shared) {
  text.Ints("first", {0});
  text.Ints("column", {-1, 1});
  text.Line("const %i_zero: int64[] = {0}");
  text.Line("const %i_one: int64[] = {1}");
  text.Line("const %i_three: int64[] = {3}");
  text.Line("%x_shape = Shape(%i0)");
  text.Line("%fresh = Gather(%x_shape, %i_one)");
  if (text.Has(4)) {
    text.Line("%past_shape = Shape(%i4)");
    text.Line("%kept = Gather(%past_shape, %i_three)");
    text.Line(shared ? "%keys = Identity(%kept)" : "%keys = Add(%fresh, %kept)");
  } else {
    text.Line("%keys = Identity(%fresh)");
  }
  text.Line("%places = Range(%i_zero, %keys, %i_one)");
}

/// Ends and starts [2 B] as a mask of every key: which of them lie in between. When it `may` hold
/// only ends [B] or those and cumulated lengths [3 B + 2] as well, which is known when it runs:
/// then all start at 0, as in ONNX Runtime (contrib_ops/cpu/bert/attention_helper.h, PrepareMask).
void WriteRangeMask(FunctionText& text, bool may) {
  text.Ints("row", {1, -1});
  text.Line("%images = Gather(%x_shape, %first)");
  text.Line("%both = Add(%images, %images)");
  text.Line("%limits = Cast(%i3) {to = 7}");
  text.Line("%ends = Slice(%limits, %first, %images, %first)");
  if (may) {
    text.Line("%none = Sub(%ends, %ends)");
    text.Line("%padded = Concat(%limits, %none) {axis = 0}");
    text.Line("%second = Slice(%padded, %images, %both, %first)");
    text.Line("%count = Shape(%limits)");
    text.Line("%ranged = Equal(%count, %both)");
    text.Line("%starts = Where(%ranged, %second, %none)");
  } else {
    text.Line("%starts = Slice(%limits, %images, %both, %first)");
  }
  text.Line("%end = Reshape(%ends, %column)");
  text.Line("%start = Reshape(%starts, %column)");
  text.Line("%place = Reshape(%places, %row)");
  text.Line("%before = Less(%place, %start)");
  text.Line("%begun = Not(%before)");
  text.Line("%going = Less(%place, %end)");
  text.Line("%seen = And(%begun, %going)");
  text.Line("%range_mask = Cast(%seen) {to = 6}");
}

/// A mask of squares [B, 1, M, M] for as many tokens as there may ever be: the rows of the queries,
/// which stand behind the past, and the columns of the keys.
void WriteSquareMask(FunctionText& text, bool shared) {
  const char* before = shared ? "%written" : text.Has(4) ? "%kept" : "%i_zero";
  text.Ints("axis1", {1});
  text.Line("%queries = Range(%i_zero, %fresh, %i_one)");
  text.Line(StrCat("%rows = Add(%queries, ", before, ")"));
  text.Line("%row_masks = Gather(%i3, %rows) {axis = 2}");
  text.Line("%square_mask = Gather(%row_masks, %places) {axis = 3}");
  text.Line(text.opset() < 13 ? "%picked_mask = Squeeze(%square_mask) {axes = [1]}"
                              : "%picked_mask = Squeeze(%square_mask, %axis1)");
}

/// An operand for the keys that there are, [..., past and new ones], for those of a buffer: the
/// rest is hidden by %hide.
std::string Widened(FunctionText& text, size_t slot, size_t rank) {
  std::string name = StrCat("%wide", slot);
  text.Line(StrCat("const ", name, "_axis: int64[] = {", rank - 1, "}"));
  text.Line(StrCat(name, "_shape = Shape(%i", slot, ")"));
  text.Line(StrCat(name, "_size = Gather(", name, "_shape, ", name, "_axis)"));
  text.Line(StrCat(name, "_there = Less(%places, ", name, "_size)"));
  text.Line(StrCat(name, "_from = Where(", name, "_there, %places, %i_zero)"));
  text.Line(StrCat(name, " = Gather(%i", slot, ", ", name, "_from) {axis = ", rank - 1, "}"));
  return name;
}

/// Keys and values in buffers [B, N, M, H] of which %written tokens are there: the new ones are put
/// behind them (%k_all, %v_all), and whatever a query must not see gets %hide.
void WriteBuffers(FunctionText& text, int64_t heads) {
  text.Ints("heads_shape", {0, 0, heads, -1});
  text.Line("%offset = Sub(%places, %written)");
  text.Line("%old = Less(%offset, %i_zero)");
  text.Line("%not_old = Not(%old)");
  text.Line("%not_behind = Less(%offset, %fresh)");
  text.Line("%is_new = And(%not_old, %not_behind)");
  text.Line("%source = Where(%is_new, %offset, %i_zero)");
  text.Line("%new_column = Reshape(%is_new, %column)");
  for (const char* name : {"k", "v"}) {
    const char* kept = name[0] == 'k' ? "%kept0" : "%kept1";
    text.Line(StrCat("%", name, "_split = Reshape(%", name, ", %heads_shape)"));
    text.Line(StrCat("%", name, "_heads = Transpose(%", name, "_split) {perm = [0, 2, 1, 3]}"));
    text.Line(StrCat("%", name, "_new = Gather(%", name, "_heads, %source) {axis = 2}"));
    text.Line(StrCat("%", name, "_all = Where(%new_column, %", name, "_new, ", kept, ")"));
  }
  // Query i sees the keys before `limit`.
  const bool causal = text.node().attributes.Int("unidirectional", 0) != 0;
  text.Line(causal ? "%seen_keys = Range(%i_one, %behind, %i_one)"
                   : "%seen_keys = Reshape(%fresh, %column)");
  text.Line("%limits_flat = Add(%seen_keys, %written)");
  text.Line("%limit = Reshape(%limits_flat, %column)");
  text.Line("%visible = Less(%places, %limit)");
  text.Scalar("nothing", 0);
  text.Scalar("least", -1e38);
  text.Line("%hide = Where(%visible, %nothing, %least)");
}

/// What the numbers of a mask with one dimension are.
enum class FlatMask : uint8_t { kNone, kEnds, kRanges, kUnknown };
FlatMask FlatMaskOf(const Node& node) {
  const Value* mask = node.input(3);
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

/// x [B, S, I], weights [I, Q + K + V], bias [Q + K + V], mask, past [2, B, N, P, H], attention
/// bias, length of the past (past_present_share_buffer: the past is a buffer with more room, and
/// the present the same with the new keys and values in it).
void WritePackedAttention(FunctionText& text) {
  const Node& node = text.node();
  const AttributeMap& attributes = node.attributes;
  const int64_t heads = attributes.Int("num_heads", 0);
  const int64_t columns = LastDim(text, 1);
  if (columns < 0 || (text.Has(3) && !node.inputs[3]->type.shape)) return text.Wait();
  if (attributes.Int("do_rotary", 0) != 0) {
    // The documentation names neither the angles nor which columns are turned together.
    Fail(ErrorCode::kUnsupported, "com.microsoft::Attention with do_rotary",
         {.hint = "export RotaryEmbedding as an operator of its own"});
  }
  const bool shared = attributes.Int("past_present_share_buffer", 0) != 0;
  if (shared && !(text.Has(4) && text.Has(6))) {
    Fail(ErrorCode::kInvalidModel,
         "com.microsoft::Attention with past_present_share_buffer and without past or "
         "past_sequence_length");
  }
  std::vector<int64_t> widths = attributes.Ints("qkv_hidden_sizes");
  if (widths.empty()) widths.assign(3, columns / 3);
  if (heads < 1 || widths.size() != 3 || widths[0] + widths[1] + widths[2] != columns ||
      widths[0] != widths[1] || widths[0] % heads != 0 || widths[2] % heads != 0) {
    Fail(ErrorCode::kInvalidModel,
         StrCat("com.microsoft::Attention of ", heads, " heads with ", columns, " columns"));
  }
  text.Line("%product = MatMul(%i0, %i1)");
  SplitColumns(text, text.Plus("%product", 2), widths, 2, "%q, %k, %v");
  // The past holds keys and values one behind the other.
  const bool old = text.opset() < 13;
  if (text.Has(4)) {
    text.Ints("zero", {0});
    text.Ints("one", {1});
    text.Ints("two", {2});
    text.Line("%past0 = Slice(%i4, %zero, %one, %zero)");
    text.Line("%past1 = Slice(%i4, %one, %two, %zero)");
    for (const char* i : {"0", "1"}) {
      text.Line(StrCat("%kept", i, " = Squeeze(%past", i, old ? ") {axes = [0]}" : ", %zero)"));
    }
  }
  const size_t mask_rank = text.Has(3) ? node.inputs[3]->type.shape->size() : 0;
  const FlatMask flat = FlatMaskOf(node);
  const bool range = flat == FlatMask::kRanges || flat == FlatMask::kUnknown;
  if (shared || range || mask_rank == 4) WriteCounts(text, shared);
  if (shared) {
    text.Line("const %scalar: int64[0] = {}");
    text.Line("%written_long = Cast(%i6) {to = 7}");
    text.Line("%written = Reshape(%written_long, %scalar)");
    text.Line("%behind = Add(%fresh, %i_one)");
    WriteBuffers(text, heads);
  }
  std::string mask = text.Has(3) ? "%i3" : "_";
  std::string bias = text.Has(5) ? "%i5" : "_";
  if (range) {
    WriteRangeMask(text, flat == FlatMask::kUnknown);
    mask = "%range_mask";
  } else if (mask_rank == 4) {
    WriteSquareMask(text, shared);
    mask = "%picked_mask";
  } else if (shared && mask_rank > 1) {
    mask = Widened(text, 3, mask_rank);
  }
  if (shared) {
    if (text.Has(5)) text.Line(StrCat("%bias = Add(", Widened(text, 5, 4), ", %hide)"));
    bias = text.Has(5) ? "%bias" : "%hide";
    text.Line(StrCat(
        "%y = com.microsoft::MultiHeadAttention(%q, %k_all, %v_all, _, ", mask, ", ", bias, ") ",
        text.AttributesWithout({"unidirectional", "qkv_hidden_sizes", "do_rotary",
                                "rotary_embedding_dim", "past_present_share_buffer"})));
  } else {
    text.Line(
        StrCat("%y, %k_all, %v_all = com.microsoft::MultiHeadAttention(%q, %k, %v, _, ", mask, ", ",
               bias, text.Has(4) ? ", %kept0, %kept1) " : ") ",
               text.AttributesWithout({"qkv_hidden_sizes", "do_rotary", "rotary_embedding_dim",
                                       "past_present_share_buffer"})));
  }
  text.Output("%y");
  if (node.output(1) == nullptr) return;
  if (!text.Has(4)) text.Ints("zero", {0});
  for (const char* name : {"k", "v"}) {
    text.Line(
        StrCat("%", name, "_one = Unsqueeze(%", name, old ? "_all) {axes = [0]}" : "_all, %zero)"));
  }
  text.Line("%present = Concat(%k_one, %v_one) {axis = 0}");
  text.Output("%present");
}

}  // namespace requant
