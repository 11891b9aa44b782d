// QuantizeLinear and DequantizeLinear: the grids of tensors.
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/write/writer.h"

namespace requant::tflite {

void WriteQuantize(Writer& w);
void WriteDequantize(Writer& w);

void WriteQuantize(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const auto grid = w.GridOfPair(node);
  if (!grid) {
    w.Refuse(StrCat("the codes are ", DTypeName(node.output()->type.dtype),
                    RQ_LATE_TEXT(", or have several scales or computed ones")),
             RQ_LATE_TEXT("quantize activations to 8 bits with one scale for each tensor"),
             node.output());
  }
  const int64_t rank = w.RankOf(x);
  if (!w.IsConstant(x) && w.NativeForm(x) == Form::kCodes) {
    if (w.GridOf(x) == *grid) {
      w.Alias(node.output(), x, PlainOrder(rank));
      return;
    }
    w.NoteRequantized(x->name);
  }
  const Order order = w.IsConstant(x) ? PlainOrder(rank) : w.NativeOrder(x);
  const Form form = w.IsConstant(x) ? Form::kNumbers : w.NativeForm(x);
  const int32_t codes = w.Quantized(w.Need(x, order, form), *grid, node.output()->name);
  w.Hold(node.output(), codes, order, Form::kCodes);
}

void WriteDequantize(Writer& w) {
  const Node& node = w.node();
  const Value* codes = node.inputs[0];
  if (w.IsConstant(node.output())) return;
  const auto grid = w.GridOfPair(node);
  if (!grid) {
    w.Refuse(StrCat("the codes are ", DTypeName(codes->type.dtype),
                    RQ_LATE_TEXT(", or have several scales or computed ones")),
             RQ_LATE_TEXT("quantize activations to 8 bits with one scale for each tensor"), codes);
  }
  if (w.NativeForm(codes) != Form::kCodes || w.GridOf(codes) != *grid) {
    w.Refuse(RQ_LATE_TEXT("its codes have another grid, or are computed by other operators"),
             RQ_LATE_TEXT("give QuantizeLinear and DequantizeLinear the same scale and zero point"),
             codes);
  }
  w.Alias(node.output(), codes, PlainOrder(w.RankOf(codes)));
}

}  // namespace requant::tflite
