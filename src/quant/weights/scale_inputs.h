// Scales the input channels of products, as AWQ does (Lin et al., arXiv 2306.00978).
#pragma once

#include <string>
#include <vector>

#include "quant/weights/input_products.h"
#include "quant/weights/products.h"

namespace requant {

/// How the channels of a value that products read were scaled.
struct InputScaling {
  double alpha = 0;             // 0: not at all
  std::vector<double> factors;  // the value's channels are divided by them, weights multiplied
  const char* place = "";       // what divides: "constant", "layer" or "Mul"
  std::string layer_before, layer_after;  // names of the layer's weights, if it divides
};

/// Chooses s_k = a_k^alpha for the products that read one value, with a_k the mean magnitude of
/// channel k and alpha a multiple of 1/8 from 0 to 1: that of least squared error of the products'
/// outputs after rounding to blocks. Multiplies their weights by s and divides the value by it:
/// in the constants of the operator that makes it (a normalization, a product with a vector) or in
/// the weights of a layer behind which only a Mul lies, if nobody else reads these; else by a Mul.
/// `products` are in the graph itself; all have k = inputs.k() and weights that nobody shares.
InputScaling ScaleInputs(Graph& graph, const std::vector<Product>& products,
                         const InputProducts& inputs, const WeightOnlyOptions& options);

}  // namespace requant
