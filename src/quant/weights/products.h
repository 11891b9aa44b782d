// Products with constant weights, and what the two ways to quantize them without samples share.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "quant/graph/body_scope.h"
#include "quant/weights/float_weights.h"
#include "quant/weights/weight_only.h"

namespace requant {

/// A product with constant weights: the element of column n and row k lies at n * n_step + k *
/// k_step.
struct Product {
  Node* node = nullptr;
  size_t slot = 1;  // slot of the weights
  const Tensor* tensor = nullptr;
  const float* weights = nullptr;
  int64_t k = 0, n = 0, k_step = 0, n_step = 0;
  int64_t axis = 0;    // axis of k
  bool plain = false;  // A * B (+ C)
  // weights of LSTM, GRU or RNN for the input or the state: [directions, n, k]
  bool recurrent = false;

  Value* value() const { return node->inputs[slot]; }
  /// Suffix in the names of constants derived from the weights: they depend on the order beside the
  /// options.
  const char* order() const { return axis == 1 ? "_t" : ""; }
};

bool IsRecurrent(const Node& node);
/// Whether the constant is a square matrix of elements that all are +-1/sqrt(size), with a size
/// that is a power of two, as those by which rotations multiply (quant/rotate). It costs less than
/// a rounding would.
bool IsRotation(const Tensor& matrix);
/// Those of the graph of `scope`, without its bodies and without rotations.
std::vector<Product> FindProducts(const BodyScope& scope);
/// Whether some graph, bodies included, has recurrent layers to quantize.
bool HasRecurrent(BodyScope& scope);

/// The integer of a weight, from -2^(bits - 1) to 2^(bits - 1) - 1.
int Code(const Product& p, int64_t column, int64_t k, float scale, int bits);

/// Replaces the node's result by that of `made`.
void Replace(Graph& graph, Node* node, Value* made);
/// The product plus the node's bias, if it has one.
Value* AddBias(Graph& graph, const Node& node, Value* product);

/// The two constants that `make` derives from a product's weights, added to the graph that holds
/// the weights.
template <typename Make>
std::pair<Value*, Value*> DerivePair(BodyScope& scope, const Product& p, const char* codes,
                                     const char* scales, const Make& make) {
  std::optional<std::pair<Tensor, Tensor>> made;  // unless another product made them before
  const auto get = [&]() -> std::pair<Tensor, Tensor>& {
    if (!made) made = make();
    return *made;
  };
  Value* first = scope.Derive(p.value(), StrCat(codes, p.order()), [&] { return get().first; });
  Value* second = scope.Derive(p.value(), StrCat(scales, p.order()), [&] { return get().second; });
  return {first, second};
}

/// Lists the weights that stay float, those in bodies as well, but no rotations. `plain_only`:
/// products with transA, alpha or beta have no form. `keep`: operators that the list leaves out.
/// `embeddings`: tables of rows are quantized.
void ListFloat(BodyScope& scope, bool plain_only, FloatWeights& out,
               const KeepsFloat& keep = nullptr, bool embeddings = true);

}  // namespace requant
