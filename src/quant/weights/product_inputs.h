// The second moments of the inputs of many products, measured in passes over the samples.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "quant/weights/input_products.h"
#include "quant/weights/products.h"
#include "tensor/tensor.h"

namespace requant {

/// Why samples say nothing of a product's input; empty if they are to be seen.
std::string WhyUnseen(const Graph& graph, const Product& product);

/// Sums of products take much memory, so that each pass observes some of the values.
class ProductInputs {
 public:
  /// Adds a value with rows of k numbers, once.
  void Watch(const std::string& value, int64_t k);
  int passes() const { return static_cast<int>(passes_.size()); }
  const std::vector<std::string>& values(int pass) const {
    return passes_[static_cast<size_t>(pass)];
  }
  /// `seen` is [..., k]. Throws kShapeMismatch for rows of another length than before.
  void Observe(const std::string& value, const Tensor& seen);
  /// Throws kInvalidArgument for NaN and infinity in the values of the pass, naming the value.
  void CheckFinite(int pass) const;
  /// The sums of a value, or nullptr when no sample came to it.
  InputProducts* Of(const std::string& value) { return sums_.at(value).get(); }
  /// Frees the sums of a value.
  void Drop(const std::string& value) { sums_.at(value).reset(); }

 private:
  std::vector<std::vector<std::string>> passes_;
  int64_t bytes_ = 0;  // of the last pass
  std::map<std::string, std::unique_ptr<InputProducts>> sums_;
};

}  // namespace requant
