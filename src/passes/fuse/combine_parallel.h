// The common part of CombineParallelConv2D, CombineParallelDense and CombineParallelBatchMatmul.
#pragma once

#include "passes/pass.h"

namespace requant {

enum class ParallelLayer : uint8_t { kConv, kDense, kBatchMatmul };

/// Joins layers of this kind that read the same value to one wide layer.
bool CombineParallel(Graph& graph, ParallelLayer kind);

}  // namespace requant
