// Means, variances and their inverse roots, in any spelling (fuse_normalization.cpp).
//
// Statistics are read as f * (p E[x^2] + q E[x]^2 + e)^w or f * E[x], out of ReduceMean, ReduceSum,
// ReduceSumSquare, ReduceL2, GlobalAveragePool and products with ones; sums, factors, powers, roots
// and quotients of those; dimensions that are dropped and put back. What is no such formula (an
// epsilon behind the root, a bound above 0) is not read.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace requant {

inline constexpr double kSame = 1e-5;  // relative, of factors that are rounded constants

using Axes = std::vector<int64_t>;

inline bool Near(double a, double b) { return std::fabs(a - b) <= kSame * std::fabs(b); }

/// factor * (square E[x^2] + mean E[x]^2 + constant)^power * gain, or factor * E[x].
struct Statistic {
  Value* x = nullptr;
  Axes axes;
  bool kept = true;  // whether reduced dimensions remain, with size 1
  bool is_mean = false;
  double factor = 1, square = 0, mean = 0, constant = 0, power = 1;
  Value* gain = nullptr;

  bool plain() const { return !is_mean && power == 1 && gain == nullptr; }
};

/// The reduction that a node computes: factor * E[x] or, of squares, (factor E[x^2])^power.
struct Reduction {
  Value* x;
  Axes axes;
  bool kept = true, squares = false;
  double factor = 1, power = 1;
};

/// The value in front of operators that do nothing.
Value* Peel(Value* value);

inline const Dim& DimOf(const Value* value, int64_t axis) {
  return (*value->type.shape)[static_cast<size_t>(axis)];
}

/// The number of elements along the axes; 0: unknown.
int64_t CountOf(const Value* value, const Axes& axes);

/// Reads statistics of a graph, each value once.
class StatisticReader {
 public:
  explicit StatisticReader(const Graph& graph) : graph_(graph) {}

  /// The statistic that a value is, if it is one.
  std::optional<Statistic> Read(Value* value);
  /// x, if the value is x - E[x] along these axes.
  Value* CentredOf(Value* value, const Axes& axes);
  bool IsMeanOf(Value* value, const Value* x, const Axes& axes);

 private:
  static bool Finite(const Statistic& s);
  /// w, if the value is w * w.
  static Value* SquareOf(Value* value);
  std::optional<Statistic> ReadNode(const Node& node);
  std::optional<Statistic> Reduced(const Reduction& reduction);
  /// Multiplies the factor into the sum inside.
  static Statistic Inside(Statistic s);
  std::optional<Statistic> Sum(const Node& node);
  std::optional<Statistic> Product(const Node& node);
  std::optional<Statistic> Quotient(const Node& node);
  static std::optional<Statistic> Scaled(std::optional<Statistic> read, double number);
  static std::optional<Statistic> Power(std::optional<Statistic> read, double power);
  /// Reads a node that restores dimensions or stretches them.
  std::optional<Statistic> Shaped(const Node& node);
  /// Reads a node that drops dimensions.
  std::optional<Statistic> Dropped(const Node& node);
  /// Reads a lower bound of at most 0, which no sum of squares is below.
  std::optional<Statistic> Bounded(const Node& node);

  const Graph& graph_;
  int depth_ = 0;
  std::map<const Value*, std::optional<Statistic>> read_;
};

}  // namespace requant
