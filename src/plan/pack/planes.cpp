#include "plan/pack/planes.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/bitserial/lookup_output.h"
#include "kernels/bitserial/pack.h"
#include "kernels/bitserial/planes.h"
#include "kernels/bitserial/popcount.h"
#include "kernels/dwconv/can_compare.h"
#include "plan/pack/packable.h"

namespace requant {
namespace {

CodeRange RangeOf(const QAddParams& addition) { return {addition.lo, addition.hi}; }
CodeRange RangeOf(const RequantizeParams& requantize) { return {requantize.lo, requantize.hi}; }
CodeRange RangeOf(const MaxPoolQ8Params& pool) { return {pool.lo, pool.hi}; }

/// Returns the code that a lookup makes of a code.
int32_t EntryOf(const LutStep& lookup, bool is_signed, int32_t code) {
  const uint8_t byte = lookup.table[static_cast<uint8_t>(code)];
  return is_signed ? static_cast<int8_t>(byte) : byte;
}

/// A lookup that tells codes below a threshold from the others. `below` and `above` are its two
/// results.
struct Threshold {
  int32_t at = 0, below = 0, above = 0;
};

/// The threshold of a lookup; `below` is `above` where it is not such a lookup.
Threshold ThresholdOf(const LutStep& lookup) {
  const bool is_signed = lookup.makes_signed;
  Threshold made;
  made.below = made.above = EntryOf(lookup, is_signed, lookup.codes.lo);
  for (int32_t code = lookup.codes.lo + 1; code <= lookup.codes.hi; ++code) {
    const int32_t entry = EntryOf(lookup, is_signed, code);
    if (entry == made.above) continue;
    if (made.above != made.below) return {};
    made.at = code;
    made.above = entry;
  }
  return made;
}

/// Whether the convolution adds bits to bits: its own result, the residual and the sums all have
/// two codes.
bool AddsBits(const ConvQ8Step& conv) {
  if (!HasResidual(conv) || conv.run != rq_conv_q8_lookup) return false;
  ConvQ8Params p = conv.params;
  p.requantize = conv.requantize.Params();
  p.residual = &p;  // only its presence matters
  const QAddRange& residual = bitserial::ResidualRange(&p);
  return p.addition.hi - p.addition.lo == 1 && residual.hi - residual.lo == 1 &&
         bitserial::LookupCompares(p);
}

/// Whether the kernel reads planes of exactly these codes as its input: its padding may be another
/// code.
bool TakesPlanes(const ConvQ8Step& conv, PlaneCodes codes) {
  if (conv.run == rq_conv_q8_lookup) {
    const auto& header = *static_cast<const bitserial::LookupHeader*>(conv.params.weights);
    return header.input_lo == codes.range.lo && header.input_range == 1 << codes.spread &&
           PlanesOf(codes) == 1;
  }
  if (conv.run != rq_conv_q8_popcount && conv.run != rq_conv_q8_carry_save) return false;
  const auto& header = *static_cast<const bitserial::PopcountHeader*>(conv.params.weights);
  return header.input_lo == codes.range.lo && header.input_planes == PlanesOf(codes) + codes.spread;
}

/// Whether the kernel adds a plane of exactly these codes as its residual.
bool AddsPlanes(const ConvQ8Step& conv, PlaneCodes codes) {
  const ConvQ8Params& p = conv.params;
  const ConvGeometry& g = p.geometry;
  const int32_t least = bitserial::ResidualRange(&p).lo + bitserial::ResidualZero(&p);
  return codes.spread == 0 && least == codes.range.lo && PlanesOf(codes) == 1 && AddsBits(conv) &&
         IsBlocked(g.out_c, g.groups, p.residual_stride, kPlaneBlock);
}

}  // namespace

CodeRange CodesOfStep(Step& step) {
  if (const auto* pool = AsMaxPool(step)) return RangeOf(pool->params);
  if (const DepthwiseQ8Step* depthwise = AsDepthwise(step)) {
    return RangeOf(depthwise->requantize.Params());
  }
  const ConvQ8Step* conv = AsConv(step);
  if (conv == nullptr) return RangeOf(AsAdd(step)->params);
  return HasResidual(*conv) ? RangeOf(conv->params.addition) : RangeOf(conv->requantize.Params());
}

int32_t PlanesOf(PlaneCodes codes) {
  const auto range = static_cast<uint32_t>(codes.range.hi - codes.range.lo) >> codes.spread;
  return range == 0 ? 1 : std::bit_width(range);
}

PlaneCodes LookedUp(const Step& lookup, CodeRange codes) {
  const auto& lut = static_cast<const LutStep&>(lookup);
  const int32_t least = EntryOf(lut, lut.makes_signed, codes.lo);
  if (codes.hi <= codes.lo) return {{0, -1}, 0};
  const int32_t step = EntryOf(lut, lut.makes_signed, codes.lo + 1) - least;
  if (step != 1 && step != 2) return {{0, -1}, 0};
  for (int32_t code = codes.lo; code <= codes.hi; ++code) {
    const int32_t entry = EntryOf(lut, lut.makes_signed, code);
    if (entry != least + step * (code - codes.lo)) return {{0, -1}, 0};
  }
  return {{least, least + step * (codes.hi - codes.lo)}, step - 1};
}

PlaneCodes PlaneCodesOf(Step& step, Step* lookup) {
  if (const LutStep* lut = AsLut(step)) {
    const Threshold found = ThresholdOf(*lut);
    const CodeRange range = {std::min(found.below, found.above),
                             std::max(found.below, found.above)};
    return {range, range.hi - range.lo == 2 ? 1 : 0};
  }
  const CodeRange codes = CodesOfStep(step);
  if (AsMaxPool(step) != nullptr && lookup != nullptr) {
    const PlaneCodes read = PlaneCodesOf(*lookup, nullptr);
    if (read.range == codes) return read;
  }
  return {codes, 0};
}

bool CanWritePlanes(Step& step, PlaneCodes codes) {
  if (const auto* pool = AsMaxPool(step)) {
    const ConvGeometry& g = pool->params.geometry;
    return IsBlocked(g.out_c, 1, g.output_stride, kPlaneBlock);
  }
  if (AsLut(step) != nullptr) return codes.range.hi > codes.range.lo && PlanesOf(codes) == 1;
  if (const DepthwiseQ8Step* depthwise = AsDepthwise(step)) {
    DwConvQ8Params p = depthwise->params;
    p.requantize = depthwise->requantize.Params();
    return KnowsNibbles(*depthwise) && dwconv::CanCompare(&p) &&
           IsBlocked(p.geometry.out_c, 1, p.geometry.output_stride, kPlaneBlock);
  }
  const ConvQ8Step* conv = AsConv(step);
  if (conv == nullptr || (HasResidual(*conv) && !AddsBits(*conv))) return false;
  const ConvGeometry& g = conv->params.geometry;
  return KnowsNibbles(*conv) && IsBlocked(g.out_c, g.groups, g.output_stride, kPlaneBlock);
}

bool CanReadPlanes(Step& step, int slot, PlaneCodes codes) {
  const ConvQ8Step* product = AsProduct(step);
  if (product == nullptr) return false;
  const ConvGeometry& g = product->params.geometry;
  const bool input =
      product->inputs[0] != slot ||
      (IsBlocked(g.in_c, g.groups, g.input_stride, kPlaneBlock) && TakesPlanes(*product, codes));
  const bool others =
      std::find(product->inputs.begin() + 1, product->inputs.end(), slot) == product->inputs.end();
  return input && (others || (AsConv(step) != nullptr && AddsPlanes(*product, codes)));
}

std::unique_ptr<Step> BitLookup(const Step& lookup) {
  const auto& lut = static_cast<const LutStep&>(lookup);
  const Threshold found = ThresholdOf(lut);
  auto step = std::make_unique<LutBitsStep>();
  step->run = rq_lut_bits;
  step->name = lut.name;
  step->op = lut.op;
  step->kernel = LutBitsKernels()[0].name;
  step->inputs = lut.inputs;
  step->outputs = lut.outputs;
  LutBitsParams& p = step->params;
  p.words = lut.count / kPlaneBlock;
  p.threshold = found.at;
  p.is_signed = lut.codes.lo < 0 ? 1 : 0;
  p.flips = found.above < found.below ? 1 : 0;
  using enum PartField::Kind;
  Parts& parts = step->parts;
  parts = lut.parts;
  if (parts.count > 1) {
    parts.kernel = KernelEntryOf(rq_lut_bits);
    parts.total = static_cast<int64_t>(p.words);
    parts.fields = {{{kCount, offsetof(LutBitsParams, words), 0},
                     {kPointer, offsetof(LutBitsParams, in), kPlaneBlock},
                     {kPointer, offsetof(LutBitsParams, out), kPlaneBlock / 8}}};
  }
  return step;
}

}  // namespace requant
