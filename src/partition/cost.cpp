#include <limits>

#include "partition/partition.h"

namespace requant {
namespace {

int64_t DimOf(const Dim& dim) { return dim.known() ? dim.value : 1; }

/// The number of elements of a value; unknown dimensions count as 1.
double Elements(const Value* value) {
  double count = 1;
  if (value == nullptr || !value->type.shape) return count;
  for (const Dim& dim : *value->type.shape) count *= static_cast<double>(DimOf(dim));
  return count;
}

/// The size of a value along an axis; negative axes count from the end.
double Size(const Value* value, int axis) {
  if (value == nullptr || !value->type.shape) return 1;
  const auto rank = static_cast<int>(value->type.shape->size());
  const int at = axis < 0 ? rank + axis : axis;
  if (at < 0 || at >= rank) return 1;
  return static_cast<double>(DimOf((*value->type.shape)[static_cast<size_t>(at)]));
}

/// The formula for an operator's multiply-adds.
enum class Kind : uint8_t { kConv, kTransposed, kProduct, kGemm };
struct Row {
  const char* op;
  Kind kind;
  size_t weights;  // the input slot of the weights
};
constexpr Row kRows[] = {
    {"Conv", Kind::kConv, 1},
    {"ConvInteger", Kind::kConv, 1},
    {"QLinearConv", Kind::kConv, 3},
    {"ConvTranspose", Kind::kTransposed, 1},
    {"QLinearConvTranspose", Kind::kTransposed, 3},
    {"MatMul", Kind::kProduct, 1},
    {"MatMulInteger", Kind::kProduct, 1},
    {"QLinearMatMul", Kind::kProduct, 3},
    {"Gemm", Kind::kGemm, 1},
    {"QGemm", Kind::kGemm, 3},
};

double Count(const Node& node, const Row& row) {
  const Value* x = node.input(0);
  const Value* w = node.input(row.weights);
  switch (row.kind) {
    case Kind::kConv:
      return Elements(node.output()) * Elements(w) / Size(w, 0);
    case Kind::kTransposed:
      return Elements(x) * Elements(w) / Size(w, 0);
    case Kind::kProduct:
      return Elements(node.output()) * Size(x, -1);
    case Kind::kGemm:
      break;
  }
  return Elements(node.output()) * Size(x, node.attributes.Int("transA", 0) != 0 ? 0 : 1);
}

}  // namespace

int64_t MacsOf(const Node& node) {
  for (const Row& row : kRows) {
    if (node.op_type != row.op) continue;
    constexpr double kMost = 9e18;  // within int64
    const double count = Count(node, row);
    return count < kMost ? static_cast<int64_t>(count) : std::numeric_limits<int64_t>::max() / 2;
  }
  return 0;
}

}  // namespace requant
