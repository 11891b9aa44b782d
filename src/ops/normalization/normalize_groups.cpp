// Normalizations that fewer networks have: InstanceNormalization, GroupNormalization and
// LpNormalization.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/normalization/normalize.h"
#include "ops/table.h"

namespace requant {
namespace {

void InferInstanceNormalization(InferContext& context) {
  RequireFloat(context, 0);
  RequireMinRank(context, 0, 2);
  for (size_t slot = 1; slot < 3; ++slot) {
    RequireSameDType(context, 0, slot);
    RequirePerChannel(context, slot);
  }
  SameAsInput(context);
}

/// The sum of function(from[i]), in four partial sums that can be lanes of vectors.
template <typename T, typename Function>
double SumOf(const T* from, int64_t count, Function function) {
  double sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    sums[0] += function(static_cast<double>(from[i]));
    sums[1] += function(static_cast<double>(from[i + 1]));
    sums[2] += function(static_cast<double>(from[i + 2]));
    sums[3] += function(static_cast<double>(from[i + 3]));
  }
  for (; i < count; ++i) sums[0] += function(static_cast<double>(from[i]));
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <typename T>
void MoveAndScale(const T* from, T* to, int64_t count, double mean, double factor, double bias) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<T>((static_cast<double>(from[i]) - mean) * factor + bias);
  }
}

/// Normalizes each group of channels; scale and bias are per channel.
void NormalizeGroups(EvalContext& context, int64_t groups, const std::vector<double>& scale,
                     const std::vector<double>& bias) {
  const Tensor& x = context.input(0);
  const double epsilon = context.attributes().Float("epsilon", 1e-5F);
  Tensor out = context.Output(0, x.dtype(), x.shape());
  if (x.count() > 0) {
    const int64_t channels = x.dim(1);
    const int64_t area = x.count() / x.dim(0) / channels;
    const int64_t length = channels / groups * area;
    VisitFloat(x.dtype(), [&](auto tag) {
      using T = decltype(tag);
      for (int64_t g = 0; g < x.dim(0) * groups; ++g) {
        const T* from = x.data<T>() + g * length;
        T* to = out.data<T>() + g * length;
        const auto count = static_cast<double>(length);
        const double mean = SumOf(from, length, [](double x) { return x; }) / count;
        const double squares =
            SumOf(from, length, [mean](double x) { return (x - mean) * (x - mean); });
        const double inverse = 1 / std::sqrt(squares / count + epsilon);
        for (int64_t i = 0; i < length; i += area) {
          const auto c = static_cast<size_t>(g % groups * (channels / groups) + i / area);
          const double factor = scale[c] * inverse;
          MoveAndScale(from + i, to + i, area, mean, factor, bias[c]);
        }
      }
    });
  }
  context.outputs[0] = std::move(out);
}

void EvaluateInstanceNormalization(EvalContext& context) {
  const Tensor& x = context.input(0);
  if (x.rank() < 2) Fail(ErrorCode::kShapeMismatch, "InstanceNormalization without channels");
  NormalizeGroups(context, x.dim(1), PerChannel(context, 1, x.dim(1)),
                  PerChannel(context, 2, x.dim(1)));
}

int64_t GroupsOf(const AttributeMap& attributes, const Dim& channels) {
  const int64_t groups = attributes.Int("num_groups", 0);
  if (groups < 1 || (channels.known() && channels.value % groups != 0)) {
    Fail(ErrorCode::kInvalidModel,
         StrCat("GroupNormalization of ", channels.value, " channels in ", groups, " groups"));
  }
  return groups;
}

void InferGroupNormalization(InferContext& context) {
  RequireFloat(context, 0);
  RequireMinRank(context, 0, 2);
  GroupsOf(context.attributes(), context.shape(0) ? (*context.shape(0))[1] : Dim());
  for (size_t slot = 1; slot < 3; ++slot) {
    RequireSameDType(context, 0, slot);
    RequireRank(context, slot, 1);
  }
  SameAsInput(context);
}

void EvaluateGroupNormalization(EvalContext& context) {
  const Tensor& x = context.input(0);
  if (x.rank() < 2) Fail(ErrorCode::kShapeMismatch, "GroupNormalization without channels");
  const int64_t channels = x.dim(1);
  const int64_t groups = GroupsOf(context.attributes(), channels);
  // Opset 18 has parameters per group, 21 per channel.
  std::vector<double> parameters[2];
  for (size_t slot = 1; slot < 3; ++slot) {
    std::vector<double>& values = parameters[slot - 1];
    values = PerChannel(context, slot, context.opset < 21 ? groups : channels);
    if (context.opset < 21) {
      std::vector<double> spread(static_cast<size_t>(channels));
      for (size_t c = 0; c < spread.size(); ++c) {
        spread[c] = values[c / static_cast<size_t>(channels / groups)];
      }
      values = std::move(spread);
    }
  }
  NormalizeGroups(context, groups, parameters[0], parameters[1]);
}

// --- LpNormalization

void InferLpNormalization(InferContext& context) {
  RequireFloat(context, 0);
  const int64_t p = context.attributes().Int("p", 2);
  if (p != 1 && p != 2) {
    Fail(ErrorCode::kInvalidModel, StrCat("LpNormalization of order ", p, "; 1 or 2 are possible"));
  }
  if (const SymbolicShape* shape = context.shape(0)) {
    NormalizeAxis(context.attributes().Int("axis", -1), static_cast<int64_t>(shape->size()));
  }
  SameAsInput(context);
}

void EvaluateLpNormalization(EvalContext& context) {
  const Tensor& x = context.input(0);
  const int64_t axis = NormalizeAxis(context.attributes().Int("axis", -1), x.rank());
  const bool squares = context.attributes().Int("p", 2) == 2;
  const int64_t length = x.dim(axis);
  const int64_t step = NumElements(Shape(x.shape().begin() + axis + 1, x.shape().end()));
  Tensor out(x.dtype(), x.shape());
  VisitFloat(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    for (int64_t line = 0; line * length < x.count(); ++line) {
      const int64_t begin = line / step * step * length + line % step;
      const T* from = x.data<T>() + begin;
      T* to = out.data<T>() + begin;
      double norm = 0;
      for (int64_t i = 0; i < length; ++i) {
        const double value = from[i * step];
        norm += squares ? value * value : std::fabs(value);
      }
      if (squares) norm = std::sqrt(norm);
      // A line of zeros stays zero, as in ONNX Runtime.
      for (int64_t i = 0; i < length; ++i) {
        to[i * step] = static_cast<T>(norm == 0 ? 0.0 : from[i * step] / norm);
      }
    }
  });
  context.outputs[0] = std::move(out);
}

constexpr OpDef kOps[] = {
    {"GroupNormalization", "", 18, 3, 3, 1, InferGroupNormalization, EvaluateGroupNormalization,
     QuantRule::kFloat, FusionRule::kOutFusable},
    {"InstanceNormalization", "", 6, 3, 3, 1, InferInstanceNormalization,
     EvaluateInstanceNormalization, QuantRule::kFloat, FusionRule::kOutFusable},
    {"LpNormalization", "", 1, 1, 1, 1, InferLpNormalization, EvaluateLpNormalization,
     QuantRule::kFloat, FusionRule::kOutFusable},
};

}  // namespace

std::span<const OpDef> NormalizeGroupsOps() { return kOps; }

}  // namespace requant
