// Packing for vector_narrow.cpp: checks which operands it takes, codes them, and chooses the length
// of its segments.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/conv/narrow/narrow_rows.h"
#include "kernels/conv/pack.h"
#include "kernels/conv/pack_walk.h"
#include "kernels/geometry_check.h"
#include "numeric/few_bits.h"

namespace requant::conv {
namespace {

/// The row takes only operands of which int16 holds the sums of at least so many steps.
constexpr int64_t kLeastSegment = 4;

/// The coding of one convolution's operands.
struct Coding {
  bool fits = false;
  NarrowHeader header;
  /// The ranges of coded inputs and weights, and the code of a weight of 0.
  int32_t input_lo, input_hi, weight_lo, weight_hi, zero;
};

/// Whether int16 holds a segment of kLeastSegment steps, with two products a lane and step.
bool LeastSegmentFits(const Coding& c) {
  const int64_t input = std::max(std::abs(c.input_lo), std::abs(c.input_hi));
  const int64_t weight = std::max(std::abs(c.weight_lo), std::abs(c.weight_hi));
  return 2 * kLeastSegment * input * weight <= INT16_MAX;
}

__attribute__((noinline)) Coding CodeInputs(const ConvQ8Weights& w) {
  Coding c{};
  if (w.input_hi - w.input_lo > 127) return c;
  // Inputs in [0, 127] keep their codes, so that a 1x1 window can be read in place.
  if (w.input_lo < 0 || w.input_hi > 127) c.header.input_add = -w.input_lo;
  const WeightRange range = RangeOf(w, 255);
  if (range.lo < -128 || range.hi > 127) return c;
  c.header.nibbles = range.hi - range.lo <= kFewBitsRange ? 1 : 0;
  if (c.header.nibbles != 0) c.header.offset = range.lo;
  c.weight_lo = range.lo;
  c.weight_hi = range.hi;
  c.input_lo = w.input_lo + c.header.input_add;
  c.input_hi = w.input_hi + c.header.input_add;
  c.fits = LeastSegmentFits(c);
  return c;
}

__attribute__((noinline)) Coding CodeWeights(const ConvQ8Weights& w) {
  Coding c{};
  if (w.input_hi - w.input_lo > 255) return c;  // the type of the codes is not known
  const WeightRange range = RangeOf(w, kFewBitsRange);
  if (range.hi - range.lo > kFewBitsRange) return c;
  c.header = {1, 1, range.lo, -((w.input_lo + w.input_hi + 1) >> 1)};
  c.weight_hi = range.hi - range.lo;
  c.zero = -range.lo;
  c.input_lo = w.input_lo + c.header.input_add;
  c.input_hi = w.input_hi + c.header.input_add;
  c.fits = LeastSegmentFits(c);
  return c;
}

size_t Steps(const ConvQ8Weights& w) {
  return CheckedAdd(Depth(w.layout), kDot7Group - 1) / kDot7Group;
}

size_t BlockBytes(const ConvQ8Weights& w, bool nibbles) {
  return CheckedAdd(kNarrowBlockHeader, CheckedMul(Steps(w), nibbles ? 16 : 32));
}

__attribute__((noinline)) size_t PackedSize(const ConvQ8Weights& w, const Coding& c) {
  return CheckedAdd(sizeof(NarrowHeader),
                    CheckedMul(Blocks(w.layout), BlockBytes(w, c.header.nibbles != 0)));
}

/// How much can be added to the sums of all segments of this length without leaving int16, whatever
/// codes the inputs have; steps are 0 where the sums alone do not fit. `weights` are [steps][8][4]
/// as multiplied.
__attribute__((noinline)) NarrowSegment RoomOf(const Coding& c, const std::vector<uint8_t>& weights,
                                               size_t steps, size_t segment) {
  int32_t bounds[8];
  rq_conv_narrow_bounds(weights.data(), static_cast<int32_t>(steps), static_cast<int32_t>(segment),
                        c.input_lo, c.input_hi, bounds);
  const int32_t least = *std::min_element(bounds, bounds + 4);
  const int32_t most = *std::max_element(bounds + 4, bounds + 8);
  if (least < INT16_MIN || most > INT16_MAX) return {};
  return {static_cast<int32_t>(segment), INT16_MIN - least, INT16_MAX - most, 0};
}

/// The longest of the tried segments whose sums fit.
NarrowSegment SegmentOf(const Coding& c, const std::vector<uint8_t>& weights, size_t steps) {
  for (size_t parts = 1;; parts += parts / 4 + 1) {
    const size_t segment = std::max<size_t>((steps + parts - 1) / parts, kLeastSegment);
    const NarrowSegment found = RoomOf(c, weights, steps, segment);
    if (found.steps != 0) return found;
  }
}

__attribute__((noinline)) void Pack(const ConvQ8Weights& w, const Coding& c, void* packed) {
  const bool nibbles = c.header.nibbles != 0;
  const size_t steps = Steps(w), depth = Depth(w.layout), block_bytes = BlockBytes(w, nibbles);
  const int32_t group_out = w.layout.out_c / w.layout.groups;
  std::memset(packed, 0, PackedSize(w, c));
  std::memcpy(packed, &c.header, sizeof c.header);
  uint8_t* first = static_cast<uint8_t*>(packed) + sizeof c.header;
  std::vector<uint8_t> bytes(CheckedMul(steps, size_t{32}));
  ForEachChannel(w.layout, [&](size_t block, int32_t lane, int32_t o) {
    uint8_t* out = first + block * block_bytes;
    uint8_t* weights = out + kNarrowBlockHeader;
    const auto put = [&](size_t k, int32_t value) {
      const size_t step = k / kDot7Group;
      const size_t at = static_cast<size_t>(lane % 4) * kDot7Group + k % kDot7Group;
      const size_t byte = step * 32 + static_cast<size_t>(lane / 4) * 16 + at;
      bytes[byte] = static_cast<uint8_t>(value + c.zero);
      if (!nibbles) {
        weights[byte] = static_cast<uint8_t>(value);
      } else {
        const auto code = static_cast<uint8_t>(value - c.header.offset);
        weights[step * 16 + at] |= static_cast<uint8_t>(lane < 4 ? code : code << 4);
      }
    };
    int32_t sum = 0;
    ForEachWeight(w.layout, o, [&](size_t k, int64_t offset) {
      const int32_t value = WeightAt(w, o, offset);
      sum += value;
      put(k, value);
    });
    for (size_t k = depth; k < steps * kDot7Group; ++k) put(k, 0);
    const int32_t bias = w.bias == nullptr ? 0 : w.bias[o];
    std::memcpy(out + lane * 4, &bias, 4);
    std::memcpy(out + (kChannelBlock + lane) * 4, &sum, 4);
    if (lane == kChannelBlock - 1 || (o + 1) % group_out == 0) {
      const NarrowSegment segment = SegmentOf(c, bytes, steps);
      std::memcpy(out + kNarrowSegment, &segment, sizeof segment);
      std::fill(bytes.begin(), bytes.end(), 0);
    }
  });
}

}  // namespace

/// First layers are left to the kernels on lines, since gathering their windows limits this one.
bool NarrowIsPreferred(const ConvQ8Weights&, const ConvGeometry& g) {
  return !ShortRunsArePreferred(g, kPairsLines);
}

bool NarrowInputsSupports(const ConvQ8Weights& w, const ConvGeometry&) {
  return CodeInputs(w).fits;
}
size_t NarrowInputsPackedSize(const ConvQ8Weights& w) { return PackedSize(w, CodeInputs(w)); }
void NarrowInputsPack(const ConvQ8Weights& w, void* packed) { Pack(w, CodeInputs(w), packed); }

bool NarrowWeightsSupports(const ConvQ8Weights& w, const ConvGeometry&) {
  return CodeWeights(w).fits;
}
size_t NarrowWeightsPackedSize(const ConvQ8Weights& w) { return PackedSize(w, CodeWeights(w)); }
void NarrowWeightsPack(const ConvQ8Weights& w, void* packed) { Pack(w, CodeWeights(w), packed); }

size_t NarrowWorkspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  const size_t row_bytes = CheckedAlign(static_cast<size_t>(conv::Depth(g)), kDot7Group);
  const auto rows = static_cast<size_t>(NarrowPanelRows(g));
  // The parts: accumulators, a base, BlockCodes, terms of the rows, the weights of one block, the
  // panel.
  return CheckedAdd(
      kEpilogueBytes + kChannelBlock * 4 + kNarrowCodesBytes,
      CheckedAdd(CheckedMul(rows, row_bytes + 4), CheckedMul(row_bytes, kChannelBlock)));
}

}  // namespace requant::conv
