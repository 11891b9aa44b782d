// Lowers QLinearAdd16, QLinearSub16, QLinearMul16, Requantize16, Lut16, and Relu and Clip of 16-bit
// codes.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "plan/archive.h"
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/elementwise/broadcast.h"
#include "plan/lower/elementwise/epilogue.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "plan/lower/wide/codes.h"

namespace requant {
namespace {

/// The numbers by which a step combines two operands, or changes the scale of one.
struct WideBinaryParams {
  bool product = false;
  bool unary = false;
  wide::Kind a_kind{}, b_kind{}, out_kind{};
  int32_t a_zero = 0, b_zero = 0;
  double a_multiplier = 0, b_multiplier = 0;  // a_multiplier alone for a product
  WideOutput to;
  size_t rows = 1, cols = 0, a_row_stride = 0, b_row_stride = 0;
  int a_step = 1, b_step = 1;
  bool small = false;  // a sum within kSmall, of operands and to codes of one type of 16 bits
};

class WideBinaryStep : public StepOf<StepKind::kWideBinary> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(params, blocks); }
  void Run(const RunContext& context) const override {
    const auto* a = context.Read<uint8_t>(inputs[0]);
    const auto* b = params.unary ? a : context.Read<uint8_t>(inputs[1]);
    auto* out = context.Write<uint8_t>(outputs[0]);
    Block(a, b, out);
    for (size_t i = 2; i < blocks.size(); i += 2) {
      out += params.rows * params.cols * wide::BytesOf(params.out_kind);
      Block(a + static_cast<size_t>(blocks[i]) * wide::BytesOf(params.a_kind),
            b + static_cast<size_t>(blocks[i + 1]) * wide::BytesOf(params.b_kind), out);
    }
  }
  WideBinaryParams params;
  std::vector<int64_t> blocks;

 private:
  void Block(const uint8_t* a, const uint8_t* b, uint8_t* out) const {
    for (size_t row = 0; row < params.rows; ++row) {
      if (params.small && params.a_step == 1 && params.b_step == 1) {
        SmallSums(a, b, out);
      } else if (params.unary) {
        Row<0>(a, b, out);
      } else if (params.product) {
        Row<2>(a, b, out);
      } else {
        Row<1>(a, b, out);
      }
      a += params.a_row_stride * wide::BytesOf(params.a_kind);
      b += params.b_row_stride * wide::BytesOf(params.b_kind);
      out += params.cols * wide::BytesOf(params.out_kind);
    }
  }

  RQ_MEMBER static wide::Eight Operand(const uint8_t* from, wide::Kind kind, int step, size_t at,
                                       size_t count, v128_t zero) {
    wide::Eight codes;
    if (step == 0) {
      const wide::Eight one = wide::Load(from, kind, 1);
      codes.low = codes.high = wasm_i32x4_shuffle(one.low, one.low, 0, 0, 0, 0);
    } else {
      codes = wide::Load(from + at * wide::BytesOf(kind), kind, count);
    }
    return {wasm_i32x4_sub(codes.low, zero), wasm_i32x4_sub(codes.high, zero)};
  }

  template <int kForm>
  RQ_MEMBER static wide::Four Combine(v128_t x, v128_t y, v128_t of_a, v128_t of_b) {
    wide::Four value = wide::ToDoubles(x);
    // A product of 17-bit numbers is exact in float64.
    if constexpr (kForm == 2) value = value * wide::ToDoubles(y);
    value = value * wide::Four{of_a, of_a};
    if constexpr (kForm == 1) value = value + wide::ToDoubles(y) * wide::Four{of_b, of_b};
    return value;
  }

  /// Adds whole vectors of codes of one type of 16 bits, and the rest by Row. Unsigned codes are
  /// read and written as x - 2^15, which moves zero points and bounds alike.
  void SmallSums(const uint8_t* a, const uint8_t* b, uint8_t* out) const {
    const int32_t move = params.out_kind == wide::Kind::kUint16 ? 32768 : 0;
    const v128_t flip = wasm_i16x8_splat(static_cast<int16_t>(move));
    const wide::SmallRounder round(
        {params.to.zero_point - move, params.to.lo - move, params.to.hi - move}, false);
    const v128_t a_zero = wasm_i32x4_splat(params.a_zero - move);
    const v128_t b_zero = wasm_i32x4_splat(params.b_zero - move);
    const v128_t of_a = wasm_f64x2_splat(params.a_multiplier);
    const v128_t of_b = wasm_f64x2_splat(params.b_multiplier);
    const auto load = [&](const uint8_t* from, v128_t zero) __attribute__((always_inline)) {
      const v128_t codes = wasm_v128_xor(wasm_v128_load(from), flip);
      return wide::Eight{wasm_i32x4_sub(wasm_i32x4_extend_low_i16x8(codes), zero),
                         wasm_i32x4_sub(wasm_i32x4_extend_high_i16x8(codes), zero)};
    };
    size_t i = 0;
    for (; i + 8 <= params.cols; i += 8) {
      const wide::Eight x = load(a + 2 * i, a_zero), y = load(b + 2 * i, b_zero);
      const v128_t codes =
          round(Combine<1>(x.low, y.low, of_a, of_b), Combine<1>(x.high, y.high, of_a, of_b));
      wasm_v128_store(out + 2 * i, wasm_v128_xor(codes, flip));
    }
    if (i < params.cols) Row<1>(a, b, out, i);
  }

