// Finds the parts that a Concat joins to a network's output. Each has an error of its own, which
// the error of the whole may hide.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace requant {

/// One operand of the Concat that makes an output.
struct OutputPart {
  std::string name;  // name of the operand
  int64_t size = 0;  // size along the axis; -1: what the others leave
};

/// The parts of an output, in order, along one of its axes.
struct OutputParts {
  int64_t axis = 0;
  std::vector<OutputPart> parts;  // empty for an output that no Concat makes
};

/// Finds the parts of an output. Looks through operators that only move the joined axis or divide
/// others (Transpose, Reshape) and through Concats of Concats along the same axis.
OutputParts FindOutputParts(const Value& output);

/// The elements of part `index` of a tensor with the output's shape; none where the sizes do not
/// add up to the tensor's.
std::vector<float> PartOf(const std::vector<float>& values, const Shape& shape,
                          const OutputParts& parts, size_t index);

}  // namespace requant
