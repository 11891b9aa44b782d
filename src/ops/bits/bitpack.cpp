// BitPack and BitUnpack: the bit planes of small unsigned codes, bits of neighbors along one axis
// packed into words, as TVM's topi.nn.bitpack defines it (python/tvm/topi/nn/bitserial_util.py):
// plane b holds bit b, and the first of a word's elements is its most significant bit. Unlike
// there, an axis that is no multiple of the word is padded with zeros.
#include "ops/bits/bitpack.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

DType WordOf(int64_t width) {
  switch (width) {
    case 8:
      return DType::kUint8;
    case 16:
      return DType::kUint16;
    case 32:
      return DType::kUint32;
    case 64:
      return DType::kUint64;
    default:
      Fail(ErrorCode::kInvalidModel, StrCat("BitPack into words of ", width, " bits"),
           {.hint = "a pack_type of 8, 16, 32 or 64 is possible"});
  }
}

/// Attributes: `axis`, default the last; `bit_axis`, default the last of the output; `bits`,
/// default 1; `pack_type`, the bits of a word, default 32. `rank` is that of the codes.
BitPacking PackingOf(const AttributeMap& attributes, int64_t rank) {
  BitPacking p;
  p.axis = NormalizeAxis(attributes.Int("axis", -1), rank);
  p.bit_axis = NormalizeAxis(attributes.Int("bit_axis", -1), rank + 1, "bit_axis");
  p.bits = attributes.Int("bits", 1);
  p.width = attributes.Int("pack_type", 32);
  if (p.bits < 1 || p.bits > 8) {
    Fail(ErrorCode::kInvalidModel, StrCat("planes of ", p.bits, " bits"),
         {.hint = "1 to 8 are possible"});
  }
  return p;
}

template <typename AnyShape>
AnyShape PackedShape(const AnyShape& shape, const BitPacking& p,
                     typename AnyShape::value_type words) {
  AnyShape out(shape.begin(), shape.end());
  out[static_cast<size_t>(p.axis)] = std::move(words);
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(p.bit_axis), p.bits);
  return out;
}

int64_t Words(int64_t elements, int64_t width) {
  return elements / width + (elements % width != 0);
}

void InferBitPack(InferContext& context) {
  RequireDType(context, 0, {DType::kUint8, DType::kInt8});
  RequireMinRank(context, 0, 1);
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* x = context.shape(0)) {
    const BitPacking p = PackingOf(context.attributes(), static_cast<int64_t>(x->size()));
    const Dim& axis = (*x)[static_cast<size_t>(p.axis)];
    shape = PackedShape(*x, p, axis.known() ? Dim(Words(axis.value, p.width)) : Dim());
  }
  SetOutput(context, 0, WordOf(context.attributes().Int("pack_type", 32)), std::move(shape));
}

/// Joins up to eight codes, `step` elements apart, the first in the lowest byte.
uint64_t EightCodes(const uint8_t* codes, int64_t step, int64_t count) {
  uint64_t eight = 0;
  for (int64_t i = 0; i < count; ++i) eight |= static_cast<uint64_t>(codes[i * step]) << (8 * i);
  return eight;
}

/// Bit `plane` of eight codes, the first one's highest: the product has the lowest bit of byte i at
/// 8 i + 9 j for every j < 8, no two of them at the same place, and at 63 - i for j = 7 - i.
uint64_t PlaneOf(uint64_t codes, int64_t plane) {
  return ((codes >> plane & 0x0101010101010101) * 0x8040201008040201) >> 56;
}

/// Distances in the output between neighbors along each dimension of the input, and between
/// planes.
struct Steps {
  std::vector<int64_t> along;
  int64_t plane = 0;

  Steps(const Shape& out, int64_t bit_axis) : along(out.size() - 1) {
    int64_t size = 1;
    for (auto d = static_cast<int64_t>(out.size()) - 1; d >= 0; --d) {
      (d == bit_axis ? plane : along[static_cast<size_t>(d > bit_axis ? d - 1 : d)]) = size;
      size *= out[static_cast<size_t>(d)];
    }
  }
  /// The offset of element `i` of the input's dimensions [begin, end).
  int64_t Offset(const Shape& shape, size_t begin, size_t end, int64_t i) const {
    int64_t at = 0;
    for (size_t d = end; d-- > begin;) {
      at += i % shape[d] * along[d];
      i /= shape[d];
    }
    return at;
  }
};

