#include "kernels/conv/pack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/checked_math.h"
#include "kernels/conv/blocking.h"
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

namespace {

bool NeedsWide(const ConvQ8Weights& w) {
  if (w.is_signed && (w.zero_points == nullptr ||
                      std::all_of(w.zero_points, w.zero_points + w.layout.out_c,
                                  [](int32_t zero_point) { return zero_point == 0; }))) {
    return false;
  }
  const WeightRange range = RangeOf(w, 255);
  return range.lo < -128 || range.hi > 127;
}

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

/// Weights of one line of the window.
size_t LineRun(const ConvWeightsLayout& l) {
  return CheckedMul(static_cast<size_t>(l.kernel_w), static_cast<size_t>(l.in_c_per_group));
}

/// An image's first layer has few weights: as int16 they need no widening in every tile.
bool LinesAreWide(const ConvQ8Weights& w) { return LineRun(w.layout) <= kShortRun || NeedsWide(w); }

/// The amount added to the weights of the 7-bit kernel: [-64, 63] becomes [0, 127].
constexpr int32_t kDot7Offset = 64;

}  // namespace

WeightRange RangeOf(const ConvQ8Weights& w, int32_t enough) {
  WeightRange range;
  if (w.computed) {
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

size_t VectorQ8Workspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  const size_t row_bytes = CheckedMul(static_cast<size_t>(PairsPitch(g)), 2);
  return CheckedAdd(
      kEpilogueBytes + static_cast<size_t>(WidenedBytes(g)),
      CheckedMul(static_cast<size_t>(PanelRows(g, static_cast<int32_t>(row_bytes))), row_bytes));
}

bool LinesF32Supports(const ConvGeometry& g) { return LinesFit(g); }
bool LinesF32Pays(const ConvGeometry& g) { return LinesPay(g, kFewForF32); }

size_t LinesF32Workspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  CheckedMul(static_cast<size_t>(conv::PaddedWidth(g)), static_cast<size_t>(g.in_c) * 4);
  return CheckedMul(static_cast<size_t>(g.kernel_h), static_cast<size_t>(LineElements(g)) * 4);
}

bool LinesSupports(const ConvQ8Weights&, const ConvGeometry& g) { return LinesFit(g); }
bool LinesPays(const ConvQ8Weights&, const ConvGeometry& g) { return LinesPay(g, kFewForPairs); }

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
size_t Dot8LinesWorkspace(const ConvGeometry& g) {
  // Bytes take half of that, and the bases of a block come on top.
  return CheckedAdd(LinesWorkspace(g), kChannelBlock * 4);
}

bool Dot7Supports(const ConvQ8Weights& w, const ConvGeometry&) {
  const WeightRange range = RangeOf(w, 127);
  return range.lo >= -kDot7Offset && range.hi <= 127 - kDot7Offset;
}

namespace {
/// Bytes of one block in both layouts on bytes: biases, sums, and runs padded to whole groups.
size_t BytesBlock(const ConvWeightsLayout& l, size_t run) {
  const size_t deep = CheckedMul(Depth(l) / run, CheckedAlign(run, kDot8Group));
  return CheckedAdd(kChannelBlock * 8, CheckedMul(deep, kChannelBlock));
}

size_t BytesPackedSize(const ConvQ8Weights& w, size_t run) {
  return CheckedMul(Blocks(w.layout), BytesBlock(w.layout, run));
}

/// Packs the weights of the kernels on bytes and adds `code` to each.
void BytesPack(const ConvQ8Weights& w, size_t run, int32_t code, void* packed) {
  // k past a run get the code of weight 0; lanes past the last channel are never stored.
  const size_t block_bytes = BytesBlock(w.layout, run);
  std::memset(packed, code, BytesPackedSize(w, run));
  ForEachChannel(w.layout, [&](size_t block, int32_t lane, int32_t o) {
    uint8_t* out = static_cast<uint8_t*>(packed) + block * block_bytes;
    int32_t sum = 0;
    uint8_t* group = out + (kChannelBlock * 2 + static_cast<size_t>(lane)) * kDot8Group;
    size_t in_run = 0;
    if (ArePlain(w) && w.layout.kernel_h == 1 && w.layout.kernel_w == 1 && code == 0) {
      const int8_t* plain = PlainWeights(w, o);
      // The weights of a 1x1 convolution are in the packed order already, so whole groups are
      // copied.
      const size_t depth = Depth(w.layout);
      for (size_t k = 0; k < depth; ++k) sum += plain[k];
      for (size_t k = 0; k < depth; k += kDot8Group, group += kChannelBlock * kDot8Group) {
        std::memcpy(group, plain + k, std::min<size_t>(kDot8Group, depth - k));
      }
    } else {
      ForEachWeight(w.layout, o, [&](size_t, int64_t offset) {
        const int32_t value = WeightAt(w, o, offset);
        sum += value;
        group[in_run % kDot8Group] = static_cast<uint8_t>(value + code);
        if (++in_run == run) in_run = 0;
        if (in_run % kDot8Group == 0) group += kChannelBlock * kDot8Group;
      });
    }
    const int32_t bias = w.bias == nullptr ? 0 : w.bias[o];
    std::memcpy(out + lane * 4, &bias, 4);
    std::memcpy(out + (kChannelBlock + lane) * 4, &sum, 4);
  });
}
}  // namespace

