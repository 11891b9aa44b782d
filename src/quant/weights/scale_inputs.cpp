#include "quant/weights/scale_inputs.h"

#include <algorithm>
#include <cmath>

#include "base/str_cat.h"
#include "quant/weights/blocks.h"

namespace requant {
namespace {

constexpr int kChoices = 8;               // alpha is a multiple of 1 / kChoices
constexpr int64_t kMeasuredColumns = 64;  // of each product, when alpha is chosen

/// x^(eighths / 8), by roots alone: they are exact to the last bit on every machine.
double Power(double x, int eighths) {
  double result = 1;
  for (int bit = kChoices; bit > 0; bit /= 2, x = std::sqrt(x)) {
    if (eighths & bit) result *= x;
  }
  return result;
}

/// Factors whose largest and least one are inverse to each other.
std::vector<double> FactorsOf(const std::vector<double>& magnitudes, int eighths) {
  const double most = *std::max_element(magnitudes.begin(), magnitudes.end());
  std::vector<double> factors;
  for (const double a : magnitudes) factors.push_back(Power(std::max(a, 1e-4 * most), eighths));
  const auto [low, high] = std::minmax_element(factors.begin(), factors.end());
  const double middle = std::sqrt(*low * *high);
  for (double& factor : factors) factor /= middle;
  return factors;
}

/// A copy of some columns of a product, with scaled weights.
struct SomeColumns {
  Product product;
  std::vector<float> weights;  // [n][k]
};
SomeColumns Take(const Product& p, const std::vector<double>& factors, int64_t most) {
  SomeColumns out{p, {}};
  out.product.n = std::min(p.n, most);
  for (int64_t i = 0; i < out.product.n; ++i) {
    const int64_t column = i * p.n / out.product.n;
    for (int64_t k = 0; k < p.k; ++k) {
      const auto w = static_cast<double>(p.weights[column * p.n_step + k * p.k_step]);
      out.weights.push_back(static_cast<float>(w * factors[static_cast<size_t>(k)]));
    }
  }
  out.product.weights = out.weights.data();
  out.product.n_step = p.k;
  out.product.k_step = 1;
  return out;
}

/// The squared error of some columns' outputs on the samples, E[((w - q) x)^2].
double ErrorWith(const std::vector<Product>& products, const InputProducts& inputs,
                 const std::vector<double>& power, const std::vector<double>& factors,
                 const WeightOnlyOptions& options) {
  std::vector<double> scaled(power.size()), errors(power.size());
  for (size_t k = 0; k < power.size(); ++k) scaled[k] = power[k] / (factors[k] * factors[k]);
  double error = 0;
  for (const Product& p : products) {
    const SomeColumns some = Take(p, factors, kMeasuredColumns);
    const BlockedWeights blocks = RoundToBlocks(some.product, options, scaled);
    double sum = 0;
    for (int64_t n = 0; n < some.product.n; ++n) {
      for (size_t k = 0; k < errors.size(); ++k) {
        const auto w =
            static_cast<double>(some.weights[static_cast<size_t>(n) * errors.size() + k]);
        const auto q = static_cast<double>(blocks.At(n, static_cast<int64_t>(k)));
        errors[k] = (w - q) / factors[k];
      }
      sum += inputs.Power(errors);
    }
    error += sum * static_cast<double>(p.n) / static_cast<double>(some.product.n);
  }
  return error;
}

/// Whether the constant in that slot is a vector of k floats along the last axis that only this
/// node reads.
bool IsOwnVector(const Node& node, size_t slot, int64_t k) {
  const Tensor* constant = node.constant(slot);
  return constant && constant->dtype() == DType::kFloat32 && constant->count() == k &&
         constant->rank() > 0 && constant->dim(constant->rank() - 1) == k &&
         node.inputs[slot]->consumers.size() == 1;
}

/// Divides the elements of a constant by the factors of their indices along the last axis.
void DivideConstant(Graph& graph, Node& node, size_t slot, const std::vector<double>& factors) {
  const Tensor& from = *node.constant(slot);
  Tensor made(DType::kFloat32, from.shape());
  for (int64_t i = 0; i < from.count(); ++i) {
    const double factor = factors[static_cast<size_t>(i) % factors.size()];
    const auto x = static_cast<double>(from.data<float>()[i]);
    made.data<float>()[i] = static_cast<float>(x / factor);
  }
  const std::string name = StrCat(node.inputs[slot]->name, "_scaled");
  graph.SetInput(&node, slot, graph.AddConstant(name, std::move(made)));
}

/// Normalizations by the slots of gamma and beta (0: it has none).
struct Slots {
  const char* type;
  size_t gamma, beta;
};
constexpr Slots kNormalizations[] = {
    {"LayerNormalization", 1, 2},
    {"RMSNormalization", 1, 0},
    {"SimplifiedLayerNormalization", 1, 0},
    {"SkipLayerNormalization", 2, 3},
    {"SkipSimplifiedLayerNormalization", 2, 0},
};

bool DivideNormalization(Graph& graph, Node& maker, const std::vector<double>& factors) {
  const auto k = static_cast<int64_t>(factors.size());
  for (const auto& [type, gamma, beta] : kNormalizations) {
    if (maker.op_type != type) continue;
    const bool has_beta = beta > 0 && maker.input(beta) != nullptr;
    if (maker.attributes.Int("axis", -1) != -1 || !IsOwnVector(maker, gamma, k) ||
        (has_beta && !IsOwnVector(maker, beta, k))) {
      return false;
    }
    DivideConstant(graph, maker, gamma, factors);
    if (has_beta) DivideConstant(graph, maker, beta, factors);
    return true;
  }
  return false;
}

/// Divides one factor of a Mul: a vector, or what a product with its own weights makes.
bool DivideFactor(Graph& graph, Node& maker, InputScaling& scaling) {
  const std::vector<double>& factors = scaling.factors;
  const auto k = static_cast<int64_t>(factors.size());
  for (const size_t slot : {size_t{0}, size_t{1}}) {
    if (!IsOwnVector(maker, slot, k)) continue;
    DivideConstant(graph, maker, slot, factors);
    scaling.place = "constant";
    return true;
  }
  for (const size_t slot : {size_t{1}, size_t{0}}) {
    Node* layer = maker.inputs[slot]->producer;
    if (layer == nullptr || !layer->Is(Op::kMatMul) || layer->constant(1) == nullptr ||
        graph.SoleConsumer(maker.inputs[slot]) != &maker) {
      continue;
    }
    const Tensor& weights = *layer->constant(1);
    if (weights.dtype() != DType::kFloat32 || weights.rank() != 2 || weights.dim(1) != k ||
        layer->inputs[1]->consumers.size() != 1) {
      continue;
    }
    scaling.place = "layer";
    scaling.layer_before = layer->inputs[1]->name;
    DivideConstant(graph, *layer, 1, factors);
    scaling.layer_after = layer->inputs[1]->name;
    return true;
  }
  return false;
}

/// Divides both vectors of a decomposed LayerNormalization: x * gamma + beta.
bool DivideSum(Graph& graph, Node& maker, const std::vector<double>& factors) {
  const auto k = static_cast<int64_t>(factors.size());
  for (const size_t slot : {size_t{1}, size_t{0}}) {
    Value* other = maker.inputs[1 - slot];
    Node* scaled = other->producer;
    if (!IsOwnVector(maker, slot, k) || scaled == nullptr || !scaled->Is(Op::kMul) ||
        graph.SoleConsumer(other) != &maker) {
      continue;
    }
    const size_t gamma = IsOwnVector(*scaled, 1, k) ? 1 : 0;
    if (!IsOwnVector(*scaled, gamma, k)) continue;
    DivideConstant(graph, *scaled, gamma, factors);
    DivideConstant(graph, maker, slot, factors);
    return true;
  }
  return false;
}

void Divide(Graph& graph, Value* value, const std::vector<Product>& products,
            InputScaling& scaling) {
  const std::vector<double>& factors = scaling.factors;
  const auto is_product = [&](const Node* reader) {
    return std::any_of(products.begin(), products.end(),
                       [&](const Product& p) { return p.node == reader; });
  };
  Node* maker = value->producer;
  if (maker && !graph.IsOutput(value) &&
      std::all_of(value->consumers.begin(), value->consumers.end(), is_product)) {
    scaling.place = "constant";
    if (DivideNormalization(graph, *maker, factors)) return;
    if (maker->Is(Op::kAdd) && DivideSum(graph, *maker, factors)) return;
    if (maker->Is(Op::kMul) && DivideFactor(graph, *maker, scaling)) return;
  }
  scaling.place = "Mul";
  Tensor inverse(DType::kFloat32, {static_cast<int64_t>(factors.size())});
  for (size_t i = 0; i < factors.size(); ++i) {
    inverse.data<float>()[i] = static_cast<float>(1 / factors[i]);
  }
  Value* divided = graph.AddOp(
      "Mul", "", {value, graph.AddConstant(StrCat(value->name, "_factors"), std::move(inverse))},
      StrCat(value->name, "_scaled"), value->type);
  for (const Product& p : products) graph.SetInput(p.node, 0, divided);
}

/// Multiplies row k of the weights by factor k.
void ScaleRows(Graph& graph, const Product& p, const std::vector<double>& factors) {
  Tensor made(DType::kFloat32, p.tensor->shape());
  for (int64_t column = 0; column < p.n; ++column) {
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t at = column * p.n_step + k * p.k_step;
      made.data<float>()[at] =
          static_cast<float>(static_cast<double>(p.weights[at]) * factors[static_cast<size_t>(k)]);
    }
  }
  const std::string name = StrCat(p.value()->name, "_scaled");
  graph.SetInput(p.node, p.slot, graph.AddConstant(name, std::move(made)));
}

}  // namespace

InputScaling ScaleInputs(Graph& graph, const std::vector<Product>& products,
                         const InputProducts& inputs, const WeightOnlyOptions& options) {
  const std::vector<double> magnitudes = inputs.Magnitudes();
  const std::vector<double> power = inputs.Diagonal();
  InputScaling best;
  if (!(*std::max_element(magnitudes.begin(), magnitudes.end()) > 0)) return best;
  double least = HUGE_VAL;
  for (int eighths = 0; eighths <= kChoices; ++eighths) {
    std::vector<double> factors = FactorsOf(magnitudes, eighths);
    const double error = ErrorWith(products, inputs, power, factors, options);
    if (!(error < least)) continue;
    least = error;
    best.alpha = eighths / static_cast<double>(kChoices);
    best.factors = std::move(factors);
  }
  if (best.alpha == 0) return {};
  Value* value = products[0].node->inputs[0];
  for (const Product& p : products) ScaleRows(graph, p, best.factors);
  Divide(graph, value, products, best);
  return best;
}

}  // namespace requant
