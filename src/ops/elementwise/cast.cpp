// Cast, CastLike (onnx docs/Operators.md). Floats beyond an integer's range, which ONNX leaves
// undefined, saturate, so that no result depends on the compiler.
#include "ops/elementwise/cast.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/cast_loops.h"
#include "ops/infer_util.h"
#include "ops/table.h"
#include "tensor/half.h"
#include "tensor/text.h"

namespace requant {
namespace {

/// One of three types represents every source value exactly, so each target has three loops instead
/// of one for each source.
enum class Carrier : uint8_t { kDouble, kSigned, kUnsigned };

Carrier CarrierOf(DType dtype) {
  if (IsFloat(dtype)) return Carrier::kDouble;
  return dtype == DType::kUint64 ? Carrier::kUnsigned : Carrier::kSigned;
}

/// A float that rounds to fewer bits as the value does.
float ToOddFloat(double value) { return RoundToOdd(value); }
float ToOddFloat(uint64_t value) {
  // A double has 53 bits; the last one says whether any behind it is set.
  if (value >> 53 != 0) value = (value >> 11 | ((value & 2047) != 0 ? 1 : 0)) << 11;
  return RoundToOdd(static_cast<double>(value));
}
float ToOddFloat(int64_t value) {
  return value < 0 ? -ToOddFloat(uint64_t{0} - static_cast<uint64_t>(value))
                   : ToOddFloat(static_cast<uint64_t>(value));
}

template <typename From>
void Store(Tensor& out, int64_t index, From value, bool saturate) {
  void* raw = out.raw();
  auto* bytes = static_cast<uint8_t*>(raw);
  switch (out.dtype()) {
    case DType::kBool:
      bytes[index] = value != From{0};
      return;
    case DType::kFloat16:
      static_cast<uint16_t*>(raw)[index] = FloatToHalf(ToOddFloat(value));
      return;
    case DType::kBfloat16:
      static_cast<uint16_t*>(raw)[index] = FloatToBfloat(ToOddFloat(value));
      return;
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
      bytes[index] = kFloatToFloat8(out.dtype(), ToOddFloat(value), saturate);
      return;
    case DType::kInt4:
    case DType::kUint4:
    case DType::kInt2:
    case DType::kUint2: {
      const bool is_signed = out.dtype() == DType::kInt4 || out.dtype() == DType::kInt2;
      const int bits = DTypeBits(out.dtype());
      const int64_t values = int64_t{1} << bits;
      const auto field = Saturate<int64_t>(value, is_signed ? -values / 2 : 0,
                                           (is_signed ? values / 2 : values) - 1) &
                         (values - 1);
      const int64_t per_byte = 8 / bits;
      bytes[index / per_byte] |= static_cast<uint8_t>(field << (index % per_byte * bits));
      return;
    }
    default:
      break;
  }
  VisitDType(out.dtype(), [&](auto tag) {
    using To = decltype(tag);
    auto* to = static_cast<To*>(raw);
    if constexpr (std::is_floating_point_v<To>) {
      to[index] = static_cast<To>(value);
    } else {
      to[index] =
          Saturate<To>(value, std::numeric_limits<To>::min(), std::numeric_limits<To>::max());
    }
  });
}

DType TargetOf(const AttributeMap& attributes) {
  const int64_t to = attributes.Int("to", 0);
  const DType dtype = to > 0 && to < 256 ? static_cast<DType>(to) : DType::kUndefined;
  if (DTypeBits(dtype) == 0) {
    Fail(ErrorCode::kUnsupported,
         StrCat("Cast to data type number ", to, " (", DTypeName(dtype), ") is not supported"));
  }
  return dtype;
}

void InferCast(InferContext& context) {
  SetOutput(context, 0, TargetOf(context.attributes()), context.inputs[0].shape);
}

/// Converts the numbers of `input` into `out`, which has their shape. Elements of `out` that share
/// bytes must be 0.
void CastInto(const Tensor& input, Tensor& out, bool saturate) {
  const DType to = out.dtype();
  const auto count = static_cast<size_t>(input.count());
  if (IsHalf(input.dtype()) && to == DType::kFloat32) {
    return HalvesToFloats(input.dtype(), static_cast<const uint16_t*>(input.raw()), count,
                          out.data<float>());
  }
  if (input.dtype() == DType::kFloat32 && IsHalf(to)) {
    return FloatsToHalves(to, input.data<float>(), count, static_cast<uint16_t*>(out.raw()));
  }
  if (kCastNumbers.loaded() &&
      kCastNumbers(input.dtype(), input.raw(), to, out.raw(), input.count())) {
    return;
  }
  for (int64_t i = 0; i < input.count(); ++i) {
    switch (CarrierOf(input.dtype())) {
      case Carrier::kDouble:
        Store(out, i, input.AsDouble(i), saturate);
        break;
      case Carrier::kSigned:
        Store(out, i, input.AsInt64(i), saturate);
        break;
      case Carrier::kUnsigned:
        Store(out, i, input.data<uint64_t>()[i], saturate);
        break;
    }
  }
}

bool Saturates(const EvalContext& context) { return context.attributes().Int("saturate", 1) != 0; }

void CastTo(EvalContext& context, DType to) {
  const Tensor& x = context.input(0);
  const bool moves = x.dtype() == to || IsText(x.dtype()) || IsText(to) || DTypeBits(to) < 8;
  if (moves || DTypeBits(x.dtype()) == 0) {
    context.outputs[0] = CastTensor(x, to, Saturates(context));
    return;
  }
  Tensor out = context.Output(0, to, x.shape());
  CastInto(x, out, Saturates(context));
  context.outputs[0] = std::move(out);
}

void EvaluateCast(EvalContext& context) { CastTo(context, TargetOf(context.attributes())); }

void InferCastLike(InferContext& context) {
  SetOutput(context, 0, context.inputs[1].dtype, context.inputs[0].shape);
}

void EvaluateCastLike(EvalContext& context) { CastTo(context, context.input(1).dtype()); }

constexpr OpDef kRows[] = {
    {"Cast", "", 6, 1, 1, 1, InferCast, EvaluateCast, QuantRule::kFloat, FusionRule::kBroadcast},
    {"CastLike", "", 15, 2, 2, 1, InferCastLike, EvaluateCastLike, QuantRule::kFloat,
     FusionRule::kBroadcast},
};

}  // namespace

Tensor CastTensor(const Tensor& input, DType to, bool saturate) {
  if (DTypeBits(input.dtype()) == 0 || DTypeBits(to) == 0) {
    Fail(ErrorCode::kUnsupported,
         StrCat("cannot cast ", DTypeName(input.dtype()), " to ", DTypeName(to)));
  }
  if (input.dtype() == to) return input;
  if (IsText(input.dtype())) return CastTensor(kNumbersOfTexts(input, to), to, saturate);
  if (IsText(to)) return kTextsOfNumbers(input);
  Tensor out(to, input.shape());
  CastInto(input, out, saturate);
  return out;
}

std::span<const OpDef> CastOps() { return kRows; }

}  // namespace requant
