// Helpers that Concat and QLinearConcat share.
#pragma once

#include <optional>
#include <span>

#include "ops/op.h"

namespace requant {

/// The inferred shape of joining the inputs first, first + step, ... along `axis`; nullopt when no
/// input's shape is known. Throws kShapeMismatch.
std::optional<SymbolicShape> ConcatShape(const InferContext& context, size_t first, size_t step);

/// Joins tensors of whole bytes along the node's `axis`. Throws kShapeMismatch for shapes that do
/// not fit.
Tensor Concatenate(const Node& node, std::span<const Tensor* const> parts);

}  // namespace requant
