#include "passes/fuse/fold_into_normalization.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "passes/rewrite.h"

namespace requant {
namespace {

using Axes = std::vector<int64_t>;

/// The position to which a transpose moves an axis.
int64_t PlaceOf(const Node& transpose, int64_t axis, int64_t rank) {
  const std::vector<int64_t> perm = transpose.attributes.Ints("perm");
  if (perm.empty()) return rank - 1 - axis;
  return std::find(perm.begin(), perm.end(), axis) - perm.begin();
}

/// The elements of a constant along these axes of a value of that rank, if it has no others.
std::optional<std::vector<double>> Along(const Tensor& constant, int64_t rank, const Axes& places,
                                         const Shape& shape) {
  std::vector<int64_t> strides(static_cast<size_t>(rank), 0);
  int64_t stride = 1;
  for (int64_t i = constant.rank() - 1; i >= 0; --i) {
    const int64_t place = rank - constant.rank() + i;
    const int64_t size = constant.dim(i);
    if (size == 1) continue;
    const auto found = std::find(places.begin(), places.end(), place);
    if (found == places.end()) return {};
    if (size != shape[static_cast<size_t>(found - places.begin())]) return {};
    strides[static_cast<size_t>(place)] = stride;
    stride *= size;
  }
  std::vector<double> out;
  for (int64_t i = 0; i < NumElements(shape); ++i) {
    int64_t rest = i;
    int64_t at = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      at += rest % shape[d] * strides[static_cast<size_t>(places[d])];
      rest /= shape[d];
    }
    out.push_back(constant.AsDouble(at));
  }
  return out;
}

}  // namespace

bool FoldIntoNormalization(Graph& graph, Node* node) {
  const bool constant_first = node->inputs[0]->is_constant();
  Value* value = node->inputs[constant_first ? 1 : 0];
  const Value* constant = node->inputs[constant_first ? 0 : 1];
  if (!constant->is_constant() || !IsFloat32(constant)) return false;
  if (constant_first && (node->Is(Op::kDiv) || node->Is(Op::kSub))) return false;
  if (graph.SoleConsumer(value) != node || RankOf(constant) > RankOf(value)) return false;
  Node* last = value->producer;
  Node* normal = last;
  const bool transposed = last && last->Is(Op::kTranspose);
  if (transposed) {
    normal = last->inputs[0]->producer;
    if (graph.SoleConsumer(last->inputs[0]) != last) return false;
  }
  const bool centred = normal && normal->Is(Op::kLayerNormalization);
  const bool known = centred || (normal && (normal->Is(Op::kRMSNormalization) ||
                                            normal->Is(Op::kSimplifiedLayerNormalization)));
  const bool sum = node->Is(Op::kAdd) || node->Is(Op::kSub);
  if (!known || normal->outputs.size() != 1 || (sum && !centred)) return false;
  const Tensor* scale = normal->constant(1);
  const Tensor* bias = normal->constant(2);
  if (scale == nullptr || scale->dtype() != DType::kFloat32 || (normal->input(2) && !bias)) {
    return false;
  }
  // The positions of the normalized axes in the constant.
  const int64_t rank = RankOf(value);
  int64_t axis = normal->attributes.Int("axis", -1);
  if (axis < 0) axis += rank;
  if (scale->rank() != rank - axis || (bias && bias->shape() != scale->shape())) return false;
  Axes places;
  for (int64_t i = axis; i < rank; ++i) {
    places.push_back(transposed ? PlaceOf(*last, i, rank) : i);
  }
  const auto numbers = Along(constant->constant, rank, places, scale->shape());
  if (!numbers) return false;
  const auto changed = [&](const Tensor& tensor) {
    Tensor out(DType::kFloat32, tensor.shape());
    for (int64_t i = 0; i < out.count(); ++i) {
      const double number = (*numbers)[static_cast<size_t>(i)];
      const double old = tensor.AsDouble(i);
      const double made = node->Is(Op::kMul)   ? old * number
                          : node->Is(Op::kDiv) ? old / number
                          : node->Is(Op::kAdd) ? old + number
                                               : old - number;
      out.data<float>()[i] = static_cast<float>(made);
    }
    return out;
  };
  const bool whole = std::all_of(numbers->begin(), numbers->end(), [node](double number) {
    return std::isfinite(number) && (number != 0 || !node->Is(Op::kDiv));
  });
  if (!whole || !CanReplace(graph, node->output(), value)) return false;
  if (!sum) ReplaceConstant(graph, normal, 1, changed(*scale), normal->inputs[1]->name);
  if (sum && bias == nullptr) {
    Tensor zero(DType::kFloat32, scale->shape());
    for (int64_t i = 0; i < zero.count(); ++i) zero.data<float>()[i] = 0;
    graph.SetInput(normal, 2, AddNear(graph, node, changed(zero)));
  } else if (bias) {
    ReplaceConstant(graph, normal, 2, changed(*bias), normal->inputs[2]->name);
  }
  return Bypass(graph, node, value);
}

}  // namespace requant
