// Lowers IntegerSoftmax and IntegerLayerNormalization, whose rows are one behind the other.
#include <algorithm>
#include <utility>

#include "base/checked_math.h"
#include "numeric/integer_softmax.h"
#include "ops/infer_util.h"
#include "ops/normalization/integer_normalizations.h"
#include "plan/archive.h"
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "plan/lower/wide/codes.h"

namespace requant {
namespace {

using wide::Kind;

/// The rows that a step computes, and the types of their codes.
struct Rows {
  size_t count = 0, length = 0;
  Kind from = Kind::kUint8, to = Kind::kUint8;
};

/// The low halves of four uint64.
RQ_INLINE v128_t LowHalves(v128_t a, v128_t b) { return wasm_i32x4_shuffle(a, b, 0, 2, 4, 6); }

template <typename Code>
int32_t Largest(const Code* codes, size_t count) {
  constexpr size_t kLanes = 16 / sizeof(Code);
  int32_t most = codes[0];
  size_t i = 0;
  if (count >= kLanes) {
    v128_t lanes = wasm_v128_load(codes);
    for (i = kLanes; i + kLanes <= count; i += kLanes) {
      const v128_t x = wasm_v128_load(codes + i);
      if constexpr (sizeof(Code) == 1) {
        lanes = Code(-1) < 0 ? wasm_i8x16_max(lanes, x) : wasm_u8x16_max(lanes, x);
      } else {
        lanes = Code(-1) < 0 ? wasm_i16x8_max(lanes, x) : wasm_u16x8_max(lanes, x);
      }
    }
    Code each[kLanes];
    wasm_v128_store(each, lanes);
    for (const Code code : each) most = std::max<int32_t>(most, code);
  }
  for (; i < count; ++i) most = std::max<int32_t>(most, codes[i]);
  return most;
}

class IntegerSoftmaxStep : public StepOf<StepKind::kIntegerSoftmax> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(rows, softmax, terms); }
  void Run(const RunContext& context) const override {
    const void* from = context.Read(inputs[0]);
    auto* to = context.Write<uint8_t>(outputs[0]);
    auto* row_terms = context.Write<uint32_t>(workspace);
    switch (rows.from) {
      case Kind::kUint8:
        return Compute(static_cast<const uint8_t*>(from), row_terms, to);
      case Kind::kInt8:
        return Compute(static_cast<const int8_t*>(from), row_terms, to);
      case Kind::kUint16:
        return Compute(static_cast<const uint16_t*>(from), row_terms, to);
      default:
        Compute(static_cast<const int16_t*>(from), row_terms, to);
    }
  }
  Rows rows;
  IntegerSoftmax softmax;
  std::vector<uint32_t> terms;  // of all distances, for codes of 8 bits

 private:
  template <typename Code>
  void Compute(const Code* from, uint32_t* row_terms, uint8_t* to) const {
    const size_t n = rows.length, bytes = wide::BytesOf(rows.to);
    for (size_t row = 0; row < rows.count; ++row, from += n, to += n * bytes) {
      const int32_t most = Largest(from, n);
      uint64_t sum = 0;
      for (size_t i = 0; i < n; ++i) {
        const auto distance = static_cast<uint32_t>(most - from[i]);
        const uint32_t term = sizeof(Code) == 1 ? terms[distance] : SoftmaxTerm(softmax, distance);
        row_terms[i] = term;
        sum += term;
      }
      Divide(row_terms, DivideSoftmax(softmax, sum), to);
    }
  }

