// Random numbers, and lists of them in the text form of graphs.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "base/str_cat.h"

namespace requant::testing {

/// A random integer in [lo, hi].
inline int Pick(std::mt19937& random, int lo, int hi) {
  return lo + static_cast<int>(random() % static_cast<uint32_t>(hi - lo + 1));
}

/// A list like "{1, -2, 3}" with numbers in [lo, hi].
inline std::string Numbers(std::mt19937& random, int count, int lo, int hi) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += StrCat(i == 0 ? "" : ", ", Pick(random, lo, hi));
  return text + "}";
}

/// A list like "[2, 3]".
inline std::string Dims(const std::vector<int>& dims) {
  std::string text;
  for (const int dim : dims) text += StrCat(text.empty() ? "" : ", ", dim);
  return StrCat("[", text, "]");
}

}  // namespace requant::testing
