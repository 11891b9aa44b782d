// What CombineParallelConv2D, CombineParallelDense and CombineParallelBatchMatmul have in common.
#pragma once

#include "passes/pass.h"

namespace requant {

enum class ParallelLayer : uint8_t { kConv, kDense, kBatchMatmul };

/// Makes one wide layer of those of this kind that read one value.
bool CombineParallel(Graph& graph, ParallelLayer kind);

}  // namespace requant