  void Divide(const uint32_t* row_terms, const SoftmaxDivisor& by, uint8_t* to) const {
    const size_t n = rows.length, bytes = wide::BytesOf(rows.to);
    size_t i = 0;
    // Results below 2^31 fit the lanes of a vector: y is at most 1.
    if (softmax.per_step.exponent < 0) {
      const v128_t factor = wasm_i32x4_splat(static_cast<int32_t>(by.factor));
      const v128_t half = wasm_i64x2_splat(static_cast<int64_t>(by.half));
      const v128_t most = wasm_i32x4_splat(softmax.hi - softmax.zero_point);
      const v128_t zero = wasm_i32x4_splat(softmax.zero_point);
      const auto shift = static_cast<uint32_t>(by.shift);
      const auto four = [&](const uint32_t* terms_of) __attribute__((always_inline)) {
        const v128_t x = wasm_v128_load(terms_of);
        const v128_t low = wasm_i64x2_add(wasm_u64x2_extmul_low_u32x4(x, factor), half);
        const v128_t high = wasm_i64x2_add(wasm_u64x2_extmul_high_u32x4(x, factor), half);
        const v128_t steps = LowHalves(wasm_u64x2_shr(low, shift), wasm_u64x2_shr(high, shift));
        return wasm_i32x4_add(wasm_i32x4_min(steps, most), zero);
      };
      for (; i + 8 <= n; i += 8) {
        wide::Store(to + i * bytes, rows.to, 8, {four(row_terms + i), four(row_terms + i + 4)});
      }
    }
    for (; i < n; ++i) {
      const int32_t code = SoftmaxCode(softmax, by, row_terms[i]);
      if (bytes == 1) {
        to[i] = static_cast<uint8_t>(code);
      } else {
        reinterpret_cast<uint16_t*>(to)[i] = static_cast<uint16_t>(code);
      }
    }
  }
};