void EvaluateBitPack(EvalContext& context) {
  const Tensor& x = context.input(0);
  if (x.rank() < 1) Fail(ErrorCode::kShapeMismatch, "BitPack of a scalar");
  const BitPacking p = PackingOf(context.attributes(), x.rank());
  const int64_t length = x.dim(p.axis), words = Words(length, p.width);
  Tensor out(WordOf(p.width), PackedShape(x.shape(), p, words));
  const Steps steps(out.shape(), p.bit_axis);
  const auto axis = static_cast<size_t>(p.axis);
  const auto rank = static_cast<size_t>(x.rank());
  const auto behind = x.shape().begin() + p.axis + 1;
  const int64_t inner = NumElements(Shape(behind, x.shape().end()));
  const int64_t outer = NumElements(Shape(x.shape().begin(), behind - 1));
  const auto word_bytes = static_cast<size_t>(p.width / 8);
  const auto* codes = static_cast<const uint8_t*>(x.raw());
  auto* bytes = static_cast<uint8_t*>(out.raw());
  for (int64_t before = 0; before < outer; ++before) {
    for (int64_t after = 0; after < inner; ++after) {
      const int64_t at =
          steps.Offset(x.shape(), 0, axis, before) + steps.Offset(x.shape(), axis + 1, rank, after);
      const uint8_t* lane = codes + before * length * inner + after;
      for (int64_t word = 0; word < words; ++word) {
        uint64_t planes[8] = {};
        for (int64_t k = word * p.width; k < (word + 1) * p.width; k += 8) {
          const int64_t count = std::clamp(length - k, int64_t{0}, int64_t{8});
          const uint64_t eight = count > 0 ? EightCodes(lane + k * inner, inner, count) : 0;
          for (int64_t b = 0; b < p.bits; ++b) planes[b] = planes[b] << 8 | PlaneOf(eight, b);
        }
        for (int64_t b = 0; b < p.bits; ++b) {
          const int64_t to = at + word * steps.along[axis] + b * steps.plane;
          std::memcpy(bytes + static_cast<size_t>(to) * word_bytes, &planes[b], word_bytes);
        }
      }
    }
  }
  context.outputs[0] = std::move(out);
}

// --- BitUnpack: attributes as above, without pack_type, and `length`, the number of codes along
// the packed axis, by default all that the words hold

void InferBitUnpack(InferContext& context) {
  RequireDType(context, 0, {DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64});
  RequireMinRank(context, 0, 2);
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* x = context.shape(0)) {
    const BitPacking p = PackingOf(context.attributes(), static_cast<int64_t>(x->size()) - 1);
    shape = *x;
    shape->erase(shape->begin() + static_cast<std::ptrdiff_t>(p.bit_axis));
    Dim& axis = (*shape)[static_cast<size_t>(p.axis)];
    const int64_t length = context.attributes().Int("length", -1);
    const bool known = axis.known() && context.inputs[0].dtype != DType::kUndefined;
    if (length >= 0) {
      axis = Dim(length);
    } else {
      axis = known ? Dim(axis.value * WordBits(context.inputs[0].dtype)) : Dim();
    }
  }
  SetOutput(context, 0, DType::kUint8, std::move(shape));
}

/// Spreads eight bits, the highest one first, to the lowest bits of eight bytes.
uint64_t BytesOfBits(uint64_t bits) {
  // Byte i of the product of 2^7, 2^6 ... has bit 7 - i of `bits` as its highest bit.
  const uint64_t spread = (bits * 0x8040201008040201) & 0x8080808080808080;
  return spread >> 7;
}

