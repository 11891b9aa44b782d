// Bodies of com.microsoft operators of transformers and diffusion networks (onnxruntime
// docs/ContribOperators.md): BiasSplitGelu, GroupNorm, QEmbedLayerNormalization,
// DecoderMaskedMultiHeadAttention, GatedRelativePositionBias.
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/function/function_text.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

void BiasSplitGelu(FunctionText& text) {
  text.Line(
      "%s = Add(%i0, %i1)\n"
      "%l, %r = Split(%s) {axis = -1$0}\n"
      "%g = com.microsoft::Gelu(%r)\n"
      "%y = Mul(%l, %g)\n"
      "output %y",
      text.opset() < 18 ? "" : ", num_outputs = 2");
}

/// Inputs: X, gamma and beta by channel. The groups are channels of InstanceNormalization.
void GroupNorm(FunctionText& text) {
  const AttributeMap& attributes = text.node().attributes;
  const int64_t groups = attributes.Int("groups", 0);
  if (groups < 1 || groups > 1 << 20) {
    Fail(ErrorCode::kInvalidModel, StrCat("GroupNorm with ", groups, " groups"));
  }
  const bool last = attributes.Int("channels_last", 1) != 0;
  const char* x = "%i0";
  if (last) {
    text.Line("%p = Transpose(%i0) {perm = [0, 3, 1, 2]}");
    x = "%p";
  }
  text.Ints("groups", {0, groups, -1});
  text.Ints("list", {groups});
  text.Ints("column", {1, -1, 1, 1});
  text.Line(
      "const %zero: float32[1] = {0.0}\n"
      "const %one: float32[1] = {1.0}\n"
      "%zeros = Expand(%zero, %list)\n"
      "%ones = Expand(%one, %list)\n"
      "%shape = Shape($0)\n"
      "%flat = Reshape($0, %groups)\n"
      "%norm = InstanceNormalization(%flat, %ones, %zeros) {epsilon = $1}\n"
      "%back = Reshape(%norm, %shape)\n"
      "%gamma = Reshape(%i1, %column)\n"
      "%beta = Reshape(%i2, %column)\n"
      "%scaled = Mul(%back, %gamma)\n"
      "%y = Add(%scaled, %beta)",
      StrPiece(x), FunctionText::Real(attributes.Float("epsilon", 1e-5F)));
  const char* y = "%y";
  if (attributes.Int("activation", 0) == 1) {
    text.Line("%gate = Sigmoid(%y)\n%z = Mul(%y, %gate)");
    y = "%z";
  }
  if (last) {
    text.Line("%w = Transpose($0) {perm = [0, 2, 3, 1]}", StrPiece(y));
    y = "%w";
  }
  text.Output(y);
}

/// Inputs: words and segments; tables of words, positions and segments, gamma and beta; the mask;
/// then their five scales and zero points.
void QEmbedLayerNorm(FunctionText& text) {
  const auto input = [&text](size_t slot) {
    return text.Has(slot) ? FunctionText::In(slot) : std::string("_");
  };
  std::string tables[5];
  for (size_t i = 0; i < 5; ++i) {
    if (i == 2 && !text.Has(4)) {  // without segments
      tables[i] = "_";
      continue;
    }
    if (!text.Has(2 + i) || !text.Has(8 + i)) {
      Fail(ErrorCode::kInvalidModel,
           StrCat("table or scale ", i, " of QEmbedLayerNormalization is missing"));
    }
    tables[i] = StrCat("%t", i);
    text.Line("$0 = DequantizeLinear($1, $2, $3)", tables[i], input(2 + i), input(8 + i),
              input(13 + i));
  }
  text.Line("%y, %n = com.microsoft::EmbedLayerNormalization(%i0, $0, $1, $2, $3, $4, $5, $6) $7",
            input(1), tables[0], tables[1], tables[2], tables[3], tables[4], input(7),
            text.AttributesWithout({}));
  text.Line("output %y\noutput %n");
}

/// Inputs: query, key, value, mask, attention bias, past key and value, past length, beams, and
/// where each beam came from, bias.
void DecoderMaskedAttention(FunctionText& text) {
  const AttributeMap& attributes = text.node().attributes;
  if (attributes.Int("past_present_share_buffer", 0) != 0 || text.Has(9)) {
    Fail(ErrorCode::kUnsupported, "DecoderMaskedMultiHeadAttention with shared buffers or beams",
         {.hint = "export the decoder for greedy search, with past and present of their own"});
  }
  const auto input = [&text](size_t slot) {
    return text.Has(slot) ? FunctionText::In(slot) : std::string("_");
  };
  text.Line(
      "%y, %k, %v, %w = com.microsoft::MultiHeadAttention(%i0, $0, $1, $2, $3, $4, $5, $6) $7",
      input(1), input(2), input(10), input(3), input(4), input(5), input(6),
      text.AttributesWithout({"past_present_share_buffer", "output_qk"}));
  text.Line("output %y\noutput %k\noutput %v\noutput %w");
}

/// Inputs: query [batch, steps, heads * size], its bias, relative positions [1, heads, steps,
/// steps], weight [size, width], its bias, eco [1, heads, 1, 1].
void GatedRelativePosition(FunctionText& text) {
  const int64_t heads = text.node().attributes.Int("num_heads", 0);
  if (text.Has(6)) Fail(ErrorCode::kUnsupported, "GatedRelativePositionBias with a token offset");
  if (heads < 1) Fail(ErrorCode::kInvalidModel, "GatedRelativePositionBias without num_heads");
  text.Ints("by_head", {0, 0, heads, -1});
  text.Ints("by_half", {0, 0, 0, 2, -1});
  const bool old = text.opset() < 13;
  if (!old) text.Ints("last", {-1});
  text.Scalar("one", 1);
  text.Scalar("two", 2);
  text.Line(
      "%q = Add(%i0, %i1)\n"
      "%h = Reshape(%q, %by_head)\n"
      "%t = Transpose(%h) {perm = [0, 2, 1, 3]}\n"
      "%p = MatMul(%t, %i3)\n"
      "%b = Add(%p, %i4)\n"
      "%f = Reshape(%b, %by_half)\n"
      "%s = ReduceSum(%f$0) {$1keepdims = 0}\n"
      "%g = Sigmoid(%s)\n"
      "%u, %r = Split(%g) {axis = -1$2}\n"
      "%re = Mul(%r, %i5)\n"
      "%rm = Sub(%re, %one)\n"
      "%ur = Mul(%u, %rm)\n"
      "%gate = Add(%ur, %two)\n"
      "%y = Mul(%gate, %i2)\n"
      "output %y",
      old ? "" : ", %last", old ? "axes = [-1], " : "",
      text.opset() < 18 ? "" : ", num_outputs = 2");
}

constexpr OpDef kRows[] = {
    FunctionOp<BiasSplitGelu>("BiasSplitGelu", kMicrosoftDomain, 1, 2, 2),
    FunctionOp<DecoderMaskedAttention>("DecoderMaskedMultiHeadAttention", kMicrosoftDomain, 1, 1,
                                       11, 4),
    FunctionOp<GatedRelativePosition>("GatedRelativePositionBias", kMicrosoftDomain, 1, 6, 7),
    FunctionOp<GroupNorm>("GroupNorm", kMicrosoftDomain, 1, 3, 3),
    FunctionOp<QEmbedLayerNorm>("QEmbedLayerNormalization", kMicrosoftDomain, 1, 1, 18, 2),
};

}  // namespace

std::span<const OpDef> DiffusionFunctionOps() { return kRows; }

}  // namespace requant
