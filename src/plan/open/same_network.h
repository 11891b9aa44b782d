// Compares specializations of one model for different shapes.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "passes/shape/followed_shapes.h"
#include "tensor/tensor.h"

namespace requant {

/// Constants of at most so many bytes are compared; larger ones must be the same memory.
inline constexpr size_t kComparedBytes = 1 << 16;

inline std::vector<std::string_view> NamesOf(const std::vector<Value*>& values) {
  std::vector<std::string_view> names;
  for (const Value* value : values) names.push_back(value ? std::string_view(value->name) : "");
  return names;
}

/// Whether the nodes are the same operator and read and write values of the same names.
inline bool SameWiring(const Node& a, const Node& b) {
  return a.op_type == b.op_type && a.domain == b.domain && NamesOf(a.inputs) == NamesOf(b.inputs) &&
         NamesOf(a.outputs) == NamesOf(b.outputs);
}

/// Whether the values at the same places have the same known types.
inline bool SameStaticTypes(const std::vector<Value*>& a, const std::vector<Value*>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Value* x, const Value* y) {
    return !x || !y ? x == y : y->type.IsStatic() && SameStaticType(x->type, y->type);
  });
}

inline bool SameContents(const Tensor& a, const Tensor& b) {
  return a.bytes() <= kComparedBytes ? a.SameBits(b) : a.SharesBytes(b);
}

/// Whether two specializations of a model are the same network, apart from types and from constants
/// that `is_known` names.
template <typename IsKnown>
bool SameNetwork(const Graph& a, const Graph& b, IsKnown is_known) {
  return std::equal(
      a.nodes().begin(), a.nodes().end(), b.nodes().begin(), b.nodes().end(),
      [&](const auto& x, const auto& y) {
        if (x->name != y->name || x->group != y->group || !SameWiring(*x, *y) ||
            !SameAttributes(x->attributes, y->attributes)) {
          return false;
        }
        for (size_t i = 0; i < x->inputs.size(); ++i) {
          const Value* p = x->inputs[i];
          const Value* q = y->inputs[i];
          if (p == nullptr) continue;
          if (p->is_constant() != q->is_constant()) return false;
          if (p->is_constant() && !is_known(p->name) && !SameContents(p->constant, q->constant)) {
            return false;
          }
        }
        return true;
      });
}

}  // namespace requant
