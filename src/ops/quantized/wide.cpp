// Operators with 16-bit codes that are no layers (ops/quantized/wide.h), by the normative scalars
// of numeric/wide.h:
//
//   QLinearAdd16, QLinearSub16, QLinearMul16     with broadcasting
//   QLinearAveragePool16, QLinearGlobalAveragePool16
//   QLinearConcat16, Requantize16                codes on another scale: x, scale, zero, y scale,
//   zero MaxPool16, GlobalMaxPool16                   as MaxPool, without indices Lut16 a table by
//   the bit pattern of 8- or 16-bit codes SplitBytes                                   x = 256 *
//   high + low CombineSums16                                y = requantize(256 * high + low + bias)
#include "ops/quantized/wide.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/elementwise.h"
#include "ops/infer_util.h"
#include "ops/pooling/pool_windows.h"
#include "ops/quantized/qlinear.h"
#include "ops/quantized/wide_rows.h"
#include "ops/shape/concat.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

// --- elementwise: a, scale, zero, b, scale, zero, y scale, zero

void InferWideBinary(InferContext& context) {
  for (const size_t slot : {0, 3, 7}) RequireDType(context, slot, kWideCodes);
  CheckOperand(context, context.inputs[0].dtype, 1, 2);
  CheckOperand(context, context.inputs[3].dtype, 4, 5);
  CheckOperand(context, DType::kUndefined, 6, 7);
  std::optional<SymbolicShape> shape;
  if (context.shape(0) && context.shape(3)) {
    shape = BroadcastSymbolic(*context.shape(0), *context.shape(3));
  }
  SetOutput(context, 0, QuantizedDType(context, 7, context.inputs[0].dtype), shape);
}

void EvaluateWideBinary(EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(3);
  const DType dtype = QuantizedDType(context, 7, a.dtype());
  const QuantOperand qa = ReadOperand(context, a.dtype(), 1, 2);
  const QuantOperand qb = ReadOperand(context, b.dtype(), 4, 5);
  const QuantOperand qy = ReadOperand(context, dtype, 6, 7);
  const WideOutput to = WideOutputOf(qy, dtype);
  const double of_product = WideMultiplier(qa.scales[0], qb.scales[0], qy.scales[0]);
  const double of_a = WideMultiplier(qa.scales[0], 1, qy.scales[0]);
  const double of_b = WideMultiplier(qb.scales[0], 1, qy.scales[0]);
  const bool product = context.node.op_type == "QLinearMul16";
  const int32_t sign = context.node.op_type == "QLinearSub16" ? -1 : 1;
  const std::vector<double> left = CenteredCodes(a, qa.zeros[0]);
  const std::vector<double> right = CenteredCodes(b, qb.zeros[0]);
  Tensor out(dtype, BroadcastShapes(a.shape(), b.shape()));
  ForEachRow(PlanRows(out.shape(), {&a.shape(), &b.shape()}), [&](const RowStep& row) {
    for (int64_t i = 0; i < row.length; ++i) {
      const auto x =
          static_cast<int32_t>(left[static_cast<size_t>(row.input[0] + i * row.step[0])]);
      const auto y =
          static_cast<int32_t>(right[static_cast<size_t>(row.input[1] + i * row.step[1])]);
      StoreCode(out.raw(), dtype, row.output + i,
                product ? RequantizeWide(int64_t{x} * y, of_product, to)
                        : AddWide(x, of_a, sign * y, of_b, to));
    }
  });
  context.outputs[0] = out;
}

// --- x, scale, zero, y scale, zero

void InferWideRescaled(InferContext& context, std::optional<SymbolicShape> shape) {
  RequireDType(context, 0, kWideCodes);
  RequireDType(context, 4, kWideCodes);
  CheckOperand(context, context.inputs[0].dtype, 1, 2);
  CheckOperand(context, DType::kUndefined, 3, 4);
  SetOutput(context, 0, QuantizedDType(context, 4, context.inputs[0].dtype), std::move(shape));
}

void InferWideRequantize(InferContext& context) {
  InferWideRescaled(context, context.inputs[0].shape);
}

Tensor RescaledCodes(const Tensor& x, const QuantOperand& from, const QuantOperand& to,
                     DType dtype) {
  const double multiplier = WideMultiplier(from.scales[0], 1, to.scales[0]);
  const WideOutput output = WideOutputOf(to, dtype);
  Tensor out(dtype, x.shape());
  const std::vector<double> values = CenteredCodes(x, from.zeros[0]);
  for (size_t i = 0; i < values.size(); ++i) {
    StoreCode(out.raw(), dtype, static_cast<int64_t>(i),
              RequantizeWide(static_cast<int64_t>(values[i]), multiplier, output));
  }
  return out;
}

