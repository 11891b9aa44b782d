#include "kernels/conv/pack.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/checked_math.h"
#include "kernels/conv/blocking.h"
#include "kernels/conv/facts.h"
#include "kernels/conv/levels.h"
#include "kernels/conv/pack_walk.h"
#include "kernels/geometry_check.h"
#include "kernels/variant/missing.h"

namespace requant {

ConvWeightsLayout OihwLayout(int32_t out_c, int32_t in_c_per_group, int32_t kernel_h,
                             int32_t kernel_w, int32_t groups) {
  ConvWeightsLayout layout;
  layout.out_c = out_c;
  layout.in_c_per_group = in_c_per_group;
  layout.kernel_h = kernel_h;
  layout.kernel_w = kernel_w;
  layout.groups = groups;
  layout.stride_w = 1;
  layout.stride_h = kernel_w;
  layout.stride_i = CheckedMul64(kernel_h, kernel_w);
  layout.stride_o = CheckedMul64(layout.stride_i, in_c_per_group);
  return layout;
}

namespace conv {

bool ArePlain(const ConvQ8Weights& w) {
  const ConvWeightsLayout& l = w.layout;
  const bool dense = (l.kernel_w == 1 || l.stride_w == 1) &&
                     (l.kernel_h == 1 || l.stride_h == l.kernel_w) &&
                     (l.in_c_per_group == 1 || l.stride_i == int64_t{l.kernel_h} * l.kernel_w);
  return dense && w.is_signed && w.zero_points == nullptr;
}

bool NeedsWide(const ConvQ8Weights& w) {
  if (w.is_signed && (w.zero_points == nullptr ||
                      std::all_of(w.zero_points, w.zero_points + w.layout.out_c,
                                  [](int32_t zero_point) { return zero_point == 0; }))) {
    return false;
  }
  const WeightRange range = RangeOf(w, 255);
  return range.lo < -128 || range.hi > 127;
}

namespace {

/// Weights are packed in pairs; each run of `run` weights (a divisor of the depth) is padded to
/// whole pairs.
size_t Q8BlockBytes(const ConvQ8Weights& w, size_t run, bool wide) {
  const size_t even = CheckedMul(Depth(w.layout) / run, CheckedAlign(run, 2));
  return CheckedAdd(kChannelBlock * 4, CheckedMul(even, kChannelBlock * (wide ? 2 : 1)));
}

size_t Q8PackedSize(const ConvQ8Weights& w, size_t run, bool wide) {
  return CheckedAdd(sizeof(PackedQ8Header),
                    CheckedMul(Blocks(w.layout), Q8BlockBytes(w, run, wide)));
}

/// Packs a matrix as int16, block by block. Dynamic weights are packed at every run, so this is
/// fast.
void PackWideMatrix(const ConvQ8Weights& w, size_t block_bytes, uint8_t* out) {
  const ConvWeightsLayout& l = w.layout;
  const auto* bytes = static_cast<const uint8_t*>(w.data);
  const int32_t flip = w.is_signed ? 0x80 : 0;  // code ^ 0x80 is an int8's value plus 128
  for (int32_t o = 0; o < l.out_c; o += kChannelBlock, out += block_bytes) {
    const int32_t lanes = l.out_c - o < kChannelBlock ? l.out_c - o : kChannelBlock;
    int32_t zeros[kChannelBlock] = {};
    for (int32_t lane = 0; lane < lanes; ++lane) {
      zeros[lane] = flip + (w.zero_points == nullptr ? 0 : w.zero_points[o + lane]);
      if (w.bias != nullptr) std::memcpy(out + lane * 4, &w.bias[o + lane], 4);
    }
    auto* to = reinterpret_cast<int16_t*>(out + kChannelBlock * 4);
    const uint8_t* from = bytes + o * l.stride_o;
    for (int32_t k = 0; k < l.in_c_per_group; ++k, from += l.stride_i) {
      int16_t* pair = to + k / 2 * (kChannelBlock * 2) + k % 2;
      for (int32_t lane = 0; lane < lanes; ++lane) {
        pair[lane * 2] = static_cast<int16_t>((from[lane * l.stride_o] ^ flip) - zeros[lane]);
      }
    }
  }
}

void Q8Pack(const ConvQ8Weights& w, size_t run, bool wide, void* packed) {
  const size_t block_bytes = Q8BlockBytes(w, run, wide), run_pairs = (run + 1) / 2;
  std::memset(packed, 0, CheckedAdd(sizeof(PackedQ8Header), Blocks(w.layout) * block_bytes));
  static_cast<PackedQ8Header*>(packed)->wide = wide ? 1 : 0;
  uint8_t* first = static_cast<uint8_t*>(packed) + sizeof(PackedQ8Header);
  if (wide && w.layout.groups == 1 && w.layout.kernel_h * w.layout.kernel_w == 1) {
    return PackWideMatrix(w, block_bytes, first);
  }
  ForEachChannel(w.layout, [&](size_t block, int32_t lane, int32_t o) {
    uint8_t* out = first + block * block_bytes;
    if (w.bias != nullptr) std::memcpy(out + lane * 4, &w.bias[o], 4);
    out += kChannelBlock * 4;
    // index in the run, and the run's first element
    size_t in_run = 0, start = static_cast<size_t>(lane) * 2;
    ForEachWeight(w.layout, o, [&](size_t, int64_t offset) {
      const size_t at = start + in_run / 2 * (kChannelBlock * 2) + in_run % 2;
      const int32_t value = WeightAt(w, o, offset);
      if (++in_run == run) {
        in_run = 0;
        start += run_pairs * (kChannelBlock * 2);
      }
      if (wide) {
        reinterpret_cast<int16_t*>(out)[at] = static_cast<int16_t>(value);
      } else {
        reinterpret_cast<int8_t*>(out)[at] = static_cast<int8_t>(value);
      }
    });
  });
}

/// An image's first layer has few weights: as int16 they need no widening in every tile.
bool LinesAreWide(const ConvQ8Weights& w) { return LineRun(w.layout) <= kShortRun || NeedsWide(w); }

}  // namespace

namespace {

/// The range of the weights in a matrix as AreRows() says, row by row: the weights of one channel
/// are far apart in memory.
template <typename Byte>
WeightRange RangeOfRows(const ConvQ8Weights& w, int32_t enough) {
  Byte lo = 0, hi = 0;
  const int32_t out_c = w.layout.out_c;
  for (int32_t i = 0; i < w.layout.in_c_per_group && hi - lo <= enough; ++i) {
    const auto* row = static_cast<const Byte*>(w.data) + i * w.layout.stride_i;
    for (int32_t o = 0; o < out_c; ++o) {
      lo = row[o] < lo ? row[o] : lo;
      hi = row[o] > hi ? row[o] : hi;
    }
  }
  return {lo, hi};
}

}  // namespace

WeightRange RangeOf(const ConvQ8Weights& w, int32_t enough) {
  if (w.facts != nullptr) return w.facts->range;
  WeightRange range;
  if (w.dynamic) {
    const int32_t lo = w.is_signed ? -128 : 0;
    for (int32_t o = 0; o < w.layout.out_c; ++o) {
      const int32_t zero = w.zero_points == nullptr ? 0 : w.zero_points[o];
      range.lo = lo - zero < range.lo ? lo - zero : range.lo;
      range.hi = lo + 255 - zero > range.hi ? lo + 255 - zero : range.hi;
    }
    return range;
  }
  if (ArePlain(w)) {
    // This loop calls no function, which em++ would not inline, so that compilers vectorize it.
    int8_t lo = 0, hi = 0;
    const size_t depth = Depth(w.layout);
    for (int32_t o = 0; o < w.layout.out_c && hi - lo <= enough; ++o) {
      const int8_t* plain = PlainWeights(w, o);
      for (size_t k = 0; k < depth; ++k) {
        lo = plain[k] < lo ? plain[k] : lo;
        hi = plain[k] > hi ? plain[k] : hi;
      }
    }
    return {lo, hi};
  }
  if (AreRows(w)) {
    return w.is_signed ? RangeOfRows<int8_t>(w, enough) : RangeOfRows<uint8_t>(w, enough);
  }
  for (int32_t o = 0; o < w.layout.out_c; ++o) {
    ForEachWeight(w.layout, o, [&](size_t, int64_t offset) {
      const int32_t value = WeightAt(w, o, offset);
      range.lo = std::min(range.lo, value);
      range.hi = std::max(range.hi, value);
    });
    if (range.hi - range.lo > enough) break;
  }
  return range;
}

size_t NoWorkspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  return 0;
}

size_t ScalarF32PackedSize(const ConvF32Weights& w) {
  return CheckedMul(CheckedMul(static_cast<size_t>(w.layout.out_c), Depth(w.layout) + 1), 4);
}

void ScalarF32Pack(const ConvF32Weights& w, void* packed) {
  float* bias = static_cast<float*>(packed);
  float* out = bias + w.layout.out_c;
  const size_t depth = Depth(w.layout);
  for (int32_t o = 0; o < w.layout.out_c; ++o, out += depth) {
    bias[o] = w.bias == nullptr ? 0.0f : w.bias[o];
    ForEachWeight(w.layout, o, [&](size_t k, int64_t offset) { out[k] = w.data[offset]; });
  }
}

size_t ScalarQ8PackedSize(const ConvQ8Weights& w) {
  const size_t per_channel = CheckedAdd(CheckedMul(Depth(w.layout), 2), 4);
  return CheckedMul(static_cast<size_t>(w.layout.out_c), per_channel);
}

void ScalarQ8Pack(const ConvQ8Weights& w, void* packed) {
  int32_t* bias = static_cast<int32_t*>(packed);
  int16_t* out = reinterpret_cast<int16_t*>(bias + w.layout.out_c);
  const size_t depth = Depth(w.layout);
  for (int32_t o = 0; o < w.layout.out_c; ++o, out += depth) {
    bias[o] = w.bias == nullptr ? 0 : w.bias[o];
    ForEachWeight(w.layout, o, [&](size_t k, int64_t offset) {
      out[k] = static_cast<int16_t>(WeightAt(w, o, offset));
    });
  }
}

size_t VectorF32PackedSize(const ConvF32Weights& w) {
  return CheckedMul(Blocks(w.layout), CheckedMul(Depth(w.layout) + 1, kChannelBlock * 4));
}

void VectorF32Pack(const ConvF32Weights& w, void* packed) {
  std::memset(packed, 0, VectorF32PackedSize(w));
  const size_t block_floats = (Depth(w.layout) + 1) * kChannelBlock;
  ForEachChannel(w.layout, [&](size_t block, int32_t lane, int32_t o) {
    float* out = static_cast<float*>(packed) + block * block_floats + lane;
    if (w.bias != nullptr) *out = w.bias[o];
    ForEachWeight(w.layout, o,
                  [&](size_t k, int64_t offset) { out[(k + 1) * kChannelBlock] = w.data[offset]; });
  });
}

namespace {

void VectorF32Unpack(const ConvF32Weights& w, const void* packed, size_t, void* to) {
  const size_t block_floats = (Depth(w.layout) + 1) * kChannelBlock;
  auto* out = static_cast<float*>(to);
  ForEachChannel(w.layout, [&](size_t block, int32_t lane, int32_t o) {
    const float* from = static_cast<const float*>(packed) + block * block_floats + lane;
    ForEachWeight(w.layout, o,
                  [&](size_t k, int64_t offset) { out[offset] = from[(k + 1) * kChannelBlock]; });
  });
}

}  // namespace

F32Unpack UnpackOf(void (*pack_weights)(const ConvF32Weights& weights, void* packed)) {
  if (pack_weights == HalvesF32Pack) return HalvesF32Unpack;
  return pack_weights == VectorF32Pack ? VectorF32Unpack : nullptr;
}

size_t VectorF32Workspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  if (IsPointwise(g)) return 16;
  const size_t row_bytes = CheckedMul(static_cast<size_t>(conv::Depth(g)), 4);
  return CheckedMul(static_cast<size_t>(PanelRows(g, static_cast<int32_t>(row_bytes))), row_bytes);
}

