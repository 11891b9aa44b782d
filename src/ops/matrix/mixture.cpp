// com.microsoft::MoE: each token passes through the k experts of the highest scores, whose results
// are added by weights (onnxruntime docs/ContribOperators.md).
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/parse_name.h"
#include "base/str_cat.h"
#include "ops/convolution/convolve.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

enum class Activation : uint8_t { kRelu, kGelu, kSilu, kSwiglu, kIdentity };

/// The attributes of a mixture of experts, read and checked. Throws kInvalidModel and kUnsupported.
struct MixtureForm {
  Activation activation = Activation::kRelu;
  int64_t k;
  bool normalize;
  int64_t fusion;  // of the two matrices of SwiGLU: 0 none, 1 rows in turn, 2 one after the other
  double alpha, beta, limit;

  explicit MixtureForm(const AttributeMap& attributes)
      : k(attributes.Int("k", 1)),
        normalize(attributes.Int("normalize_routing_weights", 0) != 0),
        fusion(attributes.Int("swiglu_fusion", 0)),
        alpha(attributes.Float("activation_alpha", 1)),
        beta(attributes.Float("activation_beta", 0)),
        limit(attributes.Float("swiglu_limit", INFINITY)) {
    constexpr const char* kNames[] = {"relu", "gelu", "silu", "swiglu", "identity"};
    const std::string name = attributes.String("activation_type", kNames[0]);
    if (!ParseName(name, kNames, &activation) || k < 1 || fusion < 0 || fusion > 2) {
      Fail(ErrorCode::kInvalidModel, StrCat("MoE of ", k, " experts with activation ", name));
    }
    if (attributes.Int("use_sparse_mixer", 0) != 0) {
      Fail(ErrorCode::kUnsupported, "MoE with use_sparse_mixer");
    }
  }
  double Apply(double x) const {
    switch (activation) {
      case Activation::kRelu:
        return std::max(x, 0.0);
      case Activation::kGelu:
        // ONNX Runtime takes the approximation by tanh.
        return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      case Activation::kSilu:
        return x / (1 + std::exp(-x));
      default:
        return x;
    }
  }
  double Swiglu(double gate, double linear) const {
    gate = std::min(gate, limit);
    linear = std::clamp(linear, -limit, limit);
    return gate / (1 + std::exp(-alpha * gate)) * (linear + beta);
  }
};

void InferMoE(InferContext& context) {
  const MixtureForm form(context.attributes());
  for (const size_t slot : {size_t{0}, size_t{1}, size_t{2}, size_t{4}}) {
    RequireInput(context, slot);
    RequireFloat(context, slot);
    RequireSameDType(context, 0, slot);
  }
  RequireRank(context, 1, 2);
  RequireRank(context, 2, 3);
  RequireRank(context, 4, 3);
  SameAsInput(context);
}

/// Weights [experts, rows, columns] and biases [experts, rows] of a layer.
struct ExpertLayer {
  std::vector<float> weights, biases;
  size_t rows, columns;

  ExpertLayer(const EvalContext& context, size_t slot, int64_t experts, int64_t want_columns)
      : weights(context.input(slot).ToFloats()) {
    const Tensor& w = context.input(slot);
    const bool fits = w.rank() == 3 && w.dim(0) == experts && w.dim(2) == want_columns;
    rows = fits ? static_cast<size_t>(w.dim(1)) : 0;
    columns = static_cast<size_t>(want_columns);
    if (context.has(slot + 1)) biases = context.input(slot + 1).ToFloats();
    if (fits && (biases.empty() || biases.size() == static_cast<size_t>(experts) * rows)) return;
    Fail(ErrorCode::kShapeMismatch,
         StrCat("input ", slot, " of MoE, ", ShapeToString(w.shape()), ", or its bias"));
  }
  std::vector<double> Apply(size_t expert, const double* x) const {
    std::vector<double> out(rows);
    for (size_t row = 0; row < rows; ++row) {
      const float* w = weights.data() + (expert * rows + row) * columns;
      double sum = biases.empty() ? 0 : biases[expert * rows + row];
      for (size_t i = 0; i < columns; ++i) sum += w[i] * x[i];
      out[row] = sum;
    }
    return out;
  }
};