void EvaluateWideRequantize(EvalContext& context) {
  const Tensor& x = context.input(0);
  const DType dtype = QuantizedDType(context, 4, x.dtype());
  context.outputs[0] = RescaledCodes(x, ReadOperand(context, x.dtype(), 1, 2),
                                     ReadOperand(context, dtype, 3, 4), dtype);
}

// Y scale, zero, then (X, scale, zero) of each input.
void InferWideConcat(InferContext& context) {
  const size_t slots = context.inputs.size();
  if (slots < 5 || (slots - 2) % 3 != 0) {
    Fail(ErrorCode::kInvalidModel, StrCat("QLinearConcat16 has ", slots,
                                          " inputs, which are no triples after the first two"));
  }
  RequireDType(context, 1, kWideCodes);
  CheckOperand(context, DType::kUndefined, 0, 1);
  for (size_t slot = 2; slot < slots; slot += 3) {
    RequireDType(context, slot, kWideCodes);
    CheckOperand(context, context.inputs[slot].dtype, slot + 1, slot + 2);
  }
  SetOutput(context, 0, QuantizedDType(context, 1, context.inputs[2].dtype),
            ConcatShape(context, 2, 3));
}

void EvaluateWideConcat(EvalContext& context) {
  const DType dtype = QuantizedDType(context, 1, context.input(2).dtype());
  const QuantOperand to = ReadOperand(context, dtype, 0, 1);
  std::vector<Tensor> parts;
  for (size_t slot = 2; slot < context.inputs.size(); slot += 3) {
    const Tensor& x = context.input(slot);
    parts.push_back(
        RescaledCodes(x, ReadOperand(context, x.dtype(), slot + 1, slot + 2), to, dtype));
  }
  std::vector<const Tensor*> pointers;
  for (const Tensor& part : parts) pointers.push_back(&part);
  context.outputs[0] = Concatenate(context.node, pointers);
}

void InferWideAverage(InferContext& context) {
  std::optional<SymbolicShape> shape;
  if (context.attributes().Int("channels_last", 0) != 0) {
    Fail(ErrorCode::kUnsupported, StrCat(context.node.op_type, " with channels_last"),
         {.node = context.node.name});
  }
  if (const SymbolicShape* x = context.shape(0)) {
    shape = context.node.op_type == "QLinearAveragePool16"
                ? PoolOutputShape(context.attributes(), *x)
                : GlobalPoolOutputShape(*x);
  }
  InferWideRescaled(context, std::move(shape));
}

void EvaluateWideAverage(EvalContext& context) {
  const Tensor& x = context.input(0);
  const DType dtype = QuantizedDType(context, 4, x.dtype());
  const QuantOperand from = ReadOperand(context, x.dtype(), 1, 2);
  const QuantOperand to = ReadOperand(context, dtype, 3, 4);
  const WideOutput output = WideOutputOf(to, dtype);
  const bool windows = context.node.op_type == "QLinearAveragePool16";
  const SymbolicShape in = ToSymbolic(x.shape());
  const ValueType type{
      dtype, windows ? PoolOutputShape(context.attributes(), in) : GlobalPoolOutputShape(in)};
  Tensor out(dtype, type.StaticShape());
  const std::vector<double> values = CenteredCodes(x, from.zeros[0]);
  const auto store = [&](int64_t index, double sum, int64_t count) {
    const double multiplier =
        WideAverageMultiplier(from.scales[0], to.scales[0], std::max<int64_t>(count, 1));
    StoreCode(out.raw(), dtype, index,
              RequantizeWide(static_cast<int64_t>(sum), multiplier, output));
  };
  if (out.count() > 0 && windows) {
    const Geometry g = PlaceGeometry(PoolWindow(context.attributes()), x.shape());
    const bool include_pad = context.attributes().Int("count_include_pad", 0) != 0;
    for (int64_t plane = 0; plane < x.dim(0) * x.dim(1); ++plane) {
      const double* data = values.data() + plane * g.input_size();
      ForEachWindow(g, [&](const auto& taps, const auto& start, int64_t index) {
        double sum = 0;
        ForEachTap(g, taps, start, [&](int64_t offset) { sum += data[offset]; });
        store(plane * g.output_size() + index, sum,
              static_cast<int64_t>(AverageDivisor(g, taps, start, include_pad)));
      });
    }
  } else {
    const int64_t area = out.count() > 0 ? x.count() / out.count() : 0;
    for (int64_t plane = 0; plane < out.count(); ++plane) {
      double sum = 0;
      for (int64_t i = 0; i < area; ++i) sum += values[static_cast<size_t>(plane * area + i)];
      store(plane, sum, area);
    }
  }
  context.outputs[0] = out;
}

