#pragma once

#include <vector>

#include "ir/graph.h"

namespace requant {

/// Subscripts as numbers: letters by their code, the dimensions of "..." by numbers of their own,
/// aligned at the last one.
using EinsumTerm = std::vector<int>;

struct EinsumEquation {
  std::vector<EinsumTerm> inputs;
  EinsumTerm output;
};

/// The equation of an Einsum whose inputs have these ranks. Throws kInvalidModel when the equation
/// does not fit them.
EinsumEquation ReadEquation(const AttributeMap& attributes, const std::vector<size_t>& ranks);

}  // namespace requant
