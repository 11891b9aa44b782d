// Packing for vector_popcount.cpp: splits weights into bit planes.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked_math.h"
#include "kernels/bitserial/pack.h"
#include "kernels/bitserial/popcount.h"
#include "kernels/conv/levels.h"
#include "kernels/conv/pack_walk.h"
#include "kernels/geometry_check.h"

namespace requant::bitserial {
namespace {

constexpr size_t kAnyNumber = 256;
constexpr size_t kBlockHeader = size_t{2} * conv::kChannelBlock * 4;

size_t Words(const ConvWeightsLayout& l) {
  return CheckedAdd(conv::Depth(l), kWordBits - 1) / kWordBits;
}

size_t PlaneBytes(const ConvWeightsLayout& l) { return CheckedMul(Words(l), kBlockWordBytes); }

size_t BlockBytes(const ConvWeightsLayout& l, int32_t planes) {
  return CheckedAdd(kBlockHeader, CheckedMul(PlaneBytes(l), static_cast<size_t>(planes)));
}

}  // namespace

bool PopcountSupports(const ConvQ8Weights& w, const ConvGeometry&) {
  if (w.input_hi - w.input_lo > 255) return false;  // the type of the codes is not known
  // With one zero point for all channels, weights are as close together as their codes, so their
  // values need no check.
  const int32_t* zeros = w.zero_points;
  return zeros == nullptr || std::equal(zeros + 1, zeros + w.layout.out_c, zeros) ||
         conv::LevelsOf(w, kAnyNumber);
}

bool PopcountIsPreferred(const ConvQ8Weights& w, const ConvGeometry& g) {
  // Counting is faster for one bit by one bit and few pixels. GOPS on Zen 5 by lookups and by
  // counting: 512 to 512 channels of one pixel 69 and 80, of four pixels 216 and 208; 512 to 56
  // channels of 196 pixels 369 and 238.
  const int32_t depth = g.in_c / g.groups;
  return g.kernel_h * g.kernel_w == 1 && w.input_hi - w.input_lo == 1 && depth >= 256 &&
         ConvRows(g) < 4 && conv::LevelsOf(w, 2);
}

size_t PopcountPackedSize(const ConvQ8Weights& w) {
  const int32_t planes = conv::LevelsOf(w, kAnyNumber)->planes;
  return CheckedAdd(sizeof(PopcountHeader),
                    CheckedMul(conv::Blocks(w.layout), BlockBytes(w.layout, planes)));
}

void PopcountPack(const ConvQ8Weights& w, void* packed) {
  const conv::Levels levels = *conv::LevelsOf(w, kAnyNumber);
  const size_t block_bytes = BlockBytes(w.layout, levels.planes),
               plane_bytes = PlaneBytes(w.layout);
  std::memset(packed, 0, PopcountPackedSize(w));
  PopcountHeader header = {};
  header.offset = levels.offset;
  header.scale = levels.scale;
  header.planes = levels.planes;
  const auto range = static_cast<uint32_t>(w.input_hi - w.input_lo);
  header.input_planes = range == 0 ? 1 : static_cast<int32_t>(std::bit_width(range));
  header.input_lo = w.input_lo;
  std::memcpy(packed, &header, sizeof(header));
  uint8_t* first = static_cast<uint8_t*>(packed) + sizeof(header);
  conv::ForEachChannel(w.layout, [&](size_t block, int32_t lane, int32_t o) {
    uint8_t* out = first + block * block_bytes;
    uint8_t* words = out + kBlockHeader + static_cast<size_t>(lane) * (kWordBits / 8);
    int32_t sum = 0;
    conv::ForEachWeight(w.layout, o, [&](size_t k, int64_t offset) {
      const int32_t value = conv::WeightAt(w, o, offset);
      sum += value;
      const int32_t u = (value - levels.offset) / levels.scale;
      uint8_t* to = words + k / kWordBits * kBlockWordBytes + k % kWordBits / 8;
      for (int32_t plane = 0; plane < levels.planes; ++plane, to += plane_bytes) {
        *to = static_cast<uint8_t>(*to | (u >> plane & 1) << k % 8);
      }
    });
    const int32_t bias = w.bias == nullptr ? 0 : w.bias[o];
    std::memcpy(out + lane * 4, &bias, 4);
    std::memcpy(out + (conv::kChannelBlock + lane) * 4, &sum, 4);
  });
}

size_t PopcountWorkspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  const auto words = static_cast<size_t>(PopcountWords(g));
  const auto rows = static_cast<size_t>(PopcountRows(g));
  // Adds up what PopcountPartsOf does, in sizes that cannot wrap.
  const size_t bits = CheckedMul(CheckedMul(rows, words), size_t{kMostPlanes} * (kWordBits / 8));
  return CheckedAdd(CheckedAdd(conv::kEpilogueBytes, CheckedMul(words, kWordBits)),
                    CheckedAdd(CheckedAlign(CheckedMul(rows, 4), 16), bits));
}

}  // namespace requant::bitserial
