// Rotates the inputs of products with constant weights where that lowers the error of rounding.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "quant/rotate/rotation_region.h"
#include "quant/weights/product_inputs.h"
#include "quant/weights/weight_only.h"

namespace requant {

struct RotationOptions {
  WeightOnlyOptions weights = {};
  bool feedback = false;  // whether samples will decide how weights round (RoundWithFeedback)
  int64_t size = 128;     // the largest block of a rotation, a power of two from 2 to 1024
  bool always = false;    // rotates wherever it is possible
};

/// Reports the rotation of a product.
struct RotatedLayer {
  std::string name;    // of its node
  std::string detail;  // whether it is rotated, where and by which blocks, or why not
  /// The squared error of its output, relative to its square, as it was and rotated; both 0 if it
  /// was not measured.
  double before = 0, after = 0;
};

/// Finds out which inputs of products to rotate (HadamardRotation), then does so. A rotation
/// spreads a channel of large magnitude over its whole block. Where a RotationRegion allows it, the
/// operators before take it; elsewhere Reshape, MatMul and Reshape rotate while the model runs.
///
/// A region is rotated if the relative errors of the products behind it, rounded as the options
/// say, add up to at least 5 % less, on up to 64 columns each; a single value at run time if they
/// add up to at least 10 % less. The error is that of outputs on the samples, or without samples
/// that of weights. How rotated columns of the products before round is not measured.
class WeightRotation {
 public:
  /// Throws kInvalidArgument for options out of range.
  WeightRotation(Graph graph, const RotationOptions& options);

  const Graph& graph() const { return graph_; }
  int passes() const { return inputs_.passes(); }
  const std::vector<std::string>& observed_values(int pass) const { return inputs_.values(pass); }
  void Observe(const std::string& value, const Tensor& seen) { inputs_.Observe(value, seen); }
  /// Ends a pass: the values that it observed are to be measured. Throws kInvalidArgument for NaN
  /// and infinity, naming the value.
  void EndPass(int pass);
  /// Measures a value; returns false when there is none left in this pass.
  bool Step();
  int64_t done() const { return done_; }
  int64_t total() const { return static_cast<int64_t>(groups_.size()); }

  /// Rotates what the measures say. `sampled`: values without samples stay as they are; else they
  /// are measured by their weights. Call it once.
  Graph Finish(bool sampled);
  const std::vector<RotatedLayer>& layers() const { return layers_; }

 private:
  struct Measure {
    double plain = 0, rotated = 0;  // sums of relative errors of products
  };
  /// The products that read a value.
  struct Group {
    Value* value;
    std::vector<Product> products;
    std::vector<size_t> layers;
    int region = -1;   // index, or -1: cannot be rotated before
    std::string why;   // why there is no region
    int64_t size = 1;  // of blocks at run time
    bool measured = false;
    Measure folded, running;
    std::vector<double> before, after;  // by product; after: folded
    std::vector<double> after_running;
  };

  void Add(const Product& product);
  void Measured(Group& group, const InputProducts* inputs);
  void RotateAtRunTime(Group& group);

  Graph graph_;
  RotationOptions options_;
  std::vector<RotatedLayer> layers_;
  std::vector<Group> groups_;
  std::vector<RotationRegion> regions_;
  ProductInputs inputs_;
  std::map<int64_t, Value*> matrices_;  // of rotations at run time, by their sizes
  std::vector<size_t> waiting_;
  int64_t done_ = 0;
};

/// The graph with rotated weights, measured without samples; appends what was done to `layers`.
Graph RotateWeights(const Graph& graph, const RotationOptions& options,
                    std::vector<RotatedLayer>& layers);

}  // namespace requant