size_t VectorQ8PackedSize(const ConvQ8Weights& w) {
  return Q8PackedSize(w, Depth(w.layout), NeedsWide(w));
}
void VectorQ8Pack(const ConvQ8Weights& w, void* packed) {
  Q8Pack(w, Depth(w.layout), NeedsWide(w), packed);
}

void UnpackCodes(const ConvQ8Weights& w, const PackedCodes& form, void* to) {
  ForEachChannel(w.layout, [&](size_t block, int32_t lane, int32_t o) {
    const uint8_t* in = form.blocks + block * form.block_bytes;
    int32_t add = form.add + (w.zero_points == nullptr ? 0 : w.zero_points[o]);
    if (form.middles > 0) add += reinterpret_cast<const int32_t*>(in + form.middles)[lane];
    in += form.header + static_cast<size_t>(lane) * form.group * form.element_bytes;
    ForEachWeight(w.layout, o, [&](size_t k, int64_t offset) {
      const size_t at = k / form.group * (kChannelBlock * form.group) + k % form.group;
      // The first byte of an int16 has all that a code needs.
      static_cast<uint8_t*>(to)[offset] = static_cast<uint8_t>(in[at * form.element_bytes] + add);
    });
  });
}

namespace {

void VectorQ8Unpack(const ConvQ8Weights& w, const void* packed, void* to) {
  const bool wide = static_cast<const PackedQ8Header*>(packed)->wide != 0;
  const uint8_t* blocks = static_cast<const uint8_t*>(packed) + sizeof(PackedQ8Header);
  const size_t element = wide ? 2 : 1;
  UnpackCodes(
      w, {blocks, Q8BlockBytes(w, Depth(w.layout), wide), kChannelBlock * 4, 2, element, 0, 0}, to);
}

}  // namespace

