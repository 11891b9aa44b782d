// How large attention is, for the choice between one operator of floats and products of integers.
#pragma once

#include "tensor/shape.h"

namespace requant {

/// Whether the products of attention are faster in integers than as one operator of floats, and no
/// less accurate, for the numbers of heads, queries and keys. That operator never holds all scores
/// at once, so many scores stay in it, and few queries take less time than the packing of the keys
/// for integers. A row that gives all keys the same share has codes of 255 / keys if another row
/// gives everything to one key, so that the codes of more keys would round to nothing.
inline bool GainsByIntegers(const Dim& heads, const Dim& queries, const Dim& keys) {
  constexpr int64_t kMostScores = int64_t{1} << 22;
  constexpr int64_t kMostKeys = 256;
  constexpr int64_t kLeastQueries = 16;
  int64_t scores = 1;
  for (const Dim* size : {&heads, &queries, &keys}) {
    if (!size->known() || size->value > kMostScores) return false;
    scores *= size->value;
    if (scores > kMostScores) return false;
  }
  return queries.value >= kLeastQueries && keys.value <= kMostKeys;
}

}  // namespace requant
