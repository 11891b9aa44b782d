// LpPool and GlobalLpPool.
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/pooling/pool_windows.h"
#include "ops/table.h"

namespace requant {
namespace {

/// The p of an Lp norm. Throws kInvalidModel below 1.
double NormOrder(const AttributeMap& attributes) {
  const int64_t p = attributes.Int("p", 2);
  if (p < 1) Fail(ErrorCode::kInvalidModel, StrCat("attribute p is ", p));
  return static_cast<double>(p);
}

template <typename T>
void PoolNorm(const PoolJob& job, const T* x, T* to, double p) {
  const Geometry& g = job.geometry;
  for (int64_t plane = 0; plane < job.planes; ++plane) {
    const T* from = x + plane * g.input_size();
    ForEachWindow(g, [&](const auto& taps, const auto& start, int64_t index) {
      double sum = 0;
      ForEachTap(g, taps, start, [&](int64_t offset) {
        sum += std::pow(std::fabs(static_cast<double>(from[offset])), p);
      });
      to[plane * g.output_size() + index] = static_cast<T>(std::pow(sum, 1.0 / p));
    });
  }
}

void EvaluateLpPool(EvalContext& context) {
  const Tensor& x = context.input(0);
  PoolJob job = StartPool(context);
  const double p = NormOrder(context.attributes());
  if (job.out.count() > 0) {
    if (x.dtype() == DType::kFloat64) {
      PoolNorm(job, x.data<double>(), job.out.data<double>(), p);
    } else {
      PoolNorm(job, x.data<float>(), job.out.data<float>(), p);
    }
  }
  context.outputs[0] = std::move(job.out);
}

template <typename T>
Tensor GlobalNorm(const Tensor& x, double p) {
  return ReducePlanes<T>(x, [p](const T* from, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      sum += std::pow(std::fabs(static_cast<double>(from[i])), p);
    }
    return static_cast<T>(std::pow(sum, 1.0 / p));
  });
}

void EvaluateGlobalLpPool(EvalContext& context) {
  const Tensor& x = context.input(0);
  const double p = NormOrder(context.attributes());
  context.outputs[0] =
      x.dtype() == DType::kFloat64 ? GlobalNorm<double>(x, p) : GlobalNorm<float>(x, p);
}

constexpr OpDef kOps[] = {
    {"LpPool", "", 2, 1, 1, 1, InferFloatPool, EvaluateLpPool, QuantRule::kFloat,
     FusionRule::kOutFusable},
    {"GlobalLpPool", "", 2, 1, 1, 1, InferGlobalFloat, EvaluateGlobalLpPool, QuantRule::kFloat,
     FusionRule::kOutFusable},
};

}  // namespace

std::span<const OpDef> LpPoolOps() { return kOps; }

}  // namespace requant