// --- tables and bytes

void InferWideLut(InferContext& context) {
  RequireDType(context, 0, kWideCodes);
  RequireRank(context, 1, 1);
  const SymbolicShape* table = context.shape(1);
  if (table && context.inputs[0].dtype != DType::kUndefined) {
    MergeDims((*table)[0], Dim(IsWide(context.inputs[0].dtype) ? 65536 : 256),
              "the entries of a Lut16");
  }
  SetOutput(context, 0, context.inputs[1].dtype, context.inputs[0].shape);
}

void EvaluateWideLut(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& table = context.input(1);
  const bool wide = IsWide(x.dtype());
  if (table.count() != (wide ? 65536 : 256)) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("a Lut16 of ", table.count(), " entries for ", DTypeName(x.dtype())));
  }
  const size_t element = ElementBytes(table.dtype());
  Tensor out(table.dtype(), x.shape());
  for (size_t i = 0; i < static_cast<size_t>(x.count()); ++i) {
    const size_t at =
        wide ? static_cast<const uint16_t*>(x.raw())[i] : static_cast<const uint8_t*>(x.raw())[i];
    std::memcpy(static_cast<uint8_t*>(out.raw()) + i * element,
                static_cast<const uint8_t*>(table.raw()) + at * element, element);
  }
  context.outputs[0] = out;
}

void InferWideSplit(InferContext& context) {
  RequireDType(context, 0, {DType::kInt16, DType::kUint16});
  const DType dtype = context.inputs[0].dtype;
  SetOutput(context, 0, dtype == DType::kInt16 ? DType::kInt8 : DType::kUint8,
            context.inputs[0].shape);
  SetOutput(context, 1, DType::kUint8, context.inputs[0].shape);
}

void EvaluateWideSplit(EvalContext& context) {
  const Tensor& x = context.input(0);
  Tensor high(x.dtype() == DType::kInt16 ? DType::kInt8 : DType::kUint8, x.shape());
  Tensor low(DType::kUint8, x.shape());
  for (int64_t i = 0; i < x.count(); ++i) {
    const uint16_t code = static_cast<const uint16_t*>(x.raw())[i];
    StoreByte(high.raw(), i, code >> 8);
    StoreByte(low.raw(), i, code & 255);
  }
  context.outputs[0] = high;
  context.outputs[1] = low;
}

// low, multipliers (float64, one or one for each index along `axis`), high (left out: 0), bias
// (int32, as many as multipliers or left out), zero point (left out: the result is float32).
void InferWideCombine(InferContext& context) {
  for (const size_t slot : {0, 2, 3}) RequireDType(context, slot, {DType::kInt32});
  RequireDType(context, 1, {DType::kFloat64});
  RequireDType(context, 4, kWideCodes);
  SetOutput(context, 0, context.has(4) ? context.inputs[4].dtype : DType::kFloat32,
            context.inputs[0].shape);
}

void EvaluateWideCombine(EvalContext& context) {
  const Tensor& low = context.input(0);
  const Tensor* high = context.has(2) ? &context.input(2) : nullptr;
  const Tensor& multipliers = context.input(1);
  const Tensor* bias = context.has(3) ? &context.input(3) : nullptr;
  const bool quantized = context.has(4);
  const DType dtype = quantized ? context.input(4).dtype() : DType::kFloat32;
  WideOutput to;
  if (quantized) {
    to = {static_cast<int32_t>(context.input(4).AsInt64(0)), CodeMin(dtype), CodeMax(dtype)};
  }
  const auto axis =
      static_cast<size_t>(NormalizeAxis(context.attributes().Int("axis", 1), low.rank()));
  int64_t inner = 1;
  for (size_t i = axis + 1; i < low.shape().size(); ++i) inner *= low.shape()[i];
  const int64_t channels = low.shape()[axis];
  if ((high && low.shape() != high->shape()) ||
      (multipliers.count() != 1 && multipliers.count() != channels) ||
      (bias && bias->count() != 1 && bias->count() != channels)) {
    Fail(ErrorCode::kShapeMismatch, "the operands of CombineSums16 do not fit each other",
         {.node = context.node.name});
  }
  Tensor out(dtype, low.shape());
  for (int64_t i = 0; i < out.count(); ++i) {
    const int64_t c = i / inner % channels;
    const int64_t add = bias ? bias->AsInt64(bias->count() == 1 ? 0 : c) : 0;
    const int64_t upper = high ? high->data<int32_t>()[i] : 0;
    const int64_t sum = upper * 256 + low.data<int32_t>()[i] + add;
    const double multiplier = multipliers.AsDouble(multipliers.count() == 1 ? 0 : c);
    if (quantized) {
      StoreCode(out.raw(), dtype, i, RequantizeWide(sum, multiplier, to));
    } else {
      out.data<float>()[i] = static_cast<float>(static_cast<double>(sum) * multiplier);
    }
  }
  context.outputs[0] = out;
}