Q8Unpack UnpackOf(void (*pack_weights)(const ConvQ8Weights& weights, void* packed)) {
  if (pack_weights == Dot7Pack) return Dot7Unpack;
  if (pack_weights == Dot8Pack || pack_weights == Dot8AffinePack) return Dot8Unpack;
  return pack_weights == VectorQ8Pack ? VectorQ8Unpack : nullptr;
}

size_t VectorQ8Workspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  const size_t row_bytes = CheckedMul(static_cast<size_t>(PairsPitch(g)), 2);
  return CheckedAdd(
      kEpilogueBytes + static_cast<size_t>(WidenedBytes(g)),
      CheckedMul(static_cast<size_t>(PanelRows(g, static_cast<int32_t>(row_bytes))), row_bytes));
}

bool LinesArePreferred(const ConvGeometry& g, const LinesLimits& limits) {
  if (IsShortRun(g) && g.kernel_w > 1) return ShortRunsArePreferred(g, limits);
  const bool one_pixel = g.kernel_h == 1 && g.kernel_w == 1;
  if (one_pixel && (!limits.one_pixel || !IsShortRun(g) || IsPointwise(g))) return false;
  return g.out_c <= limits.few &&
         (g.out_w >= kLongLine || (limits.tile > 0 && g.out_w % limits.tile == 0));
}

