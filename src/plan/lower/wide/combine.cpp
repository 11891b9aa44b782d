#include "plan/lower/wide/combine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "plan/lower/elementwise/epilogue.h"

namespace requant::wide {
namespace {

/// Rows that are computed for all channels in turn, so that their sums stay in a first-level cache.
constexpr size_t kRows = 32;

/// Loads `count` sums as two vectors; the other lanes are 0.
RQ_INLINE Eight LoadSums(const int32_t* from, size_t count) {
  if (count >= 8) return {wasm_v128_load(from), wasm_v128_load(from + 4)};
  alignas(16) int32_t some[8] = {};
  __builtin_memcpy(some, from, count * sizeof(int32_t));
  return {wasm_v128_load(some), wasm_v128_load(some + 4)};
}

}  // namespace

void Combiner::Set(std::vector<double> all_multipliers, std::vector<int32_t> all_biases,
                   double bound) {
  double largest = 0;
  for (const double by : all_multipliers) largest = std::max(largest, std::abs(by));
  fits = bound <= std::numeric_limits<int32_t>::max();
  // A NaN or infinity is not small.
  small = fits && !floats && bound * largest <= kSmall;
  multipliers = std::move(all_multipliers);
  bias = std::move(all_biases);
  const size_t padded = (channels + 7) / 8 * 8;
  multipliers.resize(padded, 0);
  bias.resize(padded, 0);
}

void Combiner::Run(const Sums& sums, size_t rows, size_t first, size_t count, uint8_t* out,
                   uint8_t* low) const {
  for (size_t row = 0; row < rows; row += kRows) {
    const size_t some = std::min(kRows, rows - row);
    const Sums from{sums.high ? sums.high + row * sums.stride : nullptr,
                    sums.low + row * sums.stride, sums.stride};
    const size_t at = row * channels * ElementBytes();
    uint8_t* to_low = planes ? low + at : nullptr;
    if (small) {
      RunSmall(from, some, first, count, out + at, to_low);
    } else {
      RunAny(from, some, first, count, out + at, to_low);
    }
  }
}

/// Stores eight codes as int16 lanes, or `count` of them, at element `at`.
RQ_MEMBER void Combiner::StoreCodes(Form form, v128_t codes, size_t at, size_t count, uint8_t* out,
                                    uint8_t* low) {
  alignas(16) uint8_t rest[16];
  if (form == Form::kWhole) {
    if (count >= 8) {
      wasm_v128_store(out + 2 * at, codes);
      return;
    }
    wasm_v128_store(rest, codes);
    __builtin_memcpy(out + 2 * at, rest, 2 * count);
    return;
  }
  // The low bytes of all codes, then the high ones. A code of eight bits is its low byte.
  const v128_t split =
      wasm_i8x16_shuffle(codes, codes, 0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  uint8_t* to_low = form == Form::kPlanes ? low : out;
  if (count >= 8) {
    wasm_v128_store64_lane(to_low + at, split, 0);
    if (form == Form::kPlanes) wasm_v128_store64_lane(out + at, split, 1);
    return;
  }
  wasm_v128_store(rest, split);
  __builtin_memcpy(to_low + at, rest, count);
  if (form == Form::kPlanes) __builtin_memcpy(out + at, rest + 8, count);
}

void Combiner::RunSmall(const Sums& sums, size_t rows, size_t first, size_t count, uint8_t* out,
                        uint8_t* low) const {
  // Stores of bytes may change any member, so that loops read copies.
  const SmallRounder round(to, kind == Kind::kUint16);
  const Form form = FormOf();
  const size_t pitch = channels, stride = sums.stride;
  const int32_t* low_sums = sums.low;
  const int32_t* high_sums = sums.high;
  for (size_t c = 0; c < count; c += 8) {
    const size_t some = std::min<size_t>(8, count - c);
    const double* by = multipliers.data() + first + c;
    const Four by_low{wasm_v128_load(by), wasm_v128_load(by + 2)};
    const Four by_high{wasm_v128_load(by + 4), wasm_v128_load(by + 6)};
    const v128_t bias_low = wasm_v128_load(bias.data() + first + c);
    const v128_t bias_high = wasm_v128_load(bias.data() + first + c + 4);
    size_t at = first + c, from = c;
    for (size_t row = 0; row < rows; ++row, at += pitch, from += stride) {
      const Eight l = LoadSums(low_sums + from, some);
      v128_t a = wasm_i32x4_add(l.low, bias_low), b = wasm_i32x4_add(l.high, bias_high);
      if (high_sums) {
        const Eight h = LoadSums(high_sums + from, some);
        a = wasm_i32x4_add(a, wasm_i32x4_shl(h.low, 8));
        b = wasm_i32x4_add(b, wasm_i32x4_shl(h.high, 8));
      }
      const v128_t codes = round(ToDoubles(a) * by_low, ToDoubles(b) * by_high);
      StoreCodes(form, codes, at, some, out, low);
    }
  }
}

void Combiner::RunAny(const Sums& sums, size_t rows, size_t first, size_t count, uint8_t* out,
                      uint8_t* low) const {
  const Rounder round(to);
  const v128_t unit = wasm_f64x2_splat(256);
  const Four units{unit, unit};
  for (size_t row = 0; row < rows; ++row) {
    for (size_t c = 0; c < count; c += 8) {
      const size_t some = std::min<size_t>(8, count - c), from = row * sums.stride + c;
      const size_t at = row * channels + first + c;
      const double* by = multipliers.data() + first + c;
      const int32_t* addend = bias.data() + first + c;
      const Eight l = LoadSums(sums.low + from, some);
      const Eight h = sums.high ? LoadSums(sums.high + from, some) : Eight{};
      const auto product = [&](v128_t high, v128_t low_sums, const int32_t* add,
                               const double* times) {
        const Four multiplier{wasm_v128_load(times), wasm_v128_load(times + 2)};
        const v128_t b = wasm_v128_load(add);
        if (fits) {
          const v128_t sum =
              wasm_i32x4_add(wasm_i32x4_add(low_sums, b),
                             sums.high ? wasm_i32x4_shl(high, 8) : wasm_i32x4_splat(0));
          return ToDoubles(sum) * multiplier;
        }
        Four sum = ToDoubles(low_sums);
        if (sums.high) sum = ToDoubles(high) * units + sum;
        return (sum + ToDoubles(b)) * multiplier;
      };
      const Four x = product(h.low, l.low, addend, by);
      const Four y = product(h.high, l.high, addend + 4, by + 4);
      if (!floats) {
        const v128_t a = round(x), b = round(y);
        StoreCodes(
            FormOf(),
            kind == Kind::kUint16 ? wasm_u16x8_narrow_i32x4(a, b) : wasm_i16x8_narrow_i32x4(a, b),
            at, some, out, low);
        continue;
      }
      alignas(16) float values[8];
      for (const auto& [part, place] : {std::pair{x, values}, std::pair{y, values + 4}}) {
        const v128_t real = wasm_i32x4_shuffle(wasm_f32x4_demote_f64x2_zero(part.low),
                                               wasm_f32x4_demote_f64x2_zero(part.high), 0, 1, 4, 5);
        wasm_v128_store(place, wasm_f32x4_pmin(wasm_f32x4_pmax(real, wasm_f32x4_splat(lo)),
                                               wasm_f32x4_splat(hi)));
      }
      std::copy_n(values, some, reinterpret_cast<float*>(out) + at);
    }
  }
}

bool CombinesLast(const Node& node) {
  const auto rank = static_cast<int64_t>(node.inputs[0]->type.StaticShape().size());
  const int64_t axis = node.attributes.Int("axis", 1);
  return axis == -1 || axis == rank - 1;
}

namespace {

/// The numbers of a constant for all channels, given once for all or for each.
template <typename T, typename Read>
std::vector<T> NumbersOf(const Tensor* numbers, size_t channels, Read&& read) {
  std::vector<T> out(channels, T{0});
  for (size_t c = 0; numbers && c < channels; ++c) {
    out[c] = read(*numbers, numbers->count() == 1 ? 0 : static_cast<int64_t>(c));
  }
  return out;
}

}  // namespace

std::optional<Combiner> ReadCombiner(const Node& node) {
  const Tensor* multipliers = node.constant(1);
  const Tensor* bias = node.constant(3);
  const Tensor* zero = node.constant(4);
  const Shape shape = node.inputs[0]->type.StaticShape();
  const size_t rank = shape.size();
  const bool last = CombinesLast(node);
  if (multipliers == nullptr || (node.input(3) && !bias) || (node.input(4) && !zero) ||
      !(last || (node.attributes.Int("axis", 1) == 1 && (rank == 3 || rank == 4))) ||
      NumElements(shape) == 0) {
    return std::nullopt;
  }
  const int64_t count = shape[last ? rank - 1 : 1];
  if ((multipliers->count() != 1 && multipliers->count() != count) ||
      (bias && bias->count() != 1 && bias->count() != count)) {
    return std::nullopt;
  }
  Combiner out;
  out.channels = static_cast<size_t>(count);
  out.floats = zero == nullptr;
  out.to.zero_point = zero ? static_cast<int32_t>(zero->AsInt64(0)) : 0;
  // The bound is that of the rewriter; without one nothing is known.
  const int64_t bound = node.attributes.Int("bound", std::numeric_limits<int64_t>::max());
  out.Set(NumbersOf<double>(multipliers, out.channels,
                            [](const Tensor& from, int64_t at) { return from.AsDouble(at); }),
          NumbersOf<int32_t>(bias, out.channels,
                             [](const Tensor& from, int64_t at) {
                               return static_cast<int32_t>(from.AsInt64(at));
                             }),
          static_cast<double>(bound));
  return out;
}

CombinedOutput TakeOutput(PlanBuilder& builder, const Node& last, const Node& first, Layout layout,
                          Combiner& combiner) {
  const Epilogue epilogue = TakeEpilogue(builder, last, false, &first);
  combiner.lo = static_cast<float>(epilogue.clamp.lo);
  combiner.hi = static_cast<float>(epilogue.clamp.hi);
  if (combiner.floats) return {{builder.Out(epilogue.output, layout)}, epilogue.op};
  const DType dtype = last.outputs[0]->type.dtype;
  combiner.kind = KindOf(dtype);
  combiner.to = Clamped(combiner.to.zero_point, dtype, epilogue.clamp.lo, epilogue.clamp.hi);
  if (IsByte(dtype)) {
    builder.SetRange(epilogue.output, {combiner.to.lo, combiner.to.hi});
    return {{builder.Out(epilogue.output, layout)}, epilogue.op};
  }
  const Node* next =
      builder.options().fuse ? builder.graph().SoleConsumer(epilogue.output) : nullptr;
  if (next == nullptr || next->op_type != "SplitBytes" || next->domain != kRequantDomain ||
      next->output(0) == nullptr || next->output(1) == nullptr) {
    return {{builder.Out(epilogue.output, layout)}, epilogue.op};
  }
  builder.Absorb(next, first);
  combiner.planes = true;
  return {{builder.Out(next->outputs[0], layout), builder.Out(next->outputs[1], layout)},
          epilogue.op + "+SplitBytes"};
}

}  // namespace requant::wide
