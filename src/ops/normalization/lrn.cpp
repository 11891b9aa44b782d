// LRN: divides each element by a power of the sum of squares in its neighborhood of channels (onnx
// docs/Operators.md).
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

int64_t LrnSize(const AttributeMap& attributes) {
  const int64_t size = attributes.Int("size", 0);
  if (size < 1) Fail(ErrorCode::kInvalidModel, StrCat("LRN over ", size, " channels"));
  return size;
}

void InferLrn(InferContext& context) {
  RequireFloat(context, 0);
  RequireMinRank(context, 0, 2);
  LrnSize(context.attributes());
  SameAsInput(context);
}

template <typename T>
void AddSquares(const T* from, double* sums, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const double value = from[i];
    sums[i] += value * value;
  }
}

/// to = from / (bias + factor * sums)^beta
template <typename T>
void DivideByPowers(const T* from, const double* sums, T* to, int64_t count, double bias,
                    double factor, double beta) {
  if (beta == 0.75) {  // the usual exponent
    for (int64_t i = 0; i < count; ++i) {
      const auto root = static_cast<T>(std::sqrt(static_cast<T>(bias + factor * sums[i])));
      to[i] = from[i] / (root * std::sqrt(root));
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<T>(from[i] / std::pow(bias + factor * sums[i], beta));
  }
}

void EvaluateLrn(EvalContext& context) {
  const Tensor& x = context.input(0);
  const int64_t size = LrnSize(context.attributes());
  const double alpha = context.attributes().Float("alpha", 1e-4F);
  const double beta = context.attributes().Float("beta", 0.75F);
  const double bias = context.attributes().Float("bias", 1.0F);
  if (x.rank() < 2) Fail(ErrorCode::kShapeMismatch, "LRN of a tensor without channels");
  Tensor out = context.Output(0, x.dtype(), x.shape());
  if (x.count() > 0) {
    const int64_t channels = x.dim(1);
    const int64_t area = x.count() / x.dim(0) / channels;
    const double factor = alpha / static_cast<double>(size);
    std::vector<double> sums(static_cast<size_t>(area));
    const int64_t before = (size - 1) / 2;    // floor((size - 1) / 2)
    const int64_t after = size - 1 - before;  // ceil((size - 1) / 2)
    VisitFloat(x.dtype(), [&](auto tag) {
      using T = decltype(tag);
      for (int64_t n = 0; n < x.dim(0); ++n) {
        const T* from = x.data<T>() + n * channels * area;
        T* to = out.data<T>() + n * channels * area;
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t first = std::max<int64_t>(0, c - before);
          const int64_t last = c + std::min(after, channels - 1 - c);
          std::fill(sums.begin(), sums.end(), 0.0);
          for (int64_t k = first; k <= last; ++k) AddSquares(from + k * area, sums.data(), area);
          DivideByPowers(from + c * area, sums.data(), to + c * area, area, bias, factor, beta);
        }
      }
    });
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"LRN", "", 1, 1, 1, 1, InferLrn, EvaluateLrn, QuantRule::kFloat, FusionRule::kOutFusable},
};

}  // namespace

std::span<const OpDef> LrnOps() { return kRows; }

}  // namespace requant