// --- the largest code of a window

void InferWideMaximum(InferContext& context) {
  RequireDType(context, 0, {DType::kInt16, DType::kUint16});
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* x = context.shape(0)) {
    shape = context.node.op_type == "MaxPool16" ? PoolOutputShape(context.attributes(), *x)
                                                : GlobalPoolOutputShape(*x);
  }
  SetOutput(context, 0, context.inputs[0].dtype, std::move(shape));
}

void EvaluateWideMaximum(EvalContext& context) {
  const Tensor& x = context.input(0);
  const bool windows = context.node.op_type == "MaxPool16";
  const SymbolicShape in = ToSymbolic(x.shape());
  const ValueType type{
      x.dtype(), windows ? PoolOutputShape(context.attributes(), in) : GlobalPoolOutputShape(in)};
  Tensor out(x.dtype(), type.StaticShape());
  const auto largest = [&](int64_t index, auto&& visit) {
    int32_t best = CodeMin(x.dtype());
    visit([&](int64_t at) { best = std::max(best, static_cast<int32_t>(x.AsInt64(at))); });
    StoreCode(out.raw(), x.dtype(), index, best);
  };
  if (out.count() > 0 && windows) {
    const Geometry g = PlaceGeometry(PoolWindow(context.attributes()), x.shape());
    for (int64_t plane = 0; plane < x.dim(0) * x.dim(1); ++plane) {
      ForEachWindow(g, [&](const auto& taps, const auto& start, int64_t index) {
        largest(plane * g.output_size() + index, [&](auto&& see) {
          ForEachTap(g, taps, start, [&](int64_t offset) { see(plane * g.input_size() + offset); });
        });
      });
    }
  } else {
    const int64_t area = out.count() > 0 ? x.count() / out.count() : 0;
    for (int64_t plane = 0; plane < out.count(); ++plane) {
      largest(plane, [&](auto&& see) {
        for (int64_t i = 0; i < area; ++i) see(plane * area + i);
      });
    }
  }
  context.outputs[0] = out;
}

constexpr OpDef kRows[] = {
    WideRow("QLinearAdd16", 7, 8, InferWideBinary, EvaluateWideBinary, FusionRule::kBroadcast),
    WideRow("QLinearSub16", 7, 8, InferWideBinary, EvaluateWideBinary, FusionRule::kBroadcast),
    WideRow("QLinearMul16", 7, 8, InferWideBinary, EvaluateWideBinary, FusionRule::kBroadcast),
    WideRow("QLinearConcat16", 5, kVariadic, InferWideConcat, EvaluateWideConcat,
            FusionRule::kInjective, RewriteWide),
    WideRow("QLinearAveragePool16", 4, 5, InferWideAverage, EvaluateWideAverage,
            FusionRule::kOutFusable),
    WideRow("QLinearGlobalAveragePool16", 4, 5, InferWideAverage, EvaluateWideAverage,
            FusionRule::kOutFusable),
    WideRow("MaxPool16", 1, 1, InferWideMaximum, EvaluateWideMaximum, FusionRule::kOutFusable),
    WideRow("GlobalMaxPool16", 1, 1, InferWideMaximum, EvaluateWideMaximum,
            FusionRule::kOutFusable),
    WideRow("Requantize16", 4, 5, InferWideRequantize, EvaluateWideRequantize,
            FusionRule::kBroadcast),
    WideRow("Lut16", 2, 2, InferWideLut, EvaluateWideLut, FusionRule::kBroadcast),
    WideRow("IntegerSoftmax", 4, 5, InferNormalization, EvaluateIntegerSoftmax,
            FusionRule::kOutFusable),
    WideRow("IntegerLayerNormalization", 6, 7, InferNormalization, EvaluateIntegerLayerNorm,
            FusionRule::kOutFusable),
    WideRow("SplitBytes", 1, 1, InferWideSplit, EvaluateWideSplit, FusionRule::kOpaque, nullptr, 2),
    WideRow("CombineSums16", 2, 5, InferWideCombine, EvaluateWideCombine, FusionRule::kOutFusable),
};

}  // namespace

std::span<const OpDef> WideOps() { return kRows; }

}  // namespace requant
