// BitPack: the bit planes of small unsigned codes, bits of neighbours along one axis packed into
// words, as TVM's topi.nn.bitpack defines it (python/tvm/topi/nn/bitserial_util.py): plane b holds
// bit b, and the first of a word's elements is its most significant bit. Unlike there, an axis that
// is no multiple of the word is padded with zeros.
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

/// Attributes: `axis` is packed, default the last; the planes are dimension `bit_axis` of the
/// output, default the last; `bits` planes, 1 to 8, default 1; words of `pack_type` bits: 8, 16, 32
/// or 64, default 32.
struct Packing {
  int64_t axis, bit_axis, bits, width;
};

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

Packing PackingOf(const AttributeMap& attributes, int64_t rank) {
  Packing p{};
  p.axis = NormalizeAxis(attributes.Int("axis", -1), rank);
  p.bit_axis = NormalizeAxis(attributes.Int("bit_axis", -1), rank + 1, "bit_axis");
  p.bits = attributes.Int("bits", 1);
  p.width = attributes.Int("pack_type", 32);
  if (p.bits < 1 || p.bits > 8) {
    Fail(ErrorCode::kInvalidModel, StrCat("BitPack of ", p.bits, " bits"),
         {.hint = "1 to 8 are possible"});
  }
  return p;
}

template <typename AnyShape>
AnyShape PackedShape(const AnyShape& shape, const Packing& p, typename AnyShape::value_type words) {
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
    const Packing p = PackingOf(context.attributes(), static_cast<int64_t>(x->size()));
    const Dim& axis = (*x)[static_cast<size_t>(p.axis)];
    shape = PackedShape(*x, p, axis.known() ? Dim(Words(axis.value, p.width)) : Dim());
  }
  SetOutput(context, 0, WordOf(context.attributes().Int("pack_type", 32)), std::move(shape));
}

void EvaluateBitPack(EvalContext& context) {
  const Tensor& x = context.input(0);
  if (x.rank() < 1) Fail(ErrorCode::kShapeMismatch, "BitPack of a scalar");
  const Packing p = PackingOf(context.attributes(), x.rank());
  const int64_t length = x.dim(p.axis), words = Words(length, p.width);
  Tensor out(WordOf(p.width), PackedShape(x.shape(), p, words));
  std::memset(out.raw(), 0, out.bytes());
  const int64_t rank = x.rank();
  // Elements of the output from one to the next along the dimensions of the input.
  std::vector<int64_t> step(static_cast<size_t>(rank));
  int64_t plane_step = 0, size = 1;
  for (int64_t d = rank; d >= 0; --d) {
    if (d == p.bit_axis) {
      plane_step = size;
    } else {
      step[static_cast<size_t>(d > p.bit_axis ? d - 1 : d)] = size;
    }
    size *= out.dim(d);
  }
  const auto* codes = static_cast<const uint8_t*>(x.raw());
  const size_t word_bytes = static_cast<size_t>(p.width / 8);
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t rest = i, at = 0, k = 0;
    for (int64_t d = rank - 1; d >= 0; --d) {
      int64_t index = rest % x.dim(d);
      rest /= x.dim(d);
      if (d == p.axis) {
        k = index;
        index /= p.width;
      }
      at += index * step[static_cast<size_t>(d)];
    }
    const auto shift = static_cast<uint32_t>(p.width - 1 - k % p.width);
    for (int64_t b = 0; b < p.bits; ++b) {
      uint8_t* to =
          static_cast<uint8_t*>(out.raw()) + static_cast<size_t>(at + b * plane_step) * word_bytes;
      uint64_t word = 0;
      std::memcpy(&word, to, word_bytes);
      word |= static_cast<uint64_t>(codes[i] >> b & 1) << shift;
      std::memcpy(to, &word, word_bytes);
    }
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"BitPack", kRequantDomain, 1, 1, 1, 1, InferBitPack, EvaluateBitPack, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> BitPackOps() { return kRows; }

}  // namespace requant