  /// Computes the elements from `i` on. kForm: 0 one operand, 1 sum, 2 product.
  template <int kForm>
  void Row(const uint8_t* a, const uint8_t* b, uint8_t* out, size_t i = 0) const {
    const wide::Rounder round(params.to);
    const v128_t a_zero = wasm_i32x4_splat(params.a_zero);
    const v128_t b_zero = wasm_i32x4_splat(params.b_zero);
    const v128_t of_a = wasm_f64x2_splat(params.a_multiplier);
    const v128_t of_b = wasm_f64x2_splat(params.b_multiplier);
    const size_t bytes = wide::BytesOf(params.out_kind);
    for (; i < params.cols; i += 8) {
      const size_t count = params.cols - i < 8 ? params.cols - i : 8;
      const wide::Eight x = Operand(a, params.a_kind, params.a_step, i, count, a_zero);
      wide::Eight y = x;
      if constexpr (kForm != 0) {
        y = Operand(b, params.b_kind, params.b_step, i, count, b_zero);
      }
      wide::Store(out + i * bytes, params.out_kind, count,
                  {round(Combine<kForm>(x.low, y.low, of_a, of_b)),
                   round(Combine<kForm>(x.high, y.high, of_a, of_b))});
    }
  }
};

class WideLutStep : public StepOf<StepKind::kWideLut> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(table, count, element, wide_codes); }
  void Run(const RunContext& context) const override {
    const void* from = context.Read(inputs[0]);
    void* to = context.Write(outputs[0]);
    if (element == 1) return Look<uint8_t>(from, to);
    if (element == 2) return Look<uint16_t>(from, to);
    Look<uint32_t>(from, to);
  }
  std::vector<uint8_t> table;
  size_t count = 0, element = 2;
  bool wide_codes = true;

 private:
  template <typename T>
  void Look(const void* from, void* to) const {
    const auto* entries = reinterpret_cast<const T*>(table.data());
    auto* out = static_cast<T*>(to);
    if (wide_codes) {
      const auto* codes = static_cast<const uint16_t*>(from);
      for (size_t i = 0; i < count; ++i) out[i] = entries[codes[i]];
    } else {
      const auto* codes = static_cast<const uint8_t*>(from);
      for (size_t i = 0; i < count; ++i) out[i] = entries[codes[i]];
    }
  }
};

class WideClampStep : public StepOf<StepKind::kWideClamp> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(count, is_signed, lo, hi); }
  void Run(const RunContext& context) const override {
    const auto* from = context.Read<int16_t>(inputs[0]);
    auto* to = context.Write<int16_t>(outputs[0]);
    const v128_t low = wasm_i16x8_splat(lo), high = wasm_i16x8_splat(hi);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
      const v128_t x = wasm_v128_load(from + i);
      wasm_v128_store(to + i, is_signed ? wasm_i16x8_min(wasm_i16x8_max(x, low), high)
                                        : wasm_u16x8_min(wasm_u16x8_max(x, low), high));
    }
    for (; i < count; ++i) {
      to[i] = is_signed ? std::clamp(from[i], lo, hi)
                        : static_cast<int16_t>(std::clamp(static_cast<uint16_t>(from[i]),
                                                          static_cast<uint16_t>(lo),
                                                          static_cast<uint16_t>(hi)));
    }
  }
  size_t count = 0;
  bool is_signed = true;
  int16_t lo = 0, hi = 0;
};

}  // namespace

