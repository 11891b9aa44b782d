// Finds the values that a rotation may take without cost while the model runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// Values whose last axis may be rotated by blocks of `size`, all of them or none, so that the
/// graph around them computes what it did: constants take the rotation and its inverse. With the
/// orthogonal Q and y = x Q
/// - a product x W that reads a value becomes y (Q^T W);
/// - a product, a bias or a table of rows that makes a value becomes W Q;
/// - sums, what moves elements, and products with a matrix on the left commute with Q;
/// - the mean square of a row stays, so that normalizations by it commute with Q once the products
///   behind them have taken their factors over.
struct RotationRegion {
  /// A constant, and how it changes.
  struct Edit {
    enum class Kind : uint8_t {
      kReader,  // Q^T (factors W): the weights of a product that reads a value
      kMaker,   // W Q: the weights of a product that makes one
      kRow,     // v Q: a bias, or rows of a table
    };
    Node* node;
    size_t slot;
    Kind kind;
    const Tensor* factors = nullptr;  // kReader: the normalization's before, or nullptr
  };
  /// A normalization's factors that the products behind it take over.
  struct Factors {
    Node* node;
    size_t slot;
  };

  int64_t size = 1;
  std::vector<const Value*> values;
  std::vector<Edit> edits;
  std::vector<Factors> factors;
  std::string why;  // why there is no rotation; empty if there is one

  bool Has(const Value* value) const;
  /// Whether a product before changes; without, `why` is not empty.
  const Edit* ReaderOf(const Node* node) const;
};

/// Follows the rotation from a value in all directions. `most` is the largest size of a block.
/// Types are known.
RotationRegion FindRotationRegion(const Graph& graph, const Value* start, int64_t most);

/// Changes the graph's constants, and removes factors that became ones. Regions may share products.
void RotateRegion(Graph& graph, const RotationRegion& region);

/// Whether other nodes than the product read its weights, tables of rows aside.
bool SharesWeights(const Node& product);

}  // namespace requant
