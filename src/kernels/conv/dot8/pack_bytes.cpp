// Weights as bytes, for the rows that multiply bytes: 7 bits of them, or all 8.
#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "kernels/conv/blocking.h"
#include "kernels/conv/pack.h"
#include "kernels/conv/pack_walk.h"
#include "kernels/geometry_check.h"
#include "kernels/variant/missing.h"

namespace requant::conv {
namespace {

/// The amount added to the weights of the 7-bit kernel: [-64, 63] becomes [0, 127].
constexpr int32_t kDot7Offset = 64;

/// The number of int32 values for each channel at the begin of a block: a bias, a sum, and, for the
/// kernels on whole bytes, a middle (dot8.h).
enum class Header : size_t { kSums = 2, kMiddles = 3 };

/// Bytes of one block: its header, and runs padded to whole groups.
size_t BytesBlock(const ConvWeightsLayout& l, size_t run, Header header) {
  const size_t deep = CheckedMul(Depth(l) / run, CheckedAlign(run, kDot8Group));
  return CheckedMul(CheckedAdd(static_cast<size_t>(header) * 4, deep), kChannelBlock);
}

size_t BytesPackedSize(const ConvQ8Weights& w, size_t run, Header header) {
  return CheckedMul(Blocks(w.layout), BytesBlock(w.layout, run, header));
}

/// The middle of the range of a channel's weights less their zero point, which is subtracted so
/// that they fit int8; 0 if they fit without it.
int32_t MiddleOf(const ConvQ8Weights& w, int32_t o) {
  int32_t lo = 0, hi = 0;
  ForEachWeight(w.layout, o, [&](size_t, int64_t offset) {
    const int32_t value = WeightAt(w, o, offset);
    lo = std::min(lo, value);
    hi = std::max(hi, value);
  });
  return lo >= -127 && hi <= 127 ? 0 : (lo + hi + 1) >> 1;
}

/// How weights that need nine bits are packed.
enum class Affine { kNo, kGathered, kLines };

/// Packs the weights of the kernels on bytes and adds `code` to each. kMiddles subtracts the
/// middle of each channel unless `affine` is kNo; then the middles are 0.
void BytesPack(const ConvQ8Weights& w, size_t run, int32_t code, Header header, Affine affine,
               void* packed) {
  // k past a run get the code of weight 0; lanes past the last channel are never stored.
  const size_t block_bytes = BytesBlock(w.layout, run, header);
  std::memset(packed, code, BytesPackedSize(w, run, header));
  ForEachChannel(w.layout, [&](size_t block, int32_t lane, int32_t o) {
    uint8_t* out = static_cast<uint8_t*>(packed) + block * block_bytes;
    int32_t sum = 0;
    uint8_t* group =
        out + (kChannelBlock * static_cast<size_t>(header) + static_cast<size_t>(lane)) * 4;
    size_t in_run = 0;
    const int32_t middle = affine == Affine::kNo ? 0 : MiddleOf(w, o);
    if (middle == 0 && ArePlain(w) && w.layout.kernel_h == 1 && w.layout.kernel_w == 1 &&
        code == 0) {
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
        const int32_t value = WeightAt(w, o, offset) - middle;
        sum += affine == Affine::kLines ? value + middle : value;
        group[in_run % kDot8Group] = static_cast<uint8_t>(value + code);
        if (++in_run == run) {
          for (; affine == Affine::kLines && in_run % kDot8Group != 0; ++in_run) {
            group[in_run % kDot8Group] = static_cast<uint8_t>(-middle);
          }
          in_run = 0;
        }
        if (in_run % kDot8Group == 0) group += kChannelBlock * kDot8Group;
      });
    }
    const int32_t bias = w.bias == nullptr ? 0 : w.bias[o];
    std::memcpy(out + lane * 4, &bias, 4);
    std::memcpy(out + (kChannelBlock + lane) * 4, &sum, 4);
    if (middle != 0) std::memcpy(out + (2 * kChannelBlock + lane) * 4, &middle, 4);
  });
}

/// The form of BytesPack with runs of whole channels.
PackedCodes BytesForm(const ConvQ8Weights& w, int32_t code, Header header, const void* packed) {
  const size_t table = kChannelBlock * 4;
  return {static_cast<const uint8_t*>(packed),
          BytesBlock(w.layout, Depth(w.layout), header),
          static_cast<size_t>(header) * table,
          kDot8Group,
          1,
          -code,
          header == Header::kMiddles ? 2 * table : 0};
}

}  // namespace

bool Dot7Supports(const ConvQ8Weights& w, const ConvGeometry&) {
  const WeightRange range = RangeOf(w, 127);
  return range.lo >= -kDot7Offset && range.hi <= 127 - kDot7Offset;
}

size_t BytesPackedSize(const ConvQ8Weights& w) {
  return BytesPackedSize(w, Depth(w.layout), Header::kSums);
}
void Dot7Pack(const ConvQ8Weights& w, void* packed) {
  BytesPack(w, Depth(w.layout), kDot7Offset, Header::kSums, Affine::kNo, packed);
}

void Dot7Unpack(const ConvQ8Weights& w, const void* packed, void* to) {
  UnpackCodes(w, BytesForm(w, kDot7Offset, Header::kSums, packed), to);
}

