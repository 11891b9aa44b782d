// What Concat and QLinearConcat share.
#pragma once

#include <optional>
#include <span>

#include "ops/op.h"

namespace requant {

/// What inference says of joining the inputs first, first + step, ... along `axis`; nullopt when
/// nothing is known of any. Throws kShapeMismatch.
std::optional<SymbolicShape> ConcatShape(const InferContext& context, size_t first, size_t step);

/// Joins tensors of whole bytes along the node's `axis`. Throws kShapeMismatch for those that do
/// not fit.
Tensor Concatenate(const Node& node, std::span<const Tensor* const> parts);

}  // namespace requant