bool LowerWideBinary(PlanBuilder& builder, const Node& node) {
  const bool unary = node.op_type == "Requantize16";
  const auto a = ReadQuant(node, 1, 2);
  const auto y = unary ? ReadQuant(node, 3, 4) : ReadQuant(node, 6, 7);
  const auto b = unary ? a : ReadQuant(node, 4, 5);
  if (!a || !b || !y || a->scales.size() != 1 || b->scales.size() != 1 || y->scales.size() != 1) {
    return false;
  }
  const Value* out = node.outputs[0];
  std::vector<int64_t> blocks;
  BinaryWalk walk;
  std::vector<int> inputs;
  if (unary) {
    const Value* x = node.inputs[0];
    walk.layout = builder.LayoutOf(x);
    walk.cols = static_cast<size_t>(NumElements(x->type.StaticShape()));
    inputs = {builder.In(x, walk.layout)};
  } else {
    const auto found = PlanBroadcast(builder, node.inputs[0], node.inputs[3], out, blocks);
    if (!found) return false;
    walk = *found;
    inputs = {WalkedOperand(builder, node.inputs[0], out, walk.layout),
              WalkedOperand(builder, node.inputs[3], out, walk.layout)};
  }
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  const int output = builder.Out(epilogue.output, walk.layout);
  auto& step = builder.Add<WideBinaryStep>(node, "wide_binary", inputs, {output});
  step.op = epilogue.op;
  step.blocks.swap(blocks);
  WideBinaryParams& p = step.params;
  p.unary = unary;
  p.product = node.op_type == "QLinearMul16";
  p.a_kind = wide::KindOf(node.inputs[0]->type.dtype);
  p.b_kind = unary ? p.a_kind : wide::KindOf(node.inputs[3]->type.dtype);
  p.out_kind = wide::KindOf(out->type.dtype);
  p.a_zero = a->zero_points[0];
  p.b_zero = b->zero_points[0];
  const float scale_y = y->scales[0];
  p.a_multiplier = p.product ? WideMultiplier(a->scales[0], b->scales[0], scale_y)
                             : WideMultiplier(a->scales[0], 1, scale_y);
  p.b_multiplier = WideMultiplier(b->scales[0], 1, scale_y);
  if (node.op_type == "QLinearSub16") p.b_multiplier = -p.b_multiplier;
  p.to = wide::Clamped(y->zero_points[0], out->type.dtype, epilogue.clamp.lo, epilogue.clamp.hi);
  if (IsByte(out->type.dtype)) builder.SetRange(epilogue.output, {p.to.lo, p.to.hi});
  // Codes less their zero points have at most 17 bits.
  const double largest = (1 << 17) * (std::abs(p.a_multiplier) + std::abs(p.b_multiplier));
  p.small = !unary && !p.product && largest <= wide::kSmall && IsWide(out->type.dtype) &&
            p.a_kind == p.out_kind && p.b_kind == p.out_kind;
  p.rows = walk.rows;
  p.cols = walk.cols;
  p.a_row_stride = walk.a_row_stride;
  p.b_row_stride = walk.b_row_stride;
  p.a_step = walk.a_step;
  p.b_step = walk.b_step;
  return true;
}

bool LowerWideLut(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Tensor* table = node.constant(1);
  if (table == nullptr || DTypeBits(table->dtype()) > 32 ||
      table->count() != (IsWide(x->type.dtype) ? 65536 : 256)) {
    return false;
  }
  const Layout layout = builder.LayoutOf(x);
  const int input = builder.In(x, layout);
  const int output = builder.Out(node.outputs[0], layout);
  auto& step = builder.Add<WideLutStep>(node, "wide_lut", {input}, {output});
  const auto* bytes = static_cast<const uint8_t*>(table->raw());
  step.table.assign(bytes, bytes + table->bytes());
  step.count = static_cast<size_t>(NumElements(x->type.StaticShape()));
  step.element = static_cast<size_t>(DTypeBits(table->dtype()) / 8);
  step.wide_codes = IsWide(x->type.dtype);
  return true;
}

bool LowerWideClamp(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const auto bounds = ReadClamp(node);
  if (!bounds) return false;
  const Layout layout = builder.LayoutOf(x);
  const int input = builder.In(x, layout);
  const int output = builder.Out(node.outputs[0], layout);
  auto& step = builder.Add<WideClampStep>(node, "wide_clamp", {input}, {output});
  const DType dtype = x->type.dtype;
  const WideOutput to = wide::Clamped(0, dtype, bounds->lo, bounds->hi);
  step.count = static_cast<size_t>(NumElements(x->type.StaticShape()));
  step.is_signed = dtype == DType::kInt16;
  step.lo = static_cast<int16_t>(to.lo);
  step.hi = static_cast<int16_t>(to.hi);
  return true;
}

RQ_STEP(WideBinary, WideBinaryStep)
RQ_STEP(WideLut, WideLutStep)
RQ_STEP(WideClamp, WideClampStep)

}  // namespace requant
