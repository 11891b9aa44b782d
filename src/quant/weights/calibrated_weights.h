// Weights of products in blocks, made with what samples show of the products' inputs.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "quant/weights/blocks.h"
#include "quant/weights/product_inputs.h"
#include "quant/weights/scale_inputs.h"
#include "tensor/tensor.h"

namespace requant {

struct CalibratedOptions {
  WeightOnlyOptions weights;
  bool feedback = true;  // RoundWithFeedback
  bool scale = false;    // ScaleInputs
};

/// How the weights of a product were made.
struct CalibratedLayer {
  CalibratedLayer(std::string node, std::string why)
      : name(std::move(node)), detail(std::move(why)) {}
  std::string name;
  bool calibrated = false;
  /// Why it is not calibrated, or what was chosen.
  std::string detail;
  double before = 0, after = 0;  // OutputError of rounding to nearest without samples, and now
};

/// Observes the inputs of all products, then makes integers in steps. Products in bodies, recurrent
/// layers, products with transA and those of more than 8,192 rows round to nearest. Of products
/// that share weights the first one's inputs decide.
class CalibratedWeights {
 public:
  /// Throws kInvalidArgument for options out of range.
  CalibratedWeights(Graph graph, const CalibratedOptions& options);

  const Graph& graph() const { return graph_; }
  /// Each pass over all samples observes some of the values: sums of products take much memory.
  int passes() const { return inputs_.passes(); }
  const std::vector<std::string>& observed_values(int pass) const { return inputs_.values(pass); }
  /// As ProductInputs::Observe.
  void Observe(const std::string& value, const Tensor& seen) { inputs_.Observe(value, seen); }
  /// Ends a pass: makes the integers of the products that read its values. Throws kInvalidArgument
  /// for NaN and infinity, naming the value.
  void EndPass(int pass);
  /// Makes the integers of a product; returns false when there is none left in this pass.
  bool Step();
  int64_t done() const { return done_; }
  int64_t total() const { return static_cast<int64_t>(layers_.size()); }

  const std::vector<CalibratedLayer>& layers() const { return layers_; }
  Graph Finish(FloatWeights* left);

 private:
  struct Reader {  // a product of the graph, by node
    std::string node;
    size_t layer;
  };
  std::vector<Product> ProductsOf(const std::string& value);
  void Scale(const std::string& value);
  void Round(const std::string& value, const Reader& reader);

  Graph graph_;
  CalibratedOptions options_;
  std::vector<CalibratedLayer> layers_;
  std::map<std::string, std::vector<Reader>> readers_;  // by value
  ProductInputs inputs_;
  std::vector<std::pair<std::string, Reader>> waiting_;
  std::map<std::string, BlockedWeights> made_;  // by the name of the weights
  int64_t done_ = 0;
};

}  // namespace requant