class IntegerLayerNormStep : public StepOf<StepKind::kIntegerLayerNorm> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(rows, norm.length, norm.center, norm.zero_point, norm.epsilon,
                   norm.epsilon_exponent, norm.gains, norm.offsets, norm.shift, norm.lo, norm.hi,
                   moved);
  }
  void Run(const RunContext& context) const override {
    const auto* from = context.Read<uint8_t>(inputs[0]);
    auto* to = context.Write<uint8_t>(outputs[0]);
    const size_t in_bytes = rows.length * wide::BytesOf(rows.from);
    const size_t out_bytes = rows.length * wide::BytesOf(rows.to);
    for (size_t row = 0; row < rows.count; ++row, from += in_bytes, to += out_bytes) {
      Normalize(from, Measure(from), to);
    }
  }
  Rows rows;
  IntegerLayerNorm norm;
  std::vector<int64_t> moved;  // norm.offsets + 2^62

 private:
  int32_t flip() const { return rows.from == Kind::kUint16 ? 32768 : 0; }

  /// Eight codes less `flip`, as int16.
  RQ_MEMBER v128_t Codes(const uint8_t* from) const {
    switch (rows.from) {
      case Kind::kUint8:
        return wasm_u16x8_load8x8(from);
      case Kind::kInt8:
        return wasm_i16x8_load8x8(from);
      case Kind::kUint16:
        return wasm_v128_xor(wasm_v128_load(from), wasm_i16x8_splat(INT16_MIN));
      default:
        return wasm_v128_load(from);
    }
  }
  RQ_MEMBER int32_t Code(const uint8_t* from, size_t at) const {
    switch (rows.from) {
      case Kind::kUint8:
        return from[at];
      case Kind::kInt8:
        return static_cast<int8_t>(from[at]);
      case Kind::kUint16:
        return reinterpret_cast<const uint16_t*>(from)[at] - 32768;
      default:
        return reinterpret_cast<const int16_t*>(from)[at];
    }
  }

  LayerNormRow Measure(const uint8_t* from) const {
    const size_t bytes = wide::BytesOf(rows.from);
    v128_t sums = wasm_i32x4_splat(0);  // at most 32768 codes, less than 2^15 each
    v128_t squares = wasm_i64x2_splat(0);
    size_t i = 0;
    for (; i + 8 <= rows.length; i += 8) {
      const v128_t x = Codes(from + i * bytes);
      sums = wasm_i32x4_add(sums, wasm_i32x4_extadd_pairwise_i16x8(x));
      const v128_t pairs = wasm_i32x4_dot_i16x8(x, x);  // at most 2^31, as uint32
      squares = wasm_i64x2_add(squares, wasm_i64x2_add(wasm_u64x2_extend_low_u32x4(pairs),
                                                       wasm_u64x2_extend_high_u32x4(pairs)));
    }
    int64_t sum = int64_t{wasm_i32x4_extract_lane(sums, 0)} + wasm_i32x4_extract_lane(sums, 1) +
                  wasm_i32x4_extract_lane(sums, 2) + wasm_i32x4_extract_lane(sums, 3);
    int64_t total = wasm_i64x2_extract_lane(squares, 0) + wasm_i64x2_extract_lane(squares, 1);
    for (; i < rows.length; ++i) {
      const int64_t x = Code(from, i);
      sum += x;
      total += x * x;
    }
    return PrepareLayerNormRow(norm, sum, total, flip());
  }

  /// Shifts four signed numbers that have 2^62 added, which keeps them positive, and takes it away:
  /// wasm's signed shift of 64 bits takes several instructions on x86-64.
  RQ_INLINE v128_t Shifted(v128_t low, v128_t high, uint32_t by, v128_t moved_by) {
    return wasm_i32x4_sub(LowHalves(wasm_u64x2_shr(low, by), wasm_u64x2_shr(high, by)), moved_by);
  }

  void Normalize(const uint8_t* from, const LayerNormRow& row, uint8_t* to) const {
    const size_t in_bytes = wide::BytesOf(rows.from), out_bytes = wide::BytesOf(rows.to);
    constexpr uint64_t kMove = uint64_t{1} << 62;
    const auto by = static_cast<uint32_t>(row.shift), last = static_cast<uint32_t>(norm.shift);
    const v128_t length = wasm_i32x4_splat(row.length), mean = wasm_i32x4_splat(row.mean);
    const v128_t factor = wasm_i32x4_splat(row.factor);
    const v128_t half =
        wasm_i64x2_splat(static_cast<int64_t>(kMove + (uint64_t{1} << (row.shift - 1))));
    const v128_t moved_by = wasm_i32x4_splat(static_cast<int32_t>(kMove >> by));
    const v128_t last_by = wasm_i32x4_splat(static_cast<int32_t>(kMove >> last));
    const v128_t lo = wasm_i32x4_splat(norm.lo), hi = wasm_i32x4_splat(norm.hi);
    const auto four = [&](v128_t codes, size_t at) __attribute__((always_inline)) {
      const v128_t centered = wasm_i32x4_sub(wasm_i32x4_mul(codes, length), mean);
      const v128_t normal = Shifted(
          wasm_i64x2_add(wasm_i64x2_extmul_low_i32x4(centered, factor), half),
          wasm_i64x2_add(wasm_i64x2_extmul_high_i32x4(centered, factor), half), by, moved_by);
      const v128_t gain = wasm_v128_load(norm.gains.data() + at);
      const int64_t* offset = moved.data() + at;
      const v128_t code = Shifted(
          wasm_i64x2_add(wasm_i64x2_extmul_low_i32x4(normal, gain), wasm_v128_load(offset)),
          wasm_i64x2_add(wasm_i64x2_extmul_high_i32x4(normal, gain), wasm_v128_load(offset + 2)),
          last, last_by);
      return wasm_i32x4_min(wasm_i32x4_max(code, lo), hi);
    };
    size_t i = 0;
    for (; i + 8 <= rows.length; i += 8) {
      const v128_t x = Codes(from + i * in_bytes);
      wide::Store(
          to + i * out_bytes, rows.to, 8,
          {four(wasm_i32x4_extend_low_i16x8(x), i), four(wasm_i32x4_extend_high_i16x8(x), i + 4)});
    }
    for (; i < rows.length; ++i) {
      const int32_t code = LayerNormCode(norm, row, Code(from, i), i);
      if (out_bytes == 1) {
        to[i] = static_cast<uint8_t>(code);
      } else {
        reinterpret_cast<uint16_t*>(to)[i] = static_cast<uint16_t>(code);
      }
    }
  }
};

