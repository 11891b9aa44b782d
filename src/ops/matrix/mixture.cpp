// com.microsoft::MoE: each token passes through the k experts of the highest scores, whose results
// are added by weights (onnxruntime docs/ContribOperators.md). QMoE does so with weights of 2, 4 or
// 8 bits, which stay packed.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/late_text.h"
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
      Fail(ErrorCode::kInvalidModel,
           StrCat(RQ_LATE_TEXT("MoE of "), k, RQ_LATE_TEXT(" experts with activation "), name));
    }
    if (attributes.Int("use_sparse_mixer", 0) != 0) {
      Fail(ErrorCode::kUnsupported, RQ_LATE_TEXT("MoE with use_sparse_mixer"));
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

/// The inputs of a layer of the experts: weights, scales (QMoE), biases, zero points (QMoE).
struct LayerSlots {
  size_t weights, scales, biases, zeros;
};
constexpr size_t kNone = 99;
constexpr LayerSlots kLayersOfMoE[] = {
    {2, kNone, 3, kNone}, {4, kNone, 5, kNone}, {6, kNone, 7, kNone}};
constexpr size_t kRouterWeights = 14;
constexpr LayerSlots kLayersOfQMoE[] = {{2, 3, 4, 11}, {5, 6, 7, 12}, {8, 9, 10, 13}};

bool IsQuantized(const Node& node) { return node.op_type == "QMoE"; }
const LayerSlots& SlotsOf(const Node& node, size_t layer) {
  return IsQuantized(node) ? kLayersOfQMoE[layer] : kLayersOfMoE[layer];
}

/// Weights [experts, rows, columns] and biases [experts, rows] of a layer. Those of QMoE are codes
/// of `bits` bits, the first in the lowest ones of a byte; a scale and a zero point belong to each
/// row, or to each `block` codes of it.
struct ExpertLayer {
  std::vector<float> weights, scales, biases;
  const Tensor* codes = nullptr;
  const Tensor* zeros = nullptr;
  size_t rows, columns, bits = 8, block, blocks = 1;

  ExpertLayer(const EvalContext& context, size_t layer, int64_t experts, int64_t want_columns)
      : columns(static_cast<size_t>(want_columns)), block(columns) {
    const LayerSlots& slots = SlotsOf(context.node, layer);
    const Tensor& w = context.input(slots.weights);
    int64_t stored_columns = want_columns;
    if (slots.scales != kNone) {
      bits = static_cast<size_t>(context.attributes().Int("expert_weight_bits", 4));
      stored_columns = (want_columns * static_cast<int64_t>(bits) + 7) / 8;
      codes = &w;
    } else {
      weights = w.ToFloats();
    }
    bool fits = w.rank() == 3 && w.dim(0) == experts && w.dim(2) == stored_columns;
    rows = fits ? static_cast<size_t>(w.dim(1)) : 0;
    const size_t all_rows = static_cast<size_t>(experts) * rows;
    if (codes) {
      scales = context.input(slots.scales).ToFloats();
      const auto size = static_cast<size_t>(context.attributes().Int("block_size", 0));
      if (size > 0) block = size;
      blocks = (columns + block - 1) / block;
      zeros = context.has(slots.zeros) ? &context.input(slots.zeros) : nullptr;
      const size_t zero_bytes = (blocks * bits + 7) / 8;
      fits = fits && scales.size() == all_rows * blocks &&
             (!zeros || static_cast<size_t>(zeros->count()) == all_rows * zero_bytes);
    }
    if (context.has(slots.biases)) biases = context.input(slots.biases).ToFloats();
    if (fits && (biases.empty() || biases.size() == all_rows)) return;
    Fail(ErrorCode::kShapeMismatch,
         StrCat(RQ_LATE_TEXT("input "), slots.weights, " of ", context.node.op_type, ", ",
                ShapeToString(w.shape()), RQ_LATE_TEXT(", or its bias, scales or zero points")));
  }
  double Field(const Tensor& tensor, size_t run, size_t run_length, size_t i) const {
    const size_t at = run * ((run_length * bits + 7) / 8) + i * bits / 8;
    const int byte = tensor.data<uint8_t>()[at];
    return byte >> (i * bits % 8) & ((1 << bits) - 1);
  }
  /// The product of a row of weights (of all experts) and x.
  double Dot(size_t row, const double* x) const {
    double sum = 0;
    if (codes == nullptr) {
      const float* w = weights.data() + row * columns;
      for (size_t i = 0; i < columns; ++i) sum += w[i] * x[i];
      return sum;
    }
    for (size_t b = 0; b < blocks; ++b) {
      const double zero = zeros ? Field(*zeros, row, blocks, b) : 1 << (bits - 1);
      double part = 0;
      for (size_t i = b * block; i < std::min(columns, (b + 1) * block); ++i) {
        part += (Field(*codes, row, columns, i) - zero) * x[i];
      }
      sum += part * scales[row * blocks + b];
    }
    return sum;
  }
  std::vector<double> Apply(size_t expert, const double* x) const {
    std::vector<double> out(rows);
    for (size_t row = 0; row < rows; ++row) {
      const size_t at = expert * rows + row;
      out[row] = (biases.empty() ? 0 : biases[at]) + Dot(at, x);
    }
    return out;
  }
};

void InferMoE(InferContext& context) {
  const MixtureForm form(context.attributes());
  const bool quantized = IsQuantized(context.node);
  RequireFloat(context, 0);
  RequireSameDType(context, 0, 1);
  RequireRank(context, 1, 2);
  for (size_t layer = 0; layer < 2; ++layer) {
    const LayerSlots& slots = SlotsOf(context.node, layer);
    RequireInput(context, slots.weights);
    RequireRank(context, slots.weights, 3);
    if (!quantized) {
      RequireSameDType(context, 0, slots.weights);
      continue;
    }
    RequireDType(context, slots.weights, {DType::kUint8});
    RequireInput(context, slots.scales);
    RequireFloat(context, slots.scales);
  }
  const int64_t bits = context.attributes().Int("expert_weight_bits", 4);
  if (quantized &&
      ((bits != 2 && bits != 4 && bits != 8) || context.attributes().Int("block_size", 0) < 0 ||
       context.attributes().Int("weights_prepacked", 0) > 0 ||
       context.attributes().String("quant_type", "int") != "int")) {
    Fail(ErrorCode::kUnsupported,
         StrCat(RQ_LATE_TEXT("QMoE with weights of "), bits,
                RQ_LATE_TEXT(" bits in a form of its own")),
         {.hint = RQ_LATE_TEXT(
              "export it with quant_type \"int\" and weights of 2, 4 or 8 bits, not prepacked")});
  }
  SameAsInput(context);
}

/// The experts of a token and their weights.
struct Route {
  std::vector<size_t> experts;
  std::vector<double> weights;
};

/// The k experts of the highest scores. Their weights are the softmax of all scores, or `given`.
Route RouteOf(std::span<const double> scores, std::span<const double> given, bool normalize,
              const MixtureForm& form) {
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
    route.weights.push_back(given.empty() ? std::exp(scores[expert] - most) / sum : given[expert]);
    taken += route.weights.back();
  }
  for (double& weight : route.weights) weight = normalize ? weight / taken : weight;
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
         StrCat(RQ_LATE_TEXT("MoE of "), ShapeToString(x.shape()), RQ_LATE_TEXT(" by scores "),
                ShapeToString(router.shape())));
  }
  const int64_t experts = router.dim(1);
  const ExpertLayer first(context, 0, experts, width);
  const bool swiglu = form.activation == Activation::kSwiglu;
  const bool fused = swiglu && form.fusion > 0;
  const size_t inner = fused ? first.rows / 2 : first.rows;
  const ExpertLayer second(context, 1, experts, static_cast<int64_t>(inner));
  std::optional<ExpertLayer> third;
  if (context.has(SlotsOf(context.node, 2).weights)) third.emplace(context, 2, experts, width);
  if (second.rows != static_cast<size_t>(width) || (third && third->rows != inner) ||
      (swiglu && !fused && !third)) {
    Fail(ErrorCode::kShapeMismatch, RQ_LATE_TEXT("the weights of MoE do not fit each other"));
  }
  const std::vector<double> tokens = x.ToDoubles();
  const std::vector<double> scores = router.ToDoubles();
  std::vector<double> given;
  if (context.has(kRouterWeights)) given = context.input(kRouterWeights).ToDoubles();
  if (!given.empty() && given.size() != scores.size()) {
    Fail(ErrorCode::kShapeMismatch,
         RQ_LATE_TEXT("the router weights of QMoE have not the shape of its scores"));
  }
  // Without weights of their own, the experts of QMoE share 1.
  const bool normalize = form.normalize || (IsQuantized(context.node) && given.empty());
  Tensor out(x.dtype(), x.shape());
  const auto each = static_cast<size_t>(experts);
  for (size_t token = 0; token < scores.size() / each; ++token) {
    const double* row = tokens.data() + token * static_cast<size_t>(width);
    const auto of_token = [&](const std::vector<double>& all) {
      return all.empty() ? std::span<const double>() : std::span(all).subspan(token * each, each);
    };
    const Route route = RouteOf(of_token(scores), of_token(given), normalize, form);
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
    Expensive({"QMoE", kMicrosoftDomain, 1, 4, 15, 1, InferMoE, EvaluateMoE, QuantRule::kFloat}),
};

}  // namespace

std::span<const OpDef> MixtureOps() { return kRows; }

}  // namespace requant
