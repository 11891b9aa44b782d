// The parts of attention as exporters write it out (fuse_attention.cpp): the heads of q, k and v,
// and the scores.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace requant {

inline bool HasPerm(const Node& node, const std::vector<int64_t>& perm) {
  return node.attributes.Ints("perm") == perm;
}

inline const Dim& DimOf(const Value* value, size_t axis) { return (*value->type.shape)[axis]; }

/// The heads of one operand. Values of three dimensions (tokens first, one image) lack [B, ...].
struct Heads {
  Value* flat = nullptr;      // [B, T, H * D], or nullptr
  Value* source = nullptr;    // the value to reshape to `flat`, where that is nullptr
  Tensor target;              // the target shape of that
  int64_t slice = -1;         // which of three slices of the columns of `flat`
  Value* by_head = nullptr;   // [B, H, T, D], if the graph has that value
  Value* by_token = nullptr;  // [B, T, H, D], of which by_head is a transpose
  int64_t heads = 0, width = 0;

  bool is_flat() const { return flat || source; }
};

/// The permutations that attention uses, for four and for three dimensions.
struct Perms {
  std::vector<int64_t> heads;   // exchanges tokens and heads
  std::vector<int64_t> both;    // exchanges tokens and heads, then the last two axes
  std::vector<int64_t> matrix;  // exchanges the last two axes
};
Perms PermsOf(int64_t rank);

/// Reads q or v as [B, H, T, D], or k as [B, H, D, T], and collects scales on the way.
std::optional<Heads> ReadHeads(Value* value, int64_t rank, bool transposed, double* scale);

/// Keys or values of which several heads of q share one, as exporters repeat them for the product:
///   Reshape(Expand(Unsqueeze(source [B, KV, T, D], 2), [B, KV, times, T, D]), [B, KV * times, T,
///   D])
struct Repeated {
  Value* source = nullptr;
  int64_t times = 1;
};
/// Reads such a value, also one that is repeated once; anything else is its own source.
Repeated ReadRepeated(Value* value);

/// The scores, and the masks that are added to them.
struct Scores {
  Node* product = nullptr;
  double scale = 1;
  double softcap = 0;  // c of c * tanh(s / c), in front of the masks; 0: none
  struct Mask {
    Value* value;
    // for Where(condition, scores, value) or, `inverted`, Where(condition, value, scores)
    Value* condition;
    bool inverted;
  };
  std::vector<Mask> masks;
};

/// The scores that a value is made of: products, scaled, capped and masked.
std::optional<Scores> ReadScores(const Graph& graph, Value* value);

}  // namespace requant