/// The experts of a token and their weights.
struct Route {
  std::vector<size_t> experts;
  std::vector<double> weights;
};

Route RouteOf(const std::vector<double>& scores, const MixtureForm& form) {
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - most);
  Route route;
  route.experts.resize(scores.size());
  std::iota(route.experts.begin(), route.experts.end(), size_t{0});
  std::stable_sort(route.experts.begin(), route.experts.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  route.experts.resize(static_cast<size_t>(form.k));
  double taken = 0;
  for (const size_t expert : route.experts) {
    route.weights.push_back(std::exp(scores[expert] - most) / sum);
    taken += route.weights.back();
  }
  for (double& weight : route.weights) weight = form.normalize ? weight / taken : weight;
  return route;
}

void EvaluateMoE(EvalContext& context) {
  const MixtureForm form(context.attributes());
  const Tensor& x = context.input(0);
  const Tensor& router = context.input(1);
  const int64_t width = x.rank() > 0 ? x.dim(x.rank() - 1) : 0;
  if (x.rank() < 2 || x.rank() > 3 || width < 1 || router.rank() != 2 ||
      router.dim(0) != x.count() / width || router.dim(1) < form.k) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("MoE of ", ShapeToString(x.shape()), " by scores ", ShapeToString(router.shape())));
  }
  const int64_t experts = router.dim(1);
  const ExpertLayer first(context, 2, experts, width);
  const bool swiglu = form.activation == Activation::kSwiglu;
  const bool fused = swiglu && form.fusion > 0;
  const size_t inner = fused ? first.rows / 2 : first.rows;
  const ExpertLayer second(context, 4, experts, static_cast<int64_t>(inner));
  std::optional<ExpertLayer> third;
  if (context.has(6)) third.emplace(context, 6, experts, width);
  if (second.rows != static_cast<size_t>(width) || (third && third->rows != inner) ||
      (swiglu && !fused && !third)) {
    Fail(ErrorCode::kShapeMismatch, "the weights of MoE do not fit each other");
  }
  const std::vector<double> tokens = x.ToDoubles();
  const std::vector<double> scores = router.ToDoubles();
  Tensor out(x.dtype(), x.shape());
  const auto each = static_cast<size_t>(experts);
  for (size_t token = 0; token < scores.size() / each; ++token) {
    const double* row = tokens.data() + token * static_cast<size_t>(width);
    const Route route = RouteOf({scores.begin() + static_cast<std::ptrdiff_t>(token * each),
                                 scores.begin() + static_cast<std::ptrdiff_t>((token + 1) * each)},
                                form);
    std::vector<double> sums(static_cast<size_t>(width));
    for (size_t e = 0; e < route.experts.size(); ++e) {
      const size_t expert = route.experts[e];
      const std::vector<double> raw = first.Apply(expert, row);
      const std::vector<double> linear = third ? third->Apply(expert, row) : std::vector<double>();
      std::vector<double> hidden(inner);
      for (size_t i = 0; i < inner; ++i) {
        if (fused) {
          hidden[i] = form.fusion == 1 ? form.Swiglu(raw[2 * i], raw[2 * i + 1])
                                       : form.Swiglu(raw[i], raw[inner + i]);
        } else if (swiglu) {
          hidden[i] = form.Swiglu(raw[i], linear[i]);
        } else {
          hidden[i] = form.Apply(raw[i]) * (third ? linear[i] : 1);
        }
      }
      const std::vector<double> result = second.Apply(expert, hidden.data());
      for (size_t i = 0; i < result.size(); ++i) sums[i] += route.weights[e] * result[i];
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      StoreSum(out, static_cast<int64_t>(token * sums.size() + i), sums[i]);
    }
  }
  context.outputs[0] = out;
}

constexpr OpDef kRows[] = {
    Expensive({"MoE", kMicrosoftDomain, 1, 3, 8, 1, InferMoE, EvaluateMoE, QuantRule::kFloat}),
};

}  // namespace

std::span<const OpDef> MixtureOps() { return kRows; }

}  // namespace requant