size_t BytesPackedSize(const ConvQ8Weights& w) { return BytesPackedSize(w, Depth(w.layout)); }
void Dot7Pack(const ConvQ8Weights& w, void* packed) {
  BytesPack(w, Depth(w.layout), kDot7Offset, packed);
}

bool Dot8Takes(const ConvQ8Weights& w, int32_t form) {
  return !NeedsWide(w) &&
         (LeastDot8Weight(form) == -128 || RangeOf(w, 255).lo >= LeastDot8Weight(form));
}
bool Dot8Supports(const ConvQ8Weights& w, const ConvGeometry&) { return Dot8Takes(w, Dot8Form()); }
void Dot8Pack(const ConvQ8Weights& w, void* packed) { BytesPack(w, Depth(w.layout), 0, packed); }

bool Dot8LinesSupports(const ConvQ8Weights& w, const ConvGeometry& g) {
  return Dot8Supports(w, g) && LinesFit(g);
}
bool Dot8LinesPays(const ConvQ8Weights&, const ConvGeometry& g) {
  return LinesPay(g, kFewForBytes);
}
size_t BytesLinesPackedSize(const ConvQ8Weights& w) {
  return BytesPackedSize(w, LineRun(w.layout));
}
void Dot8LinesPack(const ConvQ8Weights& w, void* packed) {
  BytesPack(w, LineRun(w.layout), 0, packed);
}

bool Dot7LinesSupports(const ConvQ8Weights& w, const ConvGeometry& g) {
  return LinesFit(g) && Dot7Supports(w, g);
}
bool Dot7LinesPays(const ConvQ8Weights&, const ConvGeometry& g) {
  // For short runs pairs are faster: 44 against 39 GOPS for three channels.
  return !IsShortRun(g) && LinesPay(g, kFewForDot7);
}
void Dot7LinesPack(const ConvQ8Weights& w, void* packed) {
  BytesPack(w, LineRun(w.layout), kDot7Offset, packed);
}
size_t Dot7LinesWorkspace(const ConvGeometry& g) {
  // A term for every pixel of the ring comes on top.
  const size_t terms = CheckedMul(static_cast<size_t>(g.out_w), static_cast<size_t>(g.kernel_h));
  return CheckedAdd(Dot8LinesWorkspace(g), CheckedMul(terms, sizeof(int32_t)));
}

size_t Dot7Workspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  const size_t row_bytes =
      CheckedAdd(CheckedAlign(static_cast<size_t>(conv::Depth(g)), kDot7Group), sizeof(int32_t));
  return CheckedAdd(
      kEpilogueBytes + kChannelBlock * 4,
      CheckedMul(static_cast<size_t>(PanelRows(g, static_cast<int32_t>(row_bytes))), row_bytes));
}

size_t Dot8Workspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  const size_t row_bytes = CheckedAlign(static_cast<size_t>(conv::Depth(g)), kDot8Group);
  const size_t rows = static_cast<size_t>(PanelRows(g, static_cast<int32_t>(row_bytes)));
  return CheckedAdd(kEpilogueBytes + kChannelBlock * 4, CheckedMul(rows, row_bytes));
}

}  // namespace conv

int32_t ConvQ8WeightBits(const ConvQ8Weights& w) {
  const std::optional<conv::Levels> levels = conv::LevelsOf(w, 256);
  return levels ? levels->planes : 8;
}

void ConvQ8AccumulatorBounds(const ConvQ8Weights& w, int32_t max_abs_input, int64_t* bounds) {
  for (int32_t o = 0; o < w.layout.out_c; ++o) {
    int64_t sum = 0;
    if (conv::ArePlain(w)) {
      const int8_t* plain = conv::PlainWeights(w, o);
      const auto& l = w.layout;
      const int64_t depth = int64_t{l.in_c_per_group} * l.kernel_h * l.kernel_w;
      for (int64_t k = 0; k < depth; ++k) sum += std::abs(static_cast<int32_t>(plain[k]));
    } else {
      conv::ForEachWeight(w.layout, o, [&](size_t, int64_t offset) {
        sum += std::abs(conv::WeightAt(w, o, offset));
      });
    }
    bounds[o] = sum * max_abs_input;
    if (w.bias != nullptr) bounds[o] += std::abs(static_cast<int64_t>(w.bias[o]));
  }
}

}  // namespace requant