bool LinesF32Supports(const ConvGeometry& g) { return LinesFit(g); }
bool LinesF32IsPreferred(const ConvGeometry& g) { return LinesArePreferred(g, kF32Lines); }

size_t LinesF32Workspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  CheckedMul(static_cast<size_t>(conv::PaddedWidth(g)), static_cast<size_t>(g.in_c) * 4);
  return CheckedMul(static_cast<size_t>(g.kernel_h), static_cast<size_t>(LineElements(g)) * 4);
}

bool LinesSupports(const ConvQ8Weights&, const ConvGeometry& g) { return LinesFit(g); }
bool LinesIsPreferred(const ConvQ8Weights& w, const ConvGeometry& g) {
  // Windows of one pixel are faster gathered in 7 bits: 1.27 times for 16 channels.
  return LinesArePreferred(g, kPairsLines) && !(IsOnePixel(g) && Dot7Supports(w, g));
}

size_t LinesPackedSize(const ConvQ8Weights& w) {
  return Q8PackedSize(w, LineRun(w.layout), LinesAreWide(w));
}
void LinesPack(const ConvQ8Weights& w, void* packed) {
  Q8Pack(w, LineRun(w.layout), LinesAreWide(w), packed);
}

size_t LinesWorkspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  CheckedMul(static_cast<size_t>(conv::PaddedWidth(g)), static_cast<size_t>(g.in_c) * 2);
  return CheckedAdd(kEpilogueBytes, CheckedMul(static_cast<size_t>(g.kernel_h),
                                               static_cast<size_t>(LineElements(g)) * 2));
}
}  // namespace conv

int32_t ConvQ8WeightBits(const ConvQ8Weights& w) {
  // More than 128 levels take 8 bits, whatever they are; most weights have as many in few channels.
  const std::optional<conv::Levels> levels = conv::LevelsOf(w, 128);
  return levels ? levels->planes : 8;
}

void ConvQ8AccumulatorBounds(const ConvQ8Weights& w, int32_t max_abs_input, int64_t* bounds) {
  const ConvWeightsLayout& l = w.layout;
  std::fill_n(bounds, l.out_c, 0);
  if (w.facts != nullptr) {
    std::copy_n(w.facts->sums(), l.out_c, bounds);
  } else if (conv::AreRows(w)) {
    for (int32_t i = 0; i < l.in_c_per_group; ++i) {
      for (int32_t o = 0; o < l.out_c; ++o) {
        bounds[o] += std::abs(conv::WeightAt(w, o, i * l.stride_i + o));
      }
    }
  } else {
    for (int32_t o = 0; o < l.out_c; ++o) {
      int64_t sum = 0;
      if (conv::ArePlain(w)) {
        const int8_t* plain = conv::PlainWeights(w, o);
        const int64_t depth = int64_t{l.in_c_per_group} * l.kernel_h * l.kernel_w;
        for (int64_t k = 0; k < depth; ++k) sum += std::abs(static_cast<int32_t>(plain[k]));
      } else {
        conv::ForEachWeight(
            l, o, [&](size_t, int64_t offset) { sum += std::abs(conv::WeightAt(w, o, offset)); });
      }
      bounds[o] = sum;
    }
  }
  for (int32_t o = 0; o < l.out_c; ++o) {
    bounds[o] *= max_abs_input;
    if (w.bias != nullptr) bounds[o] += std::abs(static_cast<int64_t>(w.bias[o]));
  }
}

}  // namespace requant
