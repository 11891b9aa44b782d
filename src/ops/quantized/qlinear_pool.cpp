// com.microsoft::QLinearAveragePool and QLinearGlobalAveragePool (ONNX Runtime
// docs/ContribOperators.md): the int32 sum of x - zero, requantized by s_x / (s_y * count).
// Inputs: X, scale, zero, Y scale, zero. channels_last = 1 means N, spatial..., C.
#include <map>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "numeric/multiplier.h"
#include "numeric/requantize_prepare.h"
#include "ops/pooling/pool_windows.h"
#include "ops/quantized/qlinear.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

constexpr size_t kYScale = 3;
constexpr size_t kYZero = 4;

bool ChannelsLast(const AttributeMap& attributes) {
  return attributes.Int("channels_last", 0) != 0;
}

/// The permutation that brings channels from the end to the front (or back).
std::vector<int64_t> ToPlanar(int64_t rank) {
  std::vector<int64_t> perm = Sequence(rank);
  perm.insert(perm.begin() + 1, rank - 1);
  perm.pop_back();
  return perm;
}
std::vector<int64_t> ToChannelsLast(int64_t rank) {
  std::vector<int64_t> perm = Sequence(rank);
  perm.erase(perm.begin() + 1);
  perm.push_back(1);
  return perm;
}

template <typename OutputShape>
void InferPool(InferContext& context, OutputShape&& output_shape) {
  RequireDType(context, 0, {DType::kInt8, DType::kUint8});
  RequireDType(context, kYZero, {DType::kInt8, DType::kUint8});
  CheckOperand(context, context.inputs[0].dtype, 1, 2);
  CheckOperand(context, DType::kUndefined, kYScale, kYZero);
  std::optional<SymbolicShape> shape;
  if (context.shape(0) != nullptr) {
    SymbolicShape x = *context.shape(0);
    const bool last = ChannelsLast(context.attributes()) && x.size() > 2;
    if (last) {
      x.insert(x.begin() + 1, x.back());
      x.pop_back();
    }
    shape = output_shape(x);
    if (last) {
      const Dim channels = (*shape)[1];
      shape->erase(shape->begin() + 1);
      shape->push_back(channels);
    }
  }
  SetOutput(context, 0, QuantizedDType(context, kYZero, context.inputs[0].dtype), shape);
}

/// Requantizes sums of any number of values; the multipliers of a count are prepared once.
class Averager {
 public:
  explicit Averager(const EvalContext& context)
      : mode_(context.requantize),
        dtype_(QuantizedDType(context, kYZero, context.input(0).dtype())),
        x_(ReadOperand(context, context.input(0).dtype(), 1, 2)),
        y_(ReadOperand(context, dtype_, kYScale, kYZero)) {}

  DType dtype() const { return dtype_; }
  int32_t x_zero() const { return x_.zeros[0]; }

  int32_t Average(int64_t sum, int64_t count) {
    auto found = prepared_.find(count);
    if (found == prepared_.end()) {
      const double multiplier = AverageMultiplier(mode_, x_.scales[0], y_.scales[0], count);
      found = prepared_
                  .emplace(count, PrepareRequantize(mode_, {multiplier}, {kAnyAccumulator},
                                                    y_.zeros[0], ByteMin(dtype_), ByteMax(dtype_)))
                  .first;
    }
    return ApplyRequantize(Accumulator(sum), found->second.Params(), 0);
  }

 private:
  RequantizeMode mode_;
  DType dtype_;
  QuantOperand x_, y_;
  std::map<int64_t, PreparedRequantize> prepared_;
};

// --- QLinearAveragePool

void InferQLinearAveragePool(InferContext& context) {
  InferPool(context,
            [&](const SymbolicShape& x) { return PoolOutputShape(context.attributes(), x); });
}

void EvaluateQLinearAveragePool(EvalContext& context) {
  Averager averager(context);
  const bool last = ChannelsLast(context.attributes()) && context.input(0).rank() > 2;
  const Tensor x =
      last ? Permute(context.input(0), ToPlanar(context.input(0).rank())) : context.input(0);
  const ValueType type{x.dtype(), PoolOutputShape(context.attributes(), ToSymbolic(x.shape()))};
  Tensor out(averager.dtype(), type.StaticShape());
  if (out.count() > 0) {
    const Geometry g = PlaceGeometry(PoolWindow(context.attributes()), x.shape());
    const bool include_pad = context.attributes().Int("count_include_pad", 0) != 0;
    const std::vector<int32_t> values = CenteredValues(x, averager.x_zero());
    for (int64_t plane = 0; plane < x.dim(0) * x.dim(1); ++plane) {
      const int32_t* from = values.data() + plane * g.input_size();
      ForEachWindow(g, [&](const auto& taps, const auto& start, int64_t index) {
        int64_t sum = 0;
        ForEachTap(g, taps, start, [&](int64_t offset) { sum += from[offset]; });
        const auto count = static_cast<int64_t>(AverageDivisor(g, taps, start, include_pad));
        // A window without elements gives a real 0, as in the float pool.
        StoreByte(out.raw(), plane * g.output_size() + index,
                  averager.Average(sum, count > 0 ? count : 1));
      });
    }
  }
  context.outputs[0] = last ? Permute(out, ToChannelsLast(out.rank())) : out;
}

// --- QLinearGlobalAveragePool

void InferQLinearGlobalAveragePool(InferContext& context) {
  InferPool(context, [](const SymbolicShape& x) { return GlobalPoolOutputShape(x); });
}

void EvaluateQLinearGlobalAveragePool(EvalContext& context) {
  Averager averager(context);
  const bool last = ChannelsLast(context.attributes()) && context.input(0).rank() > 2;
  const Tensor x =
      last ? Permute(context.input(0), ToPlanar(context.input(0).rank())) : context.input(0);
  const ValueType type{x.dtype(), GlobalPoolOutputShape(ToSymbolic(x.shape()))};
  Tensor out(averager.dtype(), type.StaticShape());
  const int64_t area = out.count() > 0 ? x.count() / out.count() : 0;
  const std::vector<int32_t> values = CenteredValues(x, averager.x_zero());
  for (int64_t plane = 0; plane < out.count(); ++plane) {
    int64_t sum = 0;
    for (int64_t i = 0; i < area; ++i) sum += values[static_cast<size_t>(plane * area + i)];
    StoreByte(out.raw(), plane, averager.Average(sum, area > 0 ? area : 1));
  }
  context.outputs[0] = last ? Permute(out, ToChannelsLast(out.rank())) : out;
}

constexpr OpDef kRows[] = {
    OnIntegers({"QLinearAveragePool", kMicrosoftDomain, 1, 4, 5, 1, InferQLinearAveragePool,
                EvaluateQLinearAveragePool, QuantRule::kFloat, FusionRule::kOutFusable}),
    OnIntegers({"QLinearGlobalAveragePool", kMicrosoftDomain, 1, 4, 5, 1,
                InferQLinearGlobalAveragePool, EvaluateQLinearGlobalAveragePool, QuantRule::kFloat,
                FusionRule::kOutFusable}),
};

}  // namespace

std::span<const OpDef> QLinearPoolOps() { return kRows; }

}  // namespace requant
