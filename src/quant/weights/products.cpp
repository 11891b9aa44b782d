#include "quant/weights/products.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "quant/weights/table_rows.h"

namespace requant {

bool IsRecurrent(const Node& node) {
  return node.Is(Op::kLSTM) || node.Is(Op::kGRU) || node.Is(Op::kRNN);
}

bool IsRotation(const Tensor& matrix) {
  if (matrix.dtype() != DType::kFloat32 || matrix.rank() != 2) return false;
  const int64_t size = matrix.dim(0);
  if (matrix.dim(1) != size || size < 2 || !std::has_single_bit(static_cast<uint64_t>(size))) {
    return false;
  }
  const auto length = static_cast<float>(1 / std::sqrt(static_cast<double>(size)));
  const auto values = matrix.values<float>();
  return std::all_of(values.begin(), values.end(), [&](float x) { return std::fabs(x) == length; });
}

namespace {

/// Adds both products of a recurrent layer or none: a layer has one kind of weights.
void AddRecurrent(const BodyScope& scope, Node& node, std::vector<Product>& products) {
  std::vector<Product> made;
  for (const size_t slot : {size_t{1}, size_t{2}}) {
    const Tensor* weights = scope.ConstantOf(node.input(slot));
    if (weights == nullptr || weights->dtype() != DType::kFloat32 || weights->rank() != 3 ||
        weights->count() == 0) {
      return;
    }
    Product product;
    product.node = &node;
    product.slot = slot;
    product.tensor = weights;
    product.weights = weights->data<float>();
    product.k = product.n_step = weights->dim(2);
    product.n = weights->count() / product.k;
    product.k_step = 1;
    product.axis = 2;
    product.recurrent = true;
    made.push_back(product);
  }
  products.insert(products.end(), made.begin(), made.end());
}

/// Why the constant weights in this slot of a node stay float; empty if they do not.
std::string WhyFloat(const BodyScope& scope, const Node& node, size_t slot, const Tensor& weights,
                     bool plain_only, bool embeddings) {
  if (embeddings && IsTable(scope, node)) return "";
  const bool product = node.Is(Op::kMatMul) || node.Is(Op::kGemm);
  if (!product && !IsRecurrent(node)) {
    if (IsTable(scope, node)) return "the options keep embeddings in float";
    return StrCat(node.op_type, " is no matrix product and no recurrent layer");
  }
  if (weights.dtype() != DType::kFloat32) {
    return StrCat("its weights are ", DTypeName(weights.dtype()));
  }
  if (product && slot != 1) return slot == 0 ? "its first operand is the constant" : "it is a bias";
  if (product && weights.rank() != 2) {
    return StrCat("its weights have ", weights.rank(), " dimensions");
  }
  if (IsRecurrent(node) && (slot == 1 || slot == 2)) {
    const Tensor* other = scope.ConstantOf(node.input(3 - slot));
    if (other && other->dtype() == DType::kFloat32) return "";
    return "only one of its two weights is constant";
  }
  if (!product) return "";
  const bool plain = node.Is(Op::kMatMul) || (node.attributes.Int("transA", 0) == 0 &&
                                              node.attributes.Float("alpha", 1) == 1 &&
                                              node.attributes.Float("beta", 1) == 1);
  return plain || !plain_only ? "" : "it has transA, alpha or beta";
}

}  // namespace

std::vector<Product> FindProducts(const BodyScope& scope) {
  std::vector<Product> products;
  for (const auto& node : scope.graph().nodes()) {
    if (IsRecurrent(*node)) AddRecurrent(scope, *node, products);
    if (!node->Is(Op::kMatMul) && !node->Is(Op::kGemm)) continue;
    const Tensor* weights = scope.ConstantOf(node->input(1));
    if (weights == nullptr || weights->dtype() != DType::kFloat32 || weights->rank() != 2) continue;
    if (IsRotation(*weights)) continue;
    const bool transposed = node->attributes.Int("transB", 0) != 0;
    Product product;
    product.node = node.get();
    product.tensor = weights;
    product.weights = weights->data<float>();
    product.k = weights->dim(transposed ? 1 : 0);
    product.n = weights->dim(transposed ? 0 : 1);
    product.k_step = transposed ? 1 : product.n;
    product.n_step = transposed ? product.k : 1;
    product.axis = transposed ? 1 : 0;
    product.plain = node->Is(Op::kMatMul) || (node->attributes.Int("transA", 0) == 0 &&
                                              node->attributes.Float("alpha", 1) == 1 &&
                                              node->attributes.Float("beta", 1) == 1);
    if (product.k > 0 && product.n > 0) products.push_back(product);
  }
  return products;
}

bool HasRecurrent(BodyScope& scope) {
  const std::vector<Product> products = FindProducts(scope);
  bool found = std::any_of(products.begin(), products.end(),
                           [](const Product& product) { return product.recurrent; });
  scope.ForEachBody([&](BodyScope& body) { found = HasRecurrent(body) || found; });
  return found;
}

int Code(const Product& p, int64_t column, int64_t k, float scale, int bits) {
  const float low = -std::ldexp(1.0f, bits - 1);
  const float w = p.weights[column * p.n_step + k * p.k_step];
  return static_cast<int>(std::clamp(std::nearbyint(w / scale), low, -low - 1));
}

void Replace(Graph& graph, Node* node, Value* made) {
  graph.ReplaceAndKeepName(node->outputs[0], made);
  graph.EraseNode(node);
}

Value* AddBias(Graph& graph, const Node& node, Value* product) {
  if (node.input(2) == nullptr) return product;
  return graph.AddOp("Add", "", {product, node.inputs[2]}, node.name + "_biased",
                     node.outputs[0]->type, {}, node.name + "_bias");
}

void ListFloat(BodyScope& scope, bool plain_only, FloatWeights& out, const KeepsFloat& keep,
               bool embeddings) {
  for (const auto& node : scope.graph().nodes()) {
    if (node->has_subgraph() || (keep && keep(scope.PathOf(*node)))) continue;
    for (size_t slot = 0; slot < node->inputs.size(); ++slot) {
      const Tensor* weights = scope.ConstantOf(node->inputs[slot]);
      if (weights == nullptr || !AreWeights(*weights) || IsRotation(*weights)) continue;
      ++out.total;
      std::string reason = WhyFloat(scope, *node, slot, *weights, plain_only, embeddings);
      if (reason.empty()) continue;
      out.layers.push_back({scope.PathOf(*node), node->op_type, std::move(reason)});
    }
  }
  scope.ForEachBody([&](BodyScope& body) { ListFloat(body, plain_only, out, keep, embeddings); });
}

}  // namespace requant