void EvaluateBitUnpack(EvalContext& context) {
  const Tensor& packed = context.input(0);
  if (packed.rank() < 2) Fail(ErrorCode::kShapeMismatch, "BitUnpack of fewer than two dimensions");
  BitPacking p = PackingOf(context.attributes(), packed.rank() - 1);
  p.width = WordBits(packed.dtype());
  const int64_t all = packed.dim(p.axis >= p.bit_axis ? p.axis + 1 : p.axis) * p.width;
  const int64_t length = context.attributes().Int("length", -1);
  context.outputs[0] = UnpackBits(packed, p, length < 0 ? all : length);
}

constexpr OpDef BitSerialRow(const char* name) {
  OpDef row = OnIntegers({name, kRequantDomain, 1, 2, 2, 1, InferBitSerial, EvaluateBitSerial,
                          QuantRule::kFloat, FusionRule::kOutFusable});
  row.rewrite = RewriteBitSerial;
  return row;
}

constexpr OpDef kRows[] = {
    {"BitPack", kRequantDomain, 1, 1, 1, 1, InferBitPack, EvaluateBitPack, QuantRule::kFloat},
    {"BitUnpack", kRequantDomain, 1, 1, 1, 1, InferBitUnpack, EvaluateBitUnpack, QuantRule::kFloat},
    BitSerialRow("BitSerialConv"),
    BitSerialRow("BitSerialMatMul"),
};

}  // namespace

int64_t WordBits(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return 8;
    case DType::kUint16:
      return 16;
    case DType::kUint32:
      return 32;
    case DType::kUint64:
      return 64;
    default:
      Fail(ErrorCode::kTypeMismatch, StrCat("bits packed into ", DTypeName(dtype)),
           {.hint = "words are uint8, uint16, uint32 or uint64"});
  }
}

Tensor UnpackBits(const Tensor& packed, const BitPacking& p, int64_t length) {
  Shape shape = packed.shape();
  const int64_t planes = shape[static_cast<size_t>(p.bit_axis)];
  shape.erase(shape.begin() + p.bit_axis);
  const auto axis = static_cast<size_t>(p.axis);
  const int64_t words = shape[axis];
  if (planes != p.bits || Words(length, p.width) != words) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat(planes, " planes of ", words, " words of ", p.width, " bits do not hold ", length,
                " codes of ", p.bits, " bits"));
  }
  shape[axis] = length;
  Tensor out(DType::kUint8, shape);
  const Steps steps(packed.shape(), p.bit_axis);
  const auto rank = shape.size();
  const int64_t inner = NumElements(Shape(shape.begin() + p.axis + 1, shape.end()));
  const int64_t outer = NumElements(Shape(shape.begin(), shape.begin() + p.axis));
  const auto word_bytes = static_cast<size_t>(p.width / 8);
  const auto* bytes = static_cast<const uint8_t*>(packed.raw());
  auto* codes = out.data<uint8_t>();
  for (int64_t before = 0; before < outer; ++before) {
    for (int64_t after = 0; after < inner; ++after) {
      const int64_t at =
          steps.Offset(shape, 0, axis, before) + steps.Offset(shape, axis + 1, rank, after);
      uint8_t* lane = codes + before * length * inner + after;
      for (int64_t word = 0; word < words; ++word) {
        uint64_t of_planes[8] = {};
        for (int64_t b = 0; b < p.bits; ++b) {
          const int64_t from = at + word * steps.along[axis] + b * steps.plane;
          std::memcpy(&of_planes[b], bytes + static_cast<size_t>(from) * word_bytes, word_bytes);
        }
        for (int64_t k = 0; k < p.width; k += 8) {
          const int64_t first = word * p.width + k;
          const int64_t count = std::clamp(length - first, int64_t{0}, int64_t{8});
          uint64_t eight = 0;
          for (int64_t b = 0; b < p.bits; ++b) {
            eight |= BytesOfBits(of_planes[b] >> (p.width - 8 - k) & 255) << b;
          }
          for (int64_t i = 0; i < count; ++i) {
            lane[(first + i) * inner] = static_cast<uint8_t>(eight >> (8 * i));
          }
        }
      }
    }
  }
  return out;
}

std::span<const OpDef> BitPackOps() { return kRows; }

}  // namespace requant