/// The rows along the last axes from `axis` on; a count of 0 for an empty tensor.
Rows RowsFrom(const Node& node, const Shape& shape, size_t axis) {
  Rows rows;
  rows.from = wide::KindOf(node.inputs[0]->type.dtype);
  rows.to = wide::KindOf(node.outputs[0]->type.dtype);
  rows.length = 1;
  for (size_t i = axis; i < shape.size(); ++i) rows.length *= static_cast<size_t>(shape[i]);
  rows.count = rows.length == 0 ? 0 : static_cast<size_t>(NumElements(shape)) / rows.length;
  return rows;
}

size_t AxisOf(const Node& node, size_t rank) {
  return static_cast<size_t>(
      NormalizeAxis(node.attributes.Int("axis", -1), static_cast<int64_t>(rank)));
}

}  // namespace

bool LowerIntegerSoftmax(PlanBuilder& builder, const Node& node) {
  const Shape shape = node.inputs[0]->type.StaticShape();
  const auto x = ReadQuant(node, 1, 2), y = ReadQuant(node, 3, 4);
  if (!x || !y || x->scales.size() != 1 || y->scales.size() != 1) return false;
  const size_t axis = AxisOf(node, shape.size());
  const Rows rows = RowsFrom(node, shape, axis);
  if (rows.count == 0 || rows.length != static_cast<size_t>(shape[axis])) return false;
  const int input = builder.In(node.inputs[0]);
  const int output = builder.Out(node.outputs[0]);
  auto& step = builder.Add<IntegerSoftmaxStep>(node, "integer_softmax", {input}, {output});
  step.rows = rows;
  step.softmax = MakeIntegerSoftmax(x->scales[0], y->scales[0], y->zero_points[0],
                                    CodeMax(node.outputs[0]->type.dtype));
  if (wide::BytesOf(rows.from) == 1) {
    for (uint32_t distance = 0; distance < 256; ++distance) {
      step.terms.push_back(SoftmaxTerm(step.softmax, distance));
    }
  }
  step.workspace = builder.Workspace(CheckedMul(rows.length, sizeof(uint32_t)));
  return true;
}

bool LowerIntegerLayerNorm(PlanBuilder& builder, const Node& node) {
  const Shape shape = node.inputs[0]->type.StaticShape();
  const auto x = ReadQuant(node, 1, 2), y = ReadQuant(node, 3, 4);
  const Tensor* gamma = node.constant(5);
  const Tensor* beta = node.constant(6);
  if (!x || !y || x->scales.size() != 1 || y->scales.size() != 1 || !gamma ||
      (node.input(6) && !beta)) {
    return false;
  }
  const Rows rows = RowsFrom(node, shape, AxisOf(node, shape.size()));
  if (rows.count == 0) return false;
  auto norm = MakeLayerNorm(*gamma, beta, static_cast<int64_t>(rows.length),
                            {x->scales[0], x->zero_points[0], y->scales[0], y->zero_points[0]},
                            node.outputs[0]->type.dtype,
                            static_cast<double>(node.attributes.Float("epsilon", 1e-5F)),
                            node.attributes.Int("center", 1) != 0);
  if (!norm) return false;  // the reference says why
  const int input = builder.In(node.inputs[0]);
  const int output = builder.Out(node.outputs[0]);
  auto& step = builder.Add<IntegerLayerNormStep>(node, "integer_layer_norm", {input}, {output});
  step.rows = rows;
  step.norm = std::move(*norm);
  for (const int64_t offset : step.norm.offsets) {
    step.moved.push_back(offset + (int64_t{1} << 62));
  }
  return true;
}

RQ_STEP(IntegerSoftmax, IntegerSoftmaxStep)
RQ_STEP(IntegerLayerNorm, IntegerLayerNormStep)

}  // namespace requant
