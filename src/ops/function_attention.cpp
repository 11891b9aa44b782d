// Attention of com.microsoft and MultiHeadAttention with a bias, by projections and a
// MultiHeadAttention without one (onnxruntime docs/ContribOperators.md).
#include "base/error.h"
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

void WriteMultiHead(FunctionText& text) {
  const int64_t q = LastDim(text, 0);
  const int64_t k = LastDim(text, 1);
  const int64_t v = LastDim(text, 2);
  const Node& node = text.node();
  for (const size_t slot : {size_t{0}, size_t{1}, size_t{2}}) {
    if (!text.Has(slot) ||
        (node.inputs[slot]->type.shape && node.inputs[slot]->type.shape->size() != 3)) {
      Fail(ErrorCode::kUnsupported, "MultiHeadAttention with packed operands and the input bias",
           {.hint = "add the bias before the operator"});
    }
  }
  if (q < 0 || k < 0 || v < 0) return text.Wait();
  SplitColumns(text, "%i3", {q, k, v}, 0, "%bq, %bk, %bv");
  for (const char* name : {"q", "k", "v"}) {
    text.Line(StrCat("%", name, " = Add(%i",
                     name[0] == 'q'   ? 0
                     : name[0] == 'k' ? 1
                                      : 2,
                     ", %b", name, ")"));
  }
  std::string inputs = "%q, %k, %v, _";
  for (size_t slot = 4; slot < node.inputs.size(); ++slot) {
    inputs += text.Has(slot) ? StrCat(", %i", slot) : ", _";
  }
  text.Line(StrCat("%y, %pk, %pv, %s = com.microsoft::MultiHeadAttention(", inputs, ") ",
                   text.AttributesWithout({})));
  for (const char* output : {"%y", "%pk", "%pv", "%s"}) text.Output(output);
}

/// Ends and starts [2 B] as a mask of every key: which of them lie in between.
void WriteRangeMask(FunctionText& text) {
  text.Ints("first", {0});
  text.Ints("row", {1, -1});
  text.Ints("column", {-1, 1});
  text.Line("const %i_zero: int64[] = {0}");
  text.Line("const %i_one: int64[] = {1}");
  text.Line("const %i_three: int64[] = {3}");
  text.Line("%x_shape = Shape(%i0)");
  text.Line("%images = Gather(%x_shape, %first)");
  text.Line("%fresh = Gather(%x_shape, %i_one)");
  std::string keys = "%fresh";
  if (text.Has(4)) {
    text.Line("%past_shape = Shape(%i4)");
    text.Line("%kept = Gather(%past_shape, %i_three)");
    text.Line("%keys = Add(%fresh, %kept)");
    keys = "%keys";
  }
  text.Line(StrCat("%places = Range(%i_zero, ", keys, ", %i_one)"));
  text.Line("%both = Add(%images, %images)");
  text.Line("%limits = Cast(%i3) {to = 7}");
  text.Line("%ends = Slice(%limits, %first, %images, %first)");
  text.Line("%starts = Slice(%limits, %images, %both, %first)");
  text.Line("%end = Reshape(%ends, %column)");
  text.Line("%start = Reshape(%starts, %column)");
  text.Line("%place = Reshape(%places, %row)");
  text.Line("%before = Less(%place, %start)");
  text.Line("%begun = Not(%before)");
  text.Line("%going = Less(%place, %end)");
  text.Line("%seen = And(%begun, %going)");
  text.Line("%range_mask = Cast(%seen) {to = 6}");
}

/// Whether the mask has two numbers for each image.
bool HasRangeMask(const Node& node) {
  const Value* mask = node.input(3);
  const Value* x = node.input(0);
  return mask && mask->type.shape->size() == 1 && x->type.shape && !x->type.shape->empty() &&
         (*x->type.shape)[0].known() &&
         (*mask->type.shape)[0] == Dim(2 * (*x->type.shape)[0].value);
}

}  // namespace

bool HasAttentionBias(const Node& node) {
  return node.Is("MultiHeadAttention", kMicrosoftDomain) && node.input(3) != nullptr;
}

std::unique_ptr<Graph> ExpandMultiHeadAttention(const Graph& graph, const Node& node) {
  return HasAttentionBias(node) ? GraphOfText(graph, node, WriteMultiHead) : nullptr;
}

/// x [B, S, I], weights [I, Q + K + V], bias [Q + K + V], mask, past [2, B, N, P, H], attention
/// bias.
void WritePackedAttention(FunctionText& text) {
  const Node& node = text.node();
  const AttributeMap& attributes = node.attributes;
  const int64_t heads = attributes.Int("num_heads", 0);
  const int64_t columns = LastDim(text, 1);
  if (columns < 0 || (text.Has(3) && !node.inputs[3]->type.shape)) return text.Wait();
  if (attributes.Int("do_rotary", 0) != 0) {
    Fail(ErrorCode::kUnsupported, "com.microsoft::Attention with do_rotary",
         {.hint = "export RotaryEmbedding as an operator of its own"});
  }
  if (text.Has(6) || attributes.Int("past_present_share_buffer", 0) != 0) {
    Fail(ErrorCode::kUnsupported, "com.microsoft::Attention with past_present_share_buffer",
         {.hint = "export the model with a past that grows"});
  }
  if (text.Has(3) && node.inputs[3]->type.shape->size() == 4) {
    Fail(ErrorCode::kUnsupported, "com.microsoft::Attention with a mask_index of four dimensions");
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
  const bool range = HasRangeMask(node);
  if (range) WriteRangeMask(text);
  const std::string inputs =
      StrCat("%q, %k, %v, _, ",
             range         ? "%range_mask"
             : text.Has(3) ? "%i3"
                           : "_",
             ", ", text.Has(5) ? "%i5" : "_", text.Has(4) ? ", %kept0, %kept1" : "");
  text.Line(StrCat("%y, %pk, %pv = com.microsoft::MultiHeadAttention(", inputs, ") ",
                   text.AttributesWithout({"qkv_hidden_sizes", "do_rotary", "rotary_embedding_dim",
                                           "past_present_share_buffer"})));
  text.Output("%y");
  if (node.output(1) == nullptr) return;
  if (!text.Has(4)) text.Ints("zero", {0});
  for (const char* name : {"k", "v"}) {
    text.Line(StrCat("%p", name, "1 = Unsqueeze(%p", name, old ? ") {axes = [0]}" : ", %zero)"));
  }
  text.Line("%present = Concat(%pk1, %pv1) {axis = 0}");
  text.Output("%present");
}

}  // namespace requant