bool Dot8Takes(const ConvQ8Weights& w, int32_t form) {
  return !NeedsWide(w) &&
         (LeastDot8Weight(form) == -128 || RangeOf(w, 255).lo >= LeastDot8Weight(form));
}
bool Dot8Supports(const ConvQ8Weights& w, const ConvGeometry&) { return Dot8Takes(w, Dot8Form()); }
size_t Dot8PackedSize(const ConvQ8Weights& w) {
  return BytesPackedSize(w, Depth(w.layout), Header::kMiddles);
}
void Dot8Pack(const ConvQ8Weights& w, void* packed) {
  if (AreDynamicRows(w)) return Dot8PackRows(w, packed);
  if (AreDynamicColumns(w)) return Dot8PackColumns(w, packed);
  BytesPack(w, Depth(w.layout), 0, Header::kMiddles, Affine::kNo, packed);
}

void Dot8Unpack(const ConvQ8Weights& w, const void* packed, void* to) {
  UnpackCodes(w, BytesForm(w, 0, Header::kMiddles, packed), to);
}

bool Dot8AffineSupports(const ConvQ8Weights&, const ConvGeometry&) {
  // Codes of a channel are up to 255 apart, so without their middle they are -128 to 127.
  return LeastDot8Weight(Dot8Form()) == -128;
}
bool Dot8AffineIsPreferred(const ConvQ8Weights& w, const ConvGeometry& g) {
  // Dynamic weights are packed in every run, which takes long unless their rows lie in memory.
  // First layers take a quarter of the time, or less, by products of lines in place.
  const bool first = LinesFit(g) && ShortRunsArePreferred(g, kPairsLines);
  if (w.dynamic && !AreDynamicRows(w)) return false;
  return !first && !Dot8Supports(w, g);
}
void Dot8AffinePack(const ConvQ8Weights& w, void* packed) {
  if (AreDynamicRows(w)) return Dot8PackRows(w, packed);
  BytesPack(w, Depth(w.layout), 0, Header::kMiddles, Affine::kGathered, packed);
}

bool Dot8LinesSupports(const ConvQ8Weights& w, const ConvGeometry& g) {
  return Dot8Supports(w, g) && LinesFit(g);
}
bool Dot8LinesIsPreferred(const ConvQ8Weights&, const ConvGeometry& g) {
  return LinesArePreferred(g, kBytesLines);
}
size_t Dot8LinesPackedSize(const ConvQ8Weights& w) {
  return BytesPackedSize(w, LineRun(w.layout), Header::kMiddles);
}
void Dot8LinesPack(const ConvQ8Weights& w, void* packed) {
  BytesPack(w, LineRun(w.layout), 0, Header::kMiddles, Affine::kNo, packed);
}

bool Dot8AffineLinesSupports(const ConvQ8Weights& w, const ConvGeometry& g) {
  return Dot8AffineSupports(w, g) && LinesFit(g);
}
bool Dot8AffineLinesIsPreferred(const ConvQ8Weights& w, const ConvGeometry& g) {
  return !w.dynamic && !Dot8Supports(w, g) && LinesArePreferred(g, kBytesLines);
}
void Dot8AffineLinesPack(const ConvQ8Weights& w, void* packed) {
  BytesPack(w, LineRun(w.layout), 0, Header::kMiddles, Affine::kLines, packed);
}

size_t BytesLinesPackedSize(const ConvQ8Weights& w) {
  return BytesPackedSize(w, LineRun(w.layout), Header::kSums);
}

bool Dot7LinesSupports(const ConvQ8Weights& w, const ConvGeometry& g) {
  return LinesFit(g) && Dot7Supports(w, g);
}
bool Dot7LinesIsPreferred(const ConvQ8Weights&, const ConvGeometry& g) {
  // Shorter runs are 1.1 to 1.6 times as fast by pairs, since a step of four values holds too few.
  constexpr int32_t kLeastRun = 12;
  return g.kernel_w * g.in_c >= kLeastRun && LinesArePreferred(g, kBytesLines);
}
void Dot7LinesPack(const ConvQ8Weights& w, void* packed) {
  BytesPack(w, LineRun(w.layout), kDot7Offset, Header::kSums, Affine::kNo, packed);
}
size_t Dot7LinesWorkspace(const ConvGeometry& g) {
  // Bytes take half of what pairs do, and the bases of a block and a term for every pixel of the
  // ring come on top.
  const size_t terms = CheckedMul(static_cast<size_t>(g.out_w), static_cast<size_t>(g.kernel_h));
  return CheckedAdd(CheckedAdd(LinesWorkspace(g), kChannelBlock * 4),
                    CheckedMul(terms, sizeof(int32_t)));
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
  // A term for every row of affine weights comes on top.
  return CheckedAdd(kEpilogueBytes + kChannelBlock * 4,
                    CheckedMul(rows, CheckedAdd(row_bytes, sizeof(int32_t))));
}

size_t Dot8LinesWorkspace(const ConvGeometry& g) {
  // Affine weights have a term for every pixel of the ring, as those of 7 bits do, and for every
  // pixel of a strip.
  return CheckedAdd(Dot7LinesWorkspace(g), kEpilogueRows * sizeof(int32_t));
}

}  // namespace requant::conv
