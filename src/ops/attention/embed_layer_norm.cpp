// com.microsoft::EmbedLayerNormalization: the sum of the embeddings of words, positions and
// segments, normalized (onnxruntime docs/ContribOperators.md).
#include "ops/function/function_text.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

constexpr size_t kSegments = 1, kWords = 2, kPlaces = 3, kSegmentRows = 4, kGamma = 5, kBeta = 6;
constexpr size_t kMask = 7, kPlaceIds = 8;

void WriteEmbedLayerNorm(FunctionText& text) {
  if (text.Has(kPlaceIds)) {
    text.Line("%p = Gather(%i3, %i8)");
  } else {
    // Gather reports positions beyond the table, which Slice would leave out.
    text.Line(
        "const %0: int64[] = {0}\n"
        "const %1: int64[] = {1}\n"
        "%d = Shape(%i0)\n"
        "%n = Gather(%d, %1)\n"
        "%r = Range(%0, %n, %1)\n"
        "%p = Gather(%i3, %r)");
  }
  text.Line(
      "%w = Gather(%i2, %i0)\n"
      "%wp = Add(%w, %p)");
  const char* sum = "%wp";
  if (text.Has(kSegments)) {
    text.Line(
        "%s = Gather(%i4, %i1)\n"
        "%wps = Add(%wp, %s)");
    sum = "%wps";
  }
  text.Line("%y = LayerNormalization($0, %i5, %i6) {axis = -1, epsilon = $1}", sum,
            FunctionText::Real(text.node().attributes.Float("epsilon", 1e-12F)));
  text.Line("output %y");
  if (text.node().outputs.size() < 2) return;
  // The mask index is the number of ones in the mask, or 0 without a mask.
  text.Line(text.Has(kMask) ? "const %one: int32[] = {1}\n"
                              "%m = Equal(%i7, %one)"
                            : "%m = Sub(%i0, %i0)");
  text.Line("%c = Cast(%m) {to = 6}");
  text.Line(text.opset() < 13 ? "%k = ReduceSum(%c) {axes = [1], keepdims = 0}"
                              : "const %a: int64[1] = {1}\n"
                                "%k = ReduceSum(%c, %a) {keepdims = 0}");
  text.Line("output %k");
  text.Output(sum);
}

void InferEmbedLayerNorm(InferContext& context) {
  for (const size_t slot : {kWords, kPlaces, kGamma, kBeta}) RequireInput(context, slot);
  if (context.has(kSegments)) RequireInput(context, kSegmentRows);
  for (const size_t slot : {size_t{0}, kMask}) {
    RequireRank(context, slot, 2);
    RequireDType(context, slot, {DType::kInt32});
  }
  for (const size_t slot : {kWords, kPlaces, kSegmentRows}) {
    RequireFloat(context, slot);
    RequireRank(context, slot, 2);
  }
  InferByBody(context);
}

constexpr OpDef kRows[] = {
    FunctionOp<WriteEmbedLayerNorm>("EmbedLayerNormalization", kMicrosoftDomain, 1, 1, 9, 3,
                                    InferEmbedLayerNorm),
};

}  // namespace

std::span<const OpDef> EmbedLayerNormOps() { return kRows; }

}  // namespace requant
